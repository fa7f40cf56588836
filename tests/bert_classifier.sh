#!/usr/bin/env bash
# bert_classifier.sh FOLDER: runs bert_classifier, built into FOLDER, on the samples that ship with the project.
source "$(dirname "$0")/program_helpers.sh"
program=bert_classifier
bert=$(realpath "$1/bert_classifier") news=$examples/ag_news/sample films=$examples/sst2/sample
cd "$work" || exit

tiny=(--layers 1 --d-model 16 --heads 2 --ff-width 32 --max-length 32)
head -n 121 "$films/train.tsv" >train.tsv
head -n 41 "$films/dev.tsv" >dev.tsv
tail -n +2 "$films/train.tsv" | cut -f 1 | head -n 200 >plain.txt

# --- pre-training ---
pretrain=("$bert" --pretrain plain.txt "${tiny[@]}" --batch-size 16 --progress none)
claim 'bert_classifier --help exits with 0 and shows its own flags' 'exits 0 "$bert" --help && grep -q -- "--from-scratch" out && grep -q -- "--model " out'
claim '--pretrain trains a masked language model on lines of text' \
  'exits 0 "${pretrain[@]}" --steps 8 --lr 0.01 --out pre --metrics pre.json --plot && lines 8 "^{\"step\"" pre.json && all_there pre/{model,last}.safetensors pre/{config.json,vocab.txt,tokenizer_config.json,losses.svg}'
claim 'it says what it trains on, and keeps every 20th line to validate' 'grep -q "^rows        190 training, 10 validation$" out && ! grep -q "^classes" out'
claim 'the weights of a pre-trained folder have the names of BertForMaskedLM' \
  'grep -q "BertForMaskedLM" pre/config.json && grep -qa "cls.predictions.transform.dense.weight" pre/model.safetensors && grep -qa "bert.encoder.layer.0.attention.self.query.weight" pre/model.safetensors && ! grep -qa "decoder" pre/model.safetensors'
claim 'the loss of masked tokens falls' \
  '[ "$(losses pre.json | awk "NR == 1 { first = \$1 } { last = \$1 } END { print (last < first) }")" = 1 ]'
claim 'a second run gives the same numbers, weights and events' \
  'exits 0 "${pretrain[@]}" --steps 8 --lr 0.01 --out again --metrics again.json --plot && same_run pre again'
claim '--valid is another file to validate on' 'exits 0 "${pretrain[@]}" --steps 1 --valid plain.txt && grep -q "200 training, 200 validation" out'
claim '--model continues with a folder' \
  'exits 0 "$bert" --pretrain plain.txt --model pre --batch-size 16 --progress none --steps 2 --metrics further && [ "$(losses further | head -n 1)" != "$(losses pre.json | head -n 1)" ]'
claim '--evaluate gives the final metrics' 'exits 0 "${pretrain[@]}" --evaluate --out pre --metrics evaluated && [ "$(final_loss evaluated)" = "$(lowest_loss pre.json)" ]'
head -n 3 plain.txt >short.txt
refusal 'too few lines to validate on are refused' '^short.txt: has 3 lines; 20 are needed' "$bert" --pretrain short.txt "${tiny[@]}"
(cat plain.txt; printf '\xe2\x80\x8b\n[SEP]\n') >hidden.txt
claim 'texts without a token that can be masked are skipped with a note' \
  'exits 0 "$bert" --pretrain hidden.txt --valid hidden.txt "${tiny[@]}" --batch-size 1 --steps 1 --progress none && grep -q "note: hidden.txt: 2 texts have no token that can be masked" err && grep -q "200 training, 200 validation" out'
printf '\n  \n' >blank.txt
refusal 'a file of empty lines is refused' '^blank.txt: has no text$' "$bert" --pretrain blank.txt "${tiny[@]}"
head -n 100 "$films/dev.tsv" | cut -f 1 >other.txt
tokens_of() { "$1/tokenize" --vocab "$news/vocab.txt" "${@:3}" --to "${2%.txt}.tokens" <"$2" >/dev/null; }
claim 'texts become token files' 'tokens_of "$(dirname "$bert")" plain.txt && tokens_of "$(dirname "$bert")" other.txt && tokens_of "$(dirname "$bert")" short.txt'
claim 'training on token files is training on their texts, to the bit' \
  'exits 0 "${pretrain[@]}" --valid other.txt --epochs 2 --out of_text && exits 0 "$bert" --pretrain plain.tokens "${pretrain[@]:3}" --valid other.tokens --epochs 2 --out of_tokens && cmp of_text/model.safetensors of_tokens/model.safetensors'
mixed=("$bert" --pretrain plain.tokens:0.7 --pretrain other.txt:2 --pretrain other.tokens "${pretrain[@]:3}" --epochs 3 --schedule constant --checkpoint-every 5)
claim 'several files are mixed by weight' 'exits 0 "${mixed[@]}" --out mixed --metrics mixed.json && lines 81 "^{\"step\"" mixed.json'
claim 'a stopped run on mixed files is continued to the bit' \
  'exits 0 "${mixed[@]}" --out parted --steps 38 && exits 0 "${mixed[@]}" --out parted --resume && same_weights mixed parted'
