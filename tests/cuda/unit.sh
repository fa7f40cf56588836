#!/usr/bin/env bash
# unit.sh PROGRAM [ARGUMENT...]: runs a test program. One of ThreadSanitizer's computes on the CPU with one thread, because it does
# not know how OpenMP's threads wait for each other; and it runs at fixed addresses, because with some compilers it does not
# start where addresses are drawn from a large range.
set -euo pipefail
if grep -q __tsan_init "$1"; then
  export TSAN_OPTIONS=atexit_sleep_ms=0 OMP_NUM_THREADS=1
  if setarch "$(uname -m)" -R true 2>/dev/null; then exec setarch "$(uname -m)" -R "$@"; fi
fi
exec "$@"
