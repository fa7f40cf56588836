#!/usr/bin/env bash
# step_counts.sh PROGRAM WORK: counts what a training step of sst2 or bert_classifier enqueues on a GPU, and fails if it
# is more than its budget. It trains on the PTX interpreter for 2 and for 6 steps of one epoch; a step is a quarter of
# the difference. Prints `ok: …` or `FAILED: …`.
set -euo pipefail
program=$(realpath "$1")
films=$(realpath "$(dirname "$0")/../../../examples/sst2/sample")
mkdir -p "$2"
cd "$2"
code=0

# train STEPS FLAG...
train() {
  "$program" --batch-size 16 --epochs 1 --progress none --steps "$1" "${@:2}" >said 2>&1 || { cat said; exit 1; }
}
# counted STEPS FLAG...: trains on the GPU, and prints the numbers of kernels, products and copies.
counted() {
  rm -rf out
  PTX_SUMMARY=1 train "$1" --data data --valid-rows 8 --device cuda --graph off --out out "${@:2}"
  sed -nE 's/^ptx: ([0-9]+) launches.*/\1/p' said
  sed -nE 's/^ptx: cuBLASLt: ([0-9]+) products.*/\1/p' said
  sed -nE 's/^ptx: calls: .* ([0-9]+) copies.*/\1/p' said
}
# count NAME BUDGET FLAG...: compares the sum of the three with the budget.
count() {
  local two six each sum
  two=$(counted 2 "${@:3}")
  six=$(counted 6 "${@:3}")
  each=$(paste <(echo "$two") <(echo "$six") | awk '{ printf "%g ", ($2 - $1) / 4 }')
  sum=$(awk '{ print ($1 > 0 && NF == 3 ? $1 + $2 + $3 : "unknown") }' <<<"$each")
  each=$(awk '{ printf "%s kernels, %s products and %s copies a step", $1, $2, $3 }' <<<"$each")
  if awk -v sum="$sum" -v budget="$2" 'BEGIN { exit !(sum != "unknown" && sum <= budget) }'; then
    echo "ok: $1: $each, $sum together; the budget is $2"
  else
    echo "FAILED: $1: $each, $sum together; the budget is $2"
    code=1
  fi
}

rm -rf data
mkdir data
cp "$films/vocab.txt" data
head -n 97 "$films/train.tsv" >data/train.tsv
head -n 9 "$films/dev.tsv" >data/dev.tsv
case $(basename "$program") in
  sst2)
    count 'sst2, fp32' 62
    count 'sst2, bf16' 64 --precision bf16
    ;;
  bert_classifier)
    rm -rf model
    cut -f 1 data/train.tsv | tail -n +2 >texts.txt
    train 1 --pretrain texts.txt --layers 12 --d-model 64 --heads 4 --ff-width 128 --max-length 48 --out model
    count 'bert_classifier with 12 layers and clipping, fp32' 281 --model model --task sst2 --clip 1
    count 'bert_classifier with 12 layers and clipping, bf16' 283 --model model --task sst2 --clip 1 --precision bf16
    ;;
  *) echo "FAILED: step_counts.sh: expected sst2 or bert_classifier, not $program"; exit 1 ;;
esac
exit $code
