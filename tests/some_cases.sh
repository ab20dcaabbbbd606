#!/usr/bin/env bash
# Runs a command that runs linnet_tests, and fails unless test cases were run and all of them passed. (A filter that
# matches no test case would pass without this.)
#
#   tests/some_cases.sh build/bin/linnet_tests --test-case='load:*'
set -uo pipefail

log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$@" 2>&1 | tee "$log" || exit
if ! grep -qE '^\[doctest\] test cases: .* [1-9][0-9]* passed \| +0 failed' "$log"; then
  echo "no test case was run by: $*"
  exit 1
fi
