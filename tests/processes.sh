#!/usr/bin/env bash
# processes.sh FOLDER: runs the trainers in FOLDER as several processes of MPI, with the program mpi_processes beside
# the tests. Runs with as many shards must end in the same bits on any number of processes, also after they were killed
# and resumed on another number. HEDDLE_PROCESS_KILLS is the number of runs that are killed (3).
source "$(dirname "$0")/program_helpers.sh"
program=sst2
folder=$(realpath "$1") library=$(realpath "$2") kills=${HEDDLE_PROCESS_KILLS:-3}
sst2=$folder/sst2
seed=${HEDDLE_KILL_SEED:-$((SRANDOM % 32768))}
RANDOM=$seed
echo "processes.sh: $kills runs are killed, HEDDLE_KILL_SEED=$seed"
cd "$work" || exit
unset OMP_NUM_THREADS

# Open MPI refuses to run as root, and more processes than processors, unless it is told to.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
launcher=(mpirun)
if mpirun --version | grep -q 'Open MPI'; then launcher+=(--oversubscribe); fi
# together N COMMAND...: runs the command as N processes.
together() { timeout 300 "${launcher[@]}" -n "$@"; }

# by_rank FIRST OTHERS: writes the script by_rank, which runs the command in its arguments, after FIRST in the first
# process and after OTHERS in the others. (mpirun takes several programs, but that of Open MPI 5.0.7 crashes then.)
by_rank() {
  printf '%s\n' 'if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ]; then '"$1"'; else '"$2"'; fi; exec "$@"' >by_rank
}

# says N: checks that the programs, not mpirun, print N lines on standard error.
says() { [ "$(grep -c "^$program: " err)" = "$1" ]; }
# same_results FOLDER FOLDER: compares weights and checkpoints.
same_results() {
  local file
  while read -r file; do cmp "$1/$file" "$2/$file" || return 1; done < <(cd "$1" && find . -name '*.safetensors')
}
# same_output FILE FILE: compares what two runs printed, except their times.
same_output() { diff <(sed -E 's/ +[0-9.]+ s$//' "$1") <(sed -E 's/ +[0-9.]+ s$//' "$2"); }

# --- the library ---
for n in 2 3 4; do
  together $n "$library/mpi_processes" >out 2>err
  report "MPI: $n processes understand each other" $?
  grep '^ok:' out
done
claim 'MPI: a process that leaves by an exception says so and ends the others' \
  '! together 3 "$library/mpi_processes" leave >out 2>err && grep -q "^mpi: error: the last process leaves$" err'

# --- the same bits ---
few=("$sst2" --train-rows 300 --valid-rows 60 --clip 1 --progress none --threads 1)
small=("${few[@]}" --batch-size 24 --shards 4)
train=("${small[@]}" --checkpoint-every 5)
claim 'sst2: --shards 4 as one process' 'exits 0 "${train[@]}" --epochs 2 --out alone --metrics alone.json && mv out alone.out'
for n in 2 3 4; do
  claim "sst2: $n processes end with the same weights, checkpoints and metrics, and print the same" \
    'exits 0 together '$n' "${train[@]}" --epochs 2 --out run'$n' --metrics run'$n'.json && same_results alone run'$n' && same_numbers alone.json run'$n'.json && same_events alone run'$n' && same_output alone.out out && says 0'
done
claim 'sst2: a run of 4 processes is stopped by --steps' 'exits 0 together 4 "${train[@]}" --epochs 2 --steps 7 --out paused --metrics paused.json'
for n in 1 2 4; do
  cp -r paused resumed$n; cp paused.json resumed$n.json
  claim "sst2: it is resumed on $n, and ends in the same bits" \
    'exits 0 together '$n' "${train[@]}" --epochs 2 --out resumed'$n' --metrics resumed'$n'.json --resume && cmp alone/last.safetensors resumed'$n'/last.safetensors && same_numbers <(grep "\"step\"" alone.json) <(grep "\"step\"" resumed'$n'.json)'
done
claim 'sst2: --evaluate and --predict give the same as one process' \
  'exits 0 "$sst2" --evaluate --out alone && mv out evaluated && exits 0 together 3 "$sst2" --evaluate --out alone && same_output evaluated out &&
   head -n 20 "$examples/sst2/sample/dev.tsv" >texts && exits 0 "$sst2" --predict texts --out alone && mv out predicted && exits 0 together 2 "$sst2" --predict texts --out alone && cmp predicted out'
