#!/usr/bin/env bash
# run.sh BUILD WORK [quick|default|all]: tests heddle as a package in other projects. BUILD is a configured build of
# heddle, which is installed from there; WORK is a folder for the results. `quick` compiles README's program in one way
# and skips FetchContent, the Makefile and examples/classify; `all` adds every compiler at every level, and
# add_subdirectory. Prints `ok: …` or `FAILED: …` for each check.
set -euo pipefail
source=$(realpath "$(dirname "$0")/../..")
here=$source/tests/package
build=$(realpath "$1")
mode=${3:-default}
mkdir -p "$2"
work=$(realpath "$2")
eigen=$(grep -oh -- '-isystem [^ "]*eigen3*' "$build/compile_commands.json" | sort -u | head -n 1 | cut -d' ' -f2)
rm -f "$work/failed"
without_mpi=mpi.hpp
! grep -q launch_mpi "$build/compile_commands.json" || without_mpi=

# check CLAIM COMMAND...: runs and judges the command in the background, at most one command per processor at a time.
# Each command has its own folder, $scratch.
check() {
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
  judge "$@" &
}

# judge CLAIM COMMAND...: prints the verdict, the output of a command that fails, and the compiler's time.
judge() {
  local claim=$1
  scratch=$(mktemp -d "$work/check-XXXXXX")
  shift
  if "$@" >"$scratch/said" 2>&1; then
    echo "ok: $claim"
    grep ' s of one core' "$scratch/said" || true
  else
    printf '%s\n' "$(tail -n 20 "$scratch/said")" "FAILED: $claim"
    touch "$work/failed"
  fi
}

# shellcheck disable=SC2046  # the flags are words
compile() { g++ -std=c++20 ${precompiled:+-I"$precompiled"} -I"$source/include" $(grep -oh -- '-isystem [^ "]*' "$build/compile_commands.json" | sort -u) "$@"; }

# consumer WAY CMAKE_FLAG...: builds and runs the project in this folder, which finds heddle in this WAY.
consumer() {
  local folder=$scratch/build
  cmake -S "$here" -B "$folder" -DWAY="$1" "${@:2}" && cmake --build "$folder" --parallel "$(nproc)" && (cd "$folder" && ./consumer)
}

# Installs heddle, and then moves the prefix to a name with a blank.
install_and_move() {
  cmake --install "$build" --prefix "$work/prefix" && mv "$work/prefix" "$work/a moved prefix"
}

# refused PATTERN COMPILE_FLAG...: the source does not compile, and the message matches PATTERN.
refused() { ! compile -fsyntax-only "${@:2}" 2>"$scratch/refusal" && grep -m 3 "$1" "$scratch/refusal"; }

timed() {
  local TIMEFORMAT="$1.cpp: %U s of one core at g++ -O2 ${*:2}"
  time compile -O2 "${@:2}" -c "$here/sources/$1.cpp" -o "$scratch/$1.o"
}
# without_warnings COMPILER LEVEL: checks that README's program compiles without warnings. heddle's headers are not
# system headers here, so their warnings are shown.
without_warnings() {
  local TIMEFORMAT="README.md: %U s of one core at $1 $2"
  awk '/^```cpp/ { inside = 1; next } /^```/ && inside { exit } inside' "$source/README.md" >"$scratch/readme.cpp"
  time "$1" -std=c++20 "$2" -march=native -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror -I"$source/include" -isystem "$eigen" \
    -c "$scratch/readme.cpp" -o "$scratch/readme.o"
}

check 'heddle can be installed, and its prefix can be moved' install_and_move
wait
# The longest come first, so that all processors end together.
for compiler in g++ clang++; do
  command -v "$compiler" >/dev/null || { echo "skipped: README's program with $compiler, which is not installed"; continue; }
  for level in -O0 -O2 -O3; do
    [ "$mode" != quick ] || [ "$compiler $level" = 'g++ -O0' ] || continue
    # clang gives the same warnings at every level; g++ gives more when it optimizes.
    [ "$mode" != default ] || [ "$compiler $level" = 'g++ -O3' ] || [ "$compiler $level" = 'clang++ -O0' ] || continue
    check "README's program has no warning: $compiler $level" without_warnings "$compiler" "$level"
  done
