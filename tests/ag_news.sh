#!/usr/bin/env bash
# ag_news.sh FOLDER: runs ag_news, built into FOLDER, on the sample that ships with the project.
source "$(dirname "$0")/program_helpers.sh"
program=ag_news
ag_news=$(realpath "$1/ag_news") sample=$examples/ag_news/sample
cd "$work" || exit
expected_notes='the embedding layer is drawn at random from the seed|row [0-9]*, counted from 0, is missing, so it is not drawn'

sizes=("$ag_news" --d-model 16 --batch-size 8 --train-rows 124 --valid-rows 40 --progress none)  # 15 steps an epoch; four rows are dropped
small=("${sizes[@]}" --lr 0.01)
train=("${small[@]}" --steps 18)
longer=("${small[@]}" --steps 33 --checkpoint-every 4)

# --- training ---
claim 'ag_news --help exits with 0 and shows its own flags' \
  'exits 0 "$ag_news" --help && lines 5 "^  --\(embeddings\|train-embeddings\|plain-text\|stop-words\|lemmas\) " out'
claim 'ag_news trains on its sample' 'exits 0 "${train[@]}" --out model --metrics metrics --plot'
claim 'it says what it trains on' \
  'grep -q "124 training, 40 validation$" out && grep -q "^classes     4$" out && grep -q "^vocabulary  703 tokens$" out'
claim 'it notes a random embedding layer and a missing row' \
  'lines 2 "^ag_news: note: " err && grep -q "the embedding layer is drawn at random from the seed" err && grep -q "train.csv: row 4534, counted from 0, is missing, so it is not drawn" err'
claim 'it writes all files of a run folder' \
  'all_there model/{model,last}.safetensors model/{config.json,labels.txt,vocab.txt,losses.svg,lengths.svg} model/events.out.tfevents.* && [ -d model/checkpoint ] && cmp model/vocab.txt "$sample/vocab.txt" && diff model/labels.txt "$sample/classes.txt"'
claim 'it writes metrics of each step, of both epochs, and the final ones' \
  'lines 18 "^{\"step\"" metrics && lines 2 "^{\"epoch\"" metrics && lines 2 "^{\"final\":true" metrics'
claim 'it writes events of losses, accuracies and the learning rate' \
  '[ "$(steps_of Loss/train model)$(steps_of Accuracy/train model)$(steps_of "Scheduler LR" model)" = "10 10 10 " ] && [ "$(steps_of Loss/valid model)$(steps_of Accuracy/valid model)" = "15 18 15 18 " ]'
claim 'a run that ends inside its first epoch is plotted too' 'exits 0 "${small[@]}" --steps 3 --out short --plot && all_there short/losses.svg'
claim 'a second run gives the same numbers, weights, events and pictures' \
  'exits 0 "${train[@]}" --out again --metrics again.json --plot && cp metrics model.json && same_run model again && same_files model again config.json {losses,lengths}.svg'
claim 'another seed gives different losses' 'exits 0 "${train[@]}" --metrics other --seed 2 && ! cmp -s <(losses metrics) <(losses other)'
claim 'train.csv is read rather than train_subset.csv, which is read if train.csv is missing' \
  'mkdir subset && cp "$sample"/{test.csv,vocab.txt} subset && cp "$sample/train.csv" subset/train_subset.csv && exits 0 "${train[@]}" --data subset --metrics subset.json && same_numbers metrics subset.json &&
   cp "$sample/train.csv" subset && echo bad >subset/train_subset.csv && exits 0 "${train[@]}" --data subset'

# --- the model's input ---
printf 'the\nof\na\n' >stop
printf 'said\tsay\nstocks\tstock\n' >lemmas
for flags in --plain-text '--stop-words stop' '--lemmas lemmas'; do
  # shellcheck disable=SC2086  # the flags are words
  claim "$flags changes the text" 'rm -f changed && exits 0 "${train[@]}" $flags --metrics changed && ! cmp -s <(losses metrics) <(losses changed)'
done
claim '--uncased changes a text whose case was kept' \
  'exits 0 "${train[@]}" --plain-text --metrics cased && exits 0 "${train[@]}" --plain-text --uncased --metrics uncased && ! cmp -s <(losses cased) <(losses uncased)'
