#!/usr/bin/env bash
# unit.sh PROGRAM [ARGUMENT...]: runs a test program; at fixed addresses where it is ThreadSanitizer's, which with some
# compilers does not start where addresses are drawn from a large range.
set -euo pipefail
export TSAN_OPTIONS=atexit_sleep_ms=0
if grep -q __tsan_init "$1" && setarch "$(uname -m)" -R true 2>/dev/null; then exec setarch "$(uname -m)" -R "$@"; fi
exec "$@"