done
# The ways differ only in how they find heddle. The optimized build is for `all`, because README's program is
# optimized above.
optimized=()
[ "$mode" != all ] || optimized=(-DCMAKE_BUILD_TYPE=Release)
check 'find_package finds a moved prefix, without warnings' \
  consumer find_package -DCMAKE_PREFIX_PATH="$work/a moved prefix" "${optimized[@]}"
check 'find_package gives heddle::compiled, with the instruction set that it was built for' \
  consumer find_package -DCMAKE_PREFIX_PATH="$work/a moved prefix" -DLIBRARY=heddle::compiled
if [ "$mode" != quick ] && [ -z "$without_mpi" ]; then
  check 'find_package gives heddle::mpi' consumer find_package -DCMAKE_PREFIX_PATH="$work/a moved prefix" -DLIBRARY=heddle::mpi
fi
# FetchContent calls add_subdirectory.
[ "$mode" != all ] || check 'add_subdirectory gives the target' consumer add_subdirectory -DHEDDLE_SOURCE="$source"
if [ "$mode" != quick ]; then
  check 'FetchContent gives the target' consumer FetchContent -DHEDDLE_SOURCE="$source"
fi
# Runs the project of docs/guide-bert.md on a tiny Hugging Face folder.
classifies() {
  local folder=$scratch/build
  cmake -S "$source/examples/classify" -B "$folder" -DCMAKE_PREFIX_PATH="$work/a moved prefix" && cmake --build "$folder" &&
    [ "$(printf 'one text\n\n' | "$folder/classify" "$source/tests/golden/models/bert" | cut -f 1 | grep -c .)" = 2 ] &&
    ! "$folder/classify" nowhere </dev/null
}
[ "$mode" = quick ] || check 'the twenty lines of examples/classify classify standard input' classifies
# The -std=c++23 of CXXFLAGS follows that of the Makefile and overrides it.
made_by_make() {
  mkdir -p "$work/make" && cd "$work/make" && make -j "$(nproc)" -f "$here/Makefile" HEDDLE="$source/include" EIGEN="$eigen" \
    CXXFLAGS='-O0 -std=c++23 -DNDEBUG -DEIGEN_DEFAULT_TO_ROW_MAJOR -fno-rtti' && ./consumer
}
clang_takes() { clang++ "$1" -I"$source/include" -isystem "$eigen" -fsyntax-only "$here/main.cpp"; }

[ "$mode" = quick ] ||
  check 'a plain Makefile with -I builds the consumer as C++23 with -DNDEBUG, -DEIGEN_DEFAULT_TO_ROW_MAJOR and -fno-rtti' made_by_make
if command -v clang++ >/dev/null; then
  check 'clang compiles the consumer as C++20' clang_takes -std=c++20
  check 'clang compiles the consumer as C++23' clang_takes -std=c++2b
else
  echo 'skipped: the consumer with clang++, which is not installed'