refusal 'a resumed run has the same weights' 'pretrain with the weights is 0.6, 2, 1 instead of 0.7, 2, 1' "${mixed[@]/0.7/0.6}" --out mixed --resume
claim 'a run on one file is not resumed with another weight' \
  'exits 0 "$bert" --pretrain plain.tokens:0.5 "${pretrain[@]:3}" --steps 2 --out half && exits 2 "$bert" --pretrain plain.tokens "${pretrain[@]:3}" --steps 4 --out half --resume && grep -q "data differs" err'
for weight in 0 -1 nan 1e9 1e999; do
  refusal "the weight $weight is refused" "^--pretrain plain.txt:$weight: the weight must be from 0.001 to 1000$" "$bert" --pretrain "plain.txt:$weight" "${tiny[@]}"
done
refusal 'another suffix belongs to the name' '^plain.txt:1x: cannot be opened' "$bert" --pretrain plain.txt:1x "${tiny[@]}"
refusal 'a token file of another tokenizer is refused' '^plain.tokens: its ids are of another tokenizer; make it by tokenize with the vocabulary of this model and --uncased$' "$bert" --pretrain plain.tokens --uncased "${tiny[@]}"
refusal 'too few texts to validate on are refused' '^short.tokens: has 3 texts; 20 are needed' "$bert" --pretrain short.tokens "${tiny[@]}"
claim 'blank lines of a token file do not stop the training' \
  'printf "\n\na film\n" >blanks.txt && tokens_of "$(dirname "$bert")" blanks.txt && exits 0 "$bert" --pretrain blanks.tokens --valid blanks.tokens "${tiny[@]}" --batch-size 1 --epochs 2 --progress none'
: >none.txt
claim 'a token file without texts is refused' \
  'tokens_of "$(dirname "$bert")" none.txt && exits 2 "$bert" --pretrain plain.txt --valid none.tokens "${tiny[@]}" && grep -q "error: none.tokens: has no text$" err'
for split in train dev; do
  tail -n +2 "$split.tsv" | awk -F'\t' '{ print $2 "\t" $1 }' >$split.txt
  tokens_of "$(dirname "$bert")" $split.txt --labels
done
few=("$bert" --from-scratch --vocab "$news/vocab.txt" "${tiny[@]}" --batch-size 16 --steps 5 --progress none)
claim 'a classifier is trained on labelled token files as on tables, to the bit' \
  'exits 0 "${few[@]}" --train train.tokens --valid dev.tokens --out of_tokens2 && grep -q "class       LABEL_1" out && exits 0 "${few[@]}" --train train.tsv --valid dev.tsv --text sentence --label label --out of_table && cmp of_tokens2/last.safetensors of_table/last.safetensors'
refusal 'a token file beside a table is refused' '^token files need --train and --valid: one of them is no token file$' "${few[@]}" --train train.tokens --valid dev.tsv
refusal 'columns of a token file are refused' '^--text: a token file has no columns$' "${few[@]}" --train train.tokens --valid dev.tokens --text sentence
claim 'a token file without labels is refused' 'exits 2 "${few[@]}" --train plain.tokens --valid plain.tokens && grep -q "error: plain.tokens: its texts have no labels; make it by tokenize with --labels$" err'
head -c 1000 plain.tokens >cut.tokens
refusal 'a truncated token file is refused' '^cut.tokens: has 1000 bytes; 200 texts of [0-9]* tokens take [0-9]*$' "$bert" --pretrain cut.tokens "${tiny[@]}"
(head -c 100 plain.tokens; printf x; tail -c +102 plain.tokens) >changed.tokens
claim 'a changed token file is refused' 'exits 2 "$bert" --pretrain changed.tokens "${pretrain[@]:3}" && grep -q "error: changed.tokens: the content after byte 64 was changed$" err'
refusal '--predict cannot be used with --pretrain' "^--predict needs a classifier$" "$bert" --pretrain plain.txt --predict - --out pre
for flag in '--task sst2' '--train train.tsv' '--text a'; do
  refusal "$flag cannot be used with --pretrain" "exclude each other$\|needs --train" "$bert" --pretrain plain.txt $flag
done

# --- fine-tuning ---
expected_notes='has no weights of the model head|has weights that the model does not have'
small=("$bert" --model pre --train-rows 40 --valid-rows 20 --batch-size 8 --progress none)  # 5 steps an epoch
train=("${small[@]}" --steps 8)
longer=("${small[@]}" --epochs 3 --checkpoint-every 4)
claim 'it fine-tunes the folder on the sample of ag_news' 'exits 0 "${train[@]}" --out model --metrics metrics --plot'
claim 'it lists the weights that are missing and those that are left over' \
  'grep -q "^bert_classifier: note: pre: has no weights of the model head.*bert.pooler.dense.weight.*classifier.weight" err && grep -q "note: pre: has weights that the model does not have.*cls.predictions" err'