foreign_tables() {
  mkdir stale && echo stocks >stale/stop_words.txt && exits 0 "${train[@]}" --out stale --metrics stale.json &&
    exits 0 "${train[@]}" --out fresh --metrics fresh.json && same_run stale fresh &&
    diff <("$ag_news" --out stale --evaluate 2>/dev/null | tail -2) <("$ag_news" --out fresh --evaluate 2>/dev/null | tail -2)
}
claim 'stop words in --out that do not belong to the run are not used' foreign_tables
claim 'stop words and lemmas may come through a pipe; they belong to the model' \
  'exits 0 "${train[@]}" --stop-words stop --lemmas lemmas --out words --metrics words.json && exits 0 "${train[@]}" --stop-words <(cat stop) --lemmas <(cat lemmas) --out piped --metrics piped.json &&
   same_run words piped && cmp stop piped/stop_words.txt && cmp lemmas piped/lemmas.txt && rm piped/model.safetensors && cp words/model.safetensors piped'
claim 'predictions remove the stop words of the model' \
  'run "$ag_news" --predict - --out piped < <(printf "The stocks of a bank\nstock bank\nbank\n") && [ "$(uniq out | wc -l)" = 2 ] && [ "$(head -n 2 out | uniq | wc -l)" = 1 ]'

# --- evaluation and prediction ---
evaluate=("$ag_news" --evaluate --batch-size 8 --train-rows 124 --valid-rows 40)
claim '--evaluate of the folder gives the final metrics' \
  'evaluates_as_trained "${small[@]}" --steps 9'
claim '--evaluate takes the best weights, not the last' \
  'evaluates_the_best "${sizes[@]}" --lr 0.02 --epochs 6'
texts=$'Stocks fell, said the bank.\n\na\\b #39;s &lt;b&gt;\n\xe2\x82\xac 5'
predict() { run "$ag_news" --predict - --out model --data nowhere "$@" <<<"$texts"; [ "$exited" = 0 ]; }
claim '--predict gives a class and its probabilities for each line, with the folder alone' 'predict && lines 4 . out && are_distributions 4 && [ ! -s err ]'
claim '--logits gives the logits of these probabilities' \
  'rounded out >probabilities; predict --logits && ! are_distributions 4 && diff <(softmax out) probabilities'
claim 'a text is repaired and cleaned' \
  'run "$ag_news" --predict - --out model < <(printf "%s\n" "The bank #39;s &lt;b&gt;stocks&lt;/b&gt;\\fell 12 %%" "the banks stocks fell" "the bank stocks fell") && [ "$(uniq out | wc -l)" = 2 ] && [ "$(head -n 2 out | uniq | wc -l)" = 1 ]'
tac "$sample/vocab.txt" >other.txt
refusal 'another vocabulary is refused' '^other.txt: is not the vocabulary of the model in model$' "$ag_news" --predict - --out model --vocab other.txt
cp -r words tampered
echo more >>tampered/stop_words.txt
refusal 'stop words of the model that were changed are refused' '^tampered/stop_words.txt: is not the file that belongs to the model$' "$ag_news" --predict - --out tampered
rm tampered/stop_words.txt
refusal 'missing stop words of the model are refused' '^tampered/stop_words.txt: is missing, but it belongs to the model$' "$ag_news" --predict - --out tampered
printf 'unheard\tof\n' >others
refusal 'other lemmas are refused, even if they change no text' 'but --lemmas differs from what the run was started with$' "${train[@]}" --stop-words stop --lemmas <(cat lemmas others) --out words --metrics words.json --resume
refusal 'other stop words are refused' '^stop: is not what the model in model was trained with$' "$ag_news" --predict - --out model --stop-words stop
refusal '--plain-text contradicts a model' '--plain-text is yes; the model in model has no$' "$ag_news" --predict - --out model --plain-text

# --- resuming ---
claim 'a run that was stopped and resumed twice ends like an uninterrupted one: weights, metrics and events' \
  'exits 0 "${longer[@]}" --out unbroken --metrics unbroken.json && exits 0 "${small[@]}" --steps 7 --checkpoint-every 4 --out paused --metrics paused.json &&
   exits 0 "${small[@]}" --steps 21 --checkpoint-every 4 --out paused --metrics paused.json --resume && exits 0 "${longer[@]}" --out paused --metrics paused.json --resume && same_run unbroken paused'
