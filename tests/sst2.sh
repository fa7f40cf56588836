#!/usr/bin/env bash
# sst2.sh FOLDER: runs sst2, built into FOLDER, on the sample that ships with the project.
source "$(dirname "$0")/program_helpers.sh"
program=sst2
sst2=$(realpath "$1/sst2") sample=$examples/sst2/sample
cd "$work" || exit

# long_run FOLDER: starts a run that is too long to finish, as job `job`, and waits until it trains.
long_run() {
  "$sst2" "${sizes[@]}" --epochs 10000 --progress none --out "$1" --metrics "$1.json" >out 2>err &
  job=$!
  wait_for "[ -s $1.json ]"
}
stopped_by_signal() {
  long_run stopped
  kill -TERM $job
  wait $job
  [ $? = 3 ] && grep -q "^sst2: note: stopped by SIGTERM after step [0-9]*; to continue: .*--out stopped.* --resume$" err && [ -d stopped/checkpoint ]
}

predicts_alike() {
  sed -n 2,9p "$sample/dev.tsv" | cut -f 1 >texts
  diff <("$sst2" --out cuda --predict texts | cut -f 1) <("$sst2" --out cuda --predict texts --device cuda | cut -f 1) >out 2>err
}

second_run() {
  long_run held
  refused=1
  if exits 2 "${train[@]}" --out held && grep -q 'another run is writing to this folder' err &&
    exits 2 "${evaluate[@]}" --metrics held.json && grep -q 'another run is writing its metrics' err; then refused=0; fi
  kill -KILL $job
  wait $job 2>/dev/null
  return $refused
}

# Moves the best weights of a run away while it trains. Its learning rate is 0, so that no better weights replace them.
lost_weights() {
  local idle=("${small[@]}" --epochs 100000 --checkpoint-every 1 --lr 0 --out lost)
  "${idle[@]}" >out 2>err &
  job=$!
  wait_for '[ -s lost/model.safetensors ]'
  mv lost/model.safetensors moved
  wait $job
  [ $? = 1 ] && grep -q "^sst2: error: lost/model.safetensors: cannot be opened: .*the previous checkpoint is intact" err &&
    [ -z "$(find lost -name '*.tmp')" ] && exits 0 "${idle[@]}" --steps 1 --resume && [ -s lost/model.safetensors ]
}
# The names hold bytes that are not UTF-8, and the initial weights are removed before the run resumes.
odd_names() {
  local init=$'i\xff' out=$'o\xff' metrics=$'m\xff.json'
  cp model/last.safetensors "$init"
  exits 0 "${train[@]}" --out "$out" --metrics "$metrics" --init "$init" &&
    exits 0 "${longer[@]}" --out initial --metrics initial.json --init ./"$init" &&
    exits 2 "${longer[@]}" --out "$out" --metrics "$metrics" --init unbroken/last.safetensors --resume && grep -q -- '--init differs from what' err &&
    exits 2 "${longer[@]}" --out "$out" --metrics "$metrics" --resume && grep -q -- '--init is not given' err &&
    rm "$init" && exits 0 "${longer[@]}" --out "$out" --metrics "$metrics" --init "$init" --resume &&
    same_weights initial "$out" && diff <(without_seconds initial.json) <(without_seconds "$metrics")
}

# A small model, because sanitizers make each run slow.
sizes=(--d-model 16 --heads 2 --head-dim 8 --ff-width 32)
small=("$sst2" "${sizes[@]}" --train-rows 60 --valid-rows 40 --progress none)
longer=("${small[@]}" --batch-size 8 --steps 10)
train=("${small[@]}" --batch-size 8 --steps 6)
evaluate=("$sst2" --evaluate --out model --train-rows 60 --valid-rows 40 --batch-size 8)

claim 'sst2 --help exits with 0' 'exits 0 "$sst2" --help'
claim 'sst2 --version names heddle' 'exits 0 "$sst2" --version && grep -q "^heddle [0-9]" out'
claim 'sst2 trains on token files as on tables, to the bit' '
  mkdir -p tokens && cp "$examples/sst2/sample/vocab.txt" tokens &&
  for split in train dev; do tail -n +2 "$examples/sst2/sample/$split.tsv" | awk -F"\t" "{ print \$2 \"\t\" \$1 }" | "$(dirname "$sst2")/tokenize" --vocab tokens/vocab.txt --labels --to tokens/$split.tokens >/dev/null || break; done &&
  exits 0 "$sst2" --data tokens --steps 3 --progress none --out of_tokens && exits 0 "$sst2" --steps 3 --progress none --out of_tables && cmp of_tokens/last.safetensors of_tables/last.safetensors'
