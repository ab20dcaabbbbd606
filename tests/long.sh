#!/usr/bin/env bash
# Checks that take too long for every change; run them overnight or before a release.
#
#   tests/long.sh [CHECK...]     all checks if none is named
#
#   address    every test under AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer
#   debug      every test in Debug, with g++, Makefiles and the checks of the standard library
#   thread     every test under ThreadSanitizer
#   valgrind   the tests of core and ops under valgrind, except the gradient checks and tests of forked children, which
#              never free the thread pool of their parent
#   analyzer   the Clang static analyzer
#   coverage   tests must reach at least 95 % of the lines and of the branches of core and ops
#   fuzz       an hour of processor time for each target
#   kills      200 random kills, divided among the programs that train, and a run in which each call that writes fails
#   ranks      1, 2, 4 and 8 processes of mpirun give the same bits in 50 steps of every mechanism and of every program
#              that can use several, and 20 random kills of one process
#   load       200,000 steps, and a million tokens through every linear mechanism
#   mutations  400 mutants
#   generators every generator with every compiler and every way to find CUDA
#
# It prints a line for each check; build/long/CHECK.log has the output. The checks use the programs and tests that
# tests/run.sh has built in build/, or build their own in build/long/.
# shellcheck disable=SC2317  # the checks are called by name
set -euo pipefail
cd "$(dirname "$0")/.."
checks=(address debug thread valgrind analyzer coverage fuzz kills ranks load mutations generators)
examples/install_packages.sh build test lint long
mkdir -p build/long

# Builds the tests with clang, with one set of kernels, in build/long/$1, with the flags $2.
build_tests() {
  cmake -G Ninja -B "build/long/$1" -D CMAKE_BUILD_TYPE=Release -D CMAKE_CXX_COMPILER=clang++-19 \
    -D CMAKE_CXX_FLAGS_RELEASE='-O1 -g1' -D CMAKE_CXX_FLAGS="$2" -D LINNET_CUDA=OFF -D LINNET_TESTS=ON \
    -D LINNET_PROGRAMS=ON -D LINNET_COMPILER_KNOWS_X86_64_V4=OFF &&
    cmake --build "build/long/$1"
}

# One test leaks with clang, which forgets a value that is being returned when a destructor throws.
address() {
  build_tests address '-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer' &&
    build/long/address/bin/linnet_tests --no-colors --test-case-exclude='op: one that ends in neither*'
}

debug() {
  cmake --preset debug -G 'Unix Makefiles' -D LINNET_TESTS=ON -D LINNET_WERROR=ON -D LINNET_CUDA=OFF \
    -D LINNET_COMPILER_KNOWS_X86_64_V4=OFF &&
    cmake --build --preset debug --parallel "$(nproc)" &&
    build/debug/bin/linnet_tests --no-colors
}

thread() {
  build_tests thread '-fsanitize=thread' &&
    TSAN_OPTIONS=die_after_fork=0 build/long/thread/bin/linnet_tests --no-colors
}

# valgrind knows no AVX-512.
valgrind() {
  LINNET_ISA=v3 OPENBLAS_CORETYPE=Haswell command valgrind --quiet --error-exitcode=1 --leak-check=full \
    --show-leak-kinds=definite build/bin/linnet_tests --no-colors \
    --source-file='*/tests/core/*,*/tests/ops/*' --test-case-exclude='gradients: every op*,*forked*'
}

analyzer() {
  tests/tidy.sh '--checks=-*,clang-analyzer-*'
}

coverage() {
  rm -f build/long/coverage/*.profraw  # of an earlier run
  build_tests coverage '-fprofile-instr-generate -fcoverage-mapping' &&
    LLVM_PROFILE_FILE=build/long/coverage/%p.profraw build/long/coverage/bin/linnet_tests --no-colors || return
  llvm-profdata-19 merge -sparse build/long/coverage/*.profraw -o build/long/coverage/tests.profdata || return
  local of_tests=(build/long/coverage/bin/linnet_tests -instr-profile build/long/coverage/tests.profdata)
  llvm-cov-19 report "${of_tests[@]}" core ops || return
  local room status=0
  for room in core ops; do
    llvm-cov-19 export -summary-only "${of_tests[@]}" "$room" | covered_enough "$room" || status=1
  done
  return "$status"
}

# Reads llvm-cov's summary from stdin. Passes if tests reach 95 % of the lines and of the branches. $1 names the folder.
covered_enough() {
  python3 -c '
import json, sys
totals = json.load(sys.stdin)["data"][0]["totals"]
shares = {kind: totals[kind]["percent"] for kind in ("lines", "branches")}
print(sys.argv[1] + ":", *(f"{share:.1f} % of the {kind}" for kind, share in shares.items()))
sys.exit(min(shares.values()) < 95)
' "$1"
}

fuzz() {
  local targets=(tests/fuzz/*_fuzz.cpp)
  tests/fuzz/run.sh $((3600 * ${#targets[@]} / $(nproc)))  # they share the processors
}

kills() {
  LINNET_KILLS=200 tests/some_cases.sh build/bin/linnet_tests --no-colors \
    --test-case='a run killed*,a run in which a call fails*,AtomicFile: a process killed*'
}

ranks() { LINNET_RANKS=1 LINNET_KILLS=20 tests/some_cases.sh build/bin/linnet_tests --no-colors --test-case='ranks: *'; }

load() { LINNET_LOAD=1 tests/some_cases.sh build/bin/linnet_tests --no-colors --test-case='load:*'; }

mutations() { tests/mutate.sh --count 400; }

generators() { tests/configurations.sh generators all; }

failed=0
for check in "${@:-${checks[@]}}"; do
  if [[ " ${checks[*]} " != *" $check "* ]]; then
    echo "$0: there is no check '$check'; the checks are ${checks[*]}" >&2
    exit 2
  fi
  if "$check" >"build/long/$check.log" 2>&1; then
    echo "$check: passed"
  else
    echo "$check: FAILED, see build/long/$check.log"
    failed=1
  fi
done
exit "$failed"
