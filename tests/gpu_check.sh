#!/usr/bin/env bash
# gpu_check.sh [BUILD]: rehearses scripts/gpu-pack and scripts/gpu-check without a GPU. Packs the programs of BUILD
# (build/ptx) with the PTX interpreter in place of CUDA's libraries, copies the tree and the pack into an empty folder,
# and checks there without this environment what a lease of a GPU depends on. Without BUILD, takes a pack of an earlier
# rehearsal in .gpu-pack. Prints `ok: …` or `FAILED: …` for each claim.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
source scripts/common.sh
source scripts/gpu-tools.sh
build=${1:-build/ptx} interpreter=build/ptx/ptx
limit=64000000  # bytes that a transfer may have
work=$(mktemp -d)
there=$work/there
code=0

finish() {
  processes_there | xargs -r kill -KILL 2>/dev/null
  if [ "$(readlink $run_folder)" = "$there" ]; then rm -f $run_folder; fi
  rm -rf "$work"
}
trap finish EXIT

# claim WHAT CONDITION: the condition is a line of shell.
claim() {
  if eval "$2"; then echo "ok: $1"; else tail -n 15 "$work/out"; echo "FAILED: $1"; code=1; fi
}

# Prints the processes that work in the folder, other than this one.
processes_there() {
  local link
  for link in /proc/[0-9]*/cwd; do
    if [[ $(readlink "$link") == "$there"* ]]; then basename "$(dirname "$link")"; fi
  done
}

# check [VARIABLE=VALUE...] -- [OPTION...]: runs scripts/gpu-check there, with no variables of this environment. Sets
# `exited` and `took`.
check() {
  local variables=() start=$SECONDS
  while [ "$1" != -- ]; do variables+=("$1"); shift; done
  (cd "$there" && exec env -i PATH=/usr/bin:/bin HOME="$there" CUDA_PATH="$there/.gpu-pack/toolkit" "${variables[@]}" scripts/gpu-check "${@:2}") \
    >"$work/out" 2>&1
  exited=$? took=$((SECONDS - start))
  echo "   gpu-check ${*:2}: exit code $exited after $took s"
}

# Packs the programs with the interpreter's runtime. In place of a toolkit stands a folder with its cuBLASLt and an nvcc
# that always fails.
pack_for_rehearsal() {
  LD_LIBRARY_PATH=$PWD/$interpreter scripts/gpu-pack --from "$build" --to "$work/pack" || return
  mkdir -p "$work/pack/toolkit/"{bin,lib64}
  cp -L $interpreter/libcublasLt.so.[0-9]* "$work/pack/toolkit/lib64"
  printf '#!/bin/sh\nexit 1\n' >"$work/pack/toolkit/bin/nvcc"
  chmod +x "$work/pack/toolkit/bin/nvcc"
  touch "$work/pack/rehearsal"
}

transfer() {
  mkdir "$there"
  git ls-files -co --exclude-standard -z | tar -cf - --null -T - | tar -xf - -C "$there"
  rm -rf "$there/.gpu-pack"
  cp -r "$work/pack" "$there/.gpu-pack"
}

# A Python whose PyTorch finds the GPU and needs a second for one of the benchmarks.
imitate_pytorch() {
  printf '%s\n' '#!/bin/sh' 'case $* in' '  *gpu.py*) echo '\''{"torch":"imitated"}'\'';' \
    '    echo '\''{"name":"attention/2x1x24x64/full/forward","peer":"flash","seconds":1.0,"in_a_row":1.0}'\'';;' 'esac' >"$work/python"
  chmod +x "$work/python"
}

results() { cat "$there"/build/gpu-check/nvidia-h100*/"$1"; }
row_of() { results logs/table.txt | grep "^$1 "; }
has_counts() { [ "$(row_of "$1" | awk '{ print ($4 > 0) " " $5 }')" = "1 $2" ]; }  # has_counts STAGE FAILED: some checks passed
page() { cat "$there"/docs/benchmarks-h100-ptx-interpreter.md; }
refuses() { [ $exited = 2 ] && [ "$(wc -l <"$work/out")" = 1 ] && grep -q -- "$1" "$work/out"; }

if [ -d $interpreter ]; then
  pack_for_rehearsal >"$work/out" 2>&1
  claim 'gpu-pack packs the programs of a build' '[ -s "$work/pack/programs.tar.gz" ] && [ -s "$work/pack/commit" ]'
elif [ -e .gpu-pack/rehearsal ]; then
  cp -r .gpu-pack "$work/pack"
else
  refuse "there is neither $interpreter nor a pack of a rehearsal; build the preset ptx"
fi
transfer
imitate_pytorch
size=$(du --apparent-size -bs "$there" | cut -f 1)
claim "the folder that travels has $((size / 1000000)) MB, at most $((limit / 1000000))" '[ $size -le $limit ] && [ ! -e "$there/.git" ]'
pages=0
! has /usr/bin/python3 || pages=1

