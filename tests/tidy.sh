#!/usr/bin/env bash
# Reads the library's sources with clang-tidy: all of them, or the .cpp files that are named.
#
#   tests/tidy.sh [argument of clang-tidy, or FILE...]
#
# All of them are read as unity builds of several files each, which takes a third of the time, since most of it goes into
# the standard library's headers.
#
# Reading GCC's headers with clang: omp.h is where clang does not look and uses an attribute in GCC's own way, and
# std::stable_sort uses what libstdc++ itself has deprecated. Configured with one set of kernels, it reads each once.
set -euo pipefail
cd "$(dirname "$0")/.."
arguments=() files=()
for argument in "$@"; do
  if [[ $argument == -* ]]; then
    arguments+=("$argument")
  else
    files+=("$argument")
  fi
done
unity=OFF
((${#files[@]} > 0)) || unity=ON
cmake --preset release -B build/tidy -DLINNET_CUDA=OFF -DLINNET_COMPILER_KNOWS_X86_64_V4=OFF -DLINNET_PROGRAMS=OFF \
  -DLINNET_TESTS=OFF -DCMAKE_UNITY_BUILD="$unity" -DCMAKE_UNITY_BUILD_BATCH_SIZE=20 >/dev/null
if [[ $unity == ON ]]; then
  mapfile -t files < <(sed -n 's/^ *"file": "\(.*\)".*/\1/p' build/tidy/compile_commands.json | grep -v project_text)
fi
omp_h=$(g++ -print-file-name=include/omp.h)
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy-19 -p build/tidy --quiet --extra-arg=-idirafter"${omp_h%/*}" \
    --extra-arg='-D__malloc__(deallocator)=__malloc__' --extra-arg=-Wno-deprecated-declarations \
    --extra-arg=-Wno-unknown-warning-option --extra-arg=-DLINNET_X86_VARIANTS \
    "${arguments[@]}"
