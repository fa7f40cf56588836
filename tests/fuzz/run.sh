#!/usr/bin/env bash
# run.sh BUILD SECONDS [TARGET...]: runs the fuzz targets of a build folder, each for so many seconds, on a copy of its corpus.
# Says `ok: …` or `FAILED: …` for each; an input that breaks one is kept in build/fuzz-crashes.
set -uo pipefail
here=$(realpath "$(dirname "$0")")
programs=$(realpath "$1")/fuzz seconds=$2
shift 2
[ $# -gt 0 ] || set -- safetensors vocabulary tsv csv tokenizer manifest flags
crashes=$here/../../build/fuzz-crashes
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What is released waits in a queue until it is used again; the usual 256 MiB would hide how much an input takes.
export ASAN_OPTIONS=quarantine_size_mb=16
code=0

longest() { if [ "$1" = safetensors ]; then echo 16384; else echo 4096; fi; }

# fuzz TARGET: leaves what broke it in $work/broken.
fuzz() {
  local options=(-seed=1 -max_total_time="$seconds" -max_len="$(longest "$1")" -timeout=10 -rss_limit_mb=512 -malloc_limit_mb=80)
  [ ! -f "$here/$1.dict" ] || options+=(-dict="$here/$1.dict")
  mkdir -p "$work/broken"
  cp -r "$here/corpus/$1" "$work/$1" &&
    "$programs/fuzz_$1" "${options[@]}" -print_final_stats=1 -artifact_prefix="$work/broken/$1-" "$work/$1" >"$work/log" 2>&1
}

keep_broken() {
  local input
  for input in "$work"/broken/*; do
    [ -e "$input" ] || continue
    mkdir -p "$crashes"
    mv "$input" "$crashes"
    echo "what broke it: build/fuzz-crashes/$(basename "$input")"
  done
}

for target; do
  start=$EPOCHSECONDS
  if fuzz "$target"; then
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log")
    echo "ok: fuzz $target: $inputs inputs in $((EPOCHSECONDS - start)) s"
  else
    tail -n 30 "$work/log"
    keep_broken
    echo "FAILED: fuzz $target"
    code=1
  fi
done
exit $code
