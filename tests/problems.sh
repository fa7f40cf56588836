#!/usr/bin/env bash
# problems.sh FOLDER [--all]: trains, evaluates and applies bert_classifier, built into FOLDER, with each --problem but
# the classes: sets of labels, numbers, scores of pairs, and labels of words. With --all, it instead kills each kind of
# run with SIGKILL at 20 random moments and resumes it; the files must equal those of an uninterrupted run.
# HEDDLE_KILL_SEED=N repeats the delays of the call that printed N.
source "$(dirname "$0")/program_helpers.sh"
program=bert_classifier
bert=$(realpath "$1/bert_classifier") tokenize=$(realpath "$1/tokenize") films=$examples/sst2/sample
mode=${2:-}
golden=$(dirname "$examples")/tests/golden/models
cd "$work" || exit

# --- the data ---
tail -n +2 "$films/train.tsv" | cut -f 1 | head -n 160 >plain.txt
# rows: makes a table of lines: the text, another text, names of labels, a column for each label, a number and a score.
rows() {
  awk -v OFS='\t' '
    BEGIN { print "text", "other", "labels", "long", "neg", "the", "value", "score" }
    {
      long = NF > 8; neg = / (not|hardly|never|no) /; the = /^the /; names = ""
      if (the) names = "the"
      if (long) names = names (names == "" ? "" : "|") "long"
      if (neg) names = names (names == "" ? "" : " | ") "neg"
      print $0, NR % 2 ? $0 : last, names, long, neg, the, (NF - 8) / 4, long ? 1 : (NF % 3) / 4
      last = $0
    }'
}
# words FIRST INSIDE OTHER: makes a CoNLL file of lines. Words that begin with a vowel are FIRST, the next ones INSIDE,
# and the others OTHER.
words() {
  awk -v first="$1" -v inside="$2" -v other="$3" '{
    for (i = 1; i <= NF; ++i) print $i, "x", $i ~ /^[aeiou]/ ? (i > 1 && $(i - 1) ~ /^[aeiou]/ ? inside : first) : other
    print ""
  }'
}
head -n 120 plain.txt | rows >train.tsv
tail -n 40 plain.txt | rows >dev.tsv
head -n 120 plain.txt | words B-V I-V O >train.conll
tail -n 40 plain.txt | words B-V I-V O >dev.conll
tiny=(--layers 1 --d-model 16 --heads 2 --ff-width 32 --max-length 32)
exits 0 "$bert" --pretrain plain.txt "${tiny[@]}" --batch-size 16 --progress none --steps 8 --lr 0.01 --out pre
report 'a model is pre-trained' $?

kinds=(multi regression pair token)
# data KIND: sets `data`, the flags that name the data of a problem, and `kind`.
data() {
  kind=$1
  data=(--train train.tsv --valid dev.tsv --text text)
  case $kind in
    multi) data+=(--label labels) ;;
    regression) data+=(--label value) ;;
    pair) data+=(--text-pair other --label score) ;;
    token) data=(--train train.conll --valid dev.conll) ;;
  esac
}
# problem KIND: sets `data`, `kind`, `begin` (a run with the pre-trained model without its length) and `train`.
problem() {
  data "$1"
  begin=("$bert" --problem "$kind" --model pre "${data[@]}" --lr 0.01 --progress none)
  train=("${begin[@]}" --batch-size 8 --epochs 3)  # 15 steps an epoch
}

# --- runs that are killed ---
# disturb MILLISECONDS: runs the command in `train`, kills it within about this time and resumes it until it is done;
# counts the kills after the first checkpoint.
disturb() {
  local attempt delay exited job
  for ((attempt = 1; attempt <= 200; ++attempt)); do
    "${train[@]}" --out run --metrics run.json --resume >out 2>err &
    job=$!
    # The delay grows with each attempt, so that the program gets past its start on a busy machine, too.
    delay=$((RANDOM % ($1 + 5 * attempt)))
    sleep "$((delay / 1000)).$(printf %03d $((delay % 1000)))"
    kill -9 $job 2>/dev/null
    exited=0
    wait $job 2>/dev/null || exited=$?
    [ $exited != 0 ] || return 0
    [ $exited = 137 ] || return 1
    ! ls run/checkpoint/0* >/dev/null 2>&1 || kills=$((kills + 1))
  done
  return 1
}
if [ "$mode" = --all ]; then
  seed=${HEDDLE_KILL_SEED:-$((SRANDOM % 32768))}
  RANDOM=$seed
  echo "problems.sh: HEDDLE_KILL_SEED=$seed"
  for kind in "${kinds[@]}"; do
    problem "$kind"
    train=("${begin[@]}" --batch-size 8 --epochs 24 --checkpoint-every 7)
    rm -rf whole whole.json
    begun=$(date +%s%3N)
    claim "$kind: it trains" 'exits 0 "${train[@]}" --out whole --metrics whole.json'
    whole_time=$(($(date +%s%3N) - begun))
    for ((kills = 0, runs = 0; kills < 20 && code == 0; ++runs)); do
      rm -rf run run.json
      disturb $whole_time && same_run whole run && [ -z "$(find run -name '*.tmp')" ] || report "$kind: a killed run ends like an uninterrupted one" 1
    done
    [ $code != 0 ] || echo "ok: $kind: $runs runs, killed $kills times, end like an uninterrupted one"
  done
  exit $code