fi
# mixed SOURCE CALLER_FLAG CALLEE_FLAG [LINK_FLAG...]: links two halves of a program.
mixed() {
  compile "$2" -c "$here/sources/$1.cpp" -o "$scratch/caller.o" && compile "$3" -DCALLEE -c "$here/sources/$1.cpp" -o "$scratch/callee.o" &&
    g++ "$scratch/caller.o" "$scratch/callee.o" "${@:4}" -o "$scratch/mixed"
}
does_not_link() { ! mixed mixed "$@" 2>"$scratch/refusal" && grep -m 1 'undefined reference' "$scratch/refusal"; }
# Compiles all public headers after macros of other libraries, and shows warnings of heddle's headers.
after_macros() {
  (cd "$source/include" && find heddle -name '*.hpp' ! -name "$without_mpi" | sort | sed 's/.*/#include <&>/') >"$scratch/all.cpp"
  compile -fsyntax-only -include "$here/sources/macros.hpp" -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror "$scratch/all.cpp"
}
check 'all public headers compile after macros of Qt, X11, curses and others, without warnings' after_macros
returns() { mixed returned "$@" && "$scratch/mixed"; }
# The program ends before it calls a function of the CUDA library, which is not linked.
ends_at_start() {
  mixed returned "$@" -no-pie -Wl,--unresolved-symbols=ignore-all && ! "$scratch/mixed" 2>"$scratch/message" &&
    grep 'compiled for .* others for ' "$scratch/message"
}
check 'objects of one build return tensors to each other' returns -O0 -O2
for setting in HEDDLE_ONEDNN HEDDLE_CUDA; do
  check "a program ends when it starts if only some objects have $setting" ends_at_start "-D$setting" -O0
done
# unloaded COMPILER FLAG...: loads and unloads a library 100 times. Its symbols are hidden, so that it can be unloaded.
unloaded() {
  local runtime
  runtime=$(dirname "$(clang++ -print-file-name=libclang_rt.asan-x86_64.so 2>/dev/null)")
  "$1" -std=c++20 -I"$source/include" -isystem "$eigen" -O1 "${@:2}" -fPIC -shared -fvisibility=hidden -fvisibility-inlines-hidden "$here/sources/plugin.cpp" -o "$scratch/plugin.so" -pthread &&
    "$1" "${@:2}" "$here/sources/plugin_host.cpp" -o "$scratch/host" -ldl && LD_LIBRARY_PATH=$runtime "$scratch/host" "$scratch/plugin.so" 100
}
check 'a library that computes can be unloaded' unloaded g++ -fno-gnu-unique
if command -v clang++ >/dev/null && [ "$(uname -m)" = x86_64 ]; then
  check 'a library that computes can be unloaded, without leaks or invalid accesses' unloaded clang++ -fsanitize=address -shared-libasan
else
  echo 'skipped: a library is unloaded under AddressSanitizer: clang++ is not installed'
fi
check 'a program may define names that heddle uses internally' compile -fsyntax-only -Wall -Wextra -Wshadow -Werror "$here/sources/own_names.cpp"
if [ "$(uname -m)" = x86_64 ]; then
  check 'objects of one instruction set link' mixed mixed -mavx -mavx
  check 'objects of different instruction sets do not link' does_not_link -mavx -mavx512f
fi
check 'objects with and without oneDNN do not link' does_not_link -DHEDDLE_ONEDNN -O0
check '-ffinite-math-only is refused' refused 'cannot be compiled with' -ffinite-math-only "$here/sources/empty.cpp"
check '-ffast-math is refused with a sentence' refused 'cannot be compiled with -ffast-math' -ffast-math "$here/sources/empty.cpp"
# Links a program with the build's library, which was compiled for this processor. The same program must link if it is
# compiled for this processor, and must not if it is not.
linked_with_library() {
  local one_dnn=()
  if grep -q -- '-DHEDDLE_ONEDNN' "$build/compile_commands.json"; then one_dnn=(-DHEDDLE_ONEDNN -ldnnl -lgomp); fi
  compile -O0 -DHEDDLE_COMPILED "$@" "$here/sources/thirty_lines.cpp" "$work/a moved prefix"/lib*/libheddle_compiled.a \
    "${one_dnn[@]}" -o "$scratch/linked"
}
other_instruction_set() {
  linked_with_library -march=native && ! linked_with_library 2>"$scratch/refusal" &&
    grep -m 1 'undefined reference to .heddle::' "$scratch/refusal"
}
if grep -qw avx /proc/cpuinfo; then
  check 'a program of another instruction set does not link with heddle::compiled' other_instruction_set
