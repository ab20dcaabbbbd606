#!/usr/bin/env python3
"""Times linnet and plain PyTorch in alternation on this machine, and prints a Markdown table.

    tests/peers/compare.py [--rounds 5] [--cases REGEX] [--threads N] [--python PYTHON]
    tests/peers/compare.py --arena [--batch N] [--rounds 5] [--cases REGEX] [--threads N] [--python PYTHON]
    tests/peers/compare.py --scaling [--rounds 5] [--cases REGEX] [--threads N]

Every figure is the median of its rounds, with the smallest and the largest in brackets. The ratio is PyTorch's best
median divided by linnet's. The sides take turns in beginning a round. Both get the same number of threads (none is set
beside a busy process), and no variable that changes threads, BLAS or instruction sets. Without --python, PyTorch is
installed into out/peers-venv.

--arena compares steps of the Long Range Arena's models instead. All of them take hours with the presets' batches, and
less with a smaller --batch. If a variant of PyTorch fails, most often because of too little memory, its row says why,
and the other variants are used.

--scaling needs no PyTorch: it times linnet's steps with 1, 2 and 4 threads.
"""

import argparse
import contextlib
import datetime
import os
import pathlib
import re
import subprocess
import sys
import typing
import venv

from measure import busy_process, in_alternation, median, processor, run, show

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

TORCH_VERSION = "2.15.0"  # installed without --python
PROBE = """
import json, torch
fused = hasattr(torch.nn.functional, "scaled_dot_product_attention")
print(json.dumps({"version": str(torch.__version__), "fused": fused}))
"""

SOFTMAX = {"sdpa": [], "softmax(q·kᵀ / √D) v": ["--formulation", "formula"]}
FASTMAX = {"factorised": ["--formulation", "factorised"], "(f(q·kᵀ) ∘ mask) v / g": ["--formulation", "quadratic"]}
LINEAR = {"factorised": ["--formulation", "factorised"], "(φ(q)·φ(k)ᵀ ∘ mask) v / g": ["--formulation", "quadratic"]}
FORMS = {"softmax": SOFTMAX, "fastmax1": FASTMAX, "fastmax2": FASTMAX, "linear": LINEAR, "performer": LINEAR}


class Torch(typing.NamedTuple):
    python: str
    version: str
    fused: bool  # whether it has scaled_dot_product_attention


class Case(typing.NamedTuple):
    name: str
    field: str  # the field of the JSON that both sides print
    ours: list[str]
    theirs: dict[str, list[str]]  # arguments by variant
    busy: bool = False  # whether another process keeps a core busy meanwhile


def attention(mechanism: str, tokens: int, causal: bool) -> Case:
    shape = ["attention", "--mechanism", mechanism, "--tokens", str(tokens)] + (["--causal"] if causal else [])
    case = Case(f"{mechanism}{' causal' if causal else ''}, D 32, N {tokens:,}", "forward_backward_ms", shape,
                {"eager": shape, "compiled": ["--compile"] + shape})
    if mechanism not in FORMS:
        return case
    peers = {f"{name}{', compiled' if flag else ''}": flag + shape + extra
             for name, extra in FORMS[mechanism].items() for flag in ([], ["--compile"])
             if not (flag and "formula" in extra)}  # the formula is only for PyTorch 1.13
    if causal and mechanism == "fastmax2" and tokens > 1024:  # it would hold tokens · 33 · 1,024 numbers a head
        peers = {name: flags for name, flags in peers.items() if "factorised" not in name}
    if mechanism in ("linear", "performer") and tokens > 4096:  # it would hold some tokens² numbers a head
        peers = {name: flags for name, flags in peers.items() if "factorised" in name}
    return case._replace(theirs=peers)


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


def with_batch(case: Case, size: int) -> Case:
    flag = ["--batch", str(size)]
    return case._replace(ours=case.ours + flag, theirs={peer: flags + flag for peer, flags in case.theirs.items()})


def model(name: str) -> Case:
    ours = ["model", "--model", name]
    return Case(f"step, {name}", "ms_per_step", ours, {"eager": ours, "compiled": ["--compile"] + ours})


