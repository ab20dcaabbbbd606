#!/usr/bin/env bash
# Makes small mistakes in the library, one at a time, and counts those that a test notices; see tests/README.md.
set -euo pipefail
exec python3 "$(dirname "$0")/mutation/mutate.py" "$@"
