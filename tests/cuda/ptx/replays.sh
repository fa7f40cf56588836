#!/usr/bin/env bash
# replays.sh PROGRAM WORK STEPS: trains on a sample on the PTX interpreter, with dropout where the program has it, in
# fp32 and bf16. The losses and the weights of steps that are replayed as CUDA graphs must have the bits of calls on the
# same filled batches (HEDDLE_SYNC=1). Prints `ok: …` or `FAILED: …`.
set -euo pipefail
program=$(realpath "$1")
examples=$(realpath "$(dirname "$0")/../../../examples")
mkdir -p "$2"
cd "$2"
steps=$3
code=0

losses() { sed -nE 's/^\{"step":[0-9]+,"loss":([^,]*),.*/\1/p' "$1"; }
train() {
  PTX_SUMMARY=1 "$program" --device cuda --steps "$steps" --epochs 9 --progress none --out "$1" --metrics "$1.jsonl" "${@:2}" >said 2>&1 ||
    { cat said; exit 1; }
}
# compare NAME FLAG...
compare() {
  local precision graphs
  for precision in fp32 bf16; do
    rm -rf replays calls ./*.jsonl
    train replays --precision $precision "${@:2}"
    graphs=$(sed -nE 's/^ptx: calls: .* ([0-9]+) graphs/\1/p' said)
    HEDDLE_SYNC=1 train calls --precision $precision "${@:2}"
    if [ "$graphs" -gt 0 ] && [ "$(losses replays.jsonl | wc -l)" = "$steps" ] && cmp <(losses replays.jsonl) <(losses calls.jsonl) &&
      cmp {replays,calls}/last.safetensors; then
      echo "ok: $1, $precision: $steps steps, $graphs of them launches of a graph, have the bits of calls"
    else
      echo "FAILED: $1, $precision: $steps steps, $graphs of them launches of a graph, do not have the bits of calls"
      code=1
    fi
  done
}

films=(--data "$examples/sst2/sample" --valid-rows 8)
case $(basename "$program") in
  sst2) compare sst2 "${films[@]}" --dropout 0.1 --clip 1 ;;
  ag_news) compare ag_news --data "$examples/ag_news/sample" --d-model 16 --batch-size 8 --train-rows 240 --valid-rows 8 --train-embeddings --lr 0.01 ;;
  surnames) compare surnames --data "$examples/surnames/sample" --d-model 32 --head-dim 32 --ff-width 32 --train-rows 240 --valid-rows 20 --batch-size 8 ;;
  bert_classifier)
    head -n 641 "$examples/sst2/sample/train.tsv" | tail -n +2 | cut -f 1 >texts.txt
    sizes=(--layers 2 --d-model 64 --heads 4 --ff-width 128 --max-length 48 --batch-size 16 --lr 1e-3)
    compare pre-training --pretrain texts.txt "${sizes[@]}"
    rm -rf pretrained
    mv replays pretrained
    compare fine-tuning --model pretrained --task sst2 "${films[@]}" --batch-size 16 --lr 1e-3 --clip 1
    ;;
  *) echo "FAILED: replays.sh: $program is none of the trainers"; exit 1 ;;
esac
exit $code