claim 'sst2 trains on its sample' 'exits 0 "$sst2" --steps 2 --train-rows 64 --valid-rows 32 --progress none && exits 0 "${train[@]}" --out model --metrics metrics'
claim 'it says what it trains on' 'grep -q "60 training, 40 validation" out && grep -q "^parameters " out'
claim 'it writes the model, the configuration and the vocabulary' 'all_there model/{model,last}.safetensors model/{config.json,vocab.txt}'
claim 'it writes metrics of each step, of the epoch, and the final ones' \
  'lines 6 "^{\"step\"" metrics && lines 1 "^{\"epoch\":0" metrics && lines 2 "^{\"final\":true" metrics'
claim 'a second run gives the same numbers' \
  'exits 0 "${train[@]}" --metrics again && diff <(without_seconds metrics) <(without_seconds again)'
claim 'another seed gives different numbers' \
  'exits 0 "${train[@]}" --metrics other --seed 2 && ! cmp -s <(without_seconds metrics) <(without_seconds other)'
claim 'sst2 --evaluate gives the metrics of the best weights' \
  'exits 0 "${evaluate[@]}" --metrics evaluated && diff <(grep final metrics) evaluated'
claim '--evaluate appends to an existing metrics file' \
  'cp metrics both && exits 0 "${evaluate[@]}" --metrics both && diff both <(cat metrics evaluated)'
refusal 'a new run does not overwrite the metrics of another run' 'both: holds the metrics of another run; ' "${train[@]}" --metrics both
mkdir early
cp model/{config.json,vocab.txt} early
echo "{\"metrics\":\"$PWD/early.json\"}" >early/started.json
claim 'a run that was killed before its first checkpoint and begins again does not overwrite the metrics of another run either' \
  'exits 2 "${train[@]}" --metrics both --out early --resume && grep -q "both: holds the metrics of another run; " err'
claim 'a run that begins again overwrites its own metrics' \
  'head -n 3 both >early.json && exits 0 "${train[@]}" --out early --metrics early.json --resume && diff <(without_seconds metrics) <(without_seconds early.json)'
claim 'the metrics of the other run are unchanged' 'diff both <(cat metrics evaluated)'
claim 'it trains in bf16 and with every optimizer' \
  'exits 0 "${train[@]}" --precision bf16 && exits 0 "${train[@]}" --optimizer sgd --momentum 0.9 && exits 0 "${train[@]}" --optimizer adamw'

predict() { run "$sst2" --predict - --out model "$@" < <(printf 'a good film .\n\nnot a good film .'); [ "$exited" = 0 ]; }
claim 'sst2 --predict gives a class and its probabilities for each line' 'predict && lines 3 . out && are_distributions 2'
claim 'sst2 --predict --logits gives logits' 'predict --logits && lines 3 . out && ! are_distributions 2'

claim 'a run that --steps stopped and --resume continued ends like an uninterrupted one' \
  'exits 0 "${longer[@]}" --out unbroken --metrics unbroken.json && exits 0 "${train[@]}" --out paused --metrics paused.json &&
   exits 0 "${longer[@]}" --out paused --metrics ../"${PWD##*/}"/./paused.json --resume && same_run unbroken paused'
