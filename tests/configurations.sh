#!/usr/bin/env bash
# Tests other ways to configure and build linnet than that of run.sh.
#
#   tests/configurations.sh generators [all]  configures with every generator, compiler, build type, with and without
#                                             CUDA: a third of the combinations, or all
#   tests/configurations.sh packages          configures without the packages that only the programs and the tests need,
#                                             and compiles what stands in for libraries; configures with MPI's
#                                             compiler, and with the preset after other settings
#   tests/configurations.sh rooms [BUILD]     links the tests of each top-level folder alone, in a build folder with all
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { # message, log
  cat "$2"
  echo "FAILED: $1"
  exit 1
}

# Configures $1, a folder in $work, with the arguments that follow. CMake's output goes to $1.log.
configure() {
  cmake -S . -B "$work/$1" "${@:2}" >"$work/$1.log" 2>&1
}

# First a configuration must fail at its end, when only the generation is left. Then a correct one in the same folder
# must pass. (configure_once tests that a correct one passes in a new folder.)
configure_twice() {
  local what="${*:2}"
  local log=$work/$1.log
  if configure "$1" "${@:2}" -D LINNET_TEST_ROOMS=none; then
    fail "$what: passes with a room of tests that is not there" "$log"
  fi
  grep -q 'there is no tests/none' "$log" || fail "$what: fails in another way than it should" "$log"
  configure "$1" "${@:2}" -D LINNET_TEST_ROOMS=core || fail "$what, after a configuration that failed" "$log"
  echo "after a failure: $what"
}

configure_once() {
  configure "$@" || fail "${*:2}" "$work/$1.log"
  echo "at once: ${*:2}"
}

# CUDA as CMake finds it, CUDA off, and a compiler that does not exist.
cuda_ways=(LINNET_CUDA=AUTO LINNET_CUDA=OFF CMAKE_CUDA_COMPILER=/nonexistent/nvcc)

# Both compilers side by side, since a configuration keeps one core busy.
generators() { # all, or nothing
  local clang status=0
  generators_of clang++-19 1 "$@" &
  clang=$!
  generators_of g++ 0 "$@" || status=$?
  wait "$clang" || status=$?
  return "$status"
}

generators_of() { # compiler, number of the first way to find CUDA, all or nothing
  local compiler=$1 number=$2 which=${3-} build how generator type ways cuda
  for build in 'once|Unix Makefiles|Release' 'twice|Unix Makefiles|Debug' 'twice|Ninja|RelWithDebInfo' \
    'once|Ninja Multi-Config|'; do
    IFS='|' read -r how generator type <<<"$build"
    ways=("${cuda_ways[@]}")
    [[ $which == all ]] || ways=("${cuda_ways[number % 3]}")
    for cuda in "${ways[@]}"; do
      "configure_$how" "$compiler-$((++number))" -G "$generator" ${type:+-D CMAKE_BUILD_TYPE="$type"} \
        -D CMAKE_CXX_COMPILER="$compiler" -D "$cuda" -D LINNET_TESTS=ON
    done
  done
}

# Configures without CMake's package $1. CMake must print that the build leaves out $2. If $3 is an option that demands
# $2, its error must name the package and the option.
without() { # package, programs or tests, option that asks for them
  rm -rf "$work/without"
  local hidden=(-D LINNET_CUDA=OFF -D "CMAKE_DISABLE_FIND_PACKAGE_$1=ON")
  configure without "${hidden[@]}" || fail "without $1" "$work/without.log"
  grep -q "linnet: .*$2.*$1" "$work/without.log" || fail "without $1: no line says so" "$work/without.log"
  if [[ -n ${3-} ]]; then
    if configure without "${hidden[@]}" -D "$3=ON"; then
      fail "without $1, $3=ON: passes" "$work/without.log"
    fi
    # CMake breaks the lines of a message.
    tr -s ' \n' ' ' <"$work/without.log" | grep -q "the $2 need .*$1 .*install_packages.sh.* -D$3=OFF" ||
      fail "without $1, $3=ON: the error does not name the ways out" "$work/without.log"
    configure without -D "CMAKE_DISABLE_FIND_PACKAGE_$1=OFF" || fail "with $1 after a failure" "$work/without.log"
  fi
  echo "without $1: no $2"
}

