#!/bin/sh
# tokenize.sh PROGRAM: tests the program tokenize: its formats, exit codes and error lines.
program=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failures=0

# expect WHAT EXPECTED GOT
expect() {
  [ "$2" = "$3" ] && return
  failures=$((failures + 1))
  printf 'FAILED: %s\n  expected: %s\n  got:      %s\n' "$1" "$2" "$3"
}

# answer INPUT FLAGS...: prints what the program writes for this input and these flags.
answer() {
  input=$1
  shift
  printf "$input" | "$program" --vocab vocab.txt "$@" 2>&1
}

# refusal FLAGS...: prints the exit code and the error of the program with these flags.
refusal() {
  message=$(echo a | "$program" "$@" 2>&1 >/dev/null)
  echo a | "$program" "$@" >/dev/null 2>&1
  echo "$? $message"
}

printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##b\n"\n\\\n\303\251\ne\n' > vocab.txt

expect 'ids are the default' '2 5 6 3' "$(answer 'a b\n')"
expect 'an empty line, a last line without LF' '2 3
2 5 3' "$(answer '\na')"
expect 'a lone carriage return ends no line' '2 5 6 3' "$(answer 'a\rb\r\n')"
expect 'no input, no output' '' "$(answer '')"
expect 'tokens' '[CLS] a ##b [SEP] é [UNK] [SEP]' "$(answer 'ab[SEP]\303\251 z\n' --format tokens)"
expect 'json is escaped' '{"ids":[2,8,9,3],"type_ids":[0,0,0,0],"tokens":["[CLS]","\"","\\","[SEP]"]}' \
  "$(answer '"\\\n' --format json)"
expect 'uncased' '2 5 11 3' "$(answer 'A \303\211\n' --uncased)"
expect 'bytes that are not UTF-8' '2 5 7 3' "$(answer 'a\377b\n')"
expect 'no special tokens' '5 6' "$(answer 'a b\n' --no-special)"
expect 'pairs split at the first tab' \
  '{"ids":[2,5,3,6,5,3],"type_ids":[0,0,0,1,1,1],"tokens":["[CLS]","a","[SEP]","b","a","[SEP]"]}
{"ids":[2,5,3],"type_ids":[0,0,0],"tokens":["[CLS]","a","[SEP]"]}' \
  "$(answer 'a\tb\ta\na\n' --pair --format json)"
expect 'max-length counts special tokens' '2 5 3' "$(answer 'a b a\n' --max-length 3)"
expect 'max-length 0 leaves no token' '' "$(answer 'a b a\n' --max-length 0 --no-special)"
expect 'version' 'heddle' "$("$program" --version | cut -d ' ' -f 1)"

expect 'vocab is needed' '2 tokenize: error: --vocab is required' "$(refusal)"
expect 'a missing file' '2 tokenize: error: no\x1bsuch: cannot be opened: No such file or directory' \
  "$(refusal --vocab "$(printf 'no\033such')")"
printf 'a\na\n' > twice.txt
expect 'a token twice' "2 tokenize: error: twice.txt:2: token 'a' is on line 1 already" "$(refusal --vocab twice.txt)"
expect 'max-length is a number' '2 tokenize: error: --max-length: -1 is not a number of tokens' \
  "$(refusal --vocab vocab.txt --max-length -1)"
expect 'max-length below 3 is refused with --pair' '2 tokenize: error: --max-length: 2 tokens cannot hold the 3 special tokens' \
  "$(refusal --vocab vocab.txt --pair --max-length 2)"
expect 'an unknown format' '2' "$(refusal --vocab vocab.txt --format xml | cut -d ' ' -f 1)"

# An input of many blocks: checks the order of lines, and a reader that closes the pipe early.
awk 'BEGIN { for (i = 0; i < 400000; i++) print (i % 3 ? "a b" : "b") }' > many.txt
awk 'BEGIN { for (i = 0; i < 400000; i++) print (i % 3 ? "2 5 6 3" : "2 6 3") }' > expected.txt
"$program" --vocab vocab.txt < many.txt | cmp - expected.txt || failures=$((failures + 1))
expect 'a closed pipe ends quietly' '2 6 3' "$("$program" --vocab vocab.txt < many.txt 2>&1 | head -n 1)"
if [ -c /dev/full ]; then
  "$program" --vocab vocab.txt < many.txt > /dev/full 2> full.txt
  expect 'a full disk' '1 tokenize: error: standard output cannot be written: No space left on device' \
    "$? $(cat full.txt)"
fi

[ "$failures" -eq 0 ] && echo 'tokenize: all as expected'
exit "$((failures > 0))"
