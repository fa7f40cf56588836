#!/usr/bin/env bash
# by_source.sh PROGRAM WORK DEADLINE SOURCE...: runs the tests of each source, such as softmax, in a process of its own,
# until DEADLINE (seconds since 1970). A kernel that hangs, or an error after which a process cannot use the GPU, then
# costs the tests of one source. Four run at the same time; the source `runtime`, which takes most of the memory, runs
# at last. Prints the failures and the number of test cases in all. The output of each source is in WORK; it names each
# case that ended.
set -euo pipefail
seconds_for_one=60

# run_one PROGRAM WORK DEADLINE SOURCE
run_one() {
  local program=$1 log=$2/$4.log left=$(($3 - $(date +%s))) code=0
  local limit=$((left < seconds_for_one ? left : seconds_for_one))
  if [ $limit -lt 2 ]; then
    echo "skipped: $4: no time was left"
    return
  fi
  timeout --kill-after=2 $limit "$program" -d yes -# "[#$4]~[.]" >"$log" 2>&1 </dev/null || code=$?
  if [ $code = 0 ]; then return; fi
  grep -vE '^[0-9.]+ s: ' "$log" | tail -n 40
  local said="ended with exit code $code"
  if [ $code = 124 ] || [ $code = 137 ]; then said="not done in $limit s; the last case that ended: $(sed -nE 's/^[0-9.]+ s: //p' "$log" | tail -n 1)"; fi
  # A program that is asked to end reports the case that runs, which is counted then.
  if grep -q '^test cases:' "$log"; then echo "$4: $said"; else echo "FAILED: $4: $said"; fi
  echo "again: HEDDLE_SYNC=1 LD_LIBRARY_PATH=${LD_LIBRARY_PATH-} $program -d yes -# '[#$4]~[.]'"
}

# Prints the sums of the test cases and assertions in the form of Catch2.
sums() {
  awk '
    /^All tests passed \(/ { assertions += substr($4, 2); cases += $(NF - 2); passed += $(NF - 2) }
    /^test cases:/ { cases += $3; for (i = 4; i <= NF; ++i) { if ($i == "passed") passed += $(i - 1); if ($i == "failed" && $(i + 1) != "as") failed += $(i - 1) } }
    /^assertions:/ { assertions += $2 }
    END {
      if (!cases) print "FAILED: no test ran"
      printf "test cases: %d | %d passed | %d failed\nassertions: %d in all\n", cases, passed, failed, assertions
      exit !cases || failed > 0
    }' "$@"
}

if [ "$1" = --one ]; then
  run_one "${@:2}"
  exit
fi
program=$(realpath "$1") work=$2 deadline=$3 sources=("${@:4}")
rm -rf "$work"
mkdir -p "$work"
printf '%s\n' "${sources[@]}" | { grep -vx runtime || true; } | xargs -P 4 -I '{}' "$0" --one "$program" "$work" "$deadline" '{}'
if [[ " ${sources[*]} " == *' runtime '* ]]; then run_one "$program" "$work" "$deadline" runtime; fi
sums "$work"/*.log