# --- the command line and a machine that cannot run the programs ---
check -- --only attention,nonsense
claim 'an unknown stage is refused' 'refuses "there is no stage nonsense"'
check -- --nonsense
claim 'an unknown option is refused' 'refuses "unknown option --nonsense"'
check -- --seconds 0
claim 'a wrong time is refused' 'refuses "seconds needs a whole number"'
check -- --only report
claim 'a report without results is refused' 'refuses "there are no results"'
check CUDA_VISIBLE_DEVICES= -- --only device
claim 'a missing GPU is reported' 'refuses "no GPU was found"'
cp -r "$there/.gpu-pack/toolkit/lib64" "$work"
for file in "$there"/.gpu-pack/toolkit/lib64/*; do echo 'not a library' >"$file"; done
check -- --only device
claim 'a cuBLASLt that cannot be loaded is reported' 'refuses cublasLt'
cp "$work"/lib64/* "$there/.gpu-pack/toolkit/lib64"
mv "$there/.gpu-pack/bin/cuda_bench" "$work"
printf '#!/bin/sh\necho GLIBC_2.99 not found\nexit 1\n' >"$there/.gpu-pack/bin/cuda_bench"
chmod +x "$there/.gpu-pack/bin/cuda_bench"
check -- --only device
claim 'programs that do not start are compiled, and a compiler that fails ends the run' \
  '[ $exited = 1 ] && grep -q "do not run here: GLIBC_2.99 not found; compiling them with" "$work/out" && grep -q "FAILED: stage build" "$work/out"'
mv "$work/cuda_bench" "$there/.gpu-pack/bin"

# --- a whole run, in which one stage fails ---
check GPU_CHECK_BREAK=limits=fail PYTHON="$work/python" -- --out "$work/copy"
claim 'a stage that fails makes the exit code 1' '[ $exited = 1 ] && row_of limits | grep -q " 0 *1 *0 "'
for name in device self_test tests attention steps rows pytorch programs random; do
  claim "the stage $name passes" 'has_counts $name 0'
done
claim 'what is missing is skipped by name' 'grep -q "skipped: compute-sanitizer" "$work/out" && { has_counts unit 0 || grep -q "skipped: heddle_tests" "$work/out"; }'
claim 'the pages and an archive are copied' \
  '[ -s "$work/copy/gpu-check.tar.gz" ] && [ "$(find "$work/copy" -type f | wc -l)" = $((1 + 2 * pages)) ]'
if [ $pages = 1 ]; then
  claim 'the page names the commit that was packed' 'page | grep -qx -- "- commit: $(cat "$work/pack/commit")"'
  claim 'the page compares heddle with PyTorch' 'page | grep -q "^| 2x1x24x64/full/forward | .* | 1000.00 ms (flash) |"'
  claim 'the page has first and later steps' 'page | grep -q "^| sst2/fp32/first_steps | [0-9]" && page | grep -q "^| sst2/fp32/step | [0-9]"'
fi

# --- a part of a run, and a stage that hangs ---
# shellcheck disable=SC2034  # a claim reads it
before=$(results attention.jsonl | cksum)
check GPU_CHECK_BREAK=steps=hang -- --only limits,steps,rows --seconds 40
claim 'a stage that hangs is stopped and reported' '[ $exited = 1 ] && results logs/steps.log | grep -q "^FAILED: not done after" && [ $took -le 45 ]'
claim 'the results of a stage that was stopped stay' 'results steps.jsonl | grep -q "sst2/fp32/step"'
claim 'the stages before and after it have their time' 'has_counts limits 0 && has_counts rows 0'
claim 'none of its processes is left' '[ -z "$(processes_there)" ]'
claim 'the results of other stages stay' '[ "$before" = "$(results attention.jsonl | cksum)" ] && has_counts attention 0 && has_counts tests 0'

# --- a run that is killed ---
rm "$there"/build/gpu-check/nvidia-h100*/steps.jsonl
check GPU_CHECK_BREAK=steps=hang -- --only steps >/dev/null 2>&1 &
for _ in {1..300}; do
  if results steps.jsonl 2>/dev/null | grep -q "encoder.*/step"; then break; fi
  sleep 0.1
done
processes_there | while read -r process; do
  if tr '\0' ' ' <"/proc/$process/cmdline" | grep -q 'gpu-check --only steps'; then kill -KILL "$process"; fi
done
wait
for _ in {1..50}; do [ -n "$(processes_there)" ] || break; sleep 0.1; done
claim 'the stage of a run that is killed ends, too' '[ -z "$(processes_there)" ]'
claim 'the table says that it was cut off' 'row_of steps | grep -q "was cut off"'
check -- --only report
claim 'the report of what is there needs no GPU' '[ $exited = 0 ]'
if [ $pages = 1 ]; then claim 'the page has its results' 'page | grep -q "^| sst2/fp32/step | [0-9]" && page | grep -q "^steps .*was cut off"'; fi
exit $code
