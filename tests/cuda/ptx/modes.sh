#!/usr/bin/env bash
# modes.sh PROGRAM MODE[,MODE...] [ARGUMENT...]: runs cuda_tests, with arguments for Catch2, on the PTX interpreter in
# one or more modes: sets of its variables. There are two GPUs. A report of the interpreter is a failure, even if all
# tests pass. Prints the output of the tests and `ok: …` or `FAILED: …`.
set -uo pipefail
variables=(PTX_GPUS=2)
for mode in ${2//,/ }; do
  case $mode in
    plain) ;;
    races) variables+=(PTX_RACES=1 PTX_GLOBAL_RACES=1) ;;
    lazy) variables+=(PTX_LAZY=1 PTX_ORDER=random7) ;;           # streams run late, blocks and warps in random order
    a100|rtx3060|rtx4090|rtx5090) variables+=(PTX_GPU="$mode") ;;
    reverse) variables+=(PTX_ORDER=reverse PTX_RACES=1 PTX_GLOBAL_RACES=1) ;;
    early_copies) variables+=(PTX_COPIES=early) ;;
    truncate) variables+=(PTX_MMA=truncate) ;;                    # the sums of tensor cores are cut off instead of rounded
    approximate) variables+=(PTX_APPROX=3) ;;                     # ex2, rcp and rsqrt are off by a last bit
    keep_nan) variables+=(PTX_NAN=keep) ;;
    zeros) variables+=(PTX_FILL=0) ;;                             # content of fresh memory
    no_epilogue) variables+=(PTX_NO_EPILOGUE=1) ;;
    refused_epilogue) variables+=(PTX_REFUSE=epilogue) ;;
    refused_check) variables+=(PTX_REFUSE=check) ;;
    *) echo "modes.sh: there is no mode $mode" >&2; exit 2 ;;
  esac
done
said=$(mktemp)
trap 'rm -f "$said"' EXIT
env "${variables[@]}" "$1" "${@:3}" >"$said" 2>&1
code=$?
cat "$said"
if grep -q '^No tests ran' "$said"; then
  echo "FAILED: mode $2: no test ran"
  exit 1
elif [ $code = 0 ] && ! grep -E '^ptx: (RACE|FAULT|WGMMA|PROXY|EXIT|REGISTERS|NOT SUPPORTED)' "$said"; then
  echo "ok: mode $2"
else
  echo "FAILED: mode $2"
  exit 1
fi