claim 'it says what it trains on' 'grep -q "40 training, 20 validation" out && grep -q "^classes     4$" out'
claim 'it writes all files of a run folder' \
  'all_there model/{model,last}.safetensors model/{config.json,labels.txt,vocab.txt,tokenizer_config.json,losses.svg,lengths.svg} model/events.out.tfevents.* && [ -d model/checkpoint ]'
claim 'the folder has the format of Hugging Face: names, classes and dtype, without the model head of the masked language model' \
  'grep -q "\"BertForSequenceClassification\"" model/config.json && grep -q "\"3\": \"Sci/Tech\"" model/config.json && grep -q "\"dtype\": \"float32\"" model/config.json && ! grep -qa cls.predictions model/model.safetensors'
claim 'the tokenizer is unchanged' 'same_files pre model vocab.txt tokenizer_config.json'
claim 'the learning rate falls linearly over the steps that will run' 'rates_are 8 5e-5 "line(s, 0, 8)" metrics'
claim 'a second run gives the same numbers, weights and events' \
  'exits 0 "${train[@]}" --out again2 --metrics again2.json && cp metrics model.json && same_run model again2'
claim 'a run that was stopped and resumed ends like an uninterrupted one' \
  'exits 0 "${longer[@]}" --schedule constant --out unbroken --metrics unbroken.json && exits 0 "${longer[@]}" --schedule constant --steps 7 --out paused --metrics paused.json &&
   exits 0 "${longer[@]}" --schedule constant --out paused --metrics paused.json --resume && same_run unbroken paused'
refusal 'another model is refused when a run is resumed' '--model differs from what the run was started with' "$bert" --model model --train-rows 40 --valid-rows 20 --batch-size 8 --progress none --epochs 3 --checkpoint-every 4 --schedule constant --out paused --metrics paused.json --resume
refusal 'another --freeze is refused when a run is resumed' '--freeze is encoder instead of none' "${longer[@]}" --schedule constant --freeze encoder --out paused --metrics paused.json --resume

# --- options ---
losses_differ() { rm -f other; exits 0 "${small[@]}" --steps 4 "$@" --metrics other && ! diff -q <(losses plain) <(losses other) >/dev/null; }
claim 'it trains without further flags' 'exits 0 "${small[@]}" --steps 4 --metrics plain'
claim '--dropout 0 turns every dropout off' 'losses_differ --dropout 0'
claim '--precision bf16 trains, with other numbers' 'losses_differ --precision bf16'
claim '--max-length truncates the texts' 'losses_differ --max-length 8 && grep -q "truncated to 8" out'
near() { exits 0 "${small[@]}" --steps 4 --dropout 0 --metrics packed && exits 0 "${small[@]}" --steps 4 --dropout 0 "$@" --metrics padded && paste <(losses packed) <(losses padded) | awk '{ apart = $1 - $2; if (apart > 1e-5 || apart < -1e-5) wrong = 1 } END { exit wrong || NR != 4 }'; }
claim '--pad-to-max gives the same losses, and counts real tokens' \
  'near --pad-to-max && diff <(grep -o "\"tokens\":[0-9]*" packed) <(grep -o "\"tokens\":[0-9]*" padded)'
# tensor FOLDER NAME: prints the SHA-256 of a tensor's bytes in last.safetensors, or `none`.
tensor() {
  python3 - "$1/last.safetensors" "$2" <<'P' 2>/dev/null || echo none
import hashlib, json, sys
data = open(sys.argv[1], 'rb').read()
size = int.from_bytes(data[:8], 'little')
begin, end = json.loads(data[8:8 + size])[sys.argv[2]]['data_offsets']
print(hashlib.sha256(data[8 + size + begin:8 + size + end]).hexdigest())
P
}
freezes() {  # WHAT TENSOR-THAT-STAYS TENSOR-THAT-CHANGES
  exits 0 "${small[@]}" --steps 4 --lr 0.01 --freeze "$1" --out "frozen-$1" &&
    [ "$(tensor "frozen-$1" "$2")" = "$(tensor pre "$2")" ] && [ "$(tensor "frozen-$1" "$3")" != "$(tensor pre "$3")" ]
}
if command -v python3 >/dev/null; then
  claim '--freeze embeddings does not change the embeddings' 'freezes embeddings bert.embeddings.word_embeddings.weight bert.encoder.layer.0.output.dense.weight'
  claim '--freeze encoder trains the model head alone' 'freezes encoder bert.encoder.layer.0.output.dense.weight classifier.weight'
else
  echo 'skipped: --freeze leaves weights as they were: python3 is not installed'
fi

# --- tables ---
table=("$bert" --model pre --batch-size 8 --progress none --steps 2 --text sentence --label label)
claim 'it trains on a table of tab-separated values' 'exits 0 "${table[@]}" --train train.tsv --valid dev.tsv --out tables && grep -q "120 training, 40 validation" out && grep -q "\"LABEL_1\"" tables/config.json'
(echo sentence,label; echo '"a good, film",pos'; echo 'bad,neg'; echo '"good ""one""",pos') >named.csv
claim 'it trains on CSV with named classes' 'exits 0 "${table[@]}" --train named.csv --valid named.csv --out named && [ "$(xargs <named/labels.txt)" = "neg pos" ]'
cp named.csv named.CSV
claim 'it reads .CSV as .csv' 'exits 0 "${table[@]}" --train named.CSV --valid named.CSV --out upper && [ "$(xargs <upper/labels.txt)" = "neg pos" ]'
cp named.csv named.csv.txt
claim 'the first line decides on the format of a file with another name' \
  'exits 0 "${table[@]}" --train named.csv.txt --valid <(cat named.csv) --out piped && [ "$(xargs <piped/labels.txt)" = "neg pos" ]'
