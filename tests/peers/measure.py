"""Runs programs in alternation, and summarises their output."""

import contextlib
import json
import os
import pathlib
import platform
import statistics
import subprocess
from collections.abc import Container, Iterator

# Variables with these prefixes would change the threads, kernels or instructions that a side chooses by itself.
SETTINGS = ("OPENBLAS_", "GOTO_", "OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "ATEN_CPU_CAPABILITY",
            "LINNET_NUM_THREADS", "LINNET_ISA")  # fmt: skip


class Failed(RuntimeError):
    def __init__(self, command: list[str], done: subprocess.CompletedProcess):
        error = done.stderr.strip()
        super().__init__(f"{' '.join(command)}: {error[-500:]}")
        self.reason = error.splitlines()[-1] if error else f"it ended with {done.returncode}"


def run(command: list[str]) -> dict:
    """The JSON on the last line of a program's output. Throws Failed."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(SETTINGS)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(command, done)
    return json.loads(done.stdout.strip().splitlines()[-1])


def in_alternation(
    commands: dict[str, list[str]], rounds: int, may_fail: Container[str] = ()
) -> tuple[dict[str, list[dict]], dict[str, str]]:
    """The output of each side's command in each round; the sides take turns in beginning. Sides in `may_fail` that
    failed are left out, and the second result has their errors.
    """
    results: dict[str, list[dict]] = {side: [] for side in commands}
    failures: dict[str, str] = {}
    sides = list(commands)
    for _ in range(rounds):
        for side in [side for side in sides if side not in failures]:
            try:
                results[side].append(run(commands[side]))
            except Failed as failed:
                if side not in may_fail:
                    raise
                failures[side] = failed.reason
        sides.append(sides.pop(0))
    return {side: found for side, found in results.items() if side not in failures}, failures


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
