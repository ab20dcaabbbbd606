#!/usr/bin/env bash
# Installs the distribution's packages that linnet needs, on Debian 12 or Ubuntu 22.04 and later.
#
#   examples/install_packages.sh [build] [test] [cache] [lint] [long] [docs]
#
# It lists the missing packages before it installs them, and does nothing if there are none. Only lint may remove
# packages: apt-get then replaces the OpenMP library of another clang, because Debian allows only one of them.
set -euo pipefail

build=(g++ cmake ninja-build pkg-config libopenblas-openmp-dev zlib1g-dev libpng-dev libcairo2-dev fonts-dejavu-core
  libcli11-dev libfmt-dev nlohmann-json3-dev libprotobuf-dev protobuf-compiler
  openmpi-bin libopenmpi-dev curl ca-certificates)
test=(doctest-dev librapidcheck-dev)
cache=(ccache)
lint=(clang-format-19 clang-tidy-19 cppcheck clang-19 libclang-rt-19-dev libomp-19-dev make shellcheck
  qemu-user-static g++-aarch64-linux-gnu)
long=(llvm-19 valgrind)
docs=(doxygen mawk libjs-mathjax python3)

removing=(--no-remove)
wanted=()
for group in "${@:-build}"; do
  case $group in
    build) wanted+=("${build[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    cache) wanted+=("${cache[@]}") ;;
    lint) wanted+=("${lint[@]}") removing=() ;;
    long) wanted+=("${long[@]}") ;;
    docs) wanted+=("${docs[@]}") ;;
    *)
      echo "$0: unknown group '$group'; the groups are build, test, cache, lint, long and docs" >&2
      exit 2
      ;;
  esac
done

is_installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "$0: this system has no apt; install what these Debian packages hold: ${wanted[*]}" >&2
  exit 1
fi

missing=()
for package in "${wanted[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  exit 0
fi

echo "To be installed with apt-get: ${missing[*]}"
as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "$0: installing packages needs root or sudo; as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
as_root+=(env DEBIAN_FRONTEND=noninteractive)

"${as_root[@]}" apt-get update -q ||
  echo "$0: apt-get update failed; trying with the package lists at hand" >&2
"${as_root[@]}" apt-get install -q -y --no-install-recommends "${removing[@]}" "${missing[@]}"