claim '--format decides on the format of any file' \
  'cp train.tsv tabs.csv && exits 0 "${table[@]}" --format tsv --train tabs.csv --valid dev.tsv --out formatted && grep -q "120 training, 40 validation" out'
claim 'a model with a classifier takes numbers and names of its classes' \
  '(cat named.csv; echo fine,1) >more.csv && exits 0 "$bert" --model named --batch-size 8 --progress none --steps 1 --text sentence --label label --train more.csv --valid more.csv --out more && [ "$(xargs <more/labels.txt)" = "neg pos" ]'
(cat named.csv; echo fine,great) >great.csv
refusal 'a class that the model does not have is refused' '^great.csv:5: the label is .great. but must be a number from 0 to 1 or the name of one of the 2 classes$' "$bert" --model named --text sentence --label label --train great.csv --valid named.csv
refusal 'a number of classes that is not the task'"'"'s is refused' '^named/config.json: the model has 2 classes; ag_news has 4$' "$bert" --model named
printf 'sentence,label\n"open,1\n' >broken.csv
refusal 'a quote that is never closed is refused' '^broken.csv:2: ' "${table[@]}" --train broken.csv --valid named.csv
refusal 'a missing column is refused' "^train.tsv: no column 'text'" "$bert" --model pre --text text --label label --train train.tsv --valid dev.tsv
printf 'sentence,label\na,x\nb,x\n' >one.csv
refusal 'a single class is refused' '^one.csv: has 1 class; a classifier needs 2 to ' "${table[@]}" --train one.csv --valid one.csv
refusal 'a table needs both files and both columns' '^a table needs --train, --valid, --text and --label$' "$bert" --model pre --train train.tsv --text sentence --label label
refusal '--task and --train exclude each other' '^--task and --train exclude each other$' "$bert" --model pre --task sst2 --train train.tsv
refusal 'a column without a table is refused' '^--label needs --train and --valid$' "$bert" --model pre --label x
printf 'sentence,label\na,0\nb,Sports\n' >one_of_four.csv
printf 'sentence,label\na,0\nb,Sports\nc,2\nd,3\n' >all_four.csv
printf 'sentence,label\na,1.0\nb,2.0\nc, 3.\nd,02\n' >floats.csv; printf 'sentence,label\na,1\nb,2\nc,3\nd,+2\n' >whole.csv
claim 'a whole number is one class, however it is written' \
  'exits 0 "${table[@]}" --train floats.csv --valid whole.csv --out floats && [ "$(xargs <floats/labels.txt)" = "LABEL_0 LABEL_1 LABEL_2 LABEL_3" ] && grep -q "^class       LABEL_2: 2 training, 2 validation$" out'
printf 'sentence,label\na,positive\nb,positive \nc, negative\n' >blanks.csv
claim 'blanks around the name of a class are ignored' \
  'exits 0 "${table[@]}" --train blanks.csv --valid named.csv --out blanks && [ "$(xargs <blanks/labels.txt)" = "neg negative pos positive" ] && grep -q "note: 2 classes have training rows but no validation rows: negative, positive$" err'
printf 'sentence,label\na,-1\nb,1\nc,2.5\n' >names.csv; printf 'sentence,label\na,-1.0\nb,0\n' >number.csv
claim 'once classes have names, a number is a name' \
  'exits 0 "${table[@]}" --train names.csv --valid number.csv --out names && [ "$(xargs <names/labels.txt)" = "-1 0 1 2.5" ]'
refusal 'a number that is no name is refused, if a class has a number as its name' "^whole.csv:3: the label is '2' but must be the name of one of the 4 classes$" \
  "$bert" --out names --text sentence --label label --train names.csv --valid whole.csv --evaluate
printf 'sentence,label\na,x\nb,\n' >empty.csv
(printf 'a\tb\tlabel\n'; for i in 1 2 3 4; do printf 'good film %s\tit is fun\t1\nbad film %s\tit is dull\t0\n' $i $i; done) >pairs.tsv
claim 'it trains on pairs of texts' 'exits 0 "$bert" --model pre --batch-size 4 --progress none --steps 3 --train pairs.tsv --valid pairs.tsv --text a --text-pair b --label label --out pairs'
claim '--predict splits a line at its first tab into a pair, but only with --text-pair' \
  'run "$bert" --out pairs --predict - --text-pair b <<<$'"'"'good film\tit is fun'"'"' && cp out pair && run "$bert" --out pairs --predict - <<<$'"'"'good film\tit is fun'"'"' && ! cmp -s pair out && run "$bert" --out pairs --predict - --text-pair b <<<"good film it is fun" && lines 1 . out'
