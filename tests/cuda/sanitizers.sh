#!/usr/bin/env bash
# sanitizers.sh SANITIZER PROGRAM WORK DEADLINE: runs the tests of each source of cuda_tests except runtime.cpp, on small shapes,
# under racecheck and memcheck of compute-sanitizer, six at a time, until DEADLINE (seconds since 1970). Prints a line for each tool and
# source: `ok: …`, `FAILED: …`, or `skipped: …` if time ran out or the device is not supported.
set -euo pipefail
if [ "$1" != --one ]; then
  sanitizer=$1 program=$(realpath "$2") work=$3 deadline=$4
  mkdir -p "$work"
  export HEDDLE_RACES_WATCHED=1
  # Excludes runtime, whose tests take most of the memory and launch no kernel, and faults, which is a separate program.
  sources=$(find "$(dirname "$0")" -maxdepth 1 -name '*.cpp' -printf '%f\n' | sed 's/\.cpp$//' | sort |
    grep -vx 'faults\|runtime')
  for tool in racecheck memcheck; do for source in $sources; do echo "$tool $source"; done; done |
    xargs -P 6 -L 1 "$0" --one "$sanitizer" "$program" "$work" "$deadline"
  exit
fi
sanitizer=$2 program=$3 work=$4 deadline=$5 tool=$6 source=$7
log=$work/$tool-$source.log
left=$((deadline - $(date +%s)))
limit=$((left < 120 ? left : 120))
if [ $limit -lt 5 ]; then
  echo "skipped: $tool: $source: no time was left"
  exit
fi
code=0
# `--report-api-errors no`, because some tests provoke errors of CUDA's runtime on purpose.
timeout --kill-after=2 $limit "$sanitizer" --tool "$tool" --report-api-errors no --error-exitcode 9 --print-limit 20 \
  "$program" -# "[#$source]" >"$log" 2>&1 </dev/null || code=$?
if [ $code = 0 ]; then
  echo "ok: $tool: $source"
elif grep -q 'Device not supported' "$log"; then
  echo "skipped: $tool: $source: compute-sanitizer does not support this device"
elif [ $code = 124 ] || [ $code = 137 ]; then
  echo "skipped: $tool: $source: not done in $limit s"
else
  grep -E '^=+ +(Error|Warning|ERROR SUMMARY|RACECHECK SUMMARY|Invalid)|FAILED' "$log" | head -n 5 || true
  echo "FAILED: $tool: $source: see $log"
  exit 1
fi
