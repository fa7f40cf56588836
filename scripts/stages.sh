# shellcheck shell=bash disable=SC2154  # sourced by bash scripts, which set `logs`
# Runs checks in stages. The output of a stage goes to a log, its checks are counted, and it adds a row to a table. A
# check prints `ok: …`, `FAILED: …`, or `skipped: …` if it could not be run.

# Prints the output of the checks in a log, without the number that ctest puts before each line. ctest repeats the
# output of a failed test without numbers; this copy is left out.
lines_of() {
  if grep -qE '^[0-9]+: ' "$1"; then sed -nE 's/^[0-9]+: //p' "$1"; else cat "$1"; fi
}

# Prints the numbers of passed, failed and skipped checks: our own and Catch2's test cases.
counts_of() {
  lines_of "$1" | awk '
    /^ok: / { ++passed }
    /^FAILED: / { ++failed }
    /^ *skipped: / { ++skipped }
    /^All tests passed \(/ { sub(/.* in /, ""); passed += $1 }
    /^test cases:/ { for (i = 2; i <= NF; ++i) { if ($i == "passed") passed += $(i - 1); if ($i == "failed" && $(i + 1) != "as") failed += $(i - 1) } }
    END { print passed + 0, failed + 0, skipped + 0 }'
}

# Prints the remark of a stage for the table, from its log: Catch2's assertions, covered lines, compile times and lines
# `remark: …`.
remark_of() {
  lines_of "$1" | sed -nE '
    s/^All tests passed \(([0-9]+) assertions? in .*/\1 assertions/p
    s/^assertions: +([0-9]+) .*/\1 assertions/p
    s/^lines of include.*: (.*)/\1 of the lines/p
    s/^remark: (.*)/\1/p
    s/^([a-z_]+\.cpp: [0-9.]+ s) of one core.*/\1/p' | paste -sd ' '
}

# row NAME SECONDS PROCESSOR-SECONDS PASSED FAILED SKIPPED REMARK: adds a row to the table. The table is a file, because
# stages may run at the same time.
row() { printf '%-12s %8s %8s %8s %8s %8s  %s\n' "$@" >>"$logs/table.txt"; }

table() { cat "$logs/table.txt"; }

# Prints the sum of a column of the table.
total() { table | awk -v column="$1" '{ sum += $column } END { print sum + 0 }'; }

# Runs a stage. A script may define it again, to run its stages in another way.
run_stage() { (set -e; "stage_$1" "${@:2}"); }

# Runs a stage in a subshell, which writes the processor time of its commands to a file. No trap writes it: bash does
# not run the trap on EXIT of every subshell that errexit ends.
timed_stage() (
  set +e
  run_stage "$@"
  code=$?
  times >"$logs/$1.times"
  exit $code
)

# Prints the processor time of a stage in seconds: the user and system time of the shell and its commands.
processor_seconds() { tr ' ' '\n' <"$logs/$1.times" | awk -F '[ms]' '{ sum += 60 * $1 + $2 } END { printf "%.0f\n", sum }'; }

# skip NAME FAILED WHY: prints that a stage is skipped and adds its row, which counts a failure if FAILED is 1.
skip() {
  echo "skipped: stage $1: $3" >&2
  row "$1" - - 0 "$2" $((1 - $2)) "skipped: $3"
}

# stage NAME [ARGUMENT]: runs a stage and adds its row, or skips it if `budget` seconds have passed. Always succeeds, so
# that callers need no `||` or `if`: in such a condition bash would ignore errexit.
stage() {
  local name=$1 log=$logs/$1.log code=0 start=${EPOCHREALTIME/[.,]/} ok bad skipped tenths seconds
  if [ -n "${budget:-}" ] && [ "$SECONDS" -ge "$budget" ]; then
    skip "$name" 0 "the budget of $budget s is used up"
    return
  fi
  set +e
  timed_stage "$@" >"$log" 2>&1 </dev/null
  code=$?
  set -e
  tenths=$(((${EPOCHREALTIME/[.,]/} - start) / 100000))
  seconds=$((tenths / 10)).$((tenths % 10))
  read -r ok bad skipped < <(counts_of "$log")
  if [ $code != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
  row "$name" "$seconds" "$(processor_seconds "$name")" "$ok" "$bad" "$skipped" "$(remark_of "$log")"
  printf 'stage %-12s %7s s\n' "$name" "$seconds"
  lines_of "$log" | grep -o 'skipped: .*' || true
  [ "$bad" = 0 ] || show_failure "$name" "$log"
}

# Prints the errors in a log and its end. The errors may be far above the end, because a build finishes the jobs that
# have begun.
show_failure() {
  lines_of "$2" | grep -E 'FAILED|error:|ERROR: ' | head -n 20 || true
  echo "... the end of $2:"
  tail -n 30 "$2"
  echo "FAILED: stage $1; the whole log is $2"
}

# stages AT_ONCE LIST...: runs lists of stages, such as 'release package': AT_ONCE lists at the same time, the stages of
# a list one after another. One list then uses the cores that another one leaves idle.
stages() {
  local at_once=$1 list name
  for list in "${@:2}"; do
    while [ "$(jobs -rp | wc -l)" -ge "$at_once" ]; do wait -n || true; done
    for name in $list; do stage "$name"; done &
  done
  wait
}

summary() {
  printf '\n%-12s %8s %8s %8s %8s %8s\n' stage seconds cpu-s passed failed skipped
  table
  printf '\n%d s in all, %d s of processor time on %d processors\n%d passed, %d failed, %d skipped\n' \
    $SECONDS "$(total 3)" "$(nproc)" "$(total 4)" "$(total 5)" "$(total 6)"
  [ "$(total 5)" = 0 ]
}
