#!/usr/bin/env bash
# programs.sh FOLDER: runs the example programs that were built into FOLDER, on the samples that ship with the project.
# Says `ok: …` or `FAILED: …` for each claim.
set -uo pipefail
code=0
for program in sst2 ag_news surnames bert_classifier tokenize; do
  "$(dirname "$0")/$program.sh" "$1" || code=1
done
exit $code
