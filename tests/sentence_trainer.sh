#!/usr/bin/env bash
# sentence_trainer.sh FOLDER: trains, evaluates and applies sentence_trainer, built into FOLDER, with each --loss.
source "$(dirname "$0")/program_helpers.sh"
program=sentence_trainer
trainer=$(realpath "$1/sentence_trainer") bert=$(realpath "$1/bert_classifier") films=$examples/sst2/sample
cd "$work" || exit

# --- the data: each text is the end of a line, and its pair the beginning ---
tail -n +2 "$films/train.tsv" | cut -f 1 | awk 'NF > 5' | head -n 200 >plain.txt
pairs() {
  awk -v OFS='\t' '
    BEGIN { print "text", "pair", "other", "score" }
    {
      end = ""; begin = ""
      for (i = 1; i <= NF; ++i) if (i * 2 > NF) end = end " " $i; else begin = begin " " $i
      if (NR > 1) print substr(end, 2), substr(NR % 3 ? begin : last, 2), substr(last, 2), NR % 3 ? 1 : 0
      last = begin
    }'
}
sed 's/^/x /' plain.txt | head -n 129 | pairs >train.tsv
tail -n 65 plain.txt | pairs >dev.tsv
exits 0 "$bert" --pretrain plain.txt --layers 1 --d-model 16 --heads 2 --ff-width 32 --max-length 32 --steps 2 --progress none --out pre
claim 'a folder to begin with is made' '[ "$exited" = 0 ]'

model=("$trainer" --model pre --train train.tsv --valid dev.tsv --text text --text-pair pair --progress none --batch-size 16 --lr 0.01)
falls() { losses "$1" | awk '{ loss[NR] = $1 } END { for (i = 0; i < 8; ++i) { a += loss[1 + i]; b += loss[NR - i] } exit !(b < a) }'; }
in_batch=(--loss in_batch) triplet=(--loss triplet --negative other) cosine=(--loss cosine --score score) rerank=(--loss rerank --score score)
for loss in in_batch triplet cosine rerank; do
  declare -n own=$loss
  metrics='"recall_at_10":[^,]*,"ndcg_at_10"'
  [ $loss != cosine ] || metrics='"spearman"'
  [ $loss != rerank ] || metrics='"pearson":[^,]*,"spearman"'
  claim "$loss: the loss falls, and the metrics have their names" \
    'exits 0 "${model[@]}" "${own[@]}" --epochs 4 --schedule constant --out $loss --metrics $loss.json --plot && falls $loss.json && grep -Eq "^\{\"epoch\":0.*$metrics" $loss.json && grep -Eq "^\{\"final\".*$metrics" $loss.json && all_there $loss/{model,last}.safetensors $loss/losses.svg'
  claim "$loss: a run in two parts ends in the same bits" \
    'exits 0 "${model[@]}" "${own[@]}" --epochs 4 --schedule constant --out parts_$loss --steps 11 && exits 0 "${model[@]}" "${own[@]}" --epochs 4 --schedule constant --out parts_$loss --resume && same_weights $loss parts_$loss'
  claim "$loss: --evaluate gives the final metrics" \
    'exits 0 "${model[@]:0:1}" "${model[@]:3}" "${own[@]}" --out $loss --evaluate --metrics evaluated_$loss && [ "$(final_loss evaluated_$loss)" = "$(lowest_loss $loss.json)" ]'
  claim "$loss: bf16 trains, too" 'exits 0 "${model[@]}" "${own[@]}" --steps 2 --precision bf16'
done
for name in modules.json 1_Pooling/config.json sentence_bert_config.json config_sentence_transformers.json tokenizer_config.json vocab.txt; do
  claim "an encoder's folder has $name" '[ -s in_batch/$name ]'
done
claim 'its weights have the names of BertModel' 'grep -qa "\"encoder.layer.0.attention.self.query.weight\"" in_batch/model.safetensors && grep -qa "pooler.dense.weight" in_batch/model.safetensors && ! grep -qa "\"bert\." in_batch/model.safetensors'
claim 'training continues from such a folder' 'exits 0 "$trainer" --model in_batch "${model[@]:3}" --steps 2'

# --- prediction ---
printf 'a good film\na bad film\n' >lines.txt
printf 'a film\ta good film\nno pair\n' >tabs.txt
claim '--predict prints a vector for each text' 'exits 0 "$trainer" --out in_batch --predict lines.txt && [ "$(awk -F"\t" "{ print NF }" out | sort -u)" = 16 ] && lines 2 "" out'
claim 'of a reranker, the score of each pair' \
  'exits 0 "$trainer" --out rerank --predict tabs.txt --text-pair pair && [ "$(awk "{ print NF, (\$1 > 0 && \$1 < 1) }" out | sort -u)" = "1 1" ] && cp out scores && exits 0 "$trainer" --out rerank --predict tabs.txt --text-pair pair --logits && ! cmp -s out scores'
claim 'a reranker learns from negatives, too' 'exits 0 "${model[@]}" --loss rerank --negative other --steps 2 && grep -q "^rows        256 training, 128 validation$" out'
claim 'in_batch validates on scored pairs' 'exits 0 "${model[@]}" --loss in_batch --score score --steps 2 && grep -q "spearman" out'