claim 'sst2: --accumulate 4 equals a batch of four times the size in 4 shards, to the bit' \
  'exits 0 "${few[@]}" --batch-size 6 --accumulate 4 --epochs 2 --out accumulated && cmp alone/last.safetensors accumulated/last.safetensors &&
   exits 0 together 2 "${few[@]}" --shards 2 --batch-size 12 --accumulate 2 --epochs 2 --out accumulated2 && cmp alone/last.safetensors accumulated2/last.safetensors'
claim 'sst2: one process without --shards has the same losses but for rounding, with the same dropout' \
  'exits 0 "${few[@]}" --batch-size 24 --steps 5 --metrics whole.json && paste <(losses whole.json) <(losses alone.json) | head -n 5 | awk "{ d = \$1 - \$2; if (d * d > 1e-10) bad = 1 } END { exit bad }"'
for n in 2 3; do
  claim "sst2: $n processes with --shard-optimizer have the same bits, and share the moments" \
    'exits 0 together '$n' "${train[@]}" --epochs 2 --out split'$n' --metrics split'$n'.json --shard-optimizer && same_results alone split'$n' && same_numbers alone.json split'$n'.json && grep -qE "^optimizer   state of [0-9]+ of [0-9]+ weights" out'
  cp -r paused split_resumed$n
  claim "sst2: a run that was paused is resumed with --shard-optimizer, and with it paused and resumed without" \
    'exits 0 together '$n' "${train[@]}" --epochs 2 --out split_resumed'$n' --shard-optimizer --resume --steps 11 && exits 0 "${train[@]}" --epochs 2 --out split_resumed'$n' --resume && cmp alone/last.safetensors split_resumed'$n'/last.safetensors'
done
claim 'sst2: --shard-optimizer changes nothing in one process' 'exits 0 "${train[@]}" --epochs 2 --out split1 --shard-optimizer && same_results alone split1'
claim 'sst2: --reduction fast trains' 'exits 0 together 3 "${small[@]}" --reduction fast --steps 3 --metrics fast.json && lines 3 "^{\"step\"" fast.json'
claim 'sst2: without --shards there are as many as processes, rounded up' \
  'exits 0 together 3 "${few[@]}" --batch-size 24 --epochs 2 --out default && cmp alone/last.safetensors default/last.safetensors'

program=bert_classifier bert=$folder/bert_classifier
tail -n +2 "$examples/sst2/sample/train.tsv" | cut -f 1 | head -n 120 >plain.txt
# At this width, gradients travel while the backward runs.
tiny=(--layers 1 --d-model 192 --heads 2 --ff-width 384 --max-length 32 --batch-size 16 --progress none --threads 1 --shards 4 --steps 5)
for flags in "--pretrain plain.txt" "--from-scratch --task sst2 --train-rows 100 --valid-rows 40" "--from-scratch --task sst2 --train-rows 100 --valid-rows 40 --precision bf16"; do
  read -r -a words <<<"$flags"
  claim "bert_classifier: $flags has the same bits as 1, 2 and 4 processes" \
    'rm -rf one two four && exits 0 "$bert" "${words[@]}" "${tiny[@]}" --out one && exits 0 together 2 "$bert" "${words[@]}" "${tiny[@]}" --shard-optimizer --out two && exits 0 together 4 "$bert" "${words[@]}" "${tiny[@]}" --out four && same_results one two && same_results one four'
done
for program in ag_news surnames; do
  other=("$folder/$program" --shards 2 --steps 3 --train-rows 64 --valid-rows 20 --progress none --threads 1)
  [ $program = surnames ] || other+=(--d-model 32)
  claim "$program: 2 processes have the same bits as one" 'rm -rf one two && exits 0 "${other[@]}" --out one && exits 0 together 2 "${other[@]}" --out two && same_results one two'
done
program=sst2

