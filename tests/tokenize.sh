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
  'tokens "a \"\n" --format json && prints "{\"ids\":[2,5,9,3],\"type_ids\":[0,0,0,0],\"tokens\":[\"[CLS]\",\"a\",\"\\\"\",\"[SEP]\"],\"offsets\":[[0,0],[0,1],[2,3],[0,0]]}"'
claim 'tokenize prints a line for every line, also for an empty one and for a last line without LF' 'tokens "a\n\nplay" && prints "2 5 3
2 3
2 6 3"'
claim 'a lone carriage return ends no line' 'tokens "a\rplay\r\n" && prints "2 5 6 3"'
claim 'no input gives no output' 'tokens "" && [ ! -s out ]'
claim 'bytes that are not UTF-8 are dropped' 'tokens "play\0377ing\n" && prints "2 6 7 3"'
claim 'tokenize --pair splits at the first tab; a line without one is a single text' 'tokens "a\tplay\ta\na\n" --pair && prints "2 5 3 6 5 3
2 5 3"'
claim 'the offsets of both texts of a pair are bytes of the line' \
  'tokens "a\tplay\ta\na\n" --pair --format json && prints "{\"ids\":[2,5,3,6,5,3],\"type_ids\":[0,0,0,1,1,1],\"tokens\":[\"[CLS]\",\"a\",\"[SEP]\",\"play\",\"a\",\"[SEP]\"],\"offsets\":[[0,0],[0,1],[0,0],[2,6],[7,8],[0,0]]}
{\"ids\":[2,5,3],\"type_ids\":[0,0,0],\"tokens\":[\"[CLS]\",\"a\",\"[SEP]\"],\"offsets\":[[0,0],[0,1],[0,0]]}"'
claim 'offsets count the bytes of the line as it is read' \
  'tokens "\0377 Pl\0303\0201y\0355ing." --uncased --no-special --format json && prints "{\"ids\":[6,7,8],\"type_ids\":[0,0,0],\"tokens\":[\"play\",\"##ing\",\".\"],\"offsets\":[[2,7],[8,11],[11,12]]}"'
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

# --- ids to text ---
claim 'tokenize --decode writes the text of each line of ids, without special tokens' 'tokens "2 5 6 7 6 8 3\n\n 5\t9  \r\n5" --decode && prints "a playing play.

a \"
a"'
claim '--decode keeps the order of many lines' '"$tokenize" --vocab vocab <many | "$tokenize" --vocab vocab --decode | cmp - many'
for id in x 10 -1 99999999999 5. +5 5,6; do
  claim "--decode refuses the id $id, after the lines before it" \
    'run "$tokenize" --vocab vocab --decode < <(printf "5 6\n7 8\n5 $id 6\n5\n"); [ "$exited" = 2 ] && prints "a play
##ing." && grep -qxF "tokenize: error: standard input:3: '\''$id'\'' is not an id from 0 to 9" err'
done
printf 'a\nb\n[UNK]\n' >bare
claim '--decode needs no [CLS] and no [SEP]' 'run "$tokenize" --vocab bare --decode <<<"0 1" && prints "a b"'
for flag in --uncased --no-special --pair '--max-length 5' '--format ids' '--to x'; do
  # shellcheck disable=SC2086
  refusal "--decode with $flag is refused" '^--decode excludes --uncased, --no-special, --max-length, --pair, --format and --to$' "$tokenize" --vocab vocab --decode $flag
done

# --- token files ---
words=$examples/sst2/sample/vocab.txt
cut -f 1 "$examples/sst2/sample/train.tsv" >plain
# ids_in FILE: prints the ids of 16 bits in a token file, one a line.
ids_in() { od -An -v -tu2 -j64 -N$((2 * $(od -An -tu8 -j24 -N8 "$1"))) -w2 "$1" | tr -d ' '; }
claim '--to writes the ids of all lines to a token file' \
  'run "$tokenize" --vocab "$words" --to tokens <plain && [ "$exited" = 0 ] && grep -q "^2001 texts, [0-9]* tokens$" out && "$tokenize" --vocab "$words" <plain | tr " " "\n" | cmp - <(ids_in tokens)'
claim 'the file is made anew, and nothing else is left' 'run "$tokenize" --vocab "$words" --to tokens <plain && [ "$exited" = 0 ] && [ -z "$(find . -name "tokens.*")" ]'
tail -n +2 "$examples/sst2/sample/train.tsv" | awk -F'\t' '{ print $2 "\t" $1 }' >labelled
claim '--labels writes the classes, too' \
  'run "$tokenize" --vocab "$words" --to labelled.tokens --labels <labelled && [ "$exited" = 0 ] && cut -f 2- labelled | "$tokenize" --vocab "$words" | tr " " "\n" | cmp - <(ids_in labelled.tokens)'
for line in 'text' 'x\ttext' '-1\ttext' '1000000\ttext' '1x\ttext' ' 1\ttext'; do
  printf "1\ttext\n$line\n" >wrong
  claim "--labels refuses the line '$line'" \
    'run "$tokenize" --vocab "$words" --to wrong.tokens --labels <wrong && [ "$exited" = 2 ] && [ ! -e wrong.tokens ] && grep -q "^tokenize: error: standard input:2: the line does not begin with the number of a class, from 0 to 999999, and a tab$" err; rm -f wrong.tokens.part*'
done
refusal '--labels needs --to' '^--labels needs --to$' "$tokenize" --vocab vocab --labels
refusal '--to with --pair is refused' '^--to excludes --pair and --format$' "$tokenize" --vocab vocab --to x --pair
claim '--to a folder that does not exist ends with exit code 1' 'run "$tokenize" --vocab vocab --to no/where </dev/null && [ "$exited" = 1 ] && grep -q "^tokenize: error: no/where.part: " err'
claim '--to on a full disk ends with exit code 1' '(ulimit -f 16; "$tokenize" --vocab "$words" --to full <plain 2>err); [ $? = 1 ] && grep -q "error: full.part.*: cannot be written: File too large" err'
# 100 MB, of which a state is saved after 64 MiB.
for _ in {1..8}; do cat plain; done >several
for _ in {1..130}; do cat several; done >corpus
claim 'a corpus is tokenized' 'run "$tokenize" --vocab "$words" --to whole <corpus && [ "$exited" = 0 ]'
claim 'a call that is killed can be repeated, and ends with the same file' '
  "$tokenize" --vocab "$words" --to again <corpus >out 2>err & job=$!
  wait_for "[ -e again.part.state ]" && kill -9 $job; wait $job 2>/dev/null
  [ ! -e again ] && run "$tokenize" --vocab "$words" --to again <corpus && [ "$exited" = 0 ] && grep -q "^tokenize: note: again: continues after [0-9]* texts$" err && cmp whole again && [ ! -e again.part.state ]'
"$tokenize" --vocab "$words" --to begun <corpus >out 2>err & job=$!
wait_for '[ -e begun.part.state ]' && kill -9 $job
wait $job 2>/dev/null
refused() { run "${@:3}" <"$2"; [ "$exited" = 2 ] && [ ! -s out ] && grep -qE "^tokenize: error: .*remove (it|begun.part.state) to begin anew$" err; report "$1" $?; }
refused 'it is not continued with other text' plain "$tokenize" --vocab "$words" --to begun
refused 'nor with another --max-length' corpus "$tokenize" --vocab "$words" --to begun --max-length 9
refused 'nor with another vocabulary' corpus "$tokenize" --vocab vocab --to begun
exit $code
