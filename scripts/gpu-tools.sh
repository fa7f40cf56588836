# shellcheck shell=bash disable=SC2034  # sourced by scripts/gpu-check, which uses the variables
# Finds the parts of CUDA on this machine; installers leave them outside PATH.

# Prints the first of the programs that can be run, or nothing.
first_program() { local file; for file; do if has "$file"; then command -v "$file"; return; fi; done; }

# Finds the tools other than nvcc and sets a variable for each; it is empty if the tool is missing.
find_tools() {
  export cuda sanitizer python_with_torch= own_library_path=${LD_LIBRARY_PATH-}
  cuda=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
  sanitizer=$(first_program compute-sanitizer "$cuda"/{bin,compute-sanitizer}/compute-sanitizer)
  if "${PYTHON:-python3}" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    python_with_torch=${PYTHON:-python3}
  fi
  find_cublas
}

# first_holding NAME FOLDER...: prints the first of the folders that contains a file NAME, or nothing.
first_holding() {
  local name=$1 folder
  for folder in "${@:2}"; do if compgen -G "$folder/$name" >/dev/null; then echo "$folder"; return; fi; done
}

# Adds the folder of cuBLASLt's library to LD_LIBRARY_PATH. If only Python's packages contain cuBLASLt, adds the folder of its header to
# CPATH, too.
find_cublas() {
  local toolkit packages folder
  toolkit=("$cuda"/include "$cuda"/lib64 "$cuda"/lib "$cuda"/targets/*/{include,lib})
  mapfile -t packages < <("${PYTHON:-python3}" -c 'import glob, nvidia
for path in nvidia.__path__: print(*glob.glob(path + "/*/include"), *glob.glob(path + "/*/lib"), sep="\n")' 2>/dev/null)
  if [ -z "$(first_holding cublasLt.h "${toolkit[@]}")" ]; then
    folder=$(first_holding cublasLt.h "${packages[@]}")
    [ -z "$folder" ] || export CPATH=$folder${CPATH:+:$CPATH}
  fi
  folder=$(first_holding 'libcublasLt.so.*' "${toolkit[@]}" "${packages[@]}")
  [ -z "$folder" ] || export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

# require_gpu WORK: exits with code 2 and a message if there is no nvcc, or no GPU that can run its programs. Writes
# the GPU's name to WORK/gpu.txt.
require_gpu() {
  local said
  export nvcc
  nvcc=$(first_program nvcc "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc" /usr/local/cuda/bin/nvcc)
  if [ -z "$nvcc" ]; then
    say 'nvcc was not found in PATH, in CUDA_PATH/bin or in /usr/local/cuda/bin; install the CUDA toolkit or set CUDA_PATH' >&2
    exit 2
  fi
  cat >"$1/gpu.cu" <<'CODE'
#include <cstdio>
int main() {
  cudaDeviceProp gpu;
  const cudaError_t error = cudaGetDeviceProperties(&gpu, 0);
  std::puts(error == cudaSuccess ? gpu.name : cudaGetErrorString(error));
  return error != cudaSuccess;
}
CODE
  if ! said=$("$nvcc" -o "$1/gpu" "$1/gpu.cu" 2>&1); then
    say "$nvcc does not work: $said" >&2
    exit 2
  fi
  if ! said=$("$1/gpu"); then
    say "there is no GPU here: $said" >&2
    exit 2
  fi
  echo "$said" >"$1/gpu.txt"
  say "on $said, with $("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/nvcc \1/p')"
}
