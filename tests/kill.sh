#!/usr/bin/env bash
# kill.sh FOLDER [ROUNDS]: kills each trainer of the folder with SIGKILL at random moments and resumes it until it is
# done; repeats this ROUNDS times. The files of each round (weights, metrics, pictures, tables, and every event) must
# equal those of an uninterrupted run. ROUNDS defaults to HEDDLE_KILL_ROUNDS, or to 2. HEDDLE_KILL_SEED=N repeats the
# delays of the call that printed N.
source "$(dirname "$0")/program_helpers.sh"
set -e
folder=$(realpath "$1") rounds=${2:-${HEDDLE_KILL_ROUNDS:-2}}
seed=${HEDDLE_KILL_SEED:-$((SRANDOM % 32768))}
RANDOM=$seed
echo "kill.sh: $rounds rounds of each trainer, HEDDLE_KILL_SEED=$seed"
cd "$work"

fail() { echo "FAILED: $program: round $round $1"; exit 1; }

# disturb COMMAND...: runs the command, kills it and resumes it until it is done; counts the kills.
disturb() {
  local attempt delay exited job
  for ((attempt = 1; ; ++attempt)); do
    [ $attempt -le 200 ] || fail 'does not end'
    "$@" --resume >/dev/null 2>err &
    job=$!
    # The delay grows with each attempt, so that the program gets past its start on a busy machine, too.
    delay=$((RANDOM % (300 + 20 * attempt)))
    sleep "$((delay / 1000)).$(printf %03d $((delay % 1000)))"
    kill -9 $job 2>/dev/null || true
    exited=0
    wait $job 2>/dev/null || exited=$?
    [ $exited != 0 ] || break
    [ $exited = 137 ] || { cat err; fail "ends with code $exited"; }
    kills=$((kills + 1))
  done
}

# check_rounds PROGRAM FLAGS...: trains once without interruption, then in killed and resumed rounds, and
# compares the files.
check_rounds() {
  program=$1
  local train=("$folder/$program" "${@:2}" --plot --progress none) result results kills=0
  rm -rf whole* run*
  "${train[@]}" --out whole --metrics whole.json >/dev/null 2>err || { cat err; echo "FAILED: $program does not train"; exit 1; }
  [ -z "$(events whole | cut -f 1,2 | sort | uniq -d)" ] || { echo "FAILED: $program writes an event twice"; exit 1; }
  # started.json holds the name of the metrics file, which differs between the runs.
  mapfile -t results < <(cd whole && find . -maxdepth 1 -type f ! -name 'events.*' ! -name started.json)
  for ((round = 1; round <= rounds; ++round)); do
    rm -rf run run.json
    disturb "${train[@]}" --out run --metrics run.json
    for result in "${results[@]}"; do cmp "whole/$result" "run/$result" || fail "ends with a different $result"; done
    same_numbers whole.json run.json || fail 'writes different metrics'
    same_events whole run || fail 'writes other events, or one twice, or leaves one out'
    [ -z "$(find run -name '*.tmp')" ] || fail 'leaves half-written files'
  done
  echo "ok: ${*:1:2}: $rounds runs, killed $kills times, end like an uninterrupted one"
}

check_rounds sst2 --epochs 3 --train-rows 800 --checkpoint-every 5
# The two pictures of the attention are drawn at steps 100 and 200.
check_rounds ag_news --epochs 2 --d-model 32 --batch-size 8 --train-rows 1000 --valid-rows 40 --lr 0.001 --checkpoint-every 7
check_rounds surnames --epochs 3 --checkpoint-every 7
cut -f 1 "$examples/sst2/sample/train.tsv" >plain.txt
small=(--layers 2 --d-model 32 --heads 2 --ff-width 64 --max-length 64)
check_rounds bert_classifier --pretrain plain.txt "${small[@]}" --batch-size 64 --epochs 2 --checkpoint-every 7
mv whole base
check_rounds bert_classifier --model base --task sst2 --train-rows 800 --epochs 2 --checkpoint-every 7
awk -v OFS='\t' 'NR == 1 { print "text", "pair"; next } NF > 3 { first = $1 " " $2; sub(/^[^ ]+ /, ""); print first, $0 }' plain.txt >pairs.tsv
head -n 60 pairs.tsv >few.tsv
check_rounds sentence_trainer --model base --loss in_batch --train pairs.tsv --valid few.tsv --text text --text-pair pair --train-rows 400 --batch-size 16 --accumulate 2 --epochs 2 --checkpoint-every 7
