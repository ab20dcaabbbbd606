#!/usr/bin/env bash
# Builds and runs a program against linnet in each way to use linnet: installed (static and shared) through
# find_package and through pkg-config, as a subdirectory, by FetchContent, and from its Debian packages. The builds also
# differ in generators, C++ standards, warnings as errors, LTO, and spaces in paths.
#
#   tests/consumers/run.sh [build folder of a release build]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$root/build}" && pwd)
cd "$root/tests/consumers"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CMAKE_GENERATOR=Ninja # the default; some builds choose another
strict=(-D CMAKE_CXX_FLAGS='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Werror')
with_lto=(-D CMAKE_INTERPROCEDURAL_OPTIMIZATION=ON)

build_and_run() { # name, then arguments for cmake
  local name=$1
  shift
  if ! (cmake -S "$1" -B "$work/$name" "${@:2}" &&
    cmake --build "$work/$name" --parallel "$(nproc)" --target program) >"$work/$name.log" 2>&1; then
    cat "$work/$name.log"
    return 1
  fi
  check "$name" "$work/$name/program"
}

check() { # name, program
  "$2" | grep -q '^loss 0\.' || { echo "$1: the program failed"; return 1; }
  echo "$1: built and ran"
}

by_pkg_config() { # static or shared
  local pc flags
  pc=$(dirname "$(find "$work/$1" -name linnet.pc)")
  read -ra flags <<<"$(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs linnet)"
  g++ program.cpp "${flags[@]}" -Wl,-rpath,"${pc%/*}" -o "$work/by_pkg_config-$1"
  check "pkg-config-$1" "$work/by_pkg_config-$1"
}

cmake --install "$build" --prefix "$work/static" >"$work/install.log"
build_and_run find_package-static find_package -D CMAKE_PREFIX_PATH="$work/static"
by_pkg_config static
cmake --install "$build" --prefix "$work/in a place" >>"$work/install.log"
CMAKE_GENERATOR='Unix Makefiles' build_and_run 'find_package static' find_package "${strict[@]}" "${with_lto[@]}" \
  -D CMAKE_CXX_STANDARD=23 -D CMAKE_PREFIX_PATH="$work/in a place"

# With CUDA, if there is a Toolkit: only configures, since building takes long.
for generator in Ninja 'Unix Makefiles'; do
  cmake -S fetch_content -B "$work/cuda $generator" -G "$generator" -D FETCHCONTENT_SOURCE_DIR_LINNET="$root" \
    >"$work/cuda.log" 2>&1 || { cat "$work/cuda.log"; exit 1; }
done

# These compile linnet again. The build that compiles fastest is enough here.
small=(-D LINNET_CUDA=OFF -D LINNET_COMPILER_KNOWS_X86_64_V4=OFF -D CMAKE_UNITY_BUILD=ON
  -D CMAKE_CXX_FLAGS_RELEASE=-O1 -D LINNET_KERNEL_OPTIMIZATION=-O1)
printf '#!/bin/sh\ncase " $* " in *" -fopenmp "*) exit 1 ;; esac\nexec cc "$@"\n' >"$work/cc without OpenMP"
chmod +x "$work/cc without OpenMP"
cmake -S add_subdirectory -B "$work/add_subdirectory" "${small[@]}" -D CMAKE_C_COMPILER="$work/cc without OpenMP" \
  -D LINNET_INSTALL=ON >"$work/add_subdirectory.log" 2>&1 ||
  { cat "$work/add_subdirectory.log"; exit 1; } # not built: FetchContent, which is built below, calls add_subdirectory
mkdir "$work/a copy"
(cd "$root" && cp -r CMakeLists.txt LICENSE core ops nn cuda "$work/a copy")
CMAKE_GENERATOR='Unix Makefiles' build_and_run 'fetch_content shared' fetch_content "${small[@]}" "${with_lto[@]}" \
  -D CMAKE_CXX_FLAGS='-Wall -Wextra -Werror' -D CMAKE_CXX_STANDARD=23 -D FETCHCONTENT_SOURCE_DIR_LINNET="$work/a copy" \
  -D BUILD_SHARED_LIBS=ON -D LINNET_INSTALL=ON -D CMAKE_INSTALL_INCLUDEDIR=headers -D CMAKE_BUILD_TYPE=Release
cmake --install "$work/fetch_content shared" --prefix "$work/shared" >>"$work/install.log"
build_and_run find_package-shared find_package -D CMAKE_PREFIX_PATH="$work/shared"
by_pkg_config shared
library=$(find "$work/shared" -name liblinnet.so)
if nm -D --defined-only "$library" | grep -vE ' _Z(NK?|T[ISTV]N|T[hv].*_N)6linnet'; then
  echo "the shared library exports these names from outside namespace linnet"
  exit 1
fi
echo "shared: exports $(nm -D --defined-only "$library" | wc -l) names, all of linnet"

# A program that loads and unloads linnet, and one that has its own OpenMP and BLAS.
read -ra flags <<<"$(PKG_CONFIG_PATH=${library%/*}/pkgconfig pkg-config --cflags --libs linnet)"
flags+=("-Wl,-rpath,${library%/*}")
g++ -shared -fPIC plugin.cpp "${flags[@]}" -o "$work/plugin.so"
g++ plugin_host.cpp -std=c++20 -ldl -o "$work/plugin_host"
(cd "$work" && check 'loaded and unloaded' ./plugin_host)
clang++-19 -O1 -fopenmp -std=c++20 openmp_host.cpp plugin.cpp "${flags[@]}" -o "$work/openmp_host"
check 'beside another OpenMP and BLAS' "$work/openmp_host"

# The packages, in an empty dpkg database: they are installed, run, and removed without leaving files.
(cd "$work" && cpack --config "$build/CPackConfig.cmake" -B "$work/packages" >>"$work/install.log")
mkdir -p "$work/system/var/lib/dpkg/info" "$work/system/var/lib/dpkg/updates"
touch "$work/system/var/lib/dpkg/status"
root_user=()
((EUID == 0)) || root_user=(unshare --map-root-user)
package() {
  "${root_user[@]}" dpkg --root="$work/system" --force-depends --log=/dev/null "$@" >>"$work/install.log" 2>&1
}
package --install "$work"/packages/*.deb || { cat "$work/install.log"; exit 1; }
"$work/system/usr/bin/linnet-sample" --version
build_and_run find_package-debian find_package -D CMAKE_PREFIX_PATH="$work/system/usr"
package --purge linnet linnet-dev || { cat "$work/install.log"; exit 1; }
if left=$(find "$work/system/usr" -mindepth 1 2>/dev/null) && [[ -n $left ]]; then
  echo "the packages left behind: $left"
  exit 1
fi
echo "packages: installed, ran, and were removed"
