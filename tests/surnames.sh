#!/usr/bin/env bash
# surnames.sh FOLDER: runs surnames, built into FOLDER, on the sample that ships with the project.
source "$(dirname "$0")/program_helpers.sh"
program=surnames
surnames=$(realpath "$1/surnames") sample=$examples/surnames/sample
cd "$work" || exit

# A small model, because sanitizers make each run slow.
sizes=(--d-model 16 --head-dim 16 --ff-width 16)
small=("$surnames" "${sizes[@]}" --train-rows 120 --valid-rows 60 --batch-size 8 --progress none)  # 15 steps an epoch
train=("${small[@]}" --steps 18)
longer=("${small[@]}" --steps 33 --checkpoint-every 4)

# --- training ---
claim 'surnames --help exits with 0 and shows its own flag' 'exits 0 "$surnames" --help && grep -q -- "--layer " out'
claim 'surnames trains on its sample' 'exits 0 "${train[@]}" --out model --metrics metrics --plot'
claim 'it says what it trains on' \
  'grep -q "120 training, 60 validation, 104 test" out && grep -q "^classes     18$" out && grep -q "^parameters  2642$" out'
claim 'it prints the confusion matrix of the test names, with precision and recall of each class' \
  'grep -q "Arabi.*Vietn.*precision.*recall" out && lines 18 "^[A-Z][a-z]*  *[0-9].*0\.[0-9]*$" model/confusion.txt && tail -n "$(wc -l <model/confusion.txt)" out | diff - model/confusion.txt'
claim 'it writes all files of a run folder' \
  'all_there model/{model,last}.safetensors model/{config.json,labels.txt,split.tsv,confusion.txt,confusion.svg,losses.svg,lengths.svg} model/events.out.tfevents.* && [ -d model/checkpoint ]'
claim 'it writes metrics of each step, of both epochs, and the final ones of all splits' \
  'lines 18 "^{\"step\"" metrics && lines 2 "^{\"epoch\"" metrics && lines 3 "^{\"final\":true" metrics && grep -q "\"split\":\"test\"" metrics'
claim 'it writes events of losses, accuracies and the learning rate' \
  '[ "$(steps_of Loss/train model)$(steps_of Accuracy/train model)$(steps_of "Scheduler LR" model)" = "10 10 10 " ] && [ "$(steps_of Loss/valid model)$(steps_of Accuracy/valid model)" = "15 18 15 18 " ]'
claim 'a run that ends inside its first epoch is plotted too' 'exits 0 "${small[@]}" --steps 3 --out short --plot && all_there short/losses.svg'
claim 'a second run gives the same numbers, weights, events and pictures' \
  'exits 0 "${train[@]}" --out again --metrics again.json --plot && cp metrics model.json && same_run model again && same_files model again split.tsv labels.txt confusion.{txt,svg} {losses,lengths}.svg config.json'
claim 'another seed gives different numbers and another split' \
  'exits 0 "${train[@]}" --seed 2 --out other --metrics other.json && ! cmp -s <(without_seconds metrics) <(without_seconds other.json) && ! cmp -s model/split.tsv other/split.tsv'

# --- the split ---
claim 'labels.txt has the languages, sorted' \
  'diff model/labels.txt <(find "$sample" -name "*.txt" -printf "%f\n" | sed "s/\.txt$//" | LC_ALL=C sort)'
claim 'split.tsv has a row for every name of the files, without blanks around it' \
  'diff <(cut -f 2- model/split.tsv | LC_ALL=C sort) <(for file in "$sample"/*.txt; do language=$(basename "$file" .txt); sed -E "s/^[ \t]+|[ \t]+$//g; s/^/$language\t/" "$file"; done | LC_ALL=C sort)'
claim 'it has 80, 10 and 10 % of the rows, one part after the other' \
  '[ "$(cut -f 1 model/split.tsv | uniq -c | xargs)" = "826 train 104 valid 104 test" ]'
claim 'equal names of a language stay in one part' '[ -z "$(LC_ALL=C sort -u model/split.tsv | cut -f 2- | LC_ALL=C sort | uniq -d)" ]'
claim 'another seed splits the same names' 'diff <(cut -f 2- model/split.tsv | LC_ALL=C sort) <(cut -f 2- other/split.tsv | LC_ALL=C sort)'

