#!/usr/bin/env bash
# processes.sh PROGRAM NCCL WORK: trains sst2 or bert_classifier as processes of MPI, each with a GPU of the PTX
# interpreter. Gradients travel by the stand-in for NCCL in the folder NCCL, or through the host; the weights must have
# the bits of one process. Prints `ok: …` or `FAILED: …`.
set -euo pipefail
program=$(realpath "$1")
nccl=$(realpath "$2")
films=$(realpath "$(dirname "$0")/../../../examples/sst2/sample")
mkdir -p "$3"
cd "$3"
code=0
# Open MPI refuses to run as root, and more processes than processors, unless it is told to.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PTX_GPUS=2 NCCL_SUMMARY=1
launcher=(mpirun)
if mpirun --version | grep -q 'Open MPI'; then launcher+=(--oversubscribe); fi

flags=(--data "$films" --device cuda --steps 4 --batch-size 16 --train-rows 64 --valid-rows 8 --progress none --threads 1 --shards 2)
if [ "$(basename "$program")" = bert_classifier ]; then
  flags+=(--from-scratch --task sst2 --layers 1 --d-model 32 --heads 2 --ff-width 64 --max-length 32)
fi
rm -rf ./*
if ! "$program" "${flags[@]}" --out alone >said 2>&1; then cat said; exit 1; fi

# check WHAT PATTERN FLAG...: trains as two processes. Their weights must be those of one, and a line of standard error
# must match the pattern.
check() {
  rm -rf run
  if timeout 600 "${launcher[@]}" -n 2 "$program" "${flags[@]}" "${@:3}" --out run >said 2>err && cmp alone/last.safetensors run/last.safetensors &&
    grep -qE -- "$2" err; then
    echo "ok: $1 ($(grep -m 1 -E -- "$2" err))"
  else
    echo "FAILED: $1"
    cat said err
    code=1
  fi
}
LD_LIBRARY_PATH=$nccl:${LD_LIBRARY_PATH:-} check 'two processes whose gradients travel by NCCL' '^nccl: [0-9]{2,} calls on GPU 1$'
check 'two processes without NCCL' 'note: process 0: NCCL.*; gradients travel through the host$'
PTX_GPUS=1 check 'two processes that share a GPU' 'note: several processes use the same GPU; gradients travel through the host$'
# An exact sum of two numbers is the same in any order.
LD_LIBRARY_PATH=$nccl:${LD_LIBRARY_PATH:-} check '--reduction fast' '^nccl: [0-9]+ calls on GPU 0$' --reduction fast
exit $code
