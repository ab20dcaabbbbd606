"""Runs programs in alternation, and sums up what they print."""

import contextlib
import json
import os
import pathlib
import platform
import statistics
import subprocess
from collections.abc import Iterator

# Variables whose names begin so would give one side other threads, kernels or instructions than it takes by itself.
SETTINGS = ("OPENBLAS_", "GOTO_", "OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "ATEN_CPU_CAPABILITY",
            "LINNET_NUM_THREADS", "LINNET_ISA")  # fmt: skip


def run(command: list[str]) -> dict:
    """What a program prints, which is JSON, on its last line."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(SETTINGS)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def in_alternation(commands: dict[str, list[str]], rounds: int) -> dict[str, list[dict]]:
    """What each side's command prints in each round; who begins rotates."""
    results: dict[str, list[dict]] = {side: [] for side in commands}
    sides = list(commands)
    for _ in range(rounds):
        for side in sides:
            results[side].append(run(commands[side]))
        sides.append(sides.pop(0))
    return results


@contextlib.contextmanager
def busy_process() -> Iterator[None]:
    process = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def median(results: list[dict], field: str) -> float:
    return statistics.median(result[field] for result in results)


def show(results: list[dict], field: str) -> str:
    times = [result[field] for result in results]
    return f"{median(results, field):.2f} ({min(times):.2f}–{max(times):.2f})"


def processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()