# --- evaluation and prediction ---
evaluate=("$surnames" --evaluate --train-rows 120 --valid-rows 60 --batch-size 8)
claim '--evaluate of the folder gives the final metrics, on the split of the seed with which the model was trained' \
  'evaluates_as_trained "${small[@]}" --steps 9 --seed 5'
claim '--evaluate takes the best weights, not the last' \
  'evaluates_the_best "${small[@]}" --lr 0.02 --epochs 12'
names=$'Dubois\nO\'Neal\nÁbel-ß\n\n  Kim\nabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz'
predict() { run "$surnames" --predict - --out model --data nowhere "$@" <<<"$names"; [ "$exited" = 0 ]; }
claim '--predict gives a language and the distribution over all of them, with the folder alone' 'predict && lines 6 . out && are_distributions 18'
claim 'a name that is too long is truncated with a note' 'grep -q "^surnames: note: 1 text was truncated to 64 tokens$" err'
claim '--logits gives the logits of that distribution' \
  'rounded out >probabilities; predict --logits && ! are_distributions 18 && diff <(softmax out) probabilities'
# One name a call, so that its position in a batch cannot change the bits.
alone() { run "$surnames" --predict - --out model <<<"$1" && cat out; }
claim 'accents, hyphens and letters without a decomposition fold away' '[ -n "$(alone Abel)" ] && [ "$(alone Ábel-ß)" = "$(alone Abel)" ]'

# --- resuming ---
claim 'a run that was stopped and resumed twice ends like an uninterrupted one: weights, metrics and events' \
  'exits 0 "${longer[@]}" --out unbroken --metrics unbroken.json && exits 0 "${small[@]}" --steps 7 --checkpoint-every 4 --out paused --metrics paused.json &&
   exits 0 "${small[@]}" --steps 21 --checkpoint-every 4 --out paused --metrics paused.json --resume && exits 0 "${longer[@]}" --out paused --metrics paused.json --resume && same_run unbroken paused'
claim 'the split, confusion matrix and labels of the resumed run are the same' 'same_files unbroken paused split.tsv labels.txt confusion.{txt,svg}'
claim 'a finished run is not changed' 'exits 0 "${longer[@]}" --out paused --metrics paused.json --resume && grep -q "is finished: 33 steps" err && same_run unbroken paused'
resumed=("${small[@]}" --steps 40 --out paused --resume)
refusal '--layer is not changed in a resumed run' '--layer is library instead of own$' "${resumed[@]}" --layer library
refusal '--schedule is not changed in a resumed run' '--schedule is step instead of constant$' "${resumed[@]}" --schedule step --gamma 0.5
refusal '--clip, --weight-decay and --warmup are not changed in a resumed run' \
  "--clip is 1 instead of 0; --warmup is 3 instead of 0; --weight-decay is 0.1 instead of the optimizer's$" "${resumed[@]}" --clip 1 --weight-decay 0.1 --warmup 3
refusal '--seed, which splits the data, is not changed in a resumed run' '--data differs from what the run was started with; --seed is 3 instead of 1$' "${resumed[@]}" --seed 3
claim 'the refused flags leave the run unchanged' 'same_run unbroken paused'

# --- schedules, clipping and decay ---
scheduled=("${small[@]}" --steps 12 --lr 0.01 --warmup 3)
for schedule in 'constant|warm(s, 3)' 'linear|line(s, 3, 12)' 'cosine|cosine(s, 3, 12)' 'step --gamma 0.5 --gamma-every 4|warm(s, 3) * 0.5 ^ int(s / 4)'; do
  rm -f rates
  # shellcheck disable=SC2086  # the flags are words
  exits 0 "${scheduled[@]}" --schedule ${schedule%|*} --metrics rates && lines 1 '"step":1,.*"lr":0,' rates && rates_are 12 0.01 "${schedule#*|}" rates
  report "--schedule ${schedule%|*} gives the learning rates of its formula; with --warmup the first is 0" $?
done
claim 'the last, smaller batch of an epoch counts among the steps of a schedule' \
  'exits 0 "$surnames" --train-rows 42 --valid-rows 10 --batch-size 8 --epochs 2 --schedule linear --lr 0.01 --progress none --metrics epochs && rates_are 12 0.01 "line(s, 0, 12)" epochs'
