#!/usr/bin/env bash
# Runs clang-tidy on the library's sources: on all of them, or on the named .cpp files.
#
#   tests/tidy.sh [argument of clang-tidy, or FILE...]
#
# If all are checked, unity builds combine several files each. This takes a third of the time, since most of the time is
# spent in the standard library's headers.
#
# Clang needs help with GCC's headers: it does not search the folder of omp.h, which uses an attribute in GCC's own way,
# and std::stable_sort uses functions that libstdc++ has deprecated. With one set of kernels, each file is read once.
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