def beside_a_busy_process(case: Case) -> Case:
    return case._replace(name=f"{case.name}, beside a busy process", busy=True)


CASES = [
    step("nanogpt-cpu", "softmax"), beside_a_busy_process(step("nanogpt-cpu", "softmax")),
    step("nanogpt-cpu", "fastmax2"), step("nanogpt-cpu", "fastformer"),
    step("mnist-small", "softmax"), step("mnist-small", "fastformer"), step("large", "softmax"),
    attention("softmax", 4096, False), attention("softmax", 4096, True),
    attention("fastmax1", 4096, False), attention("fastmax2", 1024, False), attention("fastmax2", 1024, True),
    attention("fastmax2", 4096, False), attention("fastmax2", 4096, True),
    *(attention("linear", tokens, causal) for tokens in (1024, 4096, 16384) for causal in (False, True)),
    # A causal peer of 16,384 tokens would hold tokens · 110 · 32 numbers a head, or tokens².
    *(attention("performer", tokens, causal) for tokens in (1024, 4096) for causal in (False, True)),
    attention("performer", 16384, False),
    *(attention(mechanism, tokens, causal) for mechanism in ("longformer", "poolingformer", "reformer")
      for tokens in (1024, 4096, 16384) for causal in (False, True)),
    *(attention(mechanism, tokens, False) for mechanism in ("linformer", "bigbird", "informer")
      for tokens in (1024, 4096, 16384)),
    layer(False), layer(True),
    *(model(name) for name in ("lenet", "residual", "gru", "lstm", "batch_norm")),
]  # fmt: skip
ARENA = [step(f"lra-{task}", mechanism)
         for task in ("listops-small", "listops", "text", "retrieval", "image", "pathfinder")
         for mechanism in ("softmax", "fastmax1", "fastmax2", "fastformer", "linear", "performer", "linformer",
                           "longformer", "bigbird", "poolingformer", "reformer", "informer")]  # fmt: skip
SCALED = [step(preset, "softmax") for preset in ("nanogpt-cpu", "mnist-small", "large")]


def torch_of(python: str) -> Torch:
    return Torch(python, **run([python, "-c", PROBE]))


def installed_torch() -> Torch:
    folder = ROOT / "out/peers-venv"
    python = str(folder / "bin/python")
    with contextlib.suppress(OSError, RuntimeError):  # no interpreter, or one without PyTorch
        torch = torch_of(python)
        if torch.version.split("+")[0] == TORCH_VERSION:
            return torch
    print(f"installing PyTorch {TORCH_VERSION} into {folder}", file=sys.stderr)
    venv.create(folder, clear=True, with_pip=True)
    # PyTorch last: if it can be imported, the installation was not interrupted.
    for packages in (["numpy", "setuptools"], [f"torch=={TORCH_VERSION}"]):
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    return torch_of(python)


def row(case: Case, results: dict[str, list[dict]], failures: dict[str, str]) -> str:
    mine, field = results["linnet"], case.field
    theirs = {side: rounds for side, rounds in results.items() if side != "linnet"}
    best = min(theirs, key=lambda peer: median(theirs[peer], field), default="")
    floor = f"{median(mine, 'floor_ms'):.2f}" if mine[0].get("floor_ms") else ""
    resident = ""
    if "resident_bytes" in mine[0]:  # not the compiled variant's peak, which includes the compiler
        resident = " / ".join(f"{median(side, 'resident_bytes') / 2**20:.0f}" if side else "–"
                              for side in (mine, theirs.get("eager")))  # fmt: skip
    others = [f"{peer} {show(rounds, field)}" for peer, rounds in theirs.items() if peer != best]
    others += [f"{peer}: {why}" for peer, why in failures.items()]
    ratio = f"{median(theirs[best], field) / median(mine, field):.1f}" if best else ""
    figure = show(theirs[best], field) if best else "–"
    return f"| {' | '.join([case.name, show(mine, field), floor, figure, best, ratio, resident, '; '.join(others)])} |"


