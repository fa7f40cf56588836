#!/usr/bin/env bash
# small_programs.sh FOLDER: runs the small example programs that were built into FOLDER. Each checks its own result.
# Prints `ok: …` or `FAILED: …` for each program.
set -uo pipefail
code=0
export OMP_NUM_THREADS=2
for source in "$(dirname "$0")"/../examples/small/*.cpp; do
  name=$(basename "$source" .cpp)
  if output=$("$1/$name" 2>&1); then
    echo "ok: $name: ${output##*$'\n'}"
  else
    echo "$output"
    echo "FAILED: $name"
    code=1
  fi
done
exit $code
