# shellcheck shell=bash
# Functions of the programs' tests. A test script sources this file and sets `program` to the name that begins the
# errors. It prints `ok: …` or `FAILED: …` for each claim, and ends with `exit $code`.
set -uo pipefail
examples=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../examples")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
code=0
export OMP_NUM_THREADS=2

# report WHAT CODE: prints ok if CODE is 0, otherwise FAILED after the program's output, and then makes the test fail.
report() {
  if [ "$2" = 0 ]; then echo "ok: $1"; else head -c 2000 out err; echo "FAILED: $1"; code=1; fi
}

# claim WHAT CONDITION: the condition is a line of shell.
claim() { eval "$2"; report "$1" $?; }

# run COMMAND...: writes its output to the files out and err, and its exit code to the variable `exited`.
run() { "$@" >out 2>err; exited=$?; }

# exits CODE COMMAND...: runs the command without input and checks its exit code.
exits() { run "${@:2}" </dev/null; [ "$exited" = "$1" ]; }

# refusal WHAT PATTERN COMMAND...: checks that the command refuses its input or flags: exit code 2, nothing on standard
# output, and one line on standard error that matches PATTERN. A pattern that begins with ^ must match from the start of
# the error's text. Only notes that match $expected_notes may be printed besides the error.
expected_notes=
refusal() {
  local what=$1 pattern=".*$2"
  [[ $2 != ^* ]] || pattern=${2#^}
  shift 2
  run "$@" </dev/null
  [ -z "$expected_notes" ] || sed -i -E "/^$program: note: .*($expected_notes)/d" err
  [ "$exited" = 2 ] && [ ! -s out ] && lines 1 '' err && grep -q -- "^$program: error: $pattern" err
  report "$what" $?
}

# wait_for CONDITION: waits until it holds; fails if the job `job` ends first. The condition is a line of shell.
wait_for() {
  until eval "$1"; do
    kill -0 "$job" 2>/dev/null || return 1
    sleep 0.02
  done
}

prints() { diff - out <<<"$1"; }
lines() { [ "$(grep -c "$2" "$3")" = "$1" ]; }
all_there() { local file; for file; do [ -s "$file" ] || return 1; done; }
is_empty() { [ -z "$(find "$1" -mindepth 1)" ]; }
without_seconds() { sed -E 's/,"seconds":[^,}]*//' "$1"; }

# events FOLDER: a line for each value in a folder's event files, as TensorBoard would read them: the step, the tag, and
# a checksum of the value's bytes. Wall times are left out. The awk program parses the records and the protocol buffers
# (event_record.hpp); unit tests check the checksums of records.
events() {
  local file
  for file in "$1"/events.out.tfevents.*; do
    od -An -v -tu1 -w64 "$file" | LC_ALL=C awk '
      { for (i = 1; i <= NF; ++i) byte[size++] = $i }
      function damaged() { print "damaged"; exit }
      function varint(  value, unit) {
        for (unit = 1; byte[at] >= 128; unit *= 128) value += (byte[at++] - 128) * unit
        return value + byte[at++] * unit
      }
      # Reads the key of a field. Sets `field` to its number, `until` to its end and, for a varint, `number`
      # to its value.
      function read_key(  key) {
        key = varint(); field = int(key / 8)
        if (key % 8 == 0) { number = varint(); until = at }
        else if (key % 8 == 1) until = at + 8
        else if (key % 8 == 5) until = at + 4
        else if (key % 8 == 2) { number = varint(); until = at + number }
        else damaged()
      }
      function read_value(end,  tag, sum, i) {
        read_key()
        if (field != 1) damaged()
        for (; at < until; ++at) tag = tag sprintf("%c", byte[at])
        for (; at < end; ++at) sum = (sum * 31 + byte[at]) % 2147483647
        print step "\t" tag "\t" sum
      }
      function read_event(end,  summary_end) {
        for (step = 0; at < end; at = until) {
          read_key()
          if (field == 2) step = number
          if (field != 5) continue
          for (summary_end = until; at < summary_end; until = summary_end) { read_key(); read_value(until) }
        }
      }
      END {
        for (at = 0; at < size; at = after) {
          start = at + 12; end = start + byte[at] + 256 * byte[at + 1] + 65536 * byte[at + 2] + 16777216 * byte[at + 3]
          after = end + 4
          if (after > size) damaged()
          at = start
          read_event(end)
        }
      }'
  done
}
# steps_of TAG FOLDER: prints the steps of the tag's events.
steps_of() { events "$2" | awk -F'\t' -v tag="$1" '$2 == tag { printf "%s ", $1 }'; }

same_weights() { cmp "$1/last.safetensors" "$2/last.safetensors" && cmp "$1/model.safetensors" "$2/model.safetensors"; }
same_events() { diff <(events "$1") <(events "$2") && [ -n "$(events "$1")" ]; }
same_numbers() { diff <(without_seconds "$1") <(without_seconds "$2"); }
# same_files FOLDER FOLDER FILE...: checks that the files are equal in both folders.
same_files() { local file; for file in "${@:3}"; do cmp "$1/$file" "$2/$file" || return 1; done; }
same_run() { same_weights "$1" "$2" && same_numbers "$1.json" "$2.json" && same_events "$1" "$2"; }

# are_distributions CLASSES: checks that each line of out holds a class and all probabilities, that these sum to 1, and
# that the class is the first one with the highest probability.
are_distributions() {
  awk -F'\t' -v classes="$1" '
    NF != classes + 1 { exit 1 }
    { sum = 0; best = 2; for (i = 2; i <= NF; ++i) { sum += $i; if ($i > $best) best = i } }
    $1 != best - 2 || sum < 0.999999 || sum > 1.000001 { exit 1 }' out
}
# softmax FILE: prints the class and the probabilities of each line of `--predict --logits`, computed from its logits,
# with five decimals.
softmax() {
  awk -F'\t' '{
    sum = 0; line = $1
    for (i = 2; i <= NF; ++i) sum += exp($i)
    for (i = 2; i <= NF; ++i) line = line sprintf("\t%.5f", exp($i) / sum)
    print line
  }' "$1"
}
rounded() { awk -F'\t' '{ line = $1; for (i = 2; i <= NF; ++i) line = line sprintf("\t%.5f", $i); print line }' "$1"; }

