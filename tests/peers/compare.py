#!/usr/bin/env python3
"""Times linnet and plain PyTorch in alternation on this machine, and prints a Markdown table.

    tests/peers/compare.py [--rounds 5] [--cases REGEX] [--python PYTHON]

Every figure is the median of its rounds, with the least and the most in brackets; the ratio is that of the medians,
PyTorch's best variant over linnet. Variables that change OpenBLAS are unset for both. Without --python, PyTorch is
installed into out/peers-venv.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import typing
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

FASTMAX = {"factorised": ["--formulation", "factorised"], "(f(q·kᵀ) ∘ mask) v / g": ["--formulation", "quadratic"]}


class Case(typing.NamedTuple):
    name: str
    field: str  # of the JSON that both sides print
    ours: list[str]
    theirs: dict[str, list[str]]  # arguments by variant
    busy: bool = False  # whether another process keeps a core busy meanwhile


def attention(mechanism: str, tokens: int, causal: bool) -> Case:
    shape = ["attention", "--mechanism", mechanism, "--tokens", str(tokens)] + (["--causal"] if causal else [])
    forms = {"sdpa": []} if mechanism == "softmax" else FASTMAX
    peers = {f"{name}{', compiled' if flag else ''}": flag + shape + extra
             for name, extra in forms.items() for flag in ([], ["--compile"])}
    if causal and mechanism == "fastmax2" and tokens > 1024:  # it would hold tokens · 33 · 1,024 numbers a head
        peers = {name: flags for name, flags in peers.items() if "factorised" not in name}
    name = f"{mechanism}{' causal' if causal else ''}, D 32, N {tokens:,}"
    return Case(name, "forward_backward_ms", shape, peers)


def layer(causal: bool) -> Case:
    shape = ["layer", "--layer", "fastformer", "--tokens", "32768"] + (["--causal"] if causal else [])
    name = f"fastformer layer{' causal' if causal else ''}, width 256, N 32,768"
    return Case(name, "forward_backward_ms", shape, {"eager": shape, "compiled": ["--compile"] + shape})


def step(preset: str, mechanism: str) -> Case:
    ours = ["step", "--preset", preset, "--attention", mechanism]
    if preset == "large":
        ours = ["step", "--attention", mechanism, "--layers", "12", "--heads", "12", "--width", "768", "--context", "256",
                "--batch", "4"]
    theirs = ["step", "--preset", preset, "--attention", mechanism]
    variants = {"eager": theirs, "compiled": ["--compile"] + theirs}
    return Case(f"step, {preset}, {mechanism}", "ms_per_step", ours, variants)


def beside_a_busy_process(case: Case) -> Case:
    return case._replace(name=f"{case.name}, beside a busy process", busy=True)


CASES = [
    step("nanogpt-cpu", "softmax"), beside_a_busy_process(step("nanogpt-cpu", "softmax")),
    step("nanogpt-cpu", "fastmax2"), step("nanogpt-cpu", "fastformer"),
    step("mnist-small", "softmax"), step("mnist-small", "fastformer"), step("large", "softmax"),
    attention("softmax", 4096, False), attention("softmax", 4096, True),
    attention("fastmax1", 4096, False), attention("fastmax2", 1024, False), attention("fastmax2", 1024, True),
    attention("fastmax2", 4096, False), attention("fastmax2", 4096, True),
    layer(False), layer(True),
]  # fmt: skip


def python_with_torch(given: str | None) -> str:
    if given:
        return given
    folder = ROOT / "out/peers-venv"
    python = folder / "bin/python"
    if not python.exists():
        print(f"installing PyTorch into {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "torch", "numpy", "setuptools"], check=True)
    return str(python)


def run(command: list[str]) -> dict:
    environment = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


@contextlib.contextmanager
def busy_process():
    process = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def show(times: list[float]) -> str:
    return f"{statistics.median(times):.2f} ({min(times):.2f}–{max(times):.2f})"


def processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", default="1", help="to measure each figure for, in each round")
    parser.add_argument("--cases", default="", help="only those whose name holds this regular expression")
    parser.add_argument("--python", help="an interpreter that has PyTorch 2")
    parser.add_argument("--bench", default=str(ROOT / "build/bin/bench"))
    arguments = parser.parse_args()
    python = python_with_torch(arguments.python)
    version = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    print(f"{processor()}, {os.cpu_count()} threads, PyTorch {version.stdout.strip()}, {datetime.date.today()}; "
          f"median ms of {arguments.rounds} rounds (least–most)\n")
    print("| case | linnet | floor | PyTorch's best | variant | ratio | resident MiB | other variants |")
    print("|---|---|---|---|---|---|---|---|")
    for name, field, ours, peers, busy in CASES:
        if not re.search(arguments.cases, name):
            continue
        mine: list[float] = []
        memory: dict[str, float] = {}  # resident MiB of whole processes, for steps
        floors: list[float] = []
        theirs: dict[str, list[float]] = {peer: [] for peer in peers}
        with busy_process() if busy else contextlib.nullcontext():
            for _ in range(arguments.rounds):
                result = run([arguments.bench, "--json", "--seconds", arguments.seconds, *ours])
                mine.append(result[field])
                floors.append(result.get("floor_ms", 0))
                memory["linnet"] = result.get("resident_bytes", 0) / 2**20
                for peer, flags in peers.items():
                    command = [python, str(HERE / "torch_bench.py"), "--seconds", arguments.seconds, *flags]
                    result = run(command)
                    theirs[peer].append(result[field])
                    memory[peer] = result.get("resident_bytes", 0) / 2**20
        best = min(theirs, key=lambda peer: statistics.median(theirs[peer]))
        ratio = statistics.median(theirs[best]) / statistics.median(mine)
        floor = f"{statistics.median(floors):.2f}" if max(floors) > 0 else ""
        resident = f"{memory['linnet']:.0f} / {memory[best]:.0f}" if memory["linnet"] > 0 else ""
        others = "; ".join(f"{peer} {show(times)}" for peer, times in theirs.items() if peer != best)
        print(f"| {name} | {show(mine)} | {floor} | {show(theirs[best])} | {best} | {ratio:.1f} | {resident} | {others} |",
              flush=True)


if __name__ == "__main__":
    main()