# --- errors: one sentence, the exit code of one process, and no process is left ---
refused() { # WHAT PATTERN COMMAND...
  "${@:3}" >out 2>err </dev/null
  exited=$?
  [ $exited = 2 ] && says 1 && grep -q -- "^$program: error: $2" err
  report "$1" $?
}
refused 'a wrong flag' "--lr: 'x' is not" together 3 "$sst2" --lr x
refused 'fewer shards than processes' '--shards 2 is less than the 3 processes' together 3 "$sst2" --shards 2
refused 'shards that are no power of two' "--shards: '6' is not a power of two" together 2 "$sst2" --shards 6
refused 'a folder that cannot be written' '/proc/none: ' together 3 "$sst2" --out /proc/none
refused 'a resumed run with other shards' '.*--batch-size is 24 with --shards 2 instead of 24 with --shards 4' together 2 "${few[@]}" --batch-size 24 --out paused --metrics paused.json --resume
mkdir -p here/data there/data
cp "$examples"/sst2/sample/* here/data && cp here/data/* there/data && sed -i 2d there/data/train.tsv
by_rank 'cd here' 'cd there'
refused 'processes that read other data' 'process 1 has other files or other data than process 0' together 2 bash by_rank "${small[@]}" --data data
refused 'processes that evaluate on other data' 'process 1 has other files or other data than process 0' together 2 bash by_rank "${small[@]}" --data data --evaluate --out "$work/alone"
by_rank : 'cd /'
refused 'data that one process does not find' 'process 1: here/data: is not a folder' together 2 bash by_rank "${small[@]}" --data here/data
for flag in '--epochs 2' --help '--evaluate --out alone' '--predict texts --out alone' '--steps 1' '--out new'; do
  by_rank : "set -- \"\$@\" $flag"
  refused "a process with $flag" 'process 1 was started with other flags than process 0' together 2 bash by_rank "${small[@]}"
done
by_rank : 'set -- "$@" --threads 2 --progress lines'
claim 'processes may have other --threads and --progress' 'exits 0 together 2 bash by_rank "$sst2" --train-rows 50 --valid-rows 10 --steps 1'
# Two models of the same sizes: the first process sends its own.
cp -r alone here/model && exits 0 "${few[@]}" --batch-size 24 --steps 1 --seed 5 --out there/model >/dev/null
by_rank 'cd here' 'cd there'
claim '--evaluate evaluates the model of the first process' \
  'exits 0 "$sst2" --valid-rows 60 --train-rows 300 --evaluate --out alone && mv out evaluated && exits 0 together 2 bash by_rank "$sst2" --valid-rows 60 --train-rows 300 --evaluate --out model && same_output evaluated out'
claim 'processes that MPI does not connect are an error' \
  'OMPI_COMM_WORLD_SIZE= SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 exits 2 "${few[@]}" --steps 1 && says 1 && grep -q "started as 4 processes, of which MPI connects 1" err'
program=tokenize
refused 'a program for one process' 'this program runs as one process, but was started as 2' together 2 "$folder/tokenize" --vocab "$examples/sst2/sample/vocab.txt"
program=sst2
# The first process can write 64 KiB to a file, so its checkpoint fails.
by_rank 'ulimit -f 64' :
claim 'a disk that is full for the first process ends all, and the run can be resumed' \
  '! together 3 bash by_rank "${train[@]}" --epochs 2 --out full >out 2>err && says 1 && grep -q "error: .*File too large" err &&
   exits 0 together 2 "${train[@]}" --epochs 2 --out full --resume && cmp alone/last.safetensors full/last.safetensors'

# disturbed SIGNAL: starts 4 processes and sends the signal to one of them while they train. Sets `exited`.
disturbed() {
  local pids=() job pid
  rm -rf run
  "${launcher[@]}" -n 4 "${train[@]}" --epochs 200 --out run >out 2>err &
  job=$!
  wait_for '[ -d run/checkpoint/000000000005 ]' || return 1
  sleep "0.$((RANDOM % 10))"
  for pid in $(pgrep -x sst2); do
    [ "$(readlink "/proc/$pid/cwd")" != "$work" ] || pids+=("$pid")
  done
  [ ${#pids[@]} = 4 ] || { echo "there are ${#pids[@]} processes"; kill $job; return 1; }
  kill "-$1" "${pids[RANDOM % 4]}"
  exited=0
  wait $job || exited=$?
}
for signal in TERM INT; do
  claim "SIG$signal to any process saves, and all end with 3" 'disturbed '$signal' && [ $exited = 3 ] && says 1 && grep -q "note: stopped by .* after step .*--resume" err'
done
for ((round = 1; round <= kills; ++round)); do
  claim "kill -9 of a process, round $round: the others end, and the run is resumed to the same bits" \
    'disturbed KILL && [ $exited != 0 ] && says 0 && exits 0 together $((1 << RANDOM % 3)) "${train[@]}" --epochs 200 --steps 130 --out run --resume; [ $exited = 0 ] && { [ -e long ] || exits 0 "${train[@]}" --epochs 200 --steps 130 --out long; } && cmp long/last.safetensors run/last.safetensors'
done
exit $code
