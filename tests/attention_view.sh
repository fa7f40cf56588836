#!/usr/bin/env bash
# attention_view.sh FOLDER: runs attention_view, built into FOLDER, on models of the trainers in FOLDER and on small
# Hugging Face folders.
source "$(dirname "$0")/program_helpers.sh"
program=attention_view
bin=$(realpath "$1") view=$(realpath "$1/attention_view") folders=$(realpath "$(dirname "$0")/golden/models")
cd "$work" || exit
quick=(--steps 1 --train-rows 40 --valid-rows 20 --progress none)
exits 0 "$bin/sst2" "${quick[@]}" --out films
exits 0 "$bin/ag_news" --steps 1 --batch-size 8 --train-rows 8 --valid-rows 8 --d-model 16 --head-dim 8 --heads 2 --progress none --out news
exits 0 "$bin/surnames" --steps 1 --progress none --out names
exits 0 "$bin/surnames" --steps 1 --progress none --layer library --out names_library
exits 0 "$bin/bert_classifier" --from-scratch "${quick[@]}" --layers 2 --d-model 16 --heads 2 --ff-width 32 --max-length 32 --out scratch

# rows_sum_to_1 FILE: checks that the weights in a CSV file sum to 1 for each layer, head and query.
rows_sum_to_1() {
  awk -F, 'NR > 1 { sum[$1 "," $2 "," $3] += $NF; ++rows } END { for (n in sum) if (sum[n] < 0.99999 || sum[n] > 1.00001) exit 1; exit !rows }' "$1"
}
claim 'attention_view --help exits with 0 and shows its flags' 'exits 0 "$view" --help && grep -q -- "--text-b" out'
for model in films news names names_library scratch; do
  claim "it draws the model that a trainer left in $model" \
    'exits 0 "$view" --model $model --text "a fine film" --out page.html && grep -q "^<!doctype html>" page.html && [ ! -s out ] && [ ! -s err ]'
  claim "the weights of $model are distributions" \
    'exits 0 "$view" --model $model --text "a fine film" --format csv --out w.csv && rows_sum_to_1 w.csv'
done
for model in bert distilbert multi regression reranker tagger tagger_distilbert question_bert question_distilbert mask mask_distilbert sentence_{mean,cls,max_dense,prompt,weighted} splade colbert multi_vector; do
  claim "it draws the Hugging Face folder $model" \
    'exits 0 "$view" --model "$folders/$model" --text "hello world" --format csv --out w.csv && rows_sum_to_1 w.csv && grep -q "\[SEP\]" w.csv'
done
claim 'one text has an entry without a name in JSON' \
  'exits 0 "$view" --model "$folders/bert" --text hello --format json --out w.json && grep -q "^{\"attention\":\[{\"name\":null,\"attn\":\[\[\[\[" w.json'
claim 'a pair has the entries of bertviz' \
  'exits 0 "$view" --model "$folders/bert" --text hello --text-b world --format json --out w.json && grep -q "\"name\":\"All\"" w.json && grep -q "\"name\":\"Sentence B -> Sentence A\"" w.json'
claim '--layer and --head choose the first view' \
  'exits 0 "$view" --model "$folders/bert" --text hello --layer 1 --head 0 --out page.html && grep -q "\"layer\":1,\"head\":0," page.html'
claim 'SVG is an overview, or the heat map of a head' \
  'exits 0 "$view" --model "$folders/bert" --text hello --format svg --out w.svg && ! grep -q "layer 1, head 0" w.svg && exits 0 "$view" --model "$folders/bert" --text hello --format svg --layer 1 --out w.svg && grep -q "layer 1, head 0" w.svg'
long=$(printf 'film %.0s' {1..700})
claim 'a text that is too long is truncated with a note' \
  'exits 0 "$view" --model scratch --text "$long" --format csv --out w.csv && grep -q "^attention_view: note: the text has [0-9]* tokens and was truncated to 32 tokens$" err'
claim 'a text that is too long for the model of a trainer is truncated with a note' \
  'exits 0 "$view" --model names --text "$(printf "a%.0s" {1..99})" --format csv --out w.csv && grep -q "note: the text has 100 tokens and was truncated to 64" err'
claim 'an empty text has its special tokens' 'exits 0 "$view" --model "$folders/bert" --text "" --out page.html'
claim 'a text with markup is escaped' \
  'exits 0 "$view" --model "$folders/bert" --text "</script><img onerror=alert(1)>" --out page.html && ! grep -q "<img" page.html'

refusal 'an unknown layer is refused' '^--layer is 9; the model has layers 0 to' "$view" --model "$folders/bert" --text a --layer 9 --out no.html
refusal 'an unknown head is refused' '^--head is 9; the model has heads 0 to' "$view" --model "$folders/bert" --text a --head 9 --out no.html
refusal 'a layer that is not a number is refused' "^--layer: '-1' is not a whole number of at least 0" "$view" --model "$folders/bert" --text a --layer=-1 --out no.html
refusal 'a missing folder is refused' '^nowhere: is not a folder' "$view" --model nowhere --text a --out no.html
mkdir empty other broken
refusal 'a folder without a model is refused' '^empty/config.json: is missing' "$view" --model empty --text a --out no.html
echo '{"model_type":"gpt2"}' >other/config.json
refusal 'another type of model is refused' "^other/config.json: 'model_type' is 'gpt2'" "$view" --model other --text a --out no.html
echo '{"program":"mnist"}' >broken/config.json
refusal 'a folder of another program is refused' "^broken/config.json: describes a model of 'mnist', which attention_view does not know" "$view" --model broken --text a --out no.html
echo '{}' >broken/config.json
refusal 'a configuration without a model type or program is refused' '^broken/config.json: is the configuration of neither' "$view" --model broken --text a --out no.html
refusal 'a pair is refused by a model of one text' '^--text-b: a model of sst2 reads one text' "$view" --model films --text a --text-b b --out no.html
refusal 'a text that is not UTF-8 is refused' '^--text: is not UTF-8' "$view" --model "$folders/bert" --text $'\xff' --out no.html
refusal 'an unknown format is refused' "^--format: 'png' is not one of" "$view" --model "$folders/bert" --text a --format png --out no.html
refusal 'a missing --out is refused' '^--out is required' "$view" --model "$folders/bert" --text a
refusal 'a file in a folder that does not exist is refused' '^no/where.html: its folder does not exist' "$view" --model "$folders/bert" --text a --out no/where.html
refusal 'a folder as --out is refused' '^empty: is a folder; --out needs a file' "$view" --model "$folders/bert" --text a --out empty
claim 'nothing was left behind' '[ ! -e no.html ] && ! compgen -G "*.tmp"'
exit $code
