#!/usr/bin/env bash
# unit.sh PROGRAM [ARGUMENT...]: runs a test program. A program built with ThreadSanitizer runs without
# address randomization, because with some compilers it does not start if addresses are chosen from a large range.
set -euo pipefail
if grep -q __tsan_init "$1"; then
  export TSAN_OPTIONS=atexit_sleep_ms=0
  if setarch "$(uname -m)" -R true 2>/dev/null; then exec setarch "$(uname -m)" -R "$@"; fi
fi
exec "$@"
