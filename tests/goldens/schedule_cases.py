"""Learning rates of iterations 0 to 99."""

import math
from collections.abc import Callable

import torch

from golden_file import GoldenFile

ITERATIONS = 100


def build() -> GoldenFile:
    goldens = GoldenFile()

    def add(case: str, parameters: dict, rate: Callable[[int], float]) -> None:
        rates = [rate(iteration) for iteration in range(ITERATIONS)]
        goldens.add(case, parameters, {"lr": torch.tensor(rates, dtype=torch.float64)})

    # The decay ends before the last iteration, so the constant tail is covered too.
    decay = {"lr": 1e-3, "min_lr": 1e-4, "warmup": 10, "steps": 80}
    add("warmup_cosine", {"op": "warmup_cosine", **decay}, lambda it: warmup_cosine(it, **decay))
    add("warmup_linear", {"op": "warmup_linear", **decay}, lambda it: warmup_linear(it, **decay))

    inverse = {"lr": 1e-3, "warmup": 10}
    add("inverse_sqrt", {"op": "inverse_sqrt", **inverse}, lambda it: inverse_sqrt(it, **inverse))

    cycle = {"max_lr": 1e-3, "steps": ITERATIONS, "pct_start": 0.3, "div_factor": 25.0, "final_div_factor": 1e4}
    rates = one_cycle(cycle)
    add("one_cycle", {"op": "one_cycle", **cycle}, lambda it: rates[it])
    return goldens


def warmup_then(decay: Callable[[float], float], it: int, lr: float, min_lr: float, warmup: int, steps: int):
    """nanoGPT's schedule; `decay` maps the fraction done, 0..1, to the share of lr - min_lr left."""
    if it < warmup:
        return lr * (it + 1) / (warmup + 1)
    fraction = min((it - warmup) / (steps - warmup), 1.0)
    return min_lr + decay(fraction) * (lr - min_lr)


def warmup_cosine(it: int, **settings) -> float:
    return warmup_then(lambda fraction: 0.5 * (1.0 + math.cos(math.pi * fraction)), it, **settings)


def warmup_linear(it: int, **settings) -> float:
    return warmup_then(lambda fraction: 1.0 - fraction, it, **settings)


def inverse_sqrt(it: int, lr: float, warmup: int) -> float:
    """Rises to lr at step s = warmup, s counted from 1, then falls as 1 / sqrt(s)."""
    step = it + 1
    return lr * min(math.sqrt(warmup / step), step / warmup)


def one_cycle(settings: dict) -> list[float]:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        settings["max_lr"],
        total_steps=settings["steps"],
        pct_start=settings["pct_start"],
        div_factor=settings["div_factor"],
        final_div_factor=settings["final_div_factor"],
        cycle_momentum=False,
    )
    rates = []
    for iteration in range(settings["steps"]):
        rates.append(schedule.get_last_lr()[0])
        if iteration + 1 < settings["steps"]:
            optimizer.step()
            schedule.step()
    return rates
