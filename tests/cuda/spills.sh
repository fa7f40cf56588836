#!/usr/bin/env bash
# spills.sh WORK GPU SOURCE...: compiles kernel files for a GPU, such as sm_80, as one translation unit, into the folder
# WORK. spills.sh WORK GPU LIBRARY.a: does the same with the uncompressed PTX in a library. Fails if registers spill to
# memory, which would make a kernel slow. Prints `ok: …` or `FAILED: …`.
set -euo pipefail
work=$1 gpu=$2 sources=("${@:3}")
root=$(realpath "$(dirname "$0")/../..")
name=$(basename "${sources[0]%.*}")-$gpu
said=$work/$name.txt
start=$SECONDS
mkdir -p "$work"
: >"$said"
if [[ ${sources[0]} == *.a ]]; then
  mapfile -d '' inputs < <(LC_ALL=C sed -zn 's/^.*\(\.version [0-9]\)/\1/p' "${sources[0]}")  # a null byte ends each text
  suffix=ptx
else
  inputs=("$(printf "#include \"$root/%s\"\n" "${sources[@]}")")
  suffix=cu
fi
for i in "${!inputs[@]}"; do
  echo "${inputs[i]}" >"$work/$name-$i.$suffix"
  if ! nvcc -std=c++20 -I"$root/include" -Werror all-warnings -arch="$gpu" -Xptxas -v -cubin "$work/$name-$i.$suffix" -o "$work/$name.cubin" \
    >>"$said" 2>&1; then
    cat "$said"
    echo "FAILED: nvcc compiles ${sources[*]} for $gpu"
    exit 1
  fi
done
kernels=$(grep -c 'bytes spill' "$said" || true)
if [ ${#inputs[@]} = 0 ]; then
  echo "FAILED: ${sources[*]} has no uncompressed PTX"
  exit 1
elif grep 'bytes spill' "$said" | grep -qv ' 0 bytes spill stores, 0 bytes spill loads'; then
  grep -B 1 'bytes spill' "$said" | grep -B 1 -v ' 0 bytes spill stores' | grep -v '^--' || true
  echo "FAILED: ${sources[*]}: registers spill on $gpu"
  exit 1
fi
echo "ok: nvcc compiles ${sources[*]} for $gpu in $((SECONDS - start)) s: $kernels kernels, no spills"
