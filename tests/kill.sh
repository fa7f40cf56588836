#!/usr/bin/env bash
# kill.sh FOLDER [ROUNDS]: kills sst2 of the folder with SIGKILL at random moments and resumes it until it is done. Each round's
# weights and metrics must equal those of a run that nobody disturbed. HEDDLE_KILL_SEED repeats a run's moments.
set -euo pipefail
sst2=$(realpath "$1/sst2") rounds=${2:-${HEDDLE_KILL_ROUNDS:-10}}
seed=${HEDDLE_KILL_SEED:-$((SRANDOM % 32768))}
RANDOM=$seed
echo "kill.sh: $rounds rounds, HEDDLE_KILL_SEED=$seed"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

train=("$sst2" --epochs 3 --train-rows 800 --checkpoint-every 5 --progress none)
without_seconds() { sed -E 's/,"seconds":[^,}]*//' "$1"; }

"${train[@]}" --out whole --metrics whole.json >/dev/null
kills=0
for ((round = 1; round <= rounds; ++round)); do
  rm -rf run run.json
  for ((attempt = 1; ; ++attempt)); do
    [ $attempt -le 200 ] || { echo "FAILED: round $round does not end"; exit 1; }
    "${train[@]}" --out run --metrics run.json --resume >/dev/null 2>err &
    job=$!
    # Longer each time, so that a busy machine gets past the start of the program.
    delay=$((RANDOM % (300 + 20 * attempt)))
    sleep "$((delay / 1000)).$(printf %03d $((delay % 1000)))"
    kill -9 $job 2>/dev/null || true
    code=0
    wait $job 2>/dev/null || code=$?
    [ $code != 0 ] || break
    [ $code = 137 ] || { cat err; echo "FAILED: round $round ends with code $code"; exit 1; }
    kills=$((kills + 1))
  done
  for result in last.safetensors model.safetensors; do
    cmp "whole/$result" "run/$result" || { echo "FAILED: $result of round $round differs"; exit 1; }
  done
  diff <(without_seconds whole.json) <(without_seconds run.json) || { echo "FAILED: the metrics of round $round differ"; exit 1; }
  [ -z "$(find run -name '*.tmp')" ] || { echo "FAILED: round $round leaves half-written files"; exit 1; }
done
echo "ok: $rounds runs, killed $kills times, end as the one that was not"