def compare(cases: list[Case], linnet: list[str], torch: Torch, arguments: argparse.Namespace) -> None:
    print(f"{processor()}, {arguments.threads} threads, PyTorch {torch.version}, {datetime.date.today()}; "
          f"median ms of {arguments.rounds} rounds (least–most)"
          f"{f'; batches of {arguments.batch}' if arguments.batch else ''}\n")
    print("| case | linnet | floor | PyTorch's best | variant | ratio | resident MiB, linnet / eager | others |")
    print("|---|---|---|---|---|---|---|---|")
    pytorch = [torch.python, str(HERE / "torch_bench.py"), "--seconds", arguments.seconds]
    for case in cases:
        threads = [] if case.busy else ["--threads", str(arguments.threads)]
        peers = {peer: flags for peer, flags in case.theirs.items() if torch.fused or "formula" in flags}
        if not peers:
            print(f"left out, as PyTorch {torch.version} cannot run it: {case.name}", file=sys.stderr)
            continue
        commands = {"linnet": linnet + threads + case.ours}
        commands |= {peer: pytorch + threads + flags for peer, flags in peers.items()}
        with busy_process() if case.busy else contextlib.nullcontext():
            results, failures = in_alternation(commands, arguments.rounds, may_fail=peers)
        print(row(case, results, failures), flush=True)


def scaling(cases: list[Case], linnet: list[str], arguments: argparse.Namespace) -> None:
    cores = min(arguments.threads, len(os.sched_getaffinity(0)))
    counts = [count for count in (1, 2, 4) if count <= cores]
    print(f"{processor()}, {cores} cores{'' if 4 in counts else ', too few for 4 threads'}, {datetime.date.today()}; "
          f"median ms of {arguments.rounds} rounds (least–most)\n")
    print("| case | threads | linnet | floor | gain | gain of the floor | ratio of the gains |")
    print("|---|---|---|---|---|---|---|")
    for case in cases:
        commands = {str(count): [*linnet, "--threads", str(count), *case.ours] for count in counts}
        results, _ = in_alternation(commands, arguments.rounds)
        for count, rounds in results.items():
            gain, floor_gain = (median(results["1"], f) / median(rounds, f) for f in (case.field, "floor_ms"))
            print(f"| {case.name} | {count} | {show(rounds, case.field)} | {show(rounds, 'floor_ms')} "
                  f"| {gain:.2f} | {floor_gain:.2f} | {gain / floor_gain:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", default="1", help="how long each figure is measured in each round")
    parser.add_argument("--cases", default="", help="only cases whose name contains this regular expression")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)),
                        help="of both sides; with --scaling the largest number (default: the usable cores)")
    parser.add_argument("--arena", action="store_true", help="steps of the Long Range Arena's models instead")
    parser.add_argument("--batch", type=int, help="of --arena, on both sides (default: the presets')")
    parser.add_argument("--scaling", action="store_true", help="only linnet, with 1, 2 and 4 threads")
    parser.add_argument("--python", help="an interpreter with PyTorch 2, or 1.13 for softmax by its formula")
    parser.add_argument("--bench", default=str(ROOT / "build/bin/bench"))
    arguments = parser.parse_args()
    if arguments.threads < 1 or arguments.rounds < 1:
        parser.error("--threads and --rounds must be at least 1")
    if arguments.batch is not None and (not arguments.arena or arguments.batch < 1):
        parser.error("--batch needs --arena, and must be at least 1")
    linnet = [arguments.bench, "--json", "--seconds", arguments.seconds]
    listed = SCALED if arguments.scaling else ARENA if arguments.arena else CASES
    cases = [case for case in listed if re.search(arguments.cases, case.name)]
    if arguments.batch:
        cases = [with_batch(case, arguments.batch) for case in cases]
    if arguments.scaling:
        scaling(cases, linnet, arguments)
    else:
        compare(cases, linnet, torch_of(arguments.python) if arguments.python else installed_torch(), arguments)


if __name__ == "__main__":
    main()
