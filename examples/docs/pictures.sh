#!/usr/bin/env bash
# Takes pictures of ten pages of the site, for someone to look at: 390 and 1,280 pixels wide, light and dark.
#
#   examples/docs/pictures.sh [SITE] [OUT]     build/docs/html and build/docs/pictures without them
#
# It needs Chromium (the package chromium) and the site (cmake --build build --target docs).
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
site=$(realpath -m "${1:-$root/build/docs/html}")
out=$(realpath -m "${2:-$root/build/docs/pictures}")
pages=(index pages papers from_pytorch derivations tutorial_02_tensors tutorial_06_attention tutorial_09_fastmax
  classlinnet_1_1Tensor ops_fastmax_fastmax_gradient)

if ! command -v chromium >/dev/null; then
  echo "$0: chromium not found; install the package chromium" >&2
  exit 1
fi
sandbox=()
if ((EUID == 0)); then
  sandbox=(--no-sandbox) # Chromium refuses to run as root with it
fi
mkdir -p "$out"
for page in "${pages[@]}"; do
  if [[ ! -e $site/$page.html ]]; then
    echo "$0: there is no $site/$page.html; make the site with cmake --build build --target docs" >&2
    exit 1
  fi
  for width in 390 1280; do
    for scheme in dark:0 light:1; do
      picture=$out/$page-$width-${scheme%:*}.png
      rm -f "$picture"
      timeout 60 chromium --headless=new "${sandbox[@]}" --disable-gpu --hide-scrollbars \
        --allow-file-access-from-files "--blink-settings=preferredColorScheme=${scheme#*:}" \
        "--window-size=$width,1600" --virtual-time-budget=8000 "--screenshot=$picture" "file://$site/$page.html" \
        >"$out/chromium.log" 2>&1 || true
      if [[ ! -e $picture ]]; then
        echo "$0: chromium made no picture of $page; $out/chromium.log has what it said" >&2
        exit 1
      fi
    done
  done
done
echo "$((4 * ${#pages[@]})) pictures in $out"
