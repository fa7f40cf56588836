#!/usr/bin/env bash
# nvcc.sh SOURCE WORK [all]: compiles one file of kernels for sm_80, with results in the folder WORK. Files of cuda/attention, whose kernels
# need most registers, are compiled for sm_90a too, and with `all` every file.
# Registers that spill to memory cost more than a kernel can win. Says `ok: …` or `FAILED: …`.
set -euo pipefail
source=$1 said=$2/$(basename "$1").txt
root=$(dirname "$0")/../..
start=$SECONDS
targets=(-gencode 'arch=compute_80,code=[sm_80,compute_80]')
if [ "${3:-}" = all ] || [[ $source == cuda/attention/* ]]; then targets+=(-gencode arch=compute_90a,code=sm_90a); fi
if ! nvcc -std=c++20 -I"$root/include" -Werror all-warnings "${targets[@]}" -Xptxas -v -c "$source" -o "$2/$(basename "$source").o" >"$said" 2>&1; then
  cat "$said"
  echo "FAILED: nvcc compiles $source"
  exit 1
fi
kernels=$(grep -c 'bytes spill' "$said" || true)
if grep 'bytes spill' "$said" | grep -qv ' 0 bytes spill stores, 0 bytes spill loads'; then
  grep -B 1 'bytes spill' "$said" | grep -B 1 -v ' 0 bytes spill stores' | grep -v '^--' || true
  echo "FAILED: $source: registers spill"
  exit 1
fi
echo "ok: nvcc compiles $source in $((SECONDS - start)) s: $kernels kernels, no spills"
