#!/usr/bin/env bash
# faults.sh PROGRAM: checks that each wrong kernel of faults.cpp is reported (a race with the lines of both accesses)
# and that its correct counterpart is not. Which faults can be found depends on the sanitizer that the program was built
# with. Prints `ok: …` or `FAILED: …`.
set -uo pipefail
program=$(realpath "$1") unit=$(realpath "$(dirname "$0")/unit.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit
code=0
seen=(emulator values stream)
if grep -q __asan_init "$program"; then seen+=(address); fi
if grep -q __tsan_init "$program"; then seen+=(thread launch); fi
report() { if [ "$2" = 0 ]; then echo "ok: $1"; else head -n 40 said; echo "FAILED: $1"; code=1; fi; }
run() { "$unit" "$program" "$@" >said 2>&1; exited=$?; }

# Returns whether the stacks of both accesses of the first race name a line of the kernel.
lines_of_race() {
  sed -n '/WARNING: ThreadSanitizer: data race/,/^SUMMARY/p' said | awk '
    /^  (Read|Write|Atomic|Previous)/ { ++accesses }
    accesses && /faults\.cpp:[0-9]+/ { found[accesses] = 1 }
    END { exit !(found[1] && found[2]) }'
}
reported() {
  case $1 in
    emulator) [ "$exited" != 0 ] && grep -Eq '^emulator: .*(faults\.cpp|shared\.cuh|copy_async\.cuh):[0-9]+: block' said ;;
    values) [ "$exited" != 0 ] && grep -q '^values: ' said ;;
    launch) [ "$exited" != 0 ] && grep -q '^launch: .*ThreadSanitizer' said ;;
    stream) [ "$exited" != 0 ] && grep -q '^launch: .*invalid resource handle' said ;;
    address) [ "$exited" != 0 ] && grep -q 'ERROR: AddressSanitizer' said ;;
    thread) [ "$exited" = 66 ] && lines_of_race ;;
  esac
}

while read -r name by; do
  run "$name" right
  report "$name: nothing is reported for the correct kernel" $exited
  case " ${seen[*]} " in
    *" $by "*) run "$name" wrong; reported "$by"; report "$name: the fault is reported ($by)" $? ;;
  esac
done < <("$program")
exit $code
