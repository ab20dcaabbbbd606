#!/usr/bin/env bash
# Runs the formatter or a linter on all its files, or on the named files (paths from the root). They change nothing.
#
#   tests/lint.sh format [FILE...]     clang-format: the C++ and CUDA sources
#   tests/lint.sh shell [FILE...]      shellcheck: the scripts
#   tests/lint.sh cppcheck [FILE...]   cppcheck: the C++ sources and headers, except the tests and cuda/
#   tests/lint.sh tidy [FILE...]       clang-tidy: the library's .cpp files, with the headers that they include
#
# `examples/install_packages.sh build lint` installs what they need. cppcheck finds more if build/ is configured.
set -euo pipefail
cd "$(dirname "$0")/.."

format() {
  if (($# == 0)); then
    mapfile -d '' -t all < <(
      find core ops nn cuda examples tests \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0)
    set -- "${all[@]}"
  fi
  clang-format-19 --dry-run -Werror "$@"
}

shell() {
  if (($# == 0)); then
    mapfile -d '' -t all < <(find . -name '*.sh' -not -path './build/*' -print0)
    set -- .ci/run "${all[@]}"
  fi
  shellcheck "$@"
}

# A second linter. These warnings are off because they are wrong here: destructors that throw (Op's does), small structs
# by value, constructors that only throw, alloca, and code that its parser does not understand.
cppcheck() {
  local kind suppressed=()
  for kind in passedByValue uninitMemberVar exceptThrowInDestructor allocaCalled syntaxError internalAstError \
    missingIncludeSystem; do
    suppressed+=("--suppress=$kind")
  done
  (($# > 0)) || set -- core ops nn examples
  command cppcheck --std=c++20 --language=c++ --enable=warning,performance,portability --inline-suppr \
    "${suppressed[@]}" -I build/include -DLINNET_ISA=baseline -j "$(nproc)" --quiet --error-exitcode=1 "$@"
}

tidy() {
  tests/tidy.sh "$@"
}

case ${1-} in
  format | shell | cppcheck | tidy) "$@" ;;
  *)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