losses() { sed -nE 's/^\{"step":[0-9]+,"loss":([^,]*),.*/\1/p' "$1"; }
# rates_are STEPS RATE FACTOR METRICS: checks that METRICS has STEPS steps, each with the learning rate RATE * FACTOR.
# FACTOR is an awk expression of the step s, which counts from 0.
rates_are() {
  sed -nE 's/^\{"step":([0-9]+),.*"lr":([^,]*),.*/\1 \2/p' "$4" | awk -v steps="$1" -v rate="$2" '
    function warm(s, n) { return s < n ? s / n : 1 }
    function line(s, n, total) { return s < n ? s / n : (total - s) / (total - n) }
    function cosine(s, n, total) { return s < n ? s / n : 0.5 * (1 + cos(3.141592653589793 * (s - n) / (total - n))) }
    { s = $1 - 1; apart = $2 - rate * ('"$3"'); if (apart > 1e-12 * rate || apart < -1e-12 * rate || $1 != NR) wrong = 1 }
    END { exit wrong || NR != steps }'
}
# Print the lowest validation loss of the epochs in a metrics file, and the validation loss of a final line.
lowest_loss() { sed -nE 's/^\{"epoch":.*"valid_loss":([^,]*),.*/\1/p' "$1" | sort -g | head -n 1; }
final_loss() { sed -nE 's/^\{"final":true,"split":"valid","loss":([^,]*),.*/\1/p' "$1"; }

# evaluates_as_trained TRAIN...: checks that the command in the array `evaluate` gives the final metrics of this
# training.
evaluates_as_trained() {
  exits 0 "$@" --out single --metrics single.json && exits 0 "${evaluate[@]}" --out single --metrics evaluated &&
    diff <(grep final single.json) evaluated
}
# evaluates_the_best TRAIN...: checks that the command in `evaluate` uses the best weights of this training and not the
# last ones.
evaluates_the_best() {
  exits 0 "$@" --out best --metrics best.json && ! cmp -s best/model.safetensors best/last.safetensors &&
    exits 0 "${evaluate[@]}" --out best --metrics bests && [ "$(final_loss bests)" = "$(lowest_loss best.json)" ]
}

# follows_the_cpu: checks that the losses of the run in `on_both` on the GPU are within 1e-5 of those on the CPU.
follows_the_cpu() {
  "${on_both[@]}" --metrics cpu.jsonl >out 2>err && "${on_both[@]}" --device cuda --metrics cuda.jsonl --out cuda >out 2>err &&
    paste <(losses cpu.jsonl) <(losses cuda.jsonl) | awk -v steps="$steps_on_both" '
      { apart = $1 - $2; if (!(apart <= 1e-5 && apart >= -1e-5)) wrong = 1 }
      END { exit wrong || NR != steps }'
}
# check_device PROGRAM STEPS COMMAND...: checks that --device cuda is refused without CUDA or a GPU, and otherwise that
# the losses of STEPS steps follow those of the CPU. Sets has_gpu. With a GPU, the model trained on it is left in the
# folder cuda.
check_device() {
  local path=$1
  steps_on_both=$2 on_both=("${@:3}") has_gpu=no
  if ! "$path" --version | grep -q ', CUDA'; then
    refusal '--device cuda reports that the build has no CUDA' 'this build has no CUDA' "$path" --device cuda
  elif [ -n "$("$path" --device cuda --predict - --init nowhere 2>&1 | grep -- '--device cuda:')" ]; then
    refusal '--device cuda reports that there is no GPU' '--device cuda: ' "$path" --device cuda
  else
    has_gpu=yes
    claim '--device cuda follows the losses of the CPU within 1e-5' follows_the_cpu
  fi
}
