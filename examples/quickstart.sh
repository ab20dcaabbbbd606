#!/usr/bin/env bash
# Installs missing packages, builds linnet, and trains four attention mechanisms side by side on Tiny Shakespeare. It
# prints a table and a text sample of each, and draws the losses, within 4 minutes on 4 cores (without the
# installation).
set -euo pipefail
cd "$(dirname "$0")/.."

examples/install_packages.sh build

SECONDS=0
examples/build.sh -DLINNET_PROGRAMS=ON -DLINNET_TESTS=OFF

text=tinyshakespeare/input.txt
if [[ ! -f ${LINNET_DATA:-data}/$text && ! -f data/$text ]]; then
  echo "Tiny Shakespeare is not here yet; trying to fetch it into data/"
  examples/fetch_data.sh --timeout 20 tinyshakespeare ||
    echo "Going on without it: the text will be the project's own sources."
fi

out=out/quickstart-$(date +%Y%m%d-%H%M%S)
build/bin/compare --task shakespeare --attention softmax,fastmax1,fastmax2,fastformer --steps 500 --eval-every 50 \
  --out "$out"
