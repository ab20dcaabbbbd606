#!/usr/bin/env bash
# Feeds damaged and generated files and command lines to all readers, under AddressSanitizer and
# UndefinedBehaviorSanitizer.
#
#   tests/fuzz/run.sh [SECONDS [TARGET...]]
#
# The targets run side by side for SECONDS (default 120), each from the seeds in tests/fuzz/corpus/TARGET; all of
# tests/fuzz/*_fuzz.cpp unless some are named (safetensors, idx, ...). An input that crashes, leaks, hangs for 10 seconds
# or takes too much memory is saved in build/fuzz/findings, and the exit status is 1.
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=${1:-120}
targets=("${@:2}")
if ((${#targets[@]} == 0)); then
  for source in tests/fuzz/*_fuzz.cpp; do
    name=${source##*/}
    targets+=("${name%_fuzz.cpp}")
  done
fi

# With all checks of UndefinedBehaviorSanitizer the kernels take twice as long to compile. Here they only have the
# checks of memory; `tests/long.sh address` uses all.
cmake -G Ninja -B build/fuzz -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=clang++-19 -DLINNET_FUZZ=ON \
  -DLINNET_CUDA=OFF -DLINNET_COMPILER_KNOWS_X86_64_V4=OFF -DLINNET_TESTS=ON -DLINNET_TEST_ROOMS='core;ops/matmul' \
  -DLINNET_WERROR=ON -DCMAKE_UNITY_BUILD=ON -DLINNET_KERNEL_OPTIMIZATION='-O1;-fno-sanitize=undefined;-fsanitize=alignment,bounds' \
  -DCMAKE_CXX_FLAGS_RELEASE='-O1 -DNDEBUG' \
  -DCMAKE_CXX_FLAGS='-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -g1 -D_GLIBCXX_ASSERTIONS' >/dev/null
cmake --build build/fuzz --target "${targets[@]/%/_fuzz}"
mkdir -p build/fuzz/findings

# Runs target $1 from its seeds, in a corpus that grows from run to run.
fuzz() {
  local corpus=build/fuzz/corpus/$1 log=build/fuzz/$1.log status=0
  mkdir -p "$corpus"
  LINNET_FUZZ_ACCEPTED=1 OPENBLAS_NUM_THREADS=1 "build/fuzz/bin/$1_fuzz" "tests/fuzz/corpus/$1"/* >"$log" 2>&1 || status=$?
  if ((status != 0)) || ! grep -q '^ACCEPTED$' "$log"; then
    tail -n 20 "$log"
    echo "FOUND: $1: a seed fails, or all of them are refused: see $log"
    return 1
  fi
  OPENBLAS_NUM_THREADS=1 "build/fuzz/bin/$1_fuzz" "$corpus" "tests/fuzz/corpus/$1" -max_total_time="$seconds" \
    -timeout=10 -rss_limit_mb=4096 -max_len=262144 -use_value_profile=1 -print_final_stats=1 -len_control=1 \
    -artifact_prefix="build/fuzz/findings/$1-" >"$log" 2>&1 || status=$?
  if ((status != 0)); then
    tail -n 60 "$log"
    echo "FOUND: $1: see build/fuzz/findings, and $log"
    return 1
  fi
  echo "$1: $(sed -n 's/stat::number_of_executed_units: *//p' "$log") inputs, none of them harmful"
}
export -f fuzz
export seconds

printf '%s\n' "${targets[@]}" | xargs -P 0 -I {} bash -c 'fuzz {}'