claim 'a finished run is not changed' 'exits 0 "${longer[@]}" --out paused --metrics paused.json --resume && grep -q "is finished: 33 steps" err && same_run unbroken paused'
resumed=("${small[@]}" --steps 40 --out paused --resume)
refusal '--plain-text is not changed in a resumed run' '--data differs from what the run was started with; --plain-text is yes instead of no$' "${resumed[@]}" --plain-text
refusal '--train-embeddings is not changed in a resumed run' '--train-embeddings is yes instead of no$' "${resumed[@]}" --train-embeddings
refusal '--schedule is not changed in a resumed run' '--schedule is linear instead of constant' "${resumed[@]}" --schedule linear
refusal 'the stop words are not changed in a resumed run' '; --stop-words differs from what the run was started with$' "${resumed[@]}" --stop-words stop
refusal 'the vocabulary is not changed in a resumed run' '--vocab differs from what the run was started with$' "${resumed[@]}" --vocab other.txt
claim 'the refused flags leave the run unchanged' 'same_run unbroken paused'

# --- pictures ---
claim 'every 100 steps the attention on row 1129 is drawn, whatever --train-rows says; a run that was paused has each picture once' \
  'exits 0 "${small[@]}" --epochs 20 --steps 200 --out drawn --metrics drawn.json && exits 0 "${small[@]}" --epochs 20 --steps 100 --out halves --metrics halves.json &&
   exits 0 "${small[@]}" --epochs 20 --steps 200 --out halves --metrics halves.json --resume && same_run drawn halves && [ "$(events halves | grep -c "	Text attention: [a-z ]*	")" = 2 ] &&
   [ "$(events halves | grep "	Text attention: " | cut -f 1 | xargs)" = "100 200" ]'

# --- schedules, clipping and decay ---
scheduled=("${sizes[@]}" --steps 12 --lr 0.01 --warmup 3)
for schedule in 'constant|warm(s, 3)' 'linear|line(s, 3, 12)' 'cosine|cosine(s, 3, 12)' 'step --gamma 0.5 --gamma-every 4|warm(s, 3) * 0.5 ^ int(s / 4)'; do
  rm -f rates
  # shellcheck disable=SC2086  # the flags are words
  exits 0 "${scheduled[@]}" --schedule ${schedule%|*} --metrics rates && lines 1 '"step":1,.*"lr":0,' rates && rates_are 12 0.01 "${schedule#*|}" rates
  report "--schedule ${schedule%|*} gives the learning rates of its formula; with --warmup the first is 0" $?
done
claim 'the last, smaller batch, which is dropped, does not count among the steps of a schedule' \
  'exits 0 "${small[@]}" --epochs 2 --schedule linear --metrics epochs && rates_are 30 0.01 "line(s, 0, 30)" epochs'
claim '--gamma-every counts the steps of the whole run' \
  'exits 0 "${small[@]}" --epochs 2 --schedule step --gamma 0.96 --gamma-every 10 --metrics gamma && rates_are 30 0.01 "0.96 ^ int(s / 10)" gamma'
claim 'the learning rate is constant by default' 'rates_are 18 0.01 1 metrics'
claim 'a run with --schedule linear ends' 'exits 0 "${scheduled[@]}" --schedule linear --out linear'
refusal 'a run with --schedule linear is not resumed with other --steps' '--steps is 13 instead of 12$' "${small[@]}" --warmup 3 --schedule linear --out linear --resume --steps 13
refusal 'a run with --schedule linear is not resumed with other --epochs' '--epochs is 6 instead of 5$' "${scheduled[@]}" --schedule linear --out linear --resume --epochs 6
different() { rm -f different && exits 0 "${small[@]}" --steps 6 "$@" --metrics different && ! cmp -s <(losses plain) <(losses different); }
same() { rm -f same && exits 0 "${small[@]}" --steps 6 "$@" --metrics same && same_numbers plain same; }
claim '--clip, --weight-decay and --warmup change the numbers, and 0 turns them off' \
  'exits 0 "${small[@]}" --steps 6 --metrics plain && different --clip 0.001 && different --weight-decay 0.1 && different --warmup 2 && same --clip 0 --weight-decay 0 --warmup 0 && same --optimizer adamw --weight-decay 0'
