#!/usr/bin/env bash
# Configures build/ for release with the given CMake arguments, and builds it. A folder that was configured with
# another generator than Ninja keeps that generator, because CMake refuses to change it. The CUDA backend takes
# minutes to build, so it is built only if there is a GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

generator=()
if [[ -f build/CMakeCache.txt ]]; then
  generator=(-G "$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' build/CMakeCache.txt)")
fi
cuda=OFF
if nvidia-smi --list-gpus >/dev/null 2>&1; then
  cuda=AUTO
fi
cmake --preset release "${generator[@]}" -DLINNET_CUDA="$cuda" "$@"
cmake --build build --parallel "$(nproc)"
