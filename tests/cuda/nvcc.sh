#!/usr/bin/env bash
# nvcc.sh WORK MODE SOURCE...: compiles kernel files for sm_80, as one translation unit, into the folder WORK. Files of
# cuda/attention, whose kernels need the most registers, are compiled for sm_90a, too; with MODE `all`, every file is.
# Fails if registers spill to memory, which would make a kernel slow. Prints `ok: …` or `FAILED: …`.
set -euo pipefail
work=$1 mode=$2 sources=("${@:3}")
name=$(basename "${sources[0]}" .cu)
root=$(realpath "$(dirname "$0")/../..")
said=$work/$name.txt
start=$SECONDS
printf "#include \"$root/%s\"\n" "${sources[@]}" >"$work/$name.cu"
targets=(-gencode 'arch=compute_80,code=[sm_80,compute_80]')
if [ "$mode" = all ] || [[ ${sources[0]} == cuda/attention/* ]]; then targets+=(-gencode arch=compute_90a,code=sm_90a); fi
if ! nvcc -std=c++20 -I"$root/include" -Werror all-warnings "${targets[@]}" -Xptxas -v -c "$work/$name.cu" -o "$work/$name.o" >"$said" 2>&1; then
  cat "$said"
  echo "FAILED: nvcc compiles ${sources[*]}"
  exit 1
fi
kernels=$(grep -c 'bytes spill' "$said" || true)
if grep 'bytes spill' "$said" | grep -qv ' 0 bytes spill stores, 0 bytes spill loads'; then
  grep -B 1 'bytes spill' "$said" | grep -B 1 -v ' 0 bytes spill stores' | grep -v '^--' || true
  echo "FAILED: ${sources[*]}: registers spill"
  exit 1
fi
echo "ok: nvcc compiles ${sources[*]} in $((SECONDS - start)) s: $kernels kernels, no spills"