claim 'names may be any bytes, and weights to start from may be gone once a run has begun' odd_names
twelve=("${small[@]}" --batch-size 8 --steps 12)
moved_metrics() {
  cp -r paused elsewhere && mkdir in && cp paused.json in/moved.json &&
    exits 0 "${twelve[@]}" --out paused --metrics paused.json --resume && exits 0 "${twelve[@]}" --out elsewhere --metrics in/moved.json --resume &&
    diff <(without_seconds paused.json) <(without_seconds in/moved.json) && lines 12 '^{"step"' in/moved.json
}
others_metrics() {
  exits 0 "${train[@]}" --out first --metrics shared.json && mv shared.json first.json && exits 0 "${train[@]}" --seed 4 --metrics shared.json && cp shared.json kept.json &&
    exits 2 "${longer[@]}" --out first --metrics shared.json --resume && grep -q "shared.json: does not hold what the run had written there" err && cmp shared.json kept.json
}
continued_after_end() {
  exits 0 "${train[@]}" --out ended --metrics ended.json && cp -r ended killed && cp ended.json killed.json &&
    exits 0 "${longer[@]}" --out ended --metrics ended.json --resume && exits 0 "${longer[@]}" --out ended --metrics ended.json --resume && grep -q 'is finished: 10 steps' err &&
    rm -r ended/checkpoint/000000000010 && exits 0 "${train[@]}" --out ended --metrics ended.json --resume && grep -q 'resuming after step' err
}
piped_vocabulary() {
  exits 0 "${train[@]}" --out piped --vocab <(cat "$sample/vocab.txt") && cmp piped/vocab.txt "$sample/vocab.txt" &&
    exits 0 "${longer[@]}" --out piped --vocab <(cat "$sample/vocab.txt") --resume
}
alone() { run "$sst2" --predict - --out model --data nowhere < <(echo 'a good film .'); [ "$exited" = 0 ] && lines 1 . out; }
claim 'a finished run is not changed' 'exits 0 "${longer[@]}" --out paused --resume && grep -q "is finished: 10 steps" err && same_run unbroken paused'
claim 'a metrics file that was moved is continued without a repeated line' moved_metrics
claim 'a file that another run wrote under the old name is not changed' others_metrics
claim 'a finished run that was continued is no longer finished at its earlier end' continued_after_end
claim 'a vocabulary may come through a pipe' piped_vocabulary
claim 'prediction needs only the folder of the run' alone
claim 'metrics are not written to standard output' '"${train[@]}" --metrics /dev/stdout >log 2>err; [ $? = 2 ] && grep -q "receives what the run prints" err && [ ! -s log ]'
refusal 'a run is not resumed with other flags, which are named' 'a resumed run continues as it was started, but --dropout is 0.2 instead of 0.1; --seed is 3' "${train[@]}" --out paused --dropout 0.2 --seed 3 --resume
claim '--resume without a checkpoint starts from the beginning' 'exits 0 "${train[@]}" --out begun --resume && grep -q "no checkpoint" err'
claim 'a damaged checkpoint is named and the one before it taken' \
  'exits 0 "${train[@]}" --checkpoint-every 2 --out damaged && truncate -s 4096 damaged/checkpoint/000000000006/model.safetensors &&
   exits 0 "${train[@]}" --checkpoint-every 2 --out damaged --resume && grep -q "000000000006/model.safetensors: has 4096 bytes" err && grep -q "resuming after step 4" err && same_weights model damaged'
claim 'a run fails if its best weights are moved away, and can be resumed' lost_weights
claim 'SIGTERM ends a run after its step with code 3, and a note says how to continue' stopped_by_signal
claim 'a second run in the same folder or metrics file is refused' second_run
claim 'a run on a full disk fails, and can be resumed from its last checkpoint' \
  'exits 0 "${train[@]}" --out filled --metrics filled.json && (ulimit -f 60; exits 1 "${longer[@]}" --out filled --metrics filled.json --resume) &&
   grep -q "^sst2: error: filled/.*: File too large" err && exits 0 "${longer[@]}" --out filled --metrics filled.json --resume && same_run unbroken filled'
refusal 'an unknown flag is answered with the nearest one' 'no flag --epocs; the nearest is --epochs' "$sst2" --epocs 3
mkdir -p pickled useless/checkpoint/000000000003
echo 'a diary' >bad-metrics.txt
printf 'PK\003\004 and more' >pickled/pytorch_model.bin
refusal 'a folder with only a pickle is refused, and the file is named' 'pytorch_model.bin' "$sst2" --predict - --out pickled --vocab "$sample/vocab.txt"
refusal 'a PyTorch pickle as initial weights is refused' 'PyTorch pickle' "${train[@]}" --init pickled/pytorch_model.bin
claim 'a locale with a decimal comma changes no number' \
  'exits 0 env LC_ALL=de_DE.UTF-8 LC_NUMERIC=de_DE.UTF-8 "${train[@]}" --lr 0.001 --metrics german && diff <(without_seconds metrics) <(without_seconds german)'