claim 'it needs no --text-pair, and --model finds it, too' 'exits 0 "$trainer" --out rerank --predict tabs.txt && cp out scores && exits 0 "$trainer" --model rerank --predict tabs.txt && cmp out scores'
claim 'a truncated text is noted' 'exits 0 "$trainer" --out in_batch --max-length 3 --predict lines.txt && grep -q "note: 2 texts were truncated to 3 tokens" err'
golden=$(dirname "$examples")/tests/golden/models
claim 'several poolings keep their order' \
  'exits 0 "$trainer" --model "$golden/sentence_prompt" --predict lines.txt && cp out vectors && exits 0 "$trainer" --model "$golden/sentence_prompt" "${model[@]:3:10}" --loss in_batch --lr 0 --weight-decay 0 --steps 1 --out pooled && exits 0 "$trainer" --out pooled --predict lines.txt && cmp out vectors'

# --- large batches ---
large=("${model[@]:0:11}" --lr 0.01 --loss in_batch --dropout 0.1 --steps 6 --schedule constant)
first_loss() { losses "$1" | head -n 1; }
claim 'a batch in parts has the loss of the batch' \
  'exits 0 "${large[@]}" --batch-size 64 --metrics whole.json && exits 0 "${large[@]}" --batch-size 16 --accumulate 4 --metrics parts.json && awk -v a="$(first_loss whole.json)" -v b="$(first_loss parts.json)" "BEGIN { exit !(a - b < 1e-5 && b - a < 1e-5) }"'
claim 'and nearly the same losses after some steps' \
  'paste <(losses whole.json) <(losses parts.json) | awk "{ d = \$1 - \$2; if (d > 1e-3 || d < -1e-3) bad = 1 } END { exit bad }"'
if ldd "$trainer" | grep -q libmpi && command -v mpirun >/dev/null; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  for loss in in_batch rerank; do
    declare -n own=$loss
    claim "$loss: two processes end in the bits of one" \
      'exits 0 "${model[@]}" "${own[@]}" --shards 2 --threads 1 --steps 6 --out one_$loss && exits 0 mpirun --oversubscribe -n 2 "${model[@]}" "${own[@]}" --threads 1 --steps 6 --out two_$loss && cmp one_$loss/last.safetensors two_$loss/last.safetensors'
  done
else
  echo 'skipped: several processes (mpirun or a build with MPI is missing)'
fi

# --- refusals ---
expected_notes='has no weights of the model head'
refusal 'triplets need negatives' '--loss triplet needs --negative$' "${model[@]}" --loss triplet
refusal 'a regression needs scores' '--loss cosine needs --score$' "${model[@]}" --loss cosine
refusal 'and no negatives' '--negative: --loss cosine has pairs with a score$' "${model[@]}" --loss cosine --score score --negative other
refusal 'a reranker needs one of them' '--loss rerank needs --train, --valid, --text and --score or --negative$' "${model[@]}" --loss rerank
refusal 'a model is needed' 'there is no model: give the folder of one with --model$' "$trainer" --train train.tsv
refusal 'both tables are needed' 'sentence_trainer needs --train, --valid, --text and --text-pair$' "$trainer" --model pre --train train.tsv
refusal 'an unknown column is refused' "train.tsv: no column 'x'" "${model[@]:0:7}" --text x --text-pair pair --loss in_batch
sed '5s/[01]$/1.5/' train.tsv >far.tsv
refusal 'a score above 1 is refused' "^far.tsv:5: the label is '1.5' but must be a number from -1 to 1$" "${model[@]/train.tsv/far.tsv}" "${cosine[@]}"
sed '5s/[01]$/-0.5/' train.tsv >low.tsv
refusal 'of a reranker one below 0, too' "^low.tsv:5: the label is '-0.5' but must be a number from 0 to 1$" "${model[@]/train.tsv/low.tsv}" "${rerank[@]}"
refusal 'a temperature must be positive' "--temperature: '0' is not a positive number$" "${model[@]}" --temperature 0
refusal 'a saved model keeps its loss' '--loss is cosine; the model in in_batch has in_batch$' "$trainer" --out in_batch --loss cosine --predict lines.txt
refusal 'sizes are those of the model' '--layers: sentence_trainer has no use for this flag$' "${model[@]}" --layers 2
refusal 'a reranker cannot be made from an encoder for prediction' 'has no weights of a classifier, so it cannot predict$' "$trainer" --loss rerank --model in_batch --predict tabs.txt --text-pair pair
refusal 'an encoder is no reranker' '' "$trainer" --out rerank --loss in_batch --predict lines.txt
awk -v OFS='\t' '{ print $0, NR == 1 ? "half" : 0.5 }' FS='\t' train.tsv >two.tsv
refusal 'a pair has one score' '^two.tsv: 2 columns of scores were given; a pair has one$' "${model[@]/train.tsv/two.tsv}" --loss cosine --score score,half
refusal 'scores or negatives, not both' '--loss rerank takes --score or --negative, not both$' "${model[@]}" --loss rerank --score score --negative other
expected_notes='resuming'
frozen=("${model[@]}" --loss in_batch --schedule constant --out frozen)
exits 0 "${frozen[@]}" --steps 2
refusal 'a run is not resumed with other frozen weights' '--freeze is embeddings instead of none' "${frozen[@]}" --resume --freeze embeddings
claim 'a loss that is not finite ends with code 1' 'exits 1 "${model[@]:0:13}" "${cosine[@]}" --steps 1 --lr 1e38 --optimizer sgd && grep -q "the validation loss after step 1 is not finite" err'
head -n 1 train.tsv >none.tsv
refusal 'an empty table is refused' '^none.tsv: has no rows$' "${model[@]/train.tsv/none.tsv}"
exit $code
