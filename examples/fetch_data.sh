#!/usr/bin/env bash
# Downloads the data sets into data/ in the project's folder (or the folder that --to names) and checks their SHA-256.
#
#   examples/fetch_data.sh [--from DIR] [--to DIR] [--timeout SECONDS] [mnist] [tinyshakespeare]
#
# --from DIR copies from a folder with the layout of data/ instead of downloading. The files in it may be compressed
# by gzip or not. Files that are complete already are kept. A file gets its final name only when it is complete.
set -euo pipefail

mirrors_of() {
  case $1 in
    mnist)
      echo https://ossci-datasets.s3.amazonaws.com/mnist
      echo https://storage.googleapis.com/cvdf-datasets/mnist
      echo https://raw.githubusercontent.com/fgnt/mnist/master
      ;;
    tinyshakespeare)
      echo https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare
      echo https://cdn.jsdelivr.net/gh/karpathy/char-rnn@master/data/tinyshakespeare
      ;;
  esac
}

# The sums are those of the uncompressed files.
declare -A sums=(
  [mnist/train-images-idx3-ubyte.gz]=ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db
  [mnist/train-labels-idx1-ubyte.gz]=65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5
  [mnist/t10k-images-idx3-ubyte.gz]=0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7
  [mnist/t10k-labels-idx1-ubyte.gz]=ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2
  [tinyshakespeare/input.txt]=86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed
)

usage='fetch_data.sh [--from DIR] [--to DIR] [--timeout SECONDS] [mnist] [tinyshakespeare]'

usage_error() {
  echo "$0: $1; usage: $usage" >&2
  exit 2
}

from=
to=$(cd "$(dirname "$0")/.." && pwd)/data
timeout=300
sets=()
while (($# > 0)); do
  case $1 in
    --from | --to | --timeout)
      [[ -n ${2-} ]] || usage_error "$1 needs a value"
      declare "${1#--}=$2"
      shift 2
      ;;
    mnist | tinyshakespeare)
      sets+=("$1")
      shift
      ;;
    -h | --help)
      echo "Fetches the data sets into data/, or copies them from a folder, and checks them by SHA-256."
      echo "Usage: $usage"
      exit
      ;;
    *) usage_error "unknown argument '$1'" ;;
  esac
done
((${#sets[@]} > 0)) || sets=(mnist tinyshakespeare)
[[ $timeout =~ ^[1-9][0-9]*$ ]] || usage_error "--timeout $timeout is not a number of seconds"
if [[ -n $from && ! -d $from ]]; then
  echo "$0: --from $from: no such folder" >&2
  exit 1
fi

temporary=
# shellcheck disable=SC2317  # the trap calls it
cleanup() {
  [[ -z $temporary ]] || rm -f "$temporary"
  # Removes empty folders, because programs would take them for data.
  rmdir "$to/mnist" "$to/tinyshakespeare" "$to" 2>/dev/null || true
}
trap cleanup EXIT

# is_whole FILE NAME: whether FILE has the SHA-256 of the data set's file NAME.
is_whole() {
  local sum
  if [[ $2 == *.gz ]]; then
    sum=$(gzip -dc <"$1" 2>/dev/null | sha256sum) || return 1
  else
    sum=$(sha256sum <"$1")
  fi
  [[ ${sum%% *} == "${sums[$2]}" ]]
}

# get SOURCE FILE: copies or downloads SOURCE to FILE; prints why it failed.
get() {
  case $1 in
    https://*)
      curl --fail --silent --show-error --location --connect-timeout 5 --max-time "$timeout" --output "$2" "$1"
      ;;
    *)
      if [[ ! -f $1 && -f ${1%.gz} ]]; then
        gzip -nc <"${1%.gz}" >"$2"
      else
        cp "$1" "$2"
      fi
      ;;
  esac
}

# fetch NAME SOURCE...: gets the file NAME from the first SOURCE that has it complete.
fetch() {
  local name=$1 target=$to/$1 source
  shift
  if [[ -f $target ]] && is_whole "$target" "$name"; then
    echo "$name: already there"
    return
  fi
  if ! mkdir -p "$(dirname "$target")" || ! temporary=$(mktemp "$target.XXXXXX"); then
    echo "$name: cannot write to $to; name another folder with --to" >&2
    return 1
  fi
  for source in "$@"; do
    if ! get "$source" "$temporary"; then
      echo "$name: could not be had from $source" >&2
    elif ! is_whole "$temporary" "$name"; then
      echo "$name: $source gave a file with the wrong SHA-256" >&2
    elif chmod 644 "$temporary" && mv "$temporary" "$target"; then
      temporary=
      echo "$name: from $source"
      return
    fi
  done
  rm -f "$temporary"
  temporary=
  echo "$name: no source worked; place the file at $target yourself, or name a folder that has it with --from" \
    "(SHA-256 of the uncompressed file: ${sums[$name]})" >&2
  return 1
}

failed=0
for set in "${sets[@]}"; do
  if [[ -n $from ]]; then
    folders=("$from/$set")
  else
    mapfile -t folders < <(mirrors_of "$set")
  fi
  for name in "${!sums[@]}"; do
    if [[ $name == "$set"/* ]]; then
      fetch "$name" "${folders[@]/%//${name#*/}}" || failed=1
    fi
  done
done
exit $failed