fi

# --- several processes ---
# Sanitizers report leaks of MPI.
launcher=()
if command -v mpirun >/dev/null && ldd "$bert" | grep -q libmpi && ! grep -qa __asan_init "$bert"; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  launcher=(mpirun)
  if mpirun --version | grep -q 'Open MPI'; then launcher+=(--oversubscribe); fi
else
  echo 'skipped: two processes: this build has no MPI or has sanitizers, or mpirun is not installed'
fi

# --- every problem ---
declare -A metrics=([multi]='f1_micro f1_macro accuracy' [regression]='pearson spearman mse' [pair]='pearson spearman accuracy' [token]='f1 precision recall accuracy' [plain]=accuracy)
# has_metrics KIND FILE: checks that the lines of epochs and of the end hold the metrics of a problem after the loss,
# and no others.
has_metrics() {
  local pattern='loss":[^,]*'
  for name in ${metrics[$1]}; do pattern+=",\"$name\":-?[0-9][^,]*"; done
  ! grep -v '"step"' "$2" | grep -qvE "$pattern(,\"seconds\":[^,]*)?}$" && lines 3 '^{"epoch"' "$2" && lines 2 '^{"final"' "$2"
}
falls() { losses "$1" | awk 'NR == 1 { first = $1 } { last = $1 } END { exit !(last < 0.8 * first) }'; }
# near FLAGS...: checks that a run with the flags has the same losses as one without, but for rounding.
near() {
  exits 0 "${begin[@]}" --batch-size 8 --steps 4 --dropout 0 --metrics packed && exits 0 "${begin[@]}" --batch-size 8 --steps 4 --dropout 0 "$@" --metrics padded &&
    paste <(losses packed) <(losses padded) | awk '{ apart = $1 - $2; if (apart > 1e-5 || apart < -1e-5) wrong = 1 } END { exit wrong || NR != 4 }'
}
# tensor FOLDER NAME: prints a checksum of a tensor's bytes in last.safetensors.
tensor() {
  local file=$1/last.safetensors size begin end
  size=$(od -An -tu8 -N8 "$file")
  IFS=', ' read -r begin end < <(head -c $((8 + size)) "$file" | grep -ao "\"$2\":{[^}]*}" | grep -o '\[[0-9]*, *[0-9]*\]}' | tr -d '[]}')
  tail -c +$((9 + size + begin)) "$file" | head -c $((end - begin)) | cksum
}
is_kept() { [ "$(tensor "$1" "$2")" = "$(tensor pre "$2")" ]; }
texts=$(awk 'length($0) < 32' plain.txt | tail -n 6)
for kind in "${kinds[@]}"; do
  problem "$kind"
  longer=("${begin[@]}" --batch-size 8 --epochs 2 --checkpoint-every 4 --schedule constant)
  claim "$kind: it trains, and the loss falls" 'exits 0 "${begin[@]}" --batch-size 8 --epochs 20 --out $kind --metrics $kind.json && falls $kind.json && grep -q "^rows        120 training, 40 validation$" out'
  claim "$kind: the metrics are ${metrics[$kind]}" 'exits 0 "${train[@]}" --out once-$kind --metrics once-$kind.json && has_metrics $kind once-$kind.json'
  claim "$kind: a second run gives the same bits" 'exits 0 "${train[@]}" --out twice-$kind --metrics twice-$kind.json && same_run once-$kind twice-$kind'
  claim "$kind: a run that was stopped and resumed ends like an uninterrupted one" \
    'exits 0 "${longer[@]}" --out unbroken-$kind --metrics unbroken-$kind.json && exits 0 "${longer[@]}" --steps 7 --out paused-$kind --metrics paused-$kind.json &&
     exits 0 "${longer[@]}" --out paused-$kind --metrics paused-$kind.json --resume && same_run unbroken-$kind paused-$kind'
  claim "$kind: --accumulate 2 equals a batch of twice the size in 2 shards, to the bit" \
    'exits 0 "${begin[@]}" --batch-size 8 --shards 2 --steps 18 --out sharded-$kind --metrics sharded-$kind.json && exits 0 "${begin[@]}" --batch-size 4 --accumulate 2 --steps 18 --out accumulated-$kind --metrics accumulated-$kind.json &&
     cmp sharded-$kind/last.safetensors accumulated-$kind/last.safetensors && [ "$(lowest_loss sharded-$kind.json)" != "" ]'
  [ ${#launcher[@]} = 0 ] || claim "$kind: 2 processes have the same bits as one" \
    'exits 0 timeout 300 "${launcher[@]}" -n 2 "${begin[@]}" --batch-size 8 --shards 2 --steps 18 --out mpi-$kind --metrics mpi-$kind.json && same_weights sharded-$kind mpi-$kind && same_numbers sharded-$kind.json mpi-$kind.json'
  claim "$kind: --evaluate gives the final metrics" 'evaluate=("$bert" --evaluate "${data[@]}" --batch-size 8) && evaluates_as_trained "${begin[@]}" --batch-size 8 --epochs 1 && rm -r single single.json evaluated'
  claim "$kind: --evaluate --model evaluates the model of a folder" \
    'exits 0 "$bert" --evaluate --out once-$kind "${data[@]}" --metrics evaluated1 && exits 0 "$bert" --evaluate --model once-$kind "${data[@]}" --metrics evaluated2 && cmp evaluated1 evaluated2 && rm evaluated1 evaluated2'
  claim "$kind: --precision bf16 trains, with other numbers" \
    'exits 0 "${begin[@]}" --batch-size 8 --steps 6 --precision bf16 --metrics bf16 && ! diff -q <(losses bf16) <(losses once-$kind.json | head -n 6) >/dev/null && lines 6 "\"step\"" bf16; rm -f bf16'
  claim "$kind: --pad-to-max gives the same losses" 'near --pad-to-max; result=$?; rm -f packed padded; [ $result = 0 ]'
  claim "$kind: --freeze encoder trains the model head alone" \
    'exits 0 "${begin[@]}" --batch-size 8 --steps 3 --freeze encoder --out frozen-$kind && is_kept frozen-$kind bert.embeddings.word_embeddings.weight && is_kept frozen-$kind bert.encoder.layer.0.output.dense.weight && ! is_kept once-$kind bert.encoder.layer.0.output.dense.weight'
  claim "$kind: --model continues from a folder with the same problem, which it finds" \
    'exits 0 "$bert" --model $kind "${data[@]}" --steps 2 --batch-size 8 --progress none --out further-$kind --metrics further.json && ! grep -q "^bert_classifier: note: .*weights" err && same_files $kind further-$kind labels.txt && [ "$(losses further.json | head -n 1)" != "$(losses once-$kind.json | head -n 1)" ]; result=$?; rm -f further.json; [ $result = 0 ]'
  claim "$kind: one row is enough, and may be less than a batch" 'exits 0 "${begin[@]}" --train-rows 1 --valid-rows 1 --epochs 2 --shards 2 && grep -q "^rows        1 training, 1 validation$" out'
done

# --- sets of labels ---
problem multi
predict() { run "$bert" --predict - "$@" <<<"$texts"; [ "$exited" = 0 ]; }
# are_sets LABEL...: checks that each line of out has the labels whose probability is above 0.5, and all probabilities.
are_sets() {
  awk -F'\t' -v names="$*" '
    BEGIN { count = split(names, name, " ") }
    { set = ""; for (i = 1; i <= count; ++i) if ($(i + 1) > 0.5) set = set (set == "" ? "" : "|") name[i] }
    NF != count + 1 || $1 != set { exit 1 }' out
}
# sigmoid: prints the lines of --predict --logits with probabilities for the logits in the fields from FIRST on.
sigmoid() { awk -F'\t' -v first="$1" '{ line = first > 1 ? $1 : ""; for (i = first; i <= NF; ++i) line = line (i > 1 ? "\t" : "") sprintf("%.5f", 1 / (1 + exp(-$i))); print line }'; }
claim 'multi: it prints the rows of each label' 'exits 0 "${train[@]}" && grep -q "^labels      3$" out && grep -qE "^label       long: [0-9]+ training, [0-9]+ validation$" out'
claim 'multi: --predict prints the labels and all probabilities' 'predict --out multi && lines 6 . out && are_sets long neg the'
claim 'multi: several labels have | between them' 'run "$bert" --predict plain.txt --out multi && are_sets long neg the && grep -q "^long|the	" out'
printf 'text\tlabels\na good film\t\nbad\tbad\na fine film\t\n' >empty.tsv
claim 'multi: a text without labels has an empty first field' \
  'exits 0 "$bert" --problem multi --model pre --train empty.tsv --valid empty.tsv --text text --label labels --epochs 30 --lr 0.02 --progress none --out none && run "$bert" --predict - --out none <<<"a good film" && are_sets bad && grep -q "^	0" out'
claim 'multi: --logits gives the logits of those probabilities' 'predict --out multi && rounded out >probabilities && predict --out multi --logits && sigmoid 2 <out | diff - probabilities'
claim 'multi: several columns of labels and one of names give the same weights' \
  'exits 0 "$bert" --problem multi --model pre --train train.tsv --valid dev.tsv --text text --label long,neg,the --lr 0.01 --progress none --batch-size 8 --epochs 3 --out columns && same_weights once-multi columns'
claim 'multi: a folder knows its labels by name in any order of columns' \
  'continued=("$bert" --model multi --train train.tsv --valid dev.tsv --text text --batch-size 8 --steps 3 --progress none) && exits 0 "${continued[@]}" --label labels --out of_names && exits 0 "${continued[@]}" --label the,long,neg --out of_columns && same_weights of_names of_columns'
head -n 121 train.tsv | awk -F'\t' 'NR > 1 { n++; long += $4; neg += $5; the += $6 } END { printf "%.9g,%.9g,%.9g", (n - long) / long, (n - neg) / neg, (n - the) / the }' >weights
claim 'multi: --label-weights balanced are the absent to the present rows of each label' \
  'exits 0 "${train[@]}" --label-weights balanced --out balanced && exits 0 "${train[@]}" --label-weights "$(cat weights)" --out weighted && same_weights balanced weighted && ! cmp -s balanced/last.safetensors once-multi/last.safetensors'
claim 'multi: the folder is one of transformers for several labels' 'grep -q "\"problem_type\": \"multi_label_classification\"" multi/config.json && grep -q "\"BertForSequenceClassification\"" multi/config.json && [ "$(xargs <multi/labels.txt)" = "long neg the" ]'
claim 'multi: a pre-norm encoder is trained from scratch' \
  'exits 0 "$bert" --problem multi --from-scratch --vocab pre/vocab.txt "${tiny[@]}" "${data[@]}" --steps 2 --progress none --out scratch && predict --out scratch && are_sets long neg the'
printf 'text,labels\r\n"a ""good"", film","good|""quoted"""\r\nbad,\r\n' >quoted.csv
claim 'multi: CSV may have quotes and CR LF' 'exits 0 "$bert" --problem multi --model pre --train quoted.csv --valid quoted.csv --text text --label labels --steps 1 --progress none --out quoted && [ "$(cat quoted/labels.txt)" = $'"'"'"quoted"\ngood'"'"' ]'

# --- numbers ---
problem regression
claim 'regression: --predict prints the value, with --logits, too' \
  'predict --out regression && lines 6 "^-\{0,1\}[0-9.e-]*$" out && cp out values && predict --out regression --logits && cmp out values'
claim 'regression: the folder is one of transformers for regression' 'grep -q "\"problem_type\": \"regression\"" regression/config.json && grep -q "\"0\": \"LABEL_0\"" regression/config.json'
two=("$bert" --problem regression --train train.tsv --valid dev.tsv --text text --progress none --batch-size 8)
claim 'regression: several columns are several values' \
  'exits 0 "${two[@]}" --model pre --label value,score --steps 20 --lr 0.01 --out two && predict --out two && awk -F"\t" "NF != 2 { exit 1 }" out && [ "$(xargs <two/labels.txt)" = "value score" ]'
claim 'regression: a folder knows its columns by name in any order' \
  'exits 0 "${two[@]}" --model two --label value,score --steps 3 --out two_again && exits 0 "${two[@]}" --model two --label score,value --steps 3 --out two_turned && same_weights two_again two_turned'

# --- pairs ---
problem pair
pairs=$(cut -f 1,2 dev.tsv | tail -n 6)
predict_pairs() { run "$bert" --predict - --text-pair other "$@" <<<"$pairs"; [ "$exited" = 0 ]; }
claim 'pair: --predict prints the score of each pair' 'predict_pairs --out pair && lines 6 "^[01]" out && awk "!(\$1 > 0 && \$1 < 1) { exit 1 }" out'
claim 'pair: --logits gives the logits of those scores' 'awk "{ printf \"%.5f\n\", \$1 }" out >scores && predict_pairs --out pair --logits && sigmoid 1 <out | diff - scores'
claim 'pair: the folder has one label, and no problem_type' 'grep -q "\"0\": \"LABEL_0\"" pair/config.json && ! grep -q problem_type pair/config.json && ! grep -q "\"1\":" pair/config.json'
claim 'pair: it trains when pairs are truncated to 4 tokens' 'exits 0 "${begin[@]}" --max-length 4 --steps 3 && grep -q "truncated to 4$" out'

# --- labels of words ---
problem token
# are_words LINES: checks that out has a line for each word of the lines, with a label and a probability, and an empty
# line after each text.
are_words() { diff <(cut -f 1 out) <(awk '{ for (i = 1; i <= NF; ++i) print $i; print "" }' <<<"$1") && awk -F'\t' 'NF && (NF != 3 || $2 !~ /^(B-V|I-V|O)$/ || !($3 > 0 && $3 <= 1)) { exit 1 }' out; }
claim 'token: --predict prints the label and the probability of each word' 'predict --out token && are_words "$texts" && grep -q "	B-V	" out && grep -q "	O	" out'
claim 'token: --logits gives the logits of that distribution' \
  'cut -f 3 out | awk "NF { printf \"%.5f\n\", \$1 }" >probabilities && predict --out token --logits && awk -F"\t" "NF && NF != 5 { exit 1 } NF { best = \$3; for (i = 4; i <= 5; ++i) if (\$i > best) best = \$i; sum = 0; for (i = 3; i <= 5; ++i) sum += exp(\$i - best); printf \"%.5f\n\", 1 / sum }" out | diff - probabilities'
claim 'token: a text without words is an empty line' 'run "$bert" --predict - --out token <<<"" && prints "" && lines 1 "" out'
claim 'token: words of a text that is truncated are left out' 'run "$bert" --predict - --out token --max-length 4 <<<"it is a film" && lines 3 "" out && grep -q "note: 1 text was truncated to 4 tokens" err'
claim 'token: it prints the words of each label' 'exits 0 "${train[@]}" && grep -qE "^label       I-V: [0-9]+ training, [0-9]+ validation words$" out'
claim 'token: the folder is one of transformers for tokens' 'grep -q "\"BertForTokenClassification\"" token/config.json && ! grep -q problem_type token/config.json && [ "$(xargs <token/labels.txt)" = "B-V I-V O" ]'
head -n 120 plain.txt | words vowel vowel other >train_plain.conll
claim 'token: labels that are no tags of entities have the accuracy alone' \
  'exits 0 "$bert" --problem token --model pre --train train_plain.conll --valid train_plain.conll --batch-size 8 --epochs 3 --lr 0.01 --progress none --metrics plain.json && has_metrics plain plain.json'
claim 'token: words of truncated texts have no label' 'exits 0 "${begin[@]}" --max-length 3 --steps 3 --out cut && awk "/^label / { all += \$3 } END { exit all != 120 }" out'
refusal 'token: texts without a whole token are refused' '^train.conll: has no word with a token$' "${begin[@]}" --max-length 2
printf '\xe2\x80\x8b O\nfilm B-V\n' >hidden.conll
claim 'token: words without a token are left out with a note' \
  'exits 0 "$bert" --problem token --model pre --train hidden.conll --valid hidden.conll --steps 1 --progress none && lines 2 "note: hidden.conll: 1 word has no token and was left out$" err && grep -q "^label       O: 0 training, 0 validation words$" out'
awk '{ printf "%s\r\n", $0 }' train.conll >crlf.conll
claim 'token: CR LF and tabs make no difference' \
  'tr " " "\t" <dev.conll >tabs.conll && exits 0 "$bert" --problem token --model pre --train crlf.conll --valid tabs.conll --lr 0.01 --batch-size 8 --epochs 3 --progress none --out crlf && same_weights once-token crlf'
claim 'token: DistilBERT is trained, too' \
  'printf "one O\ntwo B-X\n\nthree O\n" >three.conll && exits 0 "$bert" --problem token --model "$golden/mask_distilbert" --train three.conll --valid three.conll --steps 2 --progress none --out distil && grep -q DistilBertForTokenClassification distil/config.json && run "$bert" --predict - --out distil <<<"one two" && lines 3 "" out'

# --- folders of transformers ---
claim 'the folders of transformers say which problem they are for' \
  'run "$bert" --model "$golden/multi" --predict - <<<"one two" && are_sets big red old && run "$bert" --model "$golden/regression" --predict - <<<"one two" && lines 1 "^[-0-9.e]*	[-0-9.e]*$" out &&
   run "$bert" --model "$golden/tagger" --predict - <<<"one two" && lines 3 "" out && run "$bert" --model "$golden/tagger_distilbert" --predict - <<<"one two" && lines 3 "" out'
for folder in reranker reranker_old; do
  claim "the folder $folder of sentence-transformers is for pairs, and its scores are logits" \
    'run "$bert" --model "$golden/$folder" --problem pair --text-pair b --predict - <<<"one	two" && lines 1 "^-*[0-9]\.[0-9]*$" out && cp out scores && run "$bert" --model "$golden/$folder" --text-pair b --predict - --logits <<<"one	two" && cmp out scores'
done
claim 'a folder without a setting gives sigmoids' \
  'run "$bert" --model "$golden/reranker_plain" --problem pair --text-pair b --predict - <<<"one	two" && lines 1 "^0\.[0-9]*$" out && cp out scores && run "$bert" --model "$golden/reranker_plain" --problem pair --text-pair b --predict - --logits <<<"one	two" && ! cmp -s out scores'

# --- refusals ---
expected_notes='has no weights of the model head|has weights that the model does not have'
# refused_table WHAT PATTERN KIND TABLE FLAGS...: a run on a table (printf's format) is refused.
refused_table() {
  printf "$4" >bad.tsv
  refusal "$3: $1" "$2" "$bert" --problem "$3" --model pre --train bad.tsv --valid bad.tsv --text text "${@:5}"
}
refused_table 'a cell of a column that is not 0 or 1 is refused' "^bad.tsv:3: the column 'neg' is '2' but must be 0 or 1$" multi 'text\tlong\tneg\na\t1\t0\nb\t0\t2\n' --label long,neg
refused_table 'an empty cell of a column is refused' "^bad.tsv:2: the column 'neg' is '' but must be 0 or 1$" multi 'text\tlong\tneg\na\t1\t\n' --label long,neg
refused_table 'a label that is there twice is refused' "^bad.tsv:2: has the label 'x' twice$" multi 'text\tlabels\na\tx|x\n' --label labels
refused_table 'an empty name is refused' "^bad.tsv:2: the labels 'x|' have an empty name$" multi 'text\tlabels\na\tx|\n' --label labels
refused_table 'a label with control characters is refused' '^bad.tsv:2: the label is .*, which has invalid bytes or control characters$' multi 'text\tlabels\na\tx\x01\n' --label labels
for name in 'a|b' ''; do
  refused_table "the column '$name' cannot be a label" "^bad.tsv: the column '$name' cannot be a label; its name is empty or has a |$" multi "text\t$name\tneg\na\t1\t0\n" --label "$name,neg"
done
awk 'NR == 1 { print "text\tlabels"; next } { print $1 "\t" }' plain.txt >bare.tsv
refusal 'multi: a table without labels is refused' '^bare.tsv: has 0 labels; a model needs 1 to 10000$' "$bert" --problem multi --model pre --train bare.tsv --valid bare.tsv --text text --label labels
awk 'BEGIN { print "text\tlabels"; for (i = 0; i <= 5000; ++i) print "a\t" 2 * i "|" 2 * i + 1 }' >many.tsv
refusal 'multi: too many labels are refused' '^many.tsv: has 10002 labels; a model needs 1 to 10000$' "$bert" --problem multi --model pre --train many.tsv --valid many.tsv --text text --label labels
for value in x nan inf -inf 1e39 1,5 '' +-3 0x10; do
  refused_table "'$value' is refused" "^bad.tsv:2: the label is '$value' but must be a number$" regression "text\tvalue\na\t$value\n" --label value
done
for value in 1.01 -0.01 nan x ''; do
  refused_table "'$value' is refused" "^bad.tsv:2: the label is '$value' but must be a number from 0 to 1$" pair "text\tother\tscore\na\tb\t$value\n" --text-pair other --label score
done
refused_conll() { printf "$3" >bad.conll; refusal "token: $1" "$2" "$bert" --problem token --model pre --train bad.conll --valid dev.conll; }
refused_conll 'a line with one column is refused' "^bad.conll:2: a line must have a word and a label, got 'film'$" 'a O\nfilm\n'
refused_conll 'an empty file is refused' '^bad.conll: has no sentence; each line must have a word and a label$' ''
refused_conll 'a file of empty lines is refused' '^bad.conll: has no sentence; each line must have a word and a label$' '\n\n'
for kind in "${kinds[@]}"; do
  data "$kind"
  refusal "$kind: --task is refused" '^--task: --problem [a-z]* ' "$bert" --problem "$kind" --model pre --task sst2
  refusal "$kind: a run without data is refused" "^--problem $kind needs --" "$bert" --problem "$kind" --model pre
  [ "$kind" = multi ] || refusal "$kind: --label-weights is refused" '^--label-weights' "$bert" --problem "$kind" --model pre "${data[@]}" --label-weights balanced
  "$tokenize" --vocab pre/vocab.txt --to plain.tokens <plain.txt >/dev/null
  files=("${data[@]/#train.*/plain.tokens}")
  refusal "$kind: a token file is refused" "^plain.tokens: is a token file, whose .*; --problem $kind needs a " "$bert" --problem "$kind" --model pre "${files[@]}"
  refusal "$kind: the pre-trained folder cannot predict" '^pre: has no weights of a classifier, so it cannot predict$' "$bert" --problem "$kind" --model pre --predict - "${data[@]:6:2}"
  refusal "$kind: --pretrain excludes it" '^--pretrain and --problem exclude each other$' "$bert" --pretrain plain.txt --problem "$kind" "${tiny[@]}"
done
problem pair
refusal 'pair: a second text is needed' '^--problem pair needs --text-pair, the column of the second text$' "$bert" --problem pair --model pre --train train.tsv --valid dev.tsv --text text --label score
claim 'pair: --predict splits lines without --text-pair, too' \
  'run "$bert" --out pair --text-pair other --predict - <<<"a film	a good film" && cp out scores && run "$bert" --out pair --predict - <<<"a film	a good film" && cmp out scores'
refusal 'pair: there is one score' '^train.tsv: 2 columns of scores were given; a score of a pair is one$' "$bert" --problem pair --model pre --train train.tsv --valid dev.tsv --text text --text-pair other --label score,neg
for kind in multi regression; do
  refusal "$kind: --label with a column twice is refused" '^--label names a column twice$' "$bert" --problem $kind --model pre --train train.tsv --valid dev.tsv --text text --label neg,neg
  refusal "$kind: --label without a column is refused" '^--problem '$kind' needs --train, --valid, --text and --label$' "$bert" --problem $kind --model pre --train train.tsv --valid dev.tsv --text text
done
refusal 'multi: a folder refuses a column twice' '^--label names a column twice$' "$bert" --model multi --train train.tsv --valid dev.tsv --text text --label neg,neg,the
refusal 'multi: a missing column is named' "^train.tsv: no column 'none' (the header has 'text'," "$bert" --problem multi --model pre --train train.tsv --valid dev.tsv --text text --label none
refusal 'multi: a missing column among several is named' "^train.tsv: no column 'none' (the header has 'text'," "$bert" --problem multi --model pre --train train.tsv --valid dev.tsv --text text --label neg,none
refusal 'multi: other labels than those of the folder are refused' "^empty.tsv:3: the label 'bad' is none of the model's 3 labels$" "$bert" --model multi --train empty.tsv --valid empty.tsv --text text --label labels
refusal 'multi: other columns than those of the folder are refused' "^train.tsv: the column 'score' is none of the model's 3 labels$" "$bert" --model multi --train train.tsv --valid dev.tsv --text text --label long,neg,score
refusal 'multi: fewer columns than the folder has are refused' '^train.tsv: 2 columns of labels were given; the model has 3 labels$' "$bert" --model multi --train train.tsv --valid dev.tsv --text text --label long,neg
refusal 'regression: more columns than the folder has are refused' '^train.tsv: 2 columns of numbers were given; the model has 1$' "$bert" --model regression --train train.tsv --valid dev.tsv --text text --label value,score
refusal 'token: other labels than those of the folder are refused' "^three.conll:2: the label 'B-X' is none of the model's 3 labels$" "$bert" --model token --train three.conll --valid three.conll
printf 'text\tlong,neg\na\t1\n' >comma.tsv
refusal 'regression: two files with other columns are refused' '^dev.tsv: has 2 of the columns in --label, but comma.tsv has 1$' "$bert" --problem regression --model pre --train comma.tsv --valid dev.tsv --text text --label long,neg
for weights in 1,2 1,2,3,4; do
  refusal "multi: the weights $weights are refused" '^--label-weights has [24] numbers; the model has 3 labels$' "$bert" --problem multi --model pre --train train.tsv --valid dev.tsv --text text --label labels --label-weights $weights
done
for weights in 1,,2 0,1,1 -1,1,1 nan,1,1 inf,1,1 1,2,x 1,2,3, half; do
  refusal "multi: the weights $weights are refused" "^--label-weights '$weights' must be none, balanced, or positive numbers with commas between them$" "$bert" --problem multi --model pre --train train.tsv --valid dev.tsv --text text --label labels --label-weights "$weights"
done
for flag in --text --label --format=tsv --text-pair; do
  [[ $flag == *=* ]] && words=("$flag") || words=("$flag" text)
  refusal "token: ${flag%=*} is refused" "^${flag%=*}: --problem token reads CoNLL files, which have no such choice$" "$bert" --problem token --model pre --train train.conll --valid dev.conll "${words[@]}"
done
refusal 'token: --from-scratch is refused' '^--problem token needs a folder of a BERT or a relative; --from-scratch has none$' "$bert" --problem token --from-scratch --train train.conll --valid dev.conll
refusal 'token: a pre-norm encoder is refused' "^scratch/config.json: 'architectures' is 'PreNormForSequenceClassification', whose head is not that of --problem token$" "$bert" --problem token --model scratch --train train.conll --valid dev.conll
refusal 'an unknown problem is refused' "^--problem: 'tokens' is not one of single, multi, regression, token, pair$" "$bert" --problem tokens --model pre
# The objective of each kind of run.
declare -A objective=([multi]='label sets' [regression]=values [pair]='pair scores' [token]='word labels')
for kind in "${kinds[@]}"; do
  for other in single "${kinds[@]}"; do
    [ $kind = $other ] || refusal "$kind: the folder refuses --problem $other" "^$kind/config.json: describes a model of another --problem, '${objective[$kind]}'$" "$bert" --problem $other --out $kind --predict - --text-pair other
  done
done
# bad_folder WHAT PATTERN KIND FLAGS...: expects that --model with the folder bad, a copy of a trained one that the
# commands before the call changed, is refused.
fresh() { rm -rf bad && mkdir bad && cp "$1"/{config.json,vocab.txt,tokenizer_config.json,model.safetensors} bad; }
bad_folder() { data "$3"; refusal "$1" "^bad/config.json: $2" "$bert" --problem "$3" --model bad "${data[@]}"; }
for kind in multi regression; do
  fresh $kind; sed -i 's/"problem_type": "[a-z_]*"/"problem_type": "single_label_classification"/' bad/config.json
  bad_folder "$kind: another problem_type is refused" "'problem_type' is \"single_label_classification\", which contradicts --problem $kind$" $kind
done
fresh multi; bad_folder 'regression: a folder for sets of labels is refused' "'problem_type' is \"multi_label_classification\", which contradicts --problem regression$" regression
fresh multi; bad_folder 'pair: a folder with several labels is refused' 'has 3 labels; a score of a pair is one$' pair
fresh multi; bad_folder 'token: a folder with another head is refused' "'architectures' is 'BertForSequenceClassification', whose head is not that of --problem token$" token
for kind in multi regression pair; do
  fresh token; bad_folder "$kind: a folder with a head of tokens is refused" "'architectures' is 'BertForTokenClassification', whose head is not that of --problem $kind$" $kind
done
refusal 'single: a folder for sets of labels is refused' "^multi/config.json: 'problem_type' is \"multi_label_classification\", which contradicts --problem single$" "$bert" --problem single --model multi --train train.tsv --valid dev.tsv --text text --label labels
problem multi
refusal 'multi: a run is not resumed with other weights of labels' '--label-weights is balanced instead of none' "${begin[@]}" --batch-size 8 --epochs 2 --checkpoint-every 4 --schedule constant --out paused-multi --metrics paused-multi.json --resume --label-weights balanced
problem regression
refusal 'regression: a run is not resumed with other numbers' '--label differs from what the run was started with' "$bert" --problem regression --model pre --train train.tsv --valid dev.tsv --text text --label score --lr 0.01 --progress none --batch-size 8 --epochs 2 --checkpoint-every 4 --schedule constant --out paused-regression --metrics paused-regression.json --resume

exit $code
