#!/usr/bin/env bash
# programs.sh FOLDER: runs the tests of the trainers and of tokenize, which were built into FOLDER, on the samples that
# ship with the project. Prints `ok: …` or `FAILED: …` for each claim.
set -uo pipefail
code=0
for program in sst2 ag_news surnames bert_classifier problems sentence_trainer tokenize; do
  "$(dirname "$0")/$program.sh" "$1" || code=1
done
exit $code
