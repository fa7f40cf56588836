# shellcheck shell=bash disable=SC2034  # sourced by scripts/gpu-check and scripts/gpu-pack, which use the variables
# The programs that travel to a GPU machine, and the parts of CUDA there; installers leave them outside PATH.

pack=.gpu-pack
bin=$pack/bin
run_folder=/tmp/heddle-gpu-check  # a link to the tree; the packed programs read their samples there
programs=(cuda_tests cuda_random_cases cuda_large_tensors heddle_tests cuda_bench sst2 ag_news surnames bert_classifier attention_view tokenize)

# The options of a build whose programs run on other machines. The kernels are one shared library, so that they can be
# rebuilt alone. They are not compressed, because the PTX interpreter, which rehearses the run, reads their PTX as text.
portable_options=(-DCMAKE_BUILD_TYPE=Release -DHEDDLE_CUDA=ON -DHEDDLE_CUDA_SHARED=ON -DCMAKE_CUDA_FLAGS=--no-compress -DHEDDLE_NATIVE=OFF
  -DHEDDLE_ONEDNN=OFF -DHEDDLE_ZLIB=OFF -DHEDDLE_MPI=OFF -DHEDDLE_INSTALL=OFF "-DCMAKE_BUILD_RPATH=\$ORIGIN")

# configure_programs FOLDER OPTION...: configures a build of all programs with their tests. As in scripts/test, the
# tests of a folder are one file.
configure_programs() {
  cmake -S . -B "$1" "${portable_options[@]}" -DHEDDLE_RUN_FOLDER=$run_folder -DHEDDLE_SMALL_PROGRAMS=OFF -DHEDDLE_UNITY=ON \
    -DHEDDLE_TEST_FLAGS=-O0 -DHEDDLE_PROGRAM_FLAGS=-O1 "${@:2}"
}

# collect_programs BUILD TO: copies the programs of a build that exist, stripped, and the libraries of CUDA
# that they link.
collect_programs() {
  local name file files=()
  for name in "${programs[@]}"; do
    for file in "$1"/{tests,tests/cuda,bench,examples}/"$name"; do [ ! -f "$file" ] || files+=("$file"); done
  done
  [ ${#files[@]} -gt 0 ] || { echo "$1 contains none of the programs"; return 1; }
  rm -rf "$2"
  mkdir -p "$2"
  for file in "${files[@]}" $(ldd "${files[@]}" | sed -nE 's/.* => (.*lib(heddle_cuda|cudart)\.so[^ ]*) .*/\1/p' | sort -u); do
    cp -L "$file" "$2"
    ! has strip || strip --strip-unneeded "$2/$(basename "$file")"
  done
}

# Prints a checksum of the sources of the kernels, and one of the other sources.
source_sums() {
  local names=(-name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh')
  sum_of() { LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -c 1-16; }
  find cuda -type f \( "${names[@]}" \) ! -path 'cuda/emulator/*' -print0 | sum_of
  find include tests bench examples src -type f \( "${names[@]}" \) -print0 | sum_of
}

# Prints the first of the programs that can be run, or nothing.
first_program() { local file; for file; do if has "$file"; then command -v "$file"; return; fi; done; }

# first_holding NAME FOLDER...: prints the first of the folders that contains a file NAME, or nothing.
first_holding() {
  local name=$1 folder
  for folder in "${@:2}"; do if compgen -G "$folder/$name" >/dev/null; then echo "$folder"; return; fi; done
}

# Finds the tools of CUDA and sets a variable for each; it is empty if the tool is missing.
find_tools() {
  export nvcc cuda sanitizer python_with_torch='' own_library_path=${LD_LIBRARY_PATH-}
  nvcc=$(first_program "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc" nvcc /usr/local/cuda/bin/nvcc)
  cuda=${CUDA_PATH:-/usr/local/cuda}
  [ -z "$nvcc" ] || cuda=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
  sanitizer=$(first_program compute-sanitizer "$cuda"/{bin,compute-sanitizer}/compute-sanitizer)
  if "${PYTHON:-python3}" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    python_with_torch=${PYTHON:-python3}
  fi
  find_cublas
}

# Lets the packed programs find their libraries and cuBLASLt. If only Python's packages contain cuBLASLt, adds the
# folder of its header to CPATH, too.
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
  export LD_LIBRARY_PATH=$PWD/$bin${folder:+:$folder}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

# Prints the processes of a session that have not ended.
processes_of_session() {
  local file line state session
  for file in /proc/[0-9]*/stat; do
    read -r line 2>/dev/null <"$file" || continue
    read -r state _ _ session _ <<<"${line##*) }"  # the fields after the name, which may contain blanks
    if [ "$session" = "$1" ] && [ "$state" != Z ]; then basename "$(dirname "$file")"; fi
  done
}

# Kills all processes of a session other than the caller. A process may start another one meanwhile, so looks again
# until none is left.
end_session() {
  local found self=$BASHPID round
  for round in {1..20}; do
    mapfile -t found < <(processes_of_session "$1" | grep -vx "$self")
    [ ${#found[@]} -gt 0 ] || return 0
    kill -KILL "${found[@]}" 2>/dev/null || true
    sleep 0.05
  done
}

# within SECONDS COMMAND...: runs a command in a session of its own and kills all its processes after that time, and
# those that it leaves behind. Returns 124 if it is killed.
within() {
  local child code=0 in_time=1
  setsid "${@:2}" &
  child=$!
  timeout "$1" tail --pid=$child -s 0.1 -f /dev/null || in_time=0
  end_session $child
  wait $child || code=$?
  [ $in_time = 1 ] || code=124
  return $code
}