claim 'a run with --schedule linear ends' 'exits 0 "${scheduled[@]}" --schedule linear --out linear'
refusal 'a run with --schedule linear is not resumed with other --steps' '--steps is 13 instead of 12$' "${small[@]}" --lr 0.01 --warmup 3 --schedule linear --out linear --resume --steps 13
refusal 'a run with --schedule linear is not resumed with other --epochs' '--epochs is 11 instead of 10$' "${scheduled[@]}" --schedule linear --out linear --resume --epochs 11
different() { exits 0 "${small[@]}" --steps 6 "$@" --metrics different && ! cmp -s <(losses plain) <(losses different); rm -f different; }
same() { exits 0 "${small[@]}" --steps 6 "$@" --metrics same && same_numbers plain same; rm -f same; }
claim '--clip, --weight-decay and --warmup change the numbers, and 0 turns them off' \
  'rm -f same different && exits 0 "${small[@]}" --steps 6 --metrics plain && different --clip 0.1 && different --weight-decay 0.1 && different --warmup 2 && same --clip 0 --weight-decay 0 --warmup 0 && same --optimizer adamw --weight-decay 0'
claim '--precision bf16 trains, with other numbers' 'different --precision bf16'
check_device "$surnames" 10 "$surnames" --steps 10 --batch-size 8 --train-rows 80 --valid-rows 8 --progress none

# --- the library's layer ---
claim '--layer library trains, and prints a table of both layers' \
  'exits 0 "${small[@]}" --epochs 1 --layer library --plot --out library --metrics library.json && [ "$(tail -n 3 out | cut -d " " -f 1 | xargs)" = "layer library own" ] && all_there library/losses.svg'
claim 'the weights of --layer library have the names of torch.nn.TransformerEncoderLayer' 'grep -q "encoder.self_attn.in_proj_weight" library/model.safetensors && grep -q "encoder.linear_q.weight" model/model.safetensors'
claim 'with --layer library the other layer trains as it does alone' \
  'exits 0 "${small[@]}" --epochs 1 --metrics alone && [ "$(tail -n 1 <(exits 0 "${small[@]}" --epochs 1 --layer library && cat out) | tr -s " " | cut -d " " -f 2)" = "$(sed -nE "s/.*valid.*\"accuracy\":([^,]*),.*/\1/p" alone | tail -n 1 | xargs printf %.4f)" ]'
claim 'the metrics are those of the layer that was asked for' 'lines 15 "^{\"step\"" library.json && lines 3 "^{\"final\"" library.json'
# Stops the second training of --layer library. A resumed run repeats that training.
stopped_in_second() {
  local both=("$surnames" "${sizes[@]}" --layer library --train-rows 80 --valid-rows 20 --epochs 150 --progress none --out second)
  "${both[@]}" >second.txt 2>err &
  job=$!
  wait_for "grep -qs 'the same training' second.txt"
  kill -TERM $job
  wait $job
  [ $? = 3 ] && grep -q '^surnames: note: stopped by SIGTERM; to continue: .* --resume$' err && exits 0 "${both[@]}" --resume && grep -q '^own ' out
}
claim 'SIGTERM stops the second training too, and the run can continue' stopped_in_second
claim 'the folder of a model determines the layer' 'run "$surnames" --predict - --out library --data nowhere <<<Kim && are_distributions 18'
refusal '--layer must be that of the model' '--layer is own; the model in library has library' "$surnames" --predict - --out library --layer own