refusal 'metrics do not overwrite a file that is not a metrics file' 'is not a metrics file' "${train[@]}" --metrics bad-metrics.txt
refusal 'an empty file name is refused' '--predict is given without a name' "${train[@]}" --predict ''
refusal 'a number that is not decimal is refused' 'whole number' "$sst2" --epochs 0x2
refusal "a folder with another model is not written to" 'holds another model' "${train[@]}" --out pickled
mkdir own foreign
cp "$sample"/*.tsv own
echo mine >own/vocab.txt
echo '{"program":"webpack"}' >foreign/config.json
cp own/vocab.txt foreign/config.json .
refusal 'a vocabulary in --out that no run wrote is not overwritten' "own/vocab.txt: differs from the file of this run" "${train[@]}" --data own --vocab "$sample/vocab.txt" --out own
refusal "another program's configuration is not written over" 'holds another model (config.json)' "${train[@]}" --out foreign
claim 'both files are unchanged' 'cmp vocab.txt own/vocab.txt && cmp config.json foreign/config.json'
refusal '--metrics must not name a file that the run writes' 'is written by the run itself' "${train[@]}" --out self --metrics ./self/config.json
cp "$sample/vocab.txt" read.txt
refusal '--metrics must not name a file that the run reads' 'read.txt: is not a metrics file' "${train[@]}" --vocab read.txt --metrics ./read.txt
claim 'the file that the run reads is unchanged' 'cmp read.txt "$sample/vocab.txt"'
ln -s round round
long=$(printf 'x%.0s' {1..300})
for name in "$long" round; do
  refusal "--out with a name that no folder can have is refused (${name:0:5})" "${name:0:5}.*: cannot be used as a folder" "${train[@]}" --out "$name"
  refusal "--data with a name that no folder can have is refused (${name:0:5})" "${name:0:5}.*: is not a folder" "$sst2" --data "$name"
done
# Permissions do not apply to root. Another user may be unable to read this checkout or to write a coverage
# profile into it.
mkdir -m 555 locked
cp -r "$sample" seen
chmod -R a+rX . seen
user=()
[ "$(id -u)" != 0 ] || user=(env LLVM_PROFILE_FILE=/dev/null setpriv --reuid=65534 --regid=65534 --clear-groups)
if "${user[@]}" "$sst2" --version >out 2>&1; then
  refusal 'a folder without permission is refused with the cause' 'locked: cannot be written: Permission denied' "${user[@]}" "${train[@]}" --data seen --out locked
else
  echo 'skipped: a folder without permission (another user cannot run the program)'
fi
claim 'a run whose checkpoints cannot be used is refused' \
  'exits 2 "${train[@]}" --out useless --resume && grep -q "none of its checkpoints can be used" err && [ ! -e useless/config.json ]'
refusal '--resume needs a folder' 'needs the folder' "${train[@]}" --resume
for change in 'heads 4294967298' 'head_dim 9223372036854775807' 'layers 2000000000' 'd_model 0' 'vocab_size 407'; do
  rm -rf altered
  cp -r model altered
  sed -i -E "s/(\"${change% *}\": )[0-9]+/\1${change#* }/" altered/config.json
  refusal "a saved $change is refused" "altered/config.json: '${change% *}' " "$sst2" --predict - --out altered
done
labels() {
  rm -rf altered
  cp -r model altered
  sed -i -E "s/^    \"negative\",/    $1/" altered/config.json
}
for change in '' '3,' '"positive",' '"a", "b",'; do
  labels "$change"
  refusal "saved labels of [$change \"positive\"] are refused" "altered/config.json: .*\(labels\|classes\)" "$sst2" --predict - --out altered
done
refusal 'a flag that the saved model contradicts is named' '--layers is 7; the model in model has 2' "$sst2" --predict - --out model --layers 7
refusal '--uncased contradicts a cased model' 'is cased' "$sst2" --predict - --out model --uncased
claim 'a run whose weights diverge in its last step fails and saves nothing' \
  'exits 1 "${small[@]}" --steps 1 --lr 1e38 --out diverged && [ ! -e diverged/model.safetensors ] && grep -q "is not finite" err'
claim '--out of a run that failed can be used again' 'exits 0 "${train[@]}" --out diverged'
claim 'a batch may be larger than the data' 'exits 0 "${small[@]}" --batch-size 9223372036854775807 --steps 1'
printf 'one\ntwo\nthree\n' >lines.txt
noted() { run "$sst2" --predict - --out model < <(printf '\xEF\xBB\xBFa\xff\r\n\nb'); [ "$exited" = 0 ]; }
claim 'a change to the lines of --predict is noted once, and each line gets a prediction' \
  'noted && lines 3 . out && lines 3 "^sst2: note: standard input: " err && lines 3 "" err'
printf 'a\nb\0\n' >nul.txt
printf '\xFF\xFEa\0' >utf16.txt
refusal 'a NUL byte in the lines of --predict is refused' 'nul.txt:2: the line contains a NUL byte' "$sst2" --predict nul.txt --out model
refusal 'UTF-16 is refused' 'utf16.txt: is UTF-16' "$sst2" --predict utf16.txt --out model
claim 'a reader that leaves early ends --predict quietly' \
  'yes "a good film" | head -n 30000 | "$sst2" --predict - --out model 2>err | head -n 1 >out; [ "${PIPESTATUS[2]}" = 0 ] && lines 1 . out && [ ! -s err ]'
claim 'a closed standard output is an error, and no file receives the output' \
  '"$sst2" --predict lines.txt --out model >&- 2>err; [ $? = 1 ] && grep -q "error: standard output cannot be written: Bad file descriptor$" err'
claim 'a closed standard input is an error' \
  '"$sst2" --predict - --out model <&- >out 2>err; [ $? = 1 ] && grep -q "error: standard input cannot be read: Bad file descriptor$" err && [ ! -s out ]'
claim '--predict - reads from the current position of standard input' \
  '{ read -r _; run "$sst2" --predict - --out model; } <lines.txt && lines 2 . out'

claim 'prediction, --version, --help and training report a full disk' \
  '"$sst2" --predict lines.txt --out model 2>err >/dev/full; [ $? = 1 ] && grep -q "standard output cannot be written: No space left on device" err &&
   { "$sst2" --version 2>err >/dev/full; [ $? = 1 ]; } && grep -q ": No space left on device" err && { "$sst2" --help 2>err >/dev/full; [ $? = 1 ]; } && grep -q ": No space left on device" err &&
   { "${train[@]}" 2>err >/dev/full; [ $? = 1 ]; } && grep -q ": No space left on device" err'
refusal 'a folder with results is not overwritten' 'holds the results of another run' "${train[@]}" --out model
refusal 'a model is needed to predict' 'needs a model' "$sst2" --predict -
refusal 'a folder without a model is named' 'nowhere' "$sst2" --predict - --out nowhere
mkdir bare
cp "$sample"/*.tsv bare
refusal 'missing data is named' 'nowhere' "$sst2" --data nowhere --vocab "$sample/vocab.txt"
refusal 'data without a vocabulary asks for one' '--vocab' "$sst2" --data bare
check_device "$sst2" 20 "$sst2" --steps 20 --batch-size 8 --train-rows 160 --valid-rows 8 --progress none
[ $has_gpu = no ] || claim 'a model that was trained on the GPU predicts the same classes on both devices' predicts_alike
refusal 'a flag without its value says so' '--lr needs a value' "$sst2" --lr
refusal 'a flag given twice says so' '--epochs is given more than once' "$sst2" --epochs 1 --epochs 2
refusal 'an unknown choice is refused with a list of the valid ones' "--optimizer: 'lamb' is not one of adam, adamw, sgd" "$sst2" --optimizer lamb
refusal '-- is refused' "'--' belongs to no flag" "$sst2" --
for flags in --nonsense '--epochs 0' '--steps -1' '--batch-size x' '--lr -1' '--dropout 1' '--optimizer lamb' '--precision fp8' \
  '--evaluate --predict -' --logits 'stray'; do
  # shellcheck disable=SC2086  # the flags are words
  refusal "sst2 $flags is refused" . "$sst2" $flags
done

mkdir bad
printf 'sentence\tlabel\ngood\t1\nbad\t7\n' >bad/train.tsv
cp "$sample"/{dev.tsv,vocab.txt} bad
refusal 'a wrong label is reported with file and line' 'train.tsv:3: ' "$sst2" --data bad
refusal 'a name with a line feed stays on one line' nowhere "$sst2" --data $'nowhere\nat all' --vocab "$sample/vocab.txt"
if grep -q __asan_init "$sst2"; then
  echo 'skipped: a lack of memory (sanitizers need more than any limit)'
else
  mkdir huge
  cp "$sample"/{dev.tsv,vocab.txt} huge
  truncate -s 3G huge/train.tsv
  claim 'a lack of memory ends the run with exit code 1' '(ulimit -v 2000000; exits 1 "$sst2" --data huge) && grep -q "^sst2: error: huge/train.tsv: out of memory while the file was read" err'
fi
claim 'a full disk ends the run with exit code 1' 'exits 1 "${train[@]}" --metrics /dev/full && grep -q "^sst2: error: /dev/full" err'

if command -v qemu-x86_64 >/dev/null && "$sst2" --version | grep -q AVX && ! grep -q __asan_init "$sst2"; then
  claim 'a program that the processor cannot execute says which instructions are missing' \
    'exits 1 qemu-x86_64 -cpu Nehalem "$sst2" --help && grep -q "was built for a processor with AVX" err'
else
  echo 'skipped: the programs on an older processor (qemu-x86_64 and a native build without sanitizers are needed)'
fi
exit $code
