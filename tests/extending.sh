#!/usr/bin/env bash
# Follows the last part of docs/extending.md, which adds the operation `cube` to heddle, in a copy of the tree.
#   extending.sh FOLDER          copies the tree to FOLDER and puts the page's blocks into their files: a comment
#                                `<!-- file: PATH -->` above a block appends it to a file, and
#                                `<!-- file: PATH, before: LINE -->` inserts it before a line. Writes the golden values
#                                of `cube`, which PyTorch would compute.
#   extending.sh FOLDER --check  checks that scripts/lists accepts the copy, but not if one of the entries is missing
# The program `extending` of the build has the tests and the kernels of the copy.
set -euo pipefail
project=$(cd "$(dirname "$0")/.." && pwd)
folder=$1

copy_tree() {
  rm -rf "$folder"
  mkdir -p "$folder/blocks"
  (cd "$project" && cp -r include cuda tests scripts "$folder")
}

# Writes the page's blocks to FOLDER/blocks, and prints a line for each: NUMBER, PATH and LINE, with tabs between them.
blocks() {
  awk -v folder="$folder/blocks" '
    match($0, /^<!-- file: .* -->$/) {
      path = substr($0, 12, length($0) - 15)
      before = ""
      if (at = index(path, ", before: ")) { before = substr(path, at + 10); path = substr(path, 1, at - 1) }
      getline
      if ($0 !~ /^```/) { print "FAILED: no block after the comment of " path >"/dev/stderr"; exit 1 }
      printf "%d\t%s\t%s\n", ++count, path, before
      while (getline > 0 && $0 !~ /^```$/) print >(folder "/" count)
    }' "$project/docs/extending.md"
}

# insert BLOCK FILE LINE: inserts a block before the only line of a file that equals LINE.
insert() {
  [ "$(grep -cxF -- "$3" "$2")" = 1 ] || { echo "FAILED: ${2#"$folder"/} does not have the line '$3' once"; return 1; }
  LINE=$3 awk -v block="$1" '$0 == ENVIRON["LINE"] { while ((getline line <block) > 0) print line } { print }' "$2" >"$2.new"
  mv "$2.new" "$2"
}

apply_blocks() {
  local number path before
  blocks >"$folder/blocks/list"
  while IFS=$'\t' read -r number path before; do
    if [ -n "$before" ]; then
      insert "$folder/blocks/$number" "$folder/$path" "$before"
    else
      [ ! -e "$folder/$path" ] || echo >>"$folder/$path"
      cat "$folder/blocks/$number" >>"$folder/$path"
    fi
  done <"$folder/blocks/list"
}

golden_values() {
  awk 'BEGIN {
    for (i = 0; i < 15; ++i) {
      v = (i * 37 % 255 - 127) / 64
      d = (i * 91 % 255 - 127) / 64
      x = x sprintf(" %.17g", v); dy = dy sprintf(" %.17g", d); y = y sprintf(" %.17g", v * v * v); dx = dx sprintf(" %.17g", 3 * v * v * d)
    }
    print "case cube odd_shape"
    print "tensor x f64 3x5 :" x
    print "tensor y f64 3x5 :" y
    print "tensor dy f64 3x5 :" dy
    print "tensor dx f64 3x5 :" dx
  }' >>"$folder/tests/golden/ops.txt"
}

# rejects FILE COMMAND...: checks that scripts/lists names FILE after the command, which changes the tree.
rejects() {
  local file=$1
  cp -r "$folder" "$folder.kept"
  "${@:2}"
  if "$folder/scripts/lists" >"$folder/lists.log"; then
    echo "FAILED: scripts/lists accepts a tree whose $file lacks the operation"
    failed=1
  elif grep -qF "FAILED: $file" "$folder/lists.log"; then
    echo "ok: scripts/lists names $file, which lacks the operation"
  else
    echo "FAILED: scripts/lists does not name $file"
    cat "$folder/lists.log"
    failed=1
  fi
  rm -r "$folder"
  mv "$folder.kept" "$folder"
}

case ${2:-} in
  '')
    copy_tree
    apply_blocks
    golden_values
    ;;
  --check)
    failed=0
    if "$folder/scripts/lists" >"$folder/lists.log"; then
      echo 'ok: scripts/lists accepts the operation of docs/extending.md'
    else
      echo 'FAILED: scripts/lists refuses the operation of docs/extending.md'
      cat "$folder/lists.log"
      failed=1
    fi
    for file in include/heddle/heddle.hpp cuda/heddle.cu tests/golden/ops.txt; do
      rejects $file sed -i '/cube/d' "$folder/$file"
    done
    rejects include/heddle/ops sed -i '/= delete/d' "$folder/include/heddle/ops/cube.hpp"
    for file in tests/ops/cube.cpp tests/cuda/cube.cpp; do rejects $file rm "$folder/$file"; done
    exit $failed
    ;;
  *) echo "extending.sh: unknown option $2" >&2; exit 2 ;;
esac
