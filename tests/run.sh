#!/usr/bin/env bash
# Installs missing packages, builds, and runs every test. The last line counts the test cases.
set -euo pipefail
cd "$(dirname "$0")/.."

examples/install_packages.sh build test
examples/build.sh -DLINNET_TESTS=ON -DLINNET_WERROR=ON

# Two halves side by side, since many tests run on one thread or wait for a program.
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
examples='*/tests/examples/*'
build/bin/linnet_tests --no-colors --source-file="$examples" >"$logs/examples" 2>&1 &
status=0
build/bin/linnet_tests --no-colors --source-file-exclude="$examples" 2>&1 | tee "$logs/others" || status=$?
wait $! || status=$?
cat "$logs/examples"

# A test without the real data that it needs prints SKIPPED and returns, which doctest counts as a pass.
skipped=$(cat "$logs"/* | grep -c '^SKIPPED: ' || true)
passed=$((-skipped)) failed=0
for log in "$logs"/*; do
  if [[ $(grep '^\[doctest\] test cases:' "$log") =~ ([0-9]+)\ passed\ \|\ +([0-9]+)\ failed ]]; then
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
  else
    echo "linnet_tests did not come to its end"
    status=1
  fi
done
if ((status != 0 && failed == 0)); then
  echo "linnet_tests ended with status $status"
  failed=1
fi
echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))
