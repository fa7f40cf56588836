#!/usr/bin/env bash
# Packs and unpacks the seeds of the fuzz targets. A line of seeds/TARGET.txt is one seed: its name, a tab, and its
# bytes. Bytes other than printable ASCII are written as \xHH, and a backslash as \\.
#   seeds.sh pack FILE...           prints a line for each file; append it to seeds/TARGET.txt
#   seeds.sh unpack TARGET FOLDER   writes each seed into a file of the folder
set -euo pipefail
here=$(dirname "$0")

pack() {
  local file
  for file; do
    printf '%s\t' "$(basename "$file")"
    od -An -v -tu1 -w1 "$file" | awk '
      { printf($1 == 92 ? "\\\\" : $1 >= 32 && $1 < 127 ? "%c" : "\\x%02x", $1) }
      END { print "" }'
  done
}

unpack() {
  local name bytes
  mkdir -p "$2"
  while IFS=$'\t' read -r name bytes; do printf '%b' "$bytes" >"$2/$name"; done <"$here/seeds/$1.txt"
}

case ${1:-} in
  pack | unpack) "$@" ;;
  *) sed -n '2,5s/^# \?//p' "$0" >&2; exit 2 ;;
esac