fi
# g++'s message for a wrong call is short. A precompiled header does not change messages.
mkdir -p "$work/precompiled/heddle"
compile -x c++-header "$source/include/heddle/heddle.hpp" -o "$work/precompiled/heddle/heddle.hpp.gch"
precompiled=$work/precompiled
# calls_refused CALLS ARGUMENTS WORDS: each line of the file CALLS, a statement about the parameters ARGUMENTS, is
# refused in at most 15 lines, and one of them matches WORDS. The source that g++ 14 and later quote below each caller
# does not count.
calls_refused() {
  {
    printf '%s\n' '#include <heddle/heddle.hpp>' 'using namespace heddle;'
    sed "s/.*/void call($2, int(\&)[__LINE__]) { &; }/" "$1"
  } >"$scratch/calls.cpp"
  ! compile -w -fsyntax-only "$scratch/calls.cpp" 2>"$scratch/refusal" &&
    awk -v words="$3" '
      NR == FNR { call[++calls] = $0; next }
      / In [a-z ]+ .*:$/ { line = before = 0 }  # begins a message, which may name its call further below
      match($0, /calls\.cpp:[0-9]+:/) { line = substr($0, RSTART + 10, RLENGTH - 11) - 2 }
      quoted && / \| / { next }
      { quoted = /required (from|by)/ }
      !line { ++before; next }
      { lines[line] += before + 1; before = 0 }
      /error:/ { refused[line] = 1 }
      $0 ~ words { named[line] = 1 }
      END {
        for (i = 1; i <= calls; ++i) {
          fault = !refused[i] ? "not refused" : !named[i] ? "no line matches " words : lines[i] > 15 ? lines[i] " lines" : ""
          if (fault) { print call[i] ": " fault; bad = 1 }
        }
        exit bad
      }' "$1" "$scratch/refusal"
}
operands='Tensor<float>\& x, Tensor<double>\& w, Tensor<int>\& ids, const nn::Linear<>\& fixed, nn::Linear<bf16>\& narrow'
check 'the error for each of the calls in wrong_calls.txt has at most 15 lines' calls_refused "$here/sources/wrong_calls.txt" "$operands" .
# Each function that has a deleted overload for integers is called, and other forms of calls stand in integer_calls.txt.
grep -rhA1 'requires Refused' "$source/include/heddle" | sed -nE 's/^void ([a-z_0-9]+)\(.*/heddle::\1(x)/p' | sort -u |
  cat "$here/sources/integer_calls.txt" - >"$work/integer_calls.txt"
for type in int std::int64_t bool; do
  check "layers and floating-point operations refuse tensors of $type in at most 15 lines, which name cast<float>" \
    calls_refused "$work/integer_calls.txt" "Tensor<$type>\& x, Tensor<bool>\& b, Sequences\& s, Random\& g" 'cast<float>'
done
# not_ignored CALL: checks that g++ warns if the result of CALL is ignored.
not_ignored() {
  printf '%s\n' '#include <heddle/heddle.hpp>' "void call() { $1; }" >"$scratch/call.cpp"
  refused 'nodiscard' -Werror "$scratch/call.cpp"
}
check 'a NoGrad without a name is a warning' not_ignored 'heddle::NoGrad{}'
precompiled=
older_standard() {
  refused 'heddle needs C++20' -std=c++17 "$here/sources/thirty_lines.cpp" && [ "$(wc -l <"$scratch/refusal")" -le 25 ]
}
check 'C++17 is refused with a sentence' older_standard
check "heddle compiles with libstdc++'s debug mode" compile -fsyntax-only -D_GLIBCXX_DEBUG "$here/sources/thirty_lines.cpp"
# The time of the compiler is printed and not limited, because a limit would depend on the machine.
check 'empty.cpp compiles' timed empty
check 'thirty_lines.cpp compiles for heddle::compiled' timed thirty_lines -DHEDDLE_COMPILED
wait
[ ! -e "$work/failed" ]