claim 'a line without a tab is a single text' \
  'run "$bert" --out pairs --predict - <<<"it is fun" && cp out single && run "$bert" --out pairs --predict - --text-pair b <<<"it is fun" && diff out single'
numbered() { cp -r model "$1" && rm -r "$1"/{checkpoint,started.json} && sed -i 's/"0": "World"/"0": "1"/; s/"1": "Sports"/"1": "0"/' "$1/config.json"; }
claim 'a task labels its rows with class numbers, even if the names of the classes are other numbers' \
  'numbered numbers && rows=(--train-rows 20 --valid-rows 20 --progress none --evaluate) && exits 0 "$bert" --model model "${rows[@]}" && grep -v "^class " out >named.txt && exits 0 "$bert" --model numbers "${rows[@]}" && grep -v "^class " out | diff - named.txt'
claim 'classes that only one file has are noted' \
  'exits 0 "$bert" --model model --text sentence --label label --train one_of_four.csv --valid all_four.csv --steps 1 --progress none && grep -q "note: 2 classes have validation rows but no training rows: Business, Sci/Tech$" err && grep -q "^class       Sports: 1 training, 1 validation$" out'
printf 'sentence,label\na text,good\nanother,b\aad\n' >control.csv; refusal 'a label with control characters is refused' '^control.csv:3: the label is .*, which has invalid bytes or control characters$' "${table[@]}" --train control.csv --valid control.csv
refusal 'an empty label is refused' '^empty.csv:3: the label is empty$' "${table[@]}" --train empty.csv --valid named.csv
claim '--task sst2 reads the data set' 'exits 0 "$bert" --model pre --task sst2 --data "$films" --train-rows 16 --valid-rows 8 --steps 1 --progress none --out films && [ "$(xargs <films/labels.txt)" = "negative positive" ]'

# --- prediction ---
texts=$'Oil prices fall\n\nThe team won, again\ta tab'
predict() { run "$bert" --predict - "$@" <<<"$texts"; [ "$exited" = 0 ]; }
claim '--predict loads --out' 'predict --out model && lines 3 . out && are_distributions 4'
claim '--predict loads --model where there is no --out' 'cp out folder && predict --model model && diff out folder'
claim '--predict loads --out where there are both' 'predict --model named --out model && diff out folder'
claim '--logits gives the logits of that distribution' 'rounded out >probabilities; predict --out model --logits && ! are_distributions 4 && diff <(softmax out) probabilities'
claim 'prediction does not take --max-length from training' \
  'exits 0 "${small[@]}" --steps 1 --max-length 4 --out cut && long=$(head -c 400 plain.txt | tr "\n" " ") && run "$bert" --predict - --out cut <<<"$long" && cp out whole && run "$bert" --predict - --out cut --max-length 4 <<<"$long" && ! cmp -s out whole'
claim '--evaluate takes the best weights' 'evaluate=("$bert" --evaluate --model pre --train-rows 40 --valid-rows 20 --batch-size 8) && evaluates_the_best "${small[@]}" --lr 0.001 --schedule step --gamma 5000 --gamma-every 10 --epochs 4'
refusal 'a folder without a classifier cannot predict' '^pre: has no weights of a classifier, so it cannot predict$' "$bert" --model pre --predict -
refusal 'a masked language model is no classifier' '^pre/config.json: describes a masked language model, which has no classes' "$bert" --out pre --predict -

# --- DistilBERT, as transformers saves it: tokenizer.json without vocab.txt ---
distilbert=$(dirname "$examples")/tests/golden/models/distilbert
printf 'text,label\none two,0\ntwo three,1\none one,2\n' >three.csv
claim 'it fine-tunes DistilBERT' \
  'exits 0 "$bert" --model "$distilbert" --train three.csv --valid three.csv --text text --label label --steps 2 --progress none --out distil && grep -q "\"DistilBertForSequenceClassification\"" distil/config.json && grep -qa distilbert.transformer.layer.0.attention.q_lin.weight distil/model.safetensors'
claim 'its tokenizer is unchanged' 'same_files "$distilbert" distil tokenizer.json tokenizer_config.json && [ ! -e distil/vocab.txt ]'
claim 'the folder of the fine-tuned DistilBERT can be used with --predict' 'predict --out distil && are_distributions 3'
untied() { rm -rf untied && cp -r pre untied && sed -i "s/\"model_type\"/\"tie_word_embeddings\":$1,\"model_type\"/" untied/config.json; }
untied null
claim 'a null tie_word_embeddings counts as absent' 'exits 0 "$bert" --pretrain plain.txt --model untied --batch-size 16 --progress none --steps 1'
untied '"no"'
refusal 'another value of tie_word_embeddings is refused' "^untied/config.json: 'tie_word_embeddings' is \"no\"; heddle pre-trains models whose decoder is" "$bert" --pretrain plain.txt --model untied
refusal 'pre-training DistilBERT is refused' 'config.json: describes a model that --pretrain does not train; it trains BERT, RoBERTa, MPNet, ELECTRA, ALBERT, ModernBERT, NomicBERT, GTE and DeBERTa$' "$bert" --pretrain plain.txt --model "$distilbert"

