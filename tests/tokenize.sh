#!/usr/bin/env bash
# tokenize.sh FOLDER: runs tokenize, built into FOLDER.
source "$(dirname "$0")/program_helpers.sh"
program=tokenize
tokenize=$(realpath "$1/tokenize")
cd "$work" || exit

printf 'a\nb\0\n' >nul.txt
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a play '##ing' . '"' >vocab
tokens() { run "$tokenize" --vocab vocab "${@:2}" < <(printf '%b' "$1"); [ "$exited" = 0 ]; }

claim 'tokenize prints ids' 'tokens "a playing play.\n" && prints "2 5 6 7 6 8 3"'
claim 'tokenize --format tokens prints tokens' 'tokens "a playing\n" --format tokens && prints "[CLS] a play ##ing [SEP]"'
claim 'tokenize --format json prints an object' \
  'tokens "a \"\n" --format json && prints "{\"ids\":[2,5,9,3],\"type_ids\":[0,0,0,0],\"tokens\":[\"[CLS]\",\"a\",\"\\\"\",\"[SEP]\"]}"'
claim 'tokenize prints a line for every line, also for an empty one and for a last line without LF' 'tokens "a\n\nplay" && prints "2 5 3
2 3
2 6 3"'
claim 'tokenize --pair splits at the first tab' \
  'tokens "a\tplay\n" --pair --format json && grep -q "\"type_ids\":\[0,0,0,1,1\]" out'
claim 'tokenize accepts --uncased, --no-special and --max-length together' 'tokens "A Playing\n" --uncased --no-special --max-length 2 && prints "5 6"'
refusal 'a NUL byte in a vocabulary is refused' 'nul.txt:2: a NUL byte' "$tokenize" --vocab nul.txt
claim 'a vocabulary with CR LF and a byte-order mark is read, and notes report both' \
  '{ printf "\xEF\xBB\xBF"; sed "s/$/\r/" vocab; } >windows && echo a | "$tokenize" --vocab windows >out 2>err && grep -qx "2 5 3" out && lines 2 "note: windows: " err'
refusal 'tokenize without a vocabulary is refused' vocab "$tokenize"
refusal 'a missing vocabulary is named' nowhere "$tokenize" --vocab nowhere
refusal 'a --max-length without room for the special tokens is refused' max-length "$tokenize" --vocab vocab --max-length 1
claim 'on a full disk tokenize ends with exit code 1 and names the cause' 'echo a | "$tokenize" --vocab vocab 2>err >/dev/full; [ $? = 1 ] && grep -q "^tokenize: error: .*: No space left on device" err'
exit $code
