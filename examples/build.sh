#!/usr/bin/env bash
# Configures build/ for release, with the arguments for CMake that are given, and builds it. A folder that was configured
# with another generator than Ninja keeps it, since CMake refuses to change it.
set -euo pipefail
cd "$(dirname "$0")/.."

generator=()
if [[ -f build/CMakeCache.txt ]]; then
  generator=(-G "$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' build/CMakeCache.txt)")
fi
cmake --preset release "${generator[@]}" "$@"
cmake --build build --parallel "$(nproc)"