# --- bad input ---
few=("$surnames" --steps 2 --progress none --out nothing)
mkdir none one two
cp "$sample"/Czech.txt one
cp "$sample"/{Czech,Greek}.txt two
refusal 'a missing folder is named' '^nowhere: is not a folder; --data needs one$' "${few[@]}" --data nowhere
refusal 'a folder without names is refused' '^none: needs at least two files of names, such as Czech.txt, but has 0$' "${few[@]}" --data none
refusal 'a single language is refused' '^one: needs at least two files of names, such as Czech.txt, but has 1$' "${few[@]}" --data one
# bad_names CONTENT PATTERN: expects that an Irish.txt with this content is refused.
bad_names() {
  printf "$1" >two/Irish.txt
  refusal "names such as '$1' are refused" "^two/Irish.txt$2" "${few[@]}" --data two
  rm two/Irish.txt
}
bad_names '' ': has no names$'
bad_names ' \n\t\n' ': has no names$'
bad_names 'Walsh\nKea\xffne\n' ':2: holds bytes that are not UTF-8$'
bad_names 'Walsh\nKe\0ane\n' ':2: the line contains a NUL byte'
bad_names '\xFF\xFEa\0' ': is UTF-16 text'
mkdir two/Irish.txt
refusal 'a folder in place of a file is refused' '^two/Irish.txt: is a folder' "${few[@]}" --data two
rmdir two/Irish.txt
for name in $'I\xff' $'I\tr' $'I\nr'; do
  cp two/Greek.txt "two/$name.txt"
  refusal "a language named $(printf %q "$name") is refused" "^two: the class 'I.x.*r*' has a name with invalid bytes or control characters$" "${few[@]}" --data two
  rm "two/$name.txt"
done
for flags in '--layers 2' '--heads 2' '--head-dim 8'; do
  # shellcheck disable=SC2086  # the flags are words
  refusal "surnames $flags is refused" "^${flags% *} is ${flags#* } but must be " "${few[@]}" $flags
done
refusal '--layer is one of two' "--layer: 'third' is not one of own, library" "${few[@]}" --layer third
refusal '--plain-text is not a flag of this program' 'no flag --plain-text' "${few[@]}" --plain-text
claim 'nothing was written' '[ ! -e nothing ] || is_empty nothing'
refusal 'a flag without a use is refused' '--vocab: surnames has no use for this flag$' "${few[@]}" --vocab nowhere
refusal '--plot is refused with --evaluate' '--plot draws a training run; it excludes --evaluate and --predict$' "$surnames" --evaluate --out model --plot
cp -r model unnamed
rm unnamed/config.json
refusal 'a model without its configuration is refused' '^unnamed/config.json: is missing, so the model beside it cannot be made$' "$surnames" --evaluate --out unnamed
mkdir alike
for language in A B; do printf -- '-%s\n' {1..20} >alike/$language.txt; done
refusal 'names that leave none to validate on are refused' '^alike: has no rows left to validate on$' "$surnames" --data alike
printf 'Ann\tLee\n' >alike/A.txt
refusal 'a tab in a name is refused' '^alike/A.txt: a tab in the name' "$surnames" --data alike
refusal 'a --seed other than that of the model is refused with --evaluate' '--seed is 5; the model in model was trained with 1$' "$surnames" --evaluate --out model --seed 5
refusal 'data with languages other than those of the model are refused' \
  '^two: its files are not named after the languages that the model knows$' "$surnames" --evaluate --out model --data two
# damaged CHANGE PATTERN: expects that the model is refused after this sed command on its config.json.
damaged() {
  rm -rf altered
  cp -r model altered
  sed -i -E "$1" altered/config.json
  refusal "a configuration after $1 is refused" "^altered/$2" "$surnames" --predict - --out altered
}
damaged 's/"labels": \[/"labels": 3, "x": [/' "config.json: 'labels' is 3 but must be a list of the names of at least two classes$"
damaged 's/"labels"/"names"/' "config.json: has no 'labels'$"
damaged 's/"layer": "own"/"layer": "third"/' "config.json: 'layer' is 'third' but must be own or library"
damaged 's/"Greek"/7/' "config.json: element [0-9]* of 'labels' is 7 but must be a string$"
damaged 's/"Greek"/"Irish"/' "config.json: 'labels' holds 'Irish' twice$"
damaged '/"Greek"/d' "model.safetensors: does not hold the weights of this model; mismatched 2: 'classif.weight' \[18, 16\] for \[17, 16\]"
damaged 's/"seed": 1/"seed": -1/' "config.json: 'seed' is -1 but must be a whole number of at least 0$"
damaged 's/"layer": "own"/"layer": 3/' "config.json: 'layer' is 3 but must be a string$"
damaged 's/"layer": "own"/"layer": "library"/' "model.safetensors: does not hold the weights of this model; missing"
damaged 's/"layers": 1/"layers": 2/' 'config.json: --layers is 2 but must be 1$'
damaged 's/"surnames"/"sst2"/' 'config.json: is not the configuration of a model of surnames$'
exit $code