packages() {
  without doctest tests LINNET_TESTS
  without rapidcheck tests LINNET_TESTS
  without CLI11 tests LINNET_TESTS
  without CLI11 programs LINNET_PROGRAMS
  without PkgConfig programs LINNET_PROGRAMS # which finds cairo
  without Protobuf tensorboard
  compiles_stub examples/CMakeFiles/linnet_examples.dir/support/tensorboard/stub.cpp.o CMAKE_DISABLE_FIND_PACKAGE_Protobuf=ON
  compiles_stub CMakeFiles/linnet.dir/core/distributed/stub.cpp.o LINNET_MPI=OFF
  mpi_compiler
  preset_again
}

# MPI's own compiler hides which library it links. CMake must print what to do instead.
mpi_compiler() {
  configure_once mpi -D LINNET_CUDA=OFF -D LINNET_PROGRAMS=OFF -D CMAKE_CXX_COMPILER=mpicxx
  grep -q "one process, because the C++ compiler is MPI's wrapper" "$work/mpi.log" ||
    fail "mpicxx: no line says what to do" "$work/mpi.log"
}

# The preset makes whole builds also in a folder that was configured without some parts, as by quickstart.sh.
preset_again() {
  local settings
  for settings in '-D LINNET_TESTS=OFF -D LINNET_PROGRAMS=ON' ''; do
    # shellcheck disable=SC2086  # several words
    cmake --preset release -B "$work/preset" -D LINNET_CUDA=OFF $settings >"$work/preset.log" 2>&1 ||
      fail "preset release $settings" "$work/preset.log"
  done
  [[ $(grep -cE '^LINNET_(TESTS|PROGRAMS):STRING=AUTO$' "$work/preset/CMakeCache.txt") == 2 ]] ||
    fail "preset release: keeps what an earlier configuration left out" "$work/preset.log"
  echo "preset release: whole after a configuration without tests"
}

# Compiles what stands in for a library, alone: $1 is its object, and the setting $2 leaves the library out.
compiles_stub() {
  local compile
  rm -rf "$work/stub"
  configure stub -G Ninja -D LINNET_CUDA=OFF -D LINNET_WERROR=ON -D "$2" || fail "$2" "$work/stub.log"
  compile=$(ninja -C "$work/stub" -t commands "$1" | tail -n 1)
  [[ $compile == *" -o $1 "* ]] || fail "$2: there is no $1" "$work/stub.log"
  mkdir -p "$work/stub/$(dirname "$1")"
  (cd "$work/stub" && eval "$compile") >"$work/stub.log" 2>&1 || fail "$2: its stub does not compile" "$work/stub.log"
  echo "compiled: $1"
}

# Links the objects that exist already: another LINNET_TEST_ROOMS for the build itself would delete those of the other
# folders.
rooms() {
  local build=${1:-build} room link status=0
  for room in core ops nn cuda examples; do
    configure rooms -G Ninja -D CMAKE_BUILD_TYPE=Release -D LINNET_CUDA=OFF -D LINNET_TESTS=ON \
      -D LINNET_TEST_ROOMS="$room" || fail "the room $room alone: not configured" "$work/rooms.log"
    link=$(ninja -C "$work/rooms" -t commands linnet_tests | tail -n 1)
    [[ $link == *' -o bin/linnet_tests '* ]] || fail "the room $room alone: no link command" "$work/rooms.log"
    if (cd "$build" && eval "${link/ -o bin\/linnet_tests / -o $work/room_tests }") >"$work/rooms.log" 2>&1; then
      echo "the room $room alone: linked"
    else
      cat "$work/rooms.log"
      echo "FAILED: the room $room alone"
      status=1
    fi
  done
  return "$status"
}

case ${1-} in
  generators | packages | rooms) "$@" ;;
  *)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
