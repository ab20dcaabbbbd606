#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test. The last line counts the test cases.
set -euo pipefail
cd "$(dirname "$0")/.."

examples/install_packages.sh build test
# The CUDA backend takes four minutes to build and is tested only where there is a GPU, so it is built only there.
cuda=OFF
if nvidia-smi --list-gpus >/dev/null 2>&1; then
  cuda=AUTO
fi
examples/build.sh -DLINNET_TESTS=ON -DLINNET_WERROR=ON -DLINNET_CUDA="$cuda"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
build/bin/linnet_tests --no-colors | tee "$log" || status=$?

# A test without the real data that it needs prints SKIPPED and returns, which doctest takes for a pass.
passed=0 failed=0 skipped=0
if [[ $(grep '^\[doctest\] test cases:' "$log") =~ ([0-9]+)\ passed\ \|\ +([0-9]+)\ failed\ \|\ +([0-9]+)\ skipped ]]; then
  without_data=$(grep -c '^SKIPPED: ' "$log" || true)
  passed=$((BASH_REMATCH[1] - without_data))
  failed=${BASH_REMATCH[2]}
  skipped=$((BASH_REMATCH[3] + without_data))
fi
if ((status != 0 && failed == 0)); then
  echo "linnet_tests ended with status $status"
  failed=1
fi
echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))
