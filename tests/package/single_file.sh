#!/usr/bin/env bash
# single_file.sh BUILD WORK: a project without CMake compiles cuda/heddle.cu and links its own program with it. BUILD is
# a configured build of heddle, which knows where Eigen is. Prints `ok: …` or `FAILED: …`.
set -euo pipefail
source=$(realpath "$(dirname "$0")/../..")
build=$(realpath "$1")
cd "$2"
read -r -d '' -a eigen < <(grep -oh -- '-isystem [^ "]*' "$build/compile_commands.json" | sort -u; printf '\0')
start=$SECONDS
# The kernels are compiled without optimization, to save time; tests/cuda/spills.sh compiles them with it.
if nvcc -std=c++20 -I"$source/include" -arch=sm_80 -Xcicc -O0 -Xptxas -O0 -c "$source/cuda/heddle.cu" -o heddle_cuda.o &&
  g++ -std=c++20 -DHEDDLE_CUDA -I"$source/include" "${eigen[@]}" -c "$source/tests/package/sources/gpu.cpp" -o gpu.o &&
  nvcc -arch=sm_80 gpu.o heddle_cuda.o -o gpu -ldl && ./gpu; then
  echo "ok: cuda/heddle.cu alone, compiled by nvcc in $((SECONDS - start)) s, serves a program without CMake"
else
  echo 'FAILED: a program with cuda/heddle.cu'
  exit 1
fi
