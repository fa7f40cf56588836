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
claim 'a lone carriage return ends no line' 'tokens "a\rplay\r\n" && prints "2 5 6 3"'
claim 'no input gives no output' 'tokens "" && [ ! -s out ]'
claim 'bytes that are not UTF-8 are dropped' 'tokens "play\0377ing\n" && prints "2 6 7 3"'
claim 'tokenize --pair splits at the first tab; a line without one is a single text' \
  'tokens "a\tplay\ta\na\n" --pair --format json && prints "{\"ids\":[2,5,3,6,5,3],\"type_ids\":[0,0,0,1,1,1],\"tokens\":[\"[CLS]\",\"a\",\"[SEP]\",\"play\",\"a\",\"[SEP]\"]}
{\"ids\":[2,5,3],\"type_ids\":[0,0,0],\"tokens\":[\"[CLS]\",\"a\",\"[SEP]\"]}"'
claim '--max-length counts special tokens, and 0 leaves no token' \
  'tokens "a play a\n" --max-length 3 && prints "2 5 3" && tokens "a play\n" --max-length 0 --no-special && prints ""'
awk 'BEGIN { for (i = 0; i < 400000; ++i) print (i % 3 ? "a play" : "play") }' >many
claim 'many lines keep their order' \
  'run "$tokenize" --vocab vocab <many && awk "BEGIN { for (i = 0; i < 400000; ++i) print (i % 3 ? \"2 5 6 3\" : \"2 6 3\") }" | cmp - out'
claim 'a reader that closes the pipe ends the program quietly' '"$tokenize" --vocab vocab <many 2>err | head -n 1 >out; prints "2 6 3" && [ ! -s err ]'
claim 'tokenize accepts --uncased, --no-special and --max-length together' 'tokens "A Playing\n" --uncased --no-special --max-length 2 && prints "5 6"'
refusal 'a NUL byte in a vocabulary is refused' 'nul.txt:2: the token contains a NUL byte' "$tokenize" --vocab nul.txt
claim 'a vocabulary with CR LF and a byte-order mark is read, and notes report both' \
  '{ printf "\xEF\xBB\xBF"; sed "s/$/\r/" vocab; } >windows && echo a | "$tokenize" --vocab windows >out 2>err && grep -qx "2 5 3" out && lines 2 "note: windows: " err'
refusal 'tokenize without a vocabulary is refused' vocab "$tokenize"
refusal 'a missing vocabulary is named' nowhere "$tokenize" --vocab nowhere
refusal 'a name with control characters is shown with escapes' '^no.x1bsuch: cannot be opened: No such file or directory$' "$tokenize" --vocab $'no\033such'
printf 'a\na\n' >twice.txt
refusal 'a token that stands twice is refused' "^twice.txt:2: token 'a' is on line 1 already$" "$tokenize" --vocab twice.txt
refusal 'a --max-length that is no number of tokens is refused' '^--max-length: -1 is not a number of tokens$' "$tokenize" --vocab vocab --max-length -1
refusal 'a --max-length too small for a pair is refused' '^--max-length 2 cannot hold the 3 special tokens$' "$tokenize" --vocab vocab --pair --max-length 2
refusal 'an unknown --format is refused' xml "$tokenize" --vocab vocab --format xml
refusal 'a --max-length too small for the special tokens is refused' max-length "$tokenize" --vocab vocab --max-length 1
claim 'on a full disk tokenize ends with exit code 1 and names the cause' 'echo a | "$tokenize" --vocab vocab 2>err >/dev/full; [ $? = 1 ] && grep -q "^tokenize: error: .*: No space left on device" err'
exit $code