claim '--precision bf16 trains, with other numbers' 'different --precision bf16'
claim 'several heads change the numbers' 'different --heads 4'
check_device "$ag_news" 10 "$ag_news" --d-model 16 --steps 10 --batch-size 8 --train-rows 80 --valid-rows 8 --progress none

# --- a layer from a folder ---
# bert FOLDER: makes a folder of a BERT model from the embedding layer in a model's last weights.
bert() {
  rm -rf bert
  mkdir bert
  cp "$sample/vocab.txt" bert
  LC_ALL=C sed 's/"embedder\.embeddings\./    "bert.embeddings./g' "$1/last.safetensors" >bert/model.safetensors
  echo '{"model_type": "bert", "vocab_size": 703, "hidden_size": 16, "max_position_embeddings": 512}' >bert/config.json
}
read_layer=("$ag_news" --embeddings bert --batch-size 8 --train-rows 124 --valid-rows 40 --progress none --lr 0.01 --steps 18)
bert model
claim '--embeddings reads the layer and its width: a frozen layer of the same values gives the same run' \
  'exits 0 "${read_layer[@]}" --out frozen --metrics frozen.json && same_run model frozen && ! grep -q "drawn at random from" err'
bert frozen
claim 'a frozen layer is not changed' 'exits 0 "${read_layer[@]}" --metrics frozen-again && same_numbers frozen.json frozen-again'
claim '--train-embeddings trains the layer' \
  'exits 0 "${read_layer[@]}" --train-embeddings --out trained --metrics trained.json && ! cmp -s <(losses metrics) <(losses trained.json) && exits 0 "${train[@]}" --train-embeddings --metrics from-seed && same_numbers trained.json from-seed &&
   bert trained && exits 0 "${read_layer[@]}" --metrics of-trained && ! cmp -s <(losses metrics) <(losses of-trained)'
bert model
claim 'a run with another layer is not resumed' \
  'exits 0 "${read_layer[@]}" --out layer && exits 2 "${train[@]}" --out layer --resume && grep -q "but --embeddings is not given$" err &&
   bert trained && exits 2 "${read_layer[@]}" --out layer --resume && grep -q "but --embeddings differs from what the run was started with$" err'
claim 'a text may be truncated at fewer positions than the layer has' 'exits 0 "${read_layer[@]}" --max-length 9 && grep -q "texts truncated to 9$" out'
if [ -d "${HEDDLE_DATA:-}/checkpoint-tiny-bert" ]; then
  tiny=("$ag_news" --embeddings "$HEDDLE_DATA/checkpoint-tiny-bert" --plain-text --steps 2 --train-rows 64 --valid-rows 32 --progress none)
  claim '--embeddings reads a checkpoint of Hugging Face, with its sizes' \
    'exits 0 "${tiny[@]}" --out tiny && grep -q "^vocabulary  402 tokens$" out && grep -q "truncated to 16$" out && grep -q "\"d_model\": 16," tiny/config.json && cmp tiny/vocab.txt "$HEDDLE_DATA/checkpoint-tiny-bert/vocab.txt"'
  claim 'a token of the vocabulary without an embedding is [UNK]' \
    'run "$ag_news" --predict - --out tiny < <(printf "%s\n" Μ Κ [UNK] Α) && are_distributions 4 && [ "$(head -n 3 out | uniq | wc -l)" = 1 ] && [ "$(uniq out | wc -l)" = 2 ]'
else
  echo 'skipped: --embeddings of a checkpoint of Hugging Face (HEDDLE_DATA does not name a folder with checkpoint-tiny-bert)'
fi

# --- bad input ---
bert model
few=("$ag_news" --steps 2 --train-rows 64 --batch-size 8 --progress none --out nothing)
layer=("${few[@]}" --embeddings bert)
refusal 'a missing embedding folder is named' '^nowhere: is not a folder; --embeddings needs one$' "${few[@]}" --embeddings nowhere
refusal 'a missing embedding folder is named, with --vocab, too' '^nowhere: is not a folder; --embeddings needs one$' "${few[@]}" --embeddings nowhere --vocab other.txt
for change in '"bert"/"gpt2"' '"bert"/5'; do
  bert model
  sed -i "s/$change/" bert/config.json
  refusal "a layer's configuration after s/$change/ is refused" '^bert/config.json: is not the configuration of a BERT model$' "${layer[@]}"
