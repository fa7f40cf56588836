#!/usr/bin/env bash
# self_test.sh PROGRAM: runs the checks of a self test of the PTX interpreter, plain and with other settings of the
# interpreter, and checks that each planted fault is reported. PROGRAM --faults lists them as name, tab, and a regular
# expression of the message. Prints `ok: …` or `FAILED: …`.
set -uo pipefail
program=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
limit=60  # seconds
code=0
report() { if [ "$2" = 0 ]; then echo "ok: $1"; else head -n 40 "$work/said"; echo "FAILED: $1"; code=1; fi; }

# run [SETTING...] -- [ARGUMENT...]: runs the program with these environment variables, on two GPUs.
run() {
  local settings=(PTX_GPUS=2)
  while [ "$1" != -- ]; do settings+=("$1"); shift; done
  env "${settings[@]}" timeout $limit "$program" "${@:2}" >"$work/said" 2>&1
}

while read -r settings; do
  # shellcheck disable=SC2086
  run $settings -- && grep -q '^ok: ' "$work/said" && ! grep -q '^ptx: ' "$work/said"
  report "all checks pass and nothing is reported (${settings:-plain})" $?
done <<'SETTINGS'

PTX_RACES=1 PTX_GLOBAL_RACES=1
PTX_RACES=1 PTX_GLOBAL_RACES=1 PTX_ORDER=reverse
PTX_RACES=1 PTX_GLOBAL_RACES=1 PTX_ORDER=random7
PTX_COPIES=early PTX_LAZY=1
SETTINGS

# refuses SETTING: checks that a setting that does not exist or has a wrong value ends the program with exit code 2 and
# one line.
refuses() {
  run "$1" --
  [ $? = 2 ] && [ "$(wc -l <"$work/said")" = 1 ] && grep -q "^ptx: ${1%%=*} is " "$work/said"
  report "$1 is refused" $?
}
for setting in PTX_RACE=1 PTX_RACES=yes PTX_ORDER=random7x PTX_GPU=h10 PTX_MEMORY=0 PTX_COPIES=late PTX_REFUSE=1 PTX_GPUS=9; do
  refuses "$setting"
done

run -- --faults || { report 'the faults are listed' 1; exit 1; }
mv "$work/said" "$work/faults"
while IFS=$'\t' read -r name message; do
  run -- "$name"
  [ $? != 124 ] && grep -Eq -- "$message" "$work/said"
  report "$name: the fault is reported" $?
done <"$work/faults"
exit $code
