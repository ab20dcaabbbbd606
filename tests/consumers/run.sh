#!/usr/bin/env bash
# Builds and runs a program against linnet in each way that linnet can be had: installed (static and shared) through
# find_package and through pkg-config, as a subdirectory, by FetchContent, and from its Debian packages' contents.
#
#   tests/consumers/run.sh [build folder of a release build]
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
build=$(cd "${1:-$root/build}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build_and_run() { # name, then arguments for cmake
  local name=$1
  shift
  cmake -S "$1" -B "$work/$name" -G Ninja "${@:2}" >"$work/$name.log" || { cat "$work/$name.log"; return 1; }
  cmake --build "$work/$name" --target program >>"$work/$name.log" || { cat "$work/$name.log"; return 1; }
  check "$name" "$work/$name/program"
}

check() { # name, program
  "$2" | grep -q '^loss 0\.' || { echo "$1: the program failed"; return 1; }
  echo "$1: built and ran"
}

cmake --install "$build" --prefix "$work/static" >"$work/install.log"
build_and_run find_package-static find_package -D CMAKE_PREFIX_PATH="$work/static"
PKG_CONFIG_PATH=$(dirname "$(find "$work/static" -name linnet.pc)")
export PKG_CONFIG_PATH
read -ra flags <<<"$(pkg-config --define-variable=prefix="$work/static" --cflags --libs --static linnet)"
g++ program.cpp "${flags[@]}" -o "$work/by_pkg_config"
check pkg-config-static "$work/by_pkg_config"

build_and_run add_subdirectory add_subdirectory
build_and_run fetch_content-shared fetch_content -D FETCHCONTENT_SOURCE_DIR_LINNET="$root" -D BUILD_SHARED_LIBS=ON \
  -D LINNET_INSTALL=ON -D CMAKE_BUILD_TYPE=Release
cmake --install "$work/fetch_content-shared" --prefix "$work/shared" >>"$work/install.log"
build_and_run find_package-shared find_package -D CMAKE_PREFIX_PATH="$work/shared"
library=$(find "$work/shared" -name liblinnet.so)
if nm -D --defined-only "$library" | grep -vE ' _Z(NK?|T[ISTV]N|T[hv].*_N)6linnet'; then
  echo "the shared library exports these names from outside namespace linnet"
  exit 1
fi
echo "shared: exports $(nm -D --defined-only "$library" | wc -l) names, all of linnet"

# The packages: that they hold what they should, and that the programs run from where they are unpacked.
(cd "$work" && cpack --config "$build/CPackConfig.cmake" -B "$work/packages" >>"$work/install.log")
for package in "$work"/packages/*.deb; do
  dpkg-deb --extract "$package" "$work/unpacked"
done
"$work/unpacked/usr/bin/linnet-sample" --version
test -f "$work/unpacked/usr/include/linnet/linnet.h"
echo "packages: unpacked and ran"
