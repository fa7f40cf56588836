#!/usr/bin/env bash
# losses.sh PROGRAM WORK [STEPS]: trains sst2 or bert_classifier on samples on the CPU and on the GPU, there with steps
# that are replayed and without, and compares the losses step by step. Prints `ok: …` or `FAILED: …`, and the greatest
# difference over more steps, in which rounding errors grow.
set -euo pipefail
program=$(realpath "$1")
films=$(realpath "$(dirname "$0")/../../examples/sst2/sample")
mkdir -p "$2"
cd "$2"
export OMP_NUM_THREADS=4
bound=1e-5
steps=${3:-120}
judged=$((steps < 20 ? steps : 20))
code=0

losses() { sed -nE 's/^\{"step":[0-9]+,"loss":([^,]*),.*/\1/p' "$1"; }

# worst STEPS A B: prints the greatest difference of the first STEPS losses of two files, or nothing if one of
# them has fewer.
worst() {
  paste <(losses "$2" | head -n "$1") <(losses "$3" | head -n "$1") |
    awk -v steps="$1" '
      { d = $1 - $2; if (d < 0) d = -d; if (!(d <= most)) most = d }
      END { if (NR == steps) printf "%.2g", most }'
}

# train NAME WHERE FLAG...: trains with these flags. WHERE names the files.
train() {
  "$program" --steps $steps --epochs 4 --progress none --out "$1-$2" --metrics "$1-$2.jsonl" "${@:3}"
}

# compare NAME FLAG...: trains with these flags on both devices and reports how far the losses differ.
compare() {
  train "$1" cpu --device cpu "${@:2}"
  train "$1" cuda --device cuda "${@:2}"
  report "$1" cuda
}
# compare_graphs NAME FLAG...: the same, and a training on the GPU without graphs.
compare_graphs() {
  compare "$@"
  train "$1" calls --device cuda --graph off "${@:2}"
  report "$1" calls
}

# report NAME WHERE
report() {
  local name="$1 ($2)" apart
  apart=$(worst $judged "$1-cpu.jsonl" "$1-$2.jsonl")
  if awk -v d="${apart:-nan}" -v bound=$bound 'BEGIN { exit !(d != "nan" && d + 0 <= bound) }'; then
    echo "ok: $name: $judged steps follow the CPU within $bound: $apart"
    echo "remark: $name: $judged steps within $apart, $steps within $(worst $steps "$1-cpu.jsonl" "$1-$2.jsonl")"
  else
    echo "FAILED: $name: the losses of $judged steps differ by ${apart:-an unknown amount, because a step is missing}; the limit is $bound"
    code=1
  fi
}

rm -rf ./*.jsonl ./*-{cpu,cuda,calls}
case $(basename "$program") in
  sst2)
    compare plain --data "$films" --valid-rows 8 --dropout 0
    compare_graphs dropout --data "$films" --valid-rows 8 --dropout 0.1
    ;;
  bert_classifier)
    head -n 641 "$films/train.tsv" | tail -n +2 | cut -f 1 >texts.txt
    compare_graphs pretrain --pretrain texts.txt --layers 2 --d-model 64 --heads 4 --ff-width 128 --max-length 48 --batch-size 16 --lr 1e-3
    compare_graphs fine_tune --model pretrain-cpu --task sst2 --batch-size 16 --valid-rows 8 --lr 1e-3
    ;;
  *) echo "FAILED: losses.sh: expected sst2 or bert_classifier, not $program"; exit 1 ;;
esac
exit $code