done
bert model
sed -i 's/{/[/' bert/config.json
refusal "a layer's configuration that is not JSON is refused" '^bert/config.json: is not JSON: at line ' "${layer[@]}"
bert model
sed -i 's/hidden_size/width/' bert/config.json
refusal "a layer's configuration without a width is refused" "^bert/config.json: has no 'hidden_size'$" "${layer[@]}"
for change in 'vocab_size": 703/vocab_size": 0' 'hidden_size": 16/hidden_size": "x"' 'max_position_embeddings": 512/max_position_embeddings": 1e9'; do
  bert model
  sed -i "s/$change/" bert/config.json
  key=${change%%[\"/]*}
  refusal "a layer's configuration after s/$change/ is refused" "^bert/config.json: '$key' is .* but must be a whole number from 1 to [0-9]*$" "${layer[@]}"
done
for change in 'vocab_size": 703/vocab_size": 704|word_embeddings.weight. is \[703, 16\], expected \[704, 16\]' \
  'hidden_size": 16/hidden_size": 12|word_embeddings.weight. is \[703, 16\], expected \[703, 12\]' \
  'max_position_embeddings": 512/max_position_embeddings": 64|position_embeddings.weight. is \[512, 16\], expected \[64, 16\]'; do
  bert model
  sed -i "s/${change%|*}/" bert/config.json
  to=${change#*/}
  refusal "a layer whose configuration has \"${to%%|*} is refused" "^bert/model.safetensors: '${change#*|}$" "${layer[@]}"
done
bert model
sed -i 's/bert.embeddings.LayerNorm.bias/bert.embeddings.LayerNorm.bios/' bert/model.safetensors
refusal 'a missing tensor is named' "^bert/model.safetensors: has no tensor 'bert.embeddings.LayerNorm.bias'$" "${layer[@]}"
bert model
truncate -s 20000 bert/model.safetensors
refusal 'truncated weights are refused' '^bert/model.safetensors: the tensors take [0-9]* bytes; the file holds [0-9]* after its header$' "${layer[@]}"
rm bert/model.safetensors
refusal 'missing weights are named' '^bert/model.safetensors: cannot be opened: No such file' "${layer[@]}"
bert model
refusal 'another width is refused' '--d-model is 32; the embedding layer in bert has 16$' "${layer[@]}" --d-model 32
refusal 'heads that do not divide the width are refused' '--heads 3 do not divide the width 16 of the embedding layer; give a --head-dim$' "${layer[@]}" --heads 3
sed -i 's/: 703/: 700/' bert/config.json
tac "$sample/vocab.txt" >bert/vocab.txt
refusal 'a vocabulary whose [CLS] has no row is refused' "^bert/vocab.txt: '\[CLS\]' is token [0-9]*, but the embedding layer has 700 rows$" "${layer[@]}"
rm bert/vocab.txt
refusal 'a layer without a vocabulary asks for one' '^bert/vocab.txt: there is no such vocabulary; give one with --vocab$' "${layer[@]}"
refusal 'more positions than 512 are refused' '--max-length is 600; ag_news has at most 512 positions$' "${few[@]}" --max-length 600
refusal 'more layers than one are refused' '--layers is 2 but must be 1$' "${few[@]}" --layers 2
refusal 'a feed-forward width is refused' '--ff-width: ag_news has no use for this flag$' "${few[@]}" --ff-width 4
refusal 'a batch that is larger than the training set is refused' \
  '--batch-size 65 is more than the 64 rows to train on, and the last, smaller batch is dropped$' "$ag_news" --train-rows 64 --d-model 16 --batch-size 65 --out nothing
refusal 'a flag without a use is refused' '--dropout: ag_news has no use for this flag$' "${few[@]}" --dropout 0.5
refusal '--stop-words needs a name' '--stop-words: is given without a name$' "${few[@]}" --stop-words ''
refusal 'a missing file of stop words is named' '^nowhere: cannot be opened' "${few[@]}" --stop-words nowhere
refusal 'stop words exclude --plain-text' '--stop-words and --plain-text exclude each other$' "${few[@]}" --stop-words stop --plain-text
printf 'the\nof a\n' >bad
refusal 'two words in a line are refused' "^bad:2: 'of a' holds whitespace; a line of stop words must be one word$" "${few[@]}" --stop-words bad
printf 'the\nof\xff\n' >bad
refusal 'invalid bytes in stop words are refused' '^bad:2: holds bytes that are not UTF-8$' "${few[@]}" --stop-words bad
printf 'a\tb\nb\tc\td\n' >bad
refusal 'lemmas with three columns are refused' "^bad:2: the line is 'b.x09c.x09d' but must be a word, a tab and a lemma$" "${few[@]}" --lemmas bad
printf 'a\tb\na\tc\n' >bad
refusal 'a word with two lemmas is refused' "^bad:2: the word 'a' has the lemma 'c' here and 'b' before$" "${few[@]}" --lemmas bad

mkdir news
cp "$sample"/{test.csv,vocab.txt} news
refusal 'a missing data folder is named' '^nowhere: is not a folder; --data needs one$' "${few[@]}" --data nowhere
refusal 'a missing data folder is named, with --vocab, too' '^nowhere: is not a folder; --data needs one$' "${few[@]}" --data nowhere --vocab other.txt
refusal 'data without a file to train on is refused with both possible names' '^news: has neither train.csv nor train_subset.csv$' "${few[@]}" --data news
# bad_news CONTENT PATTERN: expects that a train.csv with this content is refused.
bad_news() {
  # shellcheck disable=SC2059  # the content is a format
  printf "$1" >news/train.csv
  refusal "news such as '$1' are refused" "^news/train.csv$2" "${few[@]}" --data news
}
bad_news '' ': has no rows$'
bad_news '"1","a"\n' ':1: 2 fields; AG News has 3: class, title and description$'
bad_news '"1","a","b"\n"2","c"\n' ':2: 2 columns, the first row has 3$'
bad_news '1,a,b\n1,a"b,c\n' ':2: a quote inside a field that does not begin with one$'
bad_news '"1","a","b"\n"2","c","d\n\n' ':2: a quote is opened here and never closed$'
bad_news '"1","a","b" c\n' ':1: text after the quote that closes a field$'
bad_news '"0","a","b"\n' ":1: the class is '0' but must be 1, 2, 3 or 4$"
bad_news '"1","a","b"\n"5","a","b"\n' ":2: the class is '5' but must be 1, 2, 3 or 4$"
bad_news '"x","a","b"\n' ":1: the class is 'x' but must be 1, 2, 3 or 4$"
bad_news '"1","a\n","b"\n"1","\xff","b"\n' ':3: holds bytes that are not UTF-8$'
bad_news '"1","a","b"\n"1","a\0","b"\n' ':2: the line contains a NUL byte; the file is not text$'
cp "$sample/train.csv" news
echo '"7","a","b"' >news/test.csv
refusal 'a wrong class of a test row is reported with file and line' "^news/test.csv:1: the class is '7' but must be 1, 2, 3 or 4$" "${few[@]}" --data news
rm news/test.csv
refusal 'a missing test file is named' '^news/test.csv: cannot be opened' "${few[@]}" --data news
claim 'nothing was written' '[ ! -e nothing ] || is_empty nothing'
for change in 's/"labels": \[/"labels": 3, "x": [/|"labels".*list' 's/"World"/7/|"labels" is 7 but must be a string$' 's/"plain-text": "no"/"plain-text": 1/|"plain-text" is 1 but must be a string$' \
  's/"vocab_size": 703/"vocab_size": 0/|vocab_size' 's/"layers": 1/"layers": 2/|--layers is 2 but must be 1$' 's/"max_length": 512/"max_length": 600/|--max-length is 600; ag_news has at most 512 positions$'; do
  rm -rf altered
  cp -r model altered
  sed -i -E "${change%|*}" altered/config.json
  refusal "a configuration after ${change%|*} is refused" "^altered/config.json: .*$(tr \" \' <<<"${change#*|}")" "$ag_news" --predict - --out altered
done
exit $code