# --- RoBERTa ---
claim 'it pre-trains RoBERTa, whose positions begin behind that of the padding' \
  'exits 0 "${pretrain[@]}" --architecture roberta --schedule constant --steps 3 --out roberta && grep -q "\"RobertaForMaskedLM\"" roberta/config.json && grep -qa lm_head.layer_norm.weight roberta/model.safetensors && ! grep -qa "lm_head.decoder" roberta/model.safetensors'
claim 'it continues the pre-training' 'exits 0 "${pretrain[@]}" --architecture roberta --schedule constant --steps 5 --out roberta --resume && exits 0 "$bert" --pretrain plain.txt --model roberta --batch-size 16 --progress none --steps 1'
claim 'it fine-tunes RoBERTa' \
  'exits 0 "$bert" --model roberta --train three.csv --valid three.csv --text text --label label --steps 2 --progress none --out robertac && grep -q "\"RobertaForSequenceClassification\"" robertac/config.json && grep -qa classifier.out_proj.weight robertac/model.safetensors && predict --out robertac && are_distributions 3'
# MPNet counts positions from token 1, which must be free.
sed '1a [unused0]' "$news/vocab.txt" >spaced.txt
vocabulary_for() { vocabulary=(); [ "$1" != mpnet ] || vocabulary=(--vocab spaced.txt); }
refusal 'MPNet refuses a vocabulary whose token 1 may occur' "vocab.txt: token 1 is '\[UNK\]' but must be \[PAD\] or an unused token, because MPNet counts positions from it$" "${pretrain[@]}" --architecture mpnet
for type in mpnet electra albert modernbert nomic_bert gte deberta-v2; do
  vocabulary_for $type
  claim "it pre-trains $type, and fine-tunes it" \
    'exits 0 "${pretrain[@]}" --architecture $type "${vocabulary[@]}" --steps 2 --out "pre_$type" && exits 0 "$bert" --model "pre_$type" --train three.csv --valid three.csv --text text --label label --steps 2 --progress none --out "fine_$type" && predict --out "fine_$type" && are_distributions 3'
done
# --- DeBERTa with its own tokenizer ---
mkdir unigram
cp pre_deberta-v2/{config.json,model.safetensors} unigram
cp "$(dirname "$examples")/tests/golden/tokenizers/deberta_v3/tokenizer.json" unigram
echo '{"tokenizer_class": "DebertaV2TokenizerFast", "mask_token": "[MASK]"}' >unigram/tokenizer_config.json
own_tokens() { "$(dirname "$bert")/tokenize" --tokenizer unigram --to "$1" <"$2" >/dev/null; }
of_unigram=("$bert" --model unigram --batch-size 16 --epochs 1 --progress none)
claim 'training on token files of any tokenizer is training on their texts, to the bit' \
  'own_tokens own.tokens plain.txt && own_tokens own_other.tokens other.txt && exits 0 "${of_unigram[@]}" --pretrain plain.txt --valid other.txt --out own_text && exits 0 "${of_unigram[@]}" --pretrain own.tokens --valid own_other.tokens --out own_tokens && cmp own_text/model.safetensors own_tokens/model.safetensors'
refusal 'a token file of another tokenizer is refused' '^plain.tokens: its ids are of another tokenizer; make it by tokenize with --tokenizer and the folder of this model$' "${of_unigram[@]}" --pretrain plain.tokens
refusal 'a saved model of another architecture is refused' '^--architecture is bert; the model in roberta is roberta$' "$bert" --pretrain plain.txt --architecture bert --out roberta --evaluate
refusal '--pretrain has no DistilBERT' '^--pretrain has no --architecture distilbert; it has bert, roberta, mpnet, electra, albert, modernbert, nomic_bert, gte and deberta-v2$' "$bert" --pretrain plain.txt --architecture distilbert
refusal '--architecture describes a new model' '^--architecture: the model in --model has its own$' "$bert" --pretrain plain.txt --model roberta --architecture roberta

# --- from scratch ---
scratch=("$bert" --from-scratch "${tiny[@]}" --train-rows 40 --valid-rows 20 --batch-size 8 --progress none)
claim '--from-scratch trains a pre-norm encoder' 'exits 0 "${scratch[@]}" --steps 6 --out scratch && grep -q "\"model_type\": \"heddle-prenorm\"" scratch/config.json'
claim 'the weights of the pre-norm encoder have its names' \
  'grep -qa encoder.layers.0.attention.heads.1.q.weight scratch/model.safetensors && grep -qa encoder.embeddings.token_embeddings.weight scratch/model.safetensors && grep -qa encoder.layers.0.feed_forward.linear2.bias scratch/model.safetensors'
claim '--max-length is the number of positions' 'grep -q "\"max_position_embeddings\": 32" scratch/config.json'
claim 'the folder of the pre-norm encoder can be used with --predict' 'predict --out scratch && are_distributions 4'
claim 'the folder of a new pre-norm encoder can be fine-tuned' 'exits 0 "$bert" --model scratch --train-rows 16 --valid-rows 8 --steps 1 --progress none'
claim '--vocab and --uncased choose its tokenizer' \
  'exits 0 "${scratch[@]}" --steps 1 --vocab "$films/vocab.txt" --uncased --out lower && cmp "$films/vocab.txt" lower/vocab.txt && grep -q "\"do_lower_case\": true" lower/tokenizer_config.json'
