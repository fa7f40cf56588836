#!/usr/bin/env bash
# run.sh BUILD SECONDS [TARGET...]: runs the fuzz targets of a build folder, each for SECONDS seconds, starting from its
# seeds (seeds.sh), one target per processor at a time. Prints `ok: …` or `FAILED: …` for each; an input that breaks one
# is kept in build/fuzz-crashes.
set -uo pipefail
here=$(realpath "$(dirname "$0")")
crashes=$here/../../build/fuzz-crashes

longest() { if [ "$1" = safetensors ]; then echo 16384; else echo 4096; fi; }

# fuzz PROGRAMS SECONDS TARGET WORK: runs the target from its seeds; an input that breaks it is left in WORK/broken.
fuzz() {
  local programs=$1 seconds=$2 target=$3 work=$4
  local options=(-seed=1 -max_total_time="$seconds" -max_len="$(longest "$target")" -timeout=10 -rss_limit_mb=512 -malloc_limit_mb=80)
  [ ! -f "$here/$target.dict" ] || options+=(-dict="$here/$target.dict")
  mkdir -p "$work/broken"
  "$here/seeds.sh" unpack "$target" "$work/seeds" &&
    TMPDIR=$work "$programs/fuzz_$target" "${options[@]}" -print_final_stats=1 -artifact_prefix="$work/broken/$target-" "$work/seeds" >"$work/log" 2>&1
}

keep_broken() {
  local input
  for input in "$1"/broken/*; do
    [ -e "$input" ] || continue
    mkdir -p "$crashes"
    mv "$input" "$crashes"
    echo "the input that broke it: build/fuzz-crashes/$(basename "$input")"
  done
}

# one PROGRAMS SECONDS TARGET: runs one target, and prints all lines together at the end, because other targets run at
# the same time.
one() {
  local start=$EPOCHSECONDS code=0 inputs work
  work=$(mktemp -d)
  if fuzz "$@" "$work"; then
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log")
    echo "ok: fuzz $3: $inputs inputs in $((EPOCHSECONDS - start)) s"
  else
    printf '%s\n' "$(tail -n 30 "$work/log")" "$(keep_broken "$work")" "FAILED: fuzz $3"
    code=1
  fi
  rm -rf "$work"
  return $code
}

if [ "$1" = --one ]; then
  one "${@:2}"
  exit
fi
programs=$(realpath "$1")/fuzz seconds=$2
shift 2
[ $# -gt 0 ] || set -- safetensors vocabulary tsv csv conll tokenizer manifest model_config tokenizer_json pipeline weight_index sentence_folder sentence_piece news flags
# AddressSanitizer keeps freed memory in a quarantine. Its default of 256 MiB would hide how much memory an input takes.
export ASAN_OPTIONS=quarantine_size_mb=16
printf '%s\n' "$@" | xargs -P "$(nproc)" -I '{}' "$0" --one "$programs" "$seconds" '{}'
