#!/usr/bin/env python3
"""Times training steps of one process with two threads and of two processes with one thread each, with linnet (MPI) and
PyTorch (DistributedDataParallel over gloo), in alternation. Prints a Markdown table.

    python tests/peers/data_parallel.py [--rounds 3] [--build build] [--models nanogpt-cpu,large]

It needs an interpreter with PyTorch 2 and numpy, two cores, `mpirun`, Tiny Shakespeare, and a release build. Both sides
train the preset's model with its batch and AdamW; PyTorch's is not compiled. Messages go through shared memory, so
these numbers do not include the cost of a network.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import measure

# Layers, heads, width, context, batch, steps.
MODELS = {"nanogpt-cpu": (4, 4, 128, 64, 12, 60), "large": (12, 12, 768, 256, 4, 6)}
SIDES = ("linnet, 1 × 2", "linnet, 2 × 1", "PyTorch, 1 × 2", "PyTorch, 2 × 1")  # processes × threads


def linnet(build: str, name: str, processes: int, folder: str) -> list[str]:
    """A shell command, since the program writes its times to a file."""
    layers, heads, width, context, batch, steps = MODELS[name]
    out = f"{folder}/{name}-{processes}-$$"
    train = (
        f"{build}/bin/train_shakespeare --layers {layers} --heads {heads} --width {width} --context {context} "
        f"--batch {batch} --steps {steps} --eval-every {steps} --eval-batches 1 --threads {3 - processes} "
        f"--shards {processes} --data {folder}/text.txt --out {out}"
    )
    launch = "mpirun -np 2 " if processes == 2 else ""
    return ["sh", "-c", f"{launch}{train} >{out}.log && tr -d '\\n' <{out}/results.json"]


def torch(name: str, processes: int) -> list[str]:
    worker = [__file__, "--worker", name]
    if processes == 1:
        return [sys.executable, *worker]
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", *worker]


def work(name: str) -> None:
    """Trains in PyTorch, as one of several processes if a launcher has started them; the first process prints JSON."""
    import torch
    from torch import distributed

    import models

    layers, heads, width, context, batch, steps = MODELS[name]
    processes = int(os.environ.get("WORLD_SIZE", 1))
    torch.set_num_threads(2 // processes)
    module = models.TextModel("softmax", layers, heads, width, context)
    parameters = list(module.parameters())
    if processes > 1:
        distributed.init_process_group("gloo")
        module = torch.nn.parallel.DistributedDataParallel(module)
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.1, betas=(0.9, 0.99), fused=True)
    text = torch.randint(65, (batch // processes, context + 1))
    ids, targets = text[:, :-1].contiguous(), text[:, 1:].contiguous()
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        module(ids, targets).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        times.append(1e3 * (time.perf_counter() - begin))
    if int(os.environ.get("RANK", 0)) == 0:
        print(json.dumps({"ms_per_step": statistics.mean(times[steps // 6 :])}))
    if processes > 1:
        distributed.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--build", default=str(pathlib.Path(__file__).parents[2] / "build"))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--text", default=os.environ.get("LINNET_DATA", "data") + "/tinyshakespeare/input.txt")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(arguments.worker)
    print(f"{measure.processor()}; processes × threads; ms per step, medians of {arguments.rounds} rounds (range)\n")
    print("| model | " + " | ".join(SIDES) + " | linnet, 2 × 1 to 1 × 2 | PyTorch to linnet, 2 × 1 |")
    print("|---" * (len(SIDES) + 3) + "|")
    for name in arguments.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(arguments.text).read_text()[:40_000]  # so that evaluations are short
            (pathlib.Path(folder) / "text.txt").write_text(text)
            commands = [linnet(arguments.build, name, n, folder) for n in (1, 2)] + [torch(name, n) for n in (1, 2)]
            results, _ = measure.in_alternation(dict(zip(SIDES, commands)), arguments.rounds)
        ms = [measure.median(results[side], "ms_per_step") for side in SIDES]
        shown = " | ".join(measure.show(results[side], "ms_per_step") for side in SIDES)
        print(f"| {name} | {shown} | {ms[1] / ms[0]:.2f} | {ms[3] / ms[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