for type in bert distilbert roberta mpnet electra albert modernbert nomic_bert gte deberta-v2; do
  vocabulary_for $type
  claim "--from-scratch trains $type" \
    'exits 0 "${scratch[@]}" --architecture $type "${vocabulary[@]}" --steps 2 --out "new_$type" && grep -q "\"model_type\": \"$type\"" "new_$type/config.json" && predict --out "new_$type"'
done
mkdir post && cp scratch/{vocab.txt,config.json} model/model.safetensors post
refusal 'a pre-norm model refuses post-norm weights' '^post/model.safetensors: does not hold the weights of this model; missing .*encoder' "$bert" --model post --predict -

# --- bad input ---
refusal 'a run without a model is refused' '^there is no model: give the folder of one with --model, or --from-scratch, or --pretrain$' "$bert"
refusal '--model and --from-scratch exclude each other' 'exclude each other$' "$bert" --model pre --from-scratch
refusal 'sizes belong to the model' '^--layers: the model in --model has its own$' "$bert" --model pre --layers 3
refusal '--vocab cannot be used with --model' '^--vocab: the model in --model has its own tokenizer$' "$bert" --model pre --vocab pre/vocab.txt
refusal 'a flag that ends with = does not take the next word' '^--pretrain is given without a value$' "$bert" --pretrain= --vocab pre/vocab.txt
claim '--help names the defaults that depend on other flags' 'exits 0 "$bert" --help && grep -q "default: 500 rows of ag_news" out && grep -q "default: those of the model" out && ! grep -q -- "--dropout FLOAT \[" out'
refusal '--head-dim is refused' '^--head-dim: bert_classifier has no use for this flag$' "$bert" --model pre --head-dim 8
refusal 'heads that do not divide the width are refused' '^--d-model 16 is not a multiple of --heads 3' "$bert" --from-scratch --d-model 16 --heads 3
refusal 'a length above the positions is refused' '^--max-length is 33; the model has 32 positions$' "$bert" --model pre --max-length 33
refusal 'a missing folder is named' '^nowhere: is not a folder$' "$bert" --model nowhere
refusal 'an empty folder is refused' '^empty/config.json: cannot be opened' "$bert" --model "$(mkdir empty && echo empty)"
# bad_folder WHAT PATTERN: expects that the folder bad is refused. It is a copy of `model` that the commands before the
# call changed.
bad_folder() { refusal "$1" "^bad/$2" "$bert" --model bad --predict -; }
fresh() { rm -rf bad && mkdir bad && cp model/{config.json,vocab.txt,tokenizer_config.json,model.safetensors} bad; }
fresh; echo '{"model_type": ' >bad/config.json; bad_folder 'a config.json that is cut off is refused' 'config.json: is not JSON: at line '
fresh; echo '{"model_type":"gpt2"}' >bad/config.json; bad_folder 'another type of model is refused' "config.json: 'model_type' is 'gpt2'"
fresh; sed -i 's/"hidden_size": 16/"hidden_size": -1/' bad/config.json; bad_folder 'a negative size is refused' "config.json: 'hidden_size' is -1 but must be a whole number from 1 to "
fresh; sed -i 's/"hidden_size": 16/"hidden_size": 32/' bad/config.json; bad_folder 'sizes that the weights do not have are refused' 'model.safetensors: does not hold the weights of this model; mismatched '
fresh; sed -i 's/"num_hidden_layers": 1/"num_hidden_layers": 1000000/' bad/config.json; bad_folder 'layers that the weights do not have are refused at once' "model.safetensors: does not hold the weights of this model; missing 'bert.encoder.layer.1.attention.self.query.weight'"
fresh; sed -i 's/"model_type"/"problem_type": "regression", "model_type"/' bad/config.json; bad_folder 'a regression is refused' "config.json: 'problem_type' is \"regression\""
fresh; echo '{"tokenizer_class": "RobertaTokenizer"}' >bad/tokenizer_config.json; bad_folder 'another tokenizer is refused' "tokenizer_config.json: 'tokenizer_class' is 'RobertaTokenizer'"
fresh; echo '{"truncation_side": "left"}' >bad/tokenizer_config.json; bad_folder 'truncation on the left is refused' "tokenizer_config.json: 'truncation_side' is \"left\""
fresh; echo '{"model_max_length": 1}' >bad/tokenizer_config.json; bad_folder 'a model_max_length below the special tokens of a text is refused' "tokenizer_config.json: 'model_max_length' is 1; a text has 2 special tokens$"
fresh; echo '{"model_max_length": 2}' >bad/tokenizer_config.json; refusal 'a model_max_length below the special tokens of a pair is refused' "^bad/tokenizer_config.json: 'model_max_length' is 2; a pair has 3 special tokens$" "$bert" --model bad --predict - --text-pair b
refusal 'a --max-length too small for a pair is refused' '^--max-length is 2; a pair has 3 special tokens$' "$bert" --model model --predict - --text-pair b --max-length 2
fresh; sed -i 's/"hidden_dropout_prob": 0.1/"hidden_dropout_prob": 0.999999/' bad/config.json; bad_folder 'a dropout of everything is refused' "config.json: 'hidden_dropout_prob' is 0.999999, which is rounded to 1"
fresh; sed -i 's/"World"/"Wor\\nld"/' bad/config.json; refusal 'a class with a line feed is refused, and the file is named' "^bad/config.json: the class 'Wor.x0ald' has a name with invalid bytes" "$bert" --model bad --steps 1
fresh; rm bad/vocab.txt; refusal 'a folder without a tokenizer is refused' '^bad: has neither tokenizer.json nor vocab.txt$' "$bert" --model bad --predict -
fresh; rm bad/model.safetensors; bad_folder 'a folder without weights is refused' 'model.safetensors: '
fresh; mv bad/model.safetensors bad/one.safetensors; echo '{"weight_map": {"classifier.bias": "../one.safetensors"}}' >bad/model.safetensors.index.json; bad_folder 'a shard outside the folder is refused' "model.safetensors.index.json: the shard '../one.safetensors' of 'classifier.bias' is not the name of a file"
echo '{"weight_map": {"classifier.bias": "two.safetensors"}}' >bad/model.safetensors.index.json; bad_folder 'a shard that is missing is refused' "model.safetensors.index.json: the shard 'two.safetensors' is missing"
echo '{"weight_map": {"classifier.bias": "one.safetensors"}}' >bad/model.safetensors.index.json; bad_folder 'a tensor that the index does not list is refused' 'one.safetensors: has .* which model.safetensors.index.json does not list'
fresh; echo '{"do_lower_case": 1}' >bad/tokenizer_config.json; bad_folder 'a casing that is not a boolean is refused' "tokenizer_config.json: 'do_lower_case' is 1 but must be true or false"
refusal 'a file that belongs to a trained model must not change' '^changed/vocab.txt: is not the file that belongs to the model' "$bert" --predict - --out "$(cp -r model changed && echo zzz >>changed/vocab.txt && echo changed)"
mkdir -p stale foreign && cp pre/vocab.txt stale/added_tokens.json && cp pre/model.safetensors foreign
refusal 'a tokenizer file that no run wrote is refused' '^stale/added_tokens.json: is not a file of this run' "${train[@]}" --out stale
refusal '--resume does not replace the weights of another program' '^foreign: holds weights of another program (model.safetensors)' "${train[@]}" --out foreign --resume
claim 'the weights of the other program are unchanged' 'cmp -s pre/model.safetensors foreign/model.safetensors'
constant=("${small[@]}" --schedule constant)
claim 'a run can be continued with more steps' 'exits 0 "${constant[@]}" --steps 4 --out begun && cp -r begun continued && exits 0 "${constant[@]}" --steps 6 --out continued --resume'
added() { rm -rf "$1" && cp -r begun "$1" && echo "$3" >"$1/$2"; }
added more_files special_tokens_map.json '{}'
refusal 'a tokenizer file that was added to a trained model is refused' '^more_files/special_tokens_map.json: is not a file of the model; remove it$' "$bert" --predict - --out more_files
refusal 'a run is not resumed beside a tokenizer file that it did not write' '^more_files/special_tokens_map.json: is not a file of this run' "${constant[@]}" --steps 6 --out more_files --resume
claim 'the refused tokenizer file is unchanged' '[ "$(cat more_files/special_tokens_map.json)" = "{}" ]'
added edited vocab.txt '[PAD]'
refusal 'a run is not resumed with a vocabulary that was edited' '^edited/vocab.txt: differs from the file of this run' "${constant[@]}" --steps 6 --out edited --resume
refusal 'a model in --out that does not exist is named' '^nowhere: has no model (config.json)$' "$bert" --predict - --out nowhere
mkdir -p named_films && cp "$films"/{dev.tsv,vocab.txt} named_films && (head -n 1 "$films/train.tsv"; printf 'good film\tpositive\nbad film\tnegative\nfine film\t1\n') >named_films/train.tsv
claim 'a label of sst2 may be the name of a class' 'exits 0 "$bert" --model pre --task sst2 --data named_films --valid-rows 8 --steps 1 --progress none && grep -q "3 training, 8 validation" out'
refusal 'an --out without a model is not replaced by --model' '^nowhere: has no model (config.json); leave out --out' "$bert" --predict - --out nowhere --model pre
refusal '--vocab must be that of the trained model' '^--vocab is changed/vocab.txt; the model in model has another vocabulary$' "$bert" --predict - --out model --vocab changed/vocab.txt
claim 'the vocabulary of the trained model is accepted as --vocab' 'run "$bert" --predict - --out model --vocab model/vocab.txt <plain.txt && [ -s out ] && cp out with && run "$bert" --predict - --out model <plain.txt && cmp out with'
refusal 'results of another run are not replaced' '^model: holds the results of another run' "${train[@]}" --out model
check_device "$bert" 6 "${scratch[@]}" --steps 6 --schedule constant

exit $code
