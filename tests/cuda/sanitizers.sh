#!/usr/bin/env bash
# sanitizers.sh SANITIZER PROGRAM WORK DEADLINE: runs the tests of cuda_tests, except those of runtime.cpp, on small
# shapes, under racecheck and memcheck of compute-sanitizer, six at a time, until DEADLINE (seconds since 1970): the
# tests of a source together, those of attention one by one, because they take longest. Prints a line for each tool and
# each of them: `ok: …`, `FAILED: …`, or `skipped: …` if time ran out or the device is not supported.
set -euo pipefail

# Prints the names of the tests of a source. Catch2 2 knows the first command, and indents the names that the second one
# prints.
names_of() {
  { "$program" -# --list-test-names-only "[#$1]"; "$program" -# --list-tests --verbosity quiet "[#$1]"; } 2>/dev/null |
    grep "^cuda $1" || true
}

# Prints the name and Catch2's filter of each run, separated by a tab.
runs() {
  local case number=0 source
  while IFS= read -r case; do
    number=$((number + 1))
    printf '%s\t%s\n' "attention-$number" "${case//,/\\,}"
  done < <(names_of attention)
  # runtime takes most of the memory and launches no kernel; faults and large_tensors are programs of their own.
  find "$(dirname "$0")"{,/real} -maxdepth 1 -name '*.cpp' -printf '%f\n' | sed 's/\.cpp$//' | sort |
    grep -vx 'attention\|faults\|large_tensors\|runtime' | while read -r source; do printf '%s\t%s\n' "$source" "[#$source]"; done
}

if [ "$1" != --one ]; then
  sanitizer=$1 program=$(realpath "$2") work=$3 deadline=$4
  mkdir -p "$work"
  export HEDDLE_RACES_WATCHED=1
  for tool in racecheck memcheck; do runs | sed "s/^/$tool\t/"; done | tr '\t\n' '\0\0' |
    xargs -0 -P 6 -n 3 "$0" --one "$sanitizer" "$program" "$work" "$deadline"
  exit
fi
sanitizer=$2 program=$3 work=$4 deadline=$5 tool=$6 name=$7 filter=$8
log=$work/$tool-$name.log
left=$((deadline - $(date +%s)))
limit=$((left < 120 ? left : 120))
if [ $limit -lt 5 ]; then
  echo "skipped: $tool: $name: no time was left"
  exit
fi
code=0
# `--report-api-errors no`, because some tests provoke errors of CUDA's runtime on purpose.
timeout --kill-after=2 $limit "$sanitizer" --tool "$tool" --report-api-errors no --error-exitcode 9 --print-limit 20 \
  "$program" -# "$filter" >"$log" 2>&1 </dev/null || code=$?
if [ $code = 0 ]; then
  echo "ok: $tool: $name"
elif grep -q 'Device not supported' "$log"; then
  echo "skipped: $tool: $name: compute-sanitizer does not support this device"
elif [ $code = 124 ] || [ $code = 137 ]; then
  echo "skipped: $tool: $name: not done in $limit s"
else
  grep -E '^=+ +(Error|Warning|ERROR SUMMARY|RACECHECK SUMMARY|Invalid)|FAILED' "$log" | head -n 5 || true
  echo "FAILED: $tool: $name: see $log"
  exit 1
fi
