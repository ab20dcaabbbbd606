#!/usr/bin/env bash
# The first tests and benchmarks on a machine with a GPU that is available for only a few minutes. That machine needs
# only the driver: no package manager, no network, no OpenBLAS.
#
#   cuda/first_runs.sh pack [ARCHITECTURE]       here: builds for sm_ARCHITECTURE (90) and fills out/first-runs
#   FOLDER/first_runs.sh run FOLDER OUT [STEP …]  there: runs all steps, or those whose names begin with these words
#
# FOLDER is the folder that `pack` filled. `run` ends within 8 minutes, or within LINNET_SECONDS. The most important
# steps come first, and each has a time limit. After each step, OUT/results.md and OUT/results.json have all results so
# far; OUT/logs has the output of the steps.
set -euo pipefail

programs=(linnet_tests bench train_shakespeare train_mnist)

pack() {
  local architecture=${1:-90} build=build/first-runs folder=out/first-runs program
  cd "$(dirname "$0")/.."
  local data=${LINNET_DATA:-data}
  for file in tinyshakespeare/input.txt mnist/train-images-idx3-ubyte.gz; do
    if [[ ! -f $data/$file ]]; then
      echo "$0: there is no $data/$file; run examples/fetch_data.sh, or name the data's folder in LINNET_DATA" >&2
      exit 1
    fi
  done
  cmake -G Ninja -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CUDA_ARCHITECTURES="$architecture-real" \
    -DLINNET_CUDA=ON -DBUILD_SHARED_LIBS=ON -DLINNET_TESTS=ON "-DLINNET_TEST_ROOMS=cuda;nn" -DLINNET_PROGRAMS=ON
  cmake --build "$build" --target "${programs[@]}"

  rm -rf "$folder"
  mkdir -p "$folder"
  staging=$(mktemp -d)  # not local, for the trap
  trap 'rm -rf "$staging"' EXIT
  mkdir -p "$staging"/{bin,lib,data,peers}
  for program in "${programs[@]}"; do
    strip -o "$staging/bin/$program" "$build/bin/$program"
  done
  # Every library except those of the C library, which must be the other machine's own.
  local c_library='/(ld-linux[^/]*|libc|libm|libdl|librt|libpthread|libresolv)\.so\.[0-9]+$'
  ldd "${programs[@]/#/$build/bin/}" | awk '$3 ~ /^\// { print $3 }' | sort -u | grep -Ev "$c_library" |
    xargs -I{} cp -L {} "$staging/lib/"
  strip "$staging"/lib/*
  cp -rL "$data/tinyshakespeare" "$data/mnist" "$staging/data/"
  cp tests/peers/*.py "$staging/peers/"
  tar -C "$staging" -cf - . | gzip -9 >"$folder/files.tar.gz"
  cp "$0" "$folder/first_runs.sh"
  du -sh "$folder"
}

# ---- On the machine with the GPU ----

# The last line that a step printed; for a benchmark's JSON, its figures, in ms or bytes.
summary_of() {
  local json
  json=$(grep '^{' "$1" | tail -n 1 || true)
  if [[ -n $json ]]; then
    grep -oE '"(ms_per_step|forward_ms|forward_backward_ms|tokens_per_second|peak_bytes)":[ 0-9.e+]+' <<<"$json" |
      tr -d '"' | sed -E 's/: */ /; s/_/ /g; s/(\.[0-9]{3})[0-9]*/\1/' | paste -sd, | sed 's/,/, /g'
  else
    grep -E '\[doctest\] (test cases|assertions)' "$1" | sed 's/\[doctest\] //; s/ *|/,/g; s/  */ /g' | paste -sd';' |
      grep . || grep -v '^[[:space:]]*$' "$1" | tail -n 1 | cut -c1-200 | tr '|' '/' || true
  fi
}

# Writes both tables again, from the results so far.
report() {
  {
    flock 9
    {
      printf '# First runs\n\n'
      sed 's/^/    /' "$out/machine.txt"
      printf '\n| step | result | s | what it printed last |\n|---|---|---|---|\n'
      cat "$out"/logs/*.row
    } >"$out/results.md.new"
    {
      printf '[\n'
      cat "$out"/logs/*.entry | sed '$!s/$/,/'
      printf ']\n'
    } >"$out/results.json.new"
    mv "$out/results.md.new" "$out/results.md"
    mv "$out/results.json.new" "$out/results.json"
  } 9>"$out/.lock"
}

# step NAME LIMIT COMMAND …: runs a command for at most LIMIT seconds, and no longer than the total time allows. `begin`
# does the same without waiting for the command.
steps=0
step() {
  steps=$((steps + 1))
  numbered_step "$steps" "$@"
}

begin() {
  steps=$((steps + 1))
  numbered_step "$steps" "$@" &
}

numbered_step() {
  local number=$1 name=$2 limit=$3 log status=0 result began left word wanted=$((${#only[@]} == 0))
  shift 3
  for word in "${only[@]}"; do
    [[ $name != "$word"* ]] || wanted=1
  done
  ((wanted)) || return 0
  log=$out/logs/$(printf '%02d' "$number")-${name//[ \/,]/-}
  began=$SECONDS left=$((seconds - SECONDS))
  if ((left < 5)); then
    result='not run: the time is up'
    : >"$log.log"
  else
    # bash, because most commands are functions of this script
    timeout --kill-after=10 "$((limit < left ? limit : left))" bash -euo pipefail -c '"$@"' step "$@" \
      >"$log.log" 2>&1 || status=$?
    case $status in
      0) result=passed ;;
      124 | 137) result='stopped at its time limit' ;;
      *) result="failed ($status)" ;;
    esac
  fi
  printf '| %s | %s | %s | %s |\n' "$name" "$result" "$((SECONDS - began))" "$(summary_of "$log.log")" >"$log.row"
  local json
  json=$(grep '^{.*}$' "$log.log" | tail -n 1 || true)
  printf '{"step": "%s", "result": "%s", "seconds": %s, "command": "%s", "printed": %s}\n' "$name" "$result" \
    "$((SECONDS - began))" "$*" "${json:-null}" >"$log.entry"
  report || true  # the next step may succeed in writing
  cat "$log.row"
}

linnet() {
  local program=$1
  shift
  # cuBLAS may be with the CUDA Toolkit, or in a Python package beside PyTorch.
  LINNET_DATA=$work/data LD_LIBRARY_PATH=$work/lib${cublas:+:$cublas} exec "$work/bin/$program" "$@"
}

peer() {
  TORCHINDUCTOR_CACHE_DIR=$work/inductor exec python3 "$work/peers/torch_bench.py" --device cuda "$@"
}

sanitize() {
  LINNET_DATA=$work/data LD_LIBRARY_PATH=$work/lib${cublas:+:$cublas} exec compute-sanitizer --error-exitcode 9 "$@"
}

# Trains three times: twice with recordings, and once without. The weights must be bit-identical.
same_bits() {
  local run runs
  runs=$(mktemp -d -p "$work")
  for run in first again unrecorded; do
    (
      [[ $run != unrecorded ]] || export LINNET_CUDA_CHECK=1
      linnet train_shakespeare --device cuda --steps 60 --eval-every 60 --eval-batches 4 "$@" --out "$runs/$run"
    ) >/dev/null
  done
  sha256sum "$runs"/{first,again,unrecorded}/model.safetensors
  cmp "$runs/first/model.safetensors" "$runs/again/model.safetensors" &&
    cmp "$runs/first/model.safetensors" "$runs/unrecorded/model.safetensors" && echo 'three times the same bits'
}

beside_cpu() {
  local device
  for device in cuda cpu; do
    (linnet train_shakespeare --device "$device" --steps 60 --eval-every 60 --eval-batches 4 --out "$work/on-$device") |
      tail -n 3 | sed "s/^/$device: /"
  done
}

all_steps() {
  local precision mechanism size form layer tool tests=(linnet linnet_tests --no-colors)
  local gradients='gpu: gradients agree with*' registry='gpu: results and gradients*'
  local except="$gradients,$registry" attention='*/cuda/*attention_test.cpp,*/cuda/fastmax_test.cpp'

  # Tests of correctness are not timed, so they run at the same time. After a fault in a kernel a process cannot use the
  # GPU any more, so one process does not run all of them.
  begin 'tests, kernels' 60 "${tests[@]}" -tc='gpu*' -tce="$except" -sf='*/cuda/kernels_test.cpp,*/cuda/layers_test.cpp'
  begin 'tests, attention' 60 "${tests[@]}" -tc='gpu*' -tce="$except" -sf="$attention"
  begin 'tests, models and recordings' 60 "${tests[@]}" -tc='gpu*' -tce="$except" -sf='*/tests/nn/*'
  begin 'tests, others' 60 "${tests[@]}" -tc='gpu*' -tce="$except" \
    -sfe="*/cuda/kernels_test.cpp,*/cuda/layers_test.cpp,$attention,*/tests/nn/*"
  begin 'tests, registry' 60 "${tests[@]}" -tc="$registry"
  if ((has_torch)); then
    begin 'PyTorch compiles' 60 peer --compile --mode reduce-overhead --seconds 0 --precision bfloat16 step \
      --preset nanogpt-gpu
  fi
  wait

  local bench=(linnet bench --device cuda --precision)
  local json=(linnet bench --json --device cuda --seconds 0.3 --precision)
  step 'rates' 30 "${bench[@]}" bfloat16 --seconds 0.2 kernels --batch 64 --tokens 256 --heads 6
  for precision in bfloat16 float32 tf32; do
    step "nanogpt-gpu step, $precision" 30 "${json[@]}" "$precision" step --preset nanogpt-gpu
  done
  step 'nanogpt-gpu step, profile' 30 "${bench[@]}" bfloat16 step --preset nanogpt-gpu --profile
  if ((has_torch)); then
    step 'nanogpt-gpu step, PyTorch compiled' 60 peer --compile --precision bfloat16 step --preset nanogpt-gpu
    step 'nanogpt-gpu step, PyTorch compiled, CUDA graphs' 60 peer --compile --mode reduce-overhead \
      --precision bfloat16 step --preset nanogpt-gpu
  fi

  # The published shapes of Fastmax, and softmax attention of the same shapes.
  for mechanism in softmax fastmax2; do
    for size in '--batch 64 --tokens 1000' '--batch 16 --tokens 4096' '--batch 4 --tokens 16384'; do
      # shellcheck disable=SC2086  # several words
      step "$mechanism causal, $size" 20 "${json[@]}" bfloat16 attention --causal --attention "$mechanism" \
        --heads 8 --head-dim 32 --dtype bfloat16 $size
      if ((has_torch)) && [[ $mechanism == softmax ]]; then
        # shellcheck disable=SC2086
        step "PyTorch flash attention causal, $size" 20 peer --seconds 0.3 --precision bfloat16 attention --causal \
          --heads 8 --head-dim 32 $size
      fi
    done
  done
  for layer in fastformer softmax fastmax2; do
    step "layer, $layer" 20 "${json[@]}" bfloat16 layer --attention "$layer" --tokens 65536 --width 256 --heads 16
  done

  step 'same bits' 60 same_bits
  step 'same bits, bfloat16' 60 same_bits --precision bfloat16
  step 'beside the CPU' 60 beside_cpu

  # Processes take turns on a GPU. The first of these checks waits after each kernel, so it runs alone.
  step 'tests, waiting for each kernel' 90 env_check "${tests[@]:1}" -tc='gpu*' -tce="$except"
  begin 'tests, gradients' 120 "${tests[@]}" -tc="$gradients"
  if command -v compute-sanitizer >/dev/null; then
    # --report-api-errors no: one test asks for 2^50 bytes, and another does so during a recording
    local some='gpu: attention over*,gpu: factorised fastmax over*,gpu: additive*,gpu: along a dim,gpu: sorting'
    for tool in racecheck synccheck memcheck initcheck; do
      begin "sanitizer, $tool" 90 sanitize --tool "$tool" --report-api-errors no "$work/bin/linnet_tests" -tc="$some"
    done
  fi
  wait

  for form in factorised quadratic; do
    for size in '--batch 64 --tokens 1000' '--batch 16 --tokens 4096'; do
      # shellcheck disable=SC2086
      step "fastmax2 $form, $size" 20 "${json[@]}" bfloat16 attention --causal --attention fastmax2 \
        --fastmax-form "$form" --heads 8 --head-dim 32 --dtype bfloat16 $size
    done
  done
  step 'MNIST, one epoch' 30 linnet train_mnist --device cuda --epochs 1 --out "$work/mnist"
  step 'nanogpt-gpu trained' "$seconds" linnet train_shakespeare --device cuda --precision bfloat16 \
    --preset nanogpt-gpu --attention-dropout 0.2 --out "$work/nanogpt"
}

env_check() {
  LINNET_CUDA_CHECK=1 linnet "$@"
}

run() {
  if (($# < 2)) || [[ ! -f $1/files.tar.gz ]]; then
    echo "usage: $0 run FOLDER OUT [STEP …], where FOLDER is what '$0 pack' filled" >&2
    exit 2
  fi
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  tar -C "$work" -xzf "$1/files.tar.gz"
  mkdir -p "$2/logs"
  out=$(cd "$2" && pwd)
  only=("${@:3}")
  seconds=${LINNET_SECONDS:-480}
  local name
  name=$(grep -aohE 'libcublas\.so\.[0-9]+' "$work"/lib/liblinnet.so.* | sed -n 1p)
  cublas=$(find /usr/local/cuda*/ /usr/lib /usr/local/lib /opt -name "$name" -printf '%h\n' 2>/dev/null |
    sed -n 1p || true)
  has_torch=0
  if timeout 60 python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    has_torch=1
  fi
  {
    date -u +%F
    timeout 20 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null ||
      echo 'no nvidia-smi'
    (linnet bench --device cuda --version) 2>&1 || true
    echo "cuBLAS in $cublas; PyTorch: $has_torch"
  } | tee "$out/machine.txt"
  export -f linnet peer sanitize same_bits beside_cpu env_check
  export work out seconds cublas
  # Without a GPU that this build can use there is nothing to run. Any other failure is one of the results.
  local start=$out/logs/00-start.log
  if ! timeout 60 bash -c 'linnet bench --device cuda --seconds 0.001 attention --tokens 16' >"$start" 2>&1; then
    cat "$start" >&2
    if grep -qE 'see what nvidia-smi says|has no code' "$start"; then exit 1; fi
  fi
  all_steps
}

case ${1-} in
  pack | run) "$@" ;;
  *)
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
