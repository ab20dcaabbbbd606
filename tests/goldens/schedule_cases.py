"""Learning rates of iterations 0 to 99."""

import math
from collections.abc import Callable

import torch
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    ExponentialLR,
    LinearLR,
    LRScheduler,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)

from golden_file import Draw, GoldenFile

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
    for strategy in ("cos", "linear"):
        for steps, rising in [(ITERATIONS, 0.3), (50, 0.2), (10, 0.0), (1, 0.3)]:
            settings = cycle | {"steps": steps, "pct_start": rising, "anneal_strategy": strategy}
            rates, momenta = one_cycle(settings), one_cycle_momentum(settings)
            case = f"{strategy}_{steps}_{round(100 * rising)}"
            at = lambda it, of: of[min(it, len(of) - 1)]
            add(f"one_cycle_{case}", {"op": "one_cycle", **settings}, lambda it, of=rates: at(it, of))
            add(f"momentum_{case}", {"op": "one_cycle_momentum", **settings}, lambda it, of=momenta: at(it, of))

    add_ends(add)
    add_falls(add)
    add_plateaus(goldens)
    return goldens


def add_ends(add: Callable[[str, dict, Callable[[int], float]], None]) -> None:
    """Cases where the first, last and highest rates coincide. Steps after PyTorch's last keep its last rate."""
    for warmup, steps in [(0, 60), (1, 2), (7, 8), (20, 60), (0, 1)]:
        decay = {"lr": 3e-3, "min_lr": 2e-4, "warmup": warmup, "steps": steps}
        for op, formula in [("warmup_cosine", warmup_cosine), ("warmup_linear", warmup_linear)]:
            rates = torch_decay(op, **decay)
            for iteration, rate in enumerate(rates):
                assert math.isclose(formula(iteration, **decay), rate, rel_tol=1e-12), (op, decay, iteration)
            add(f"{op}_{warmup}_{steps}", {"op": op, **decay}, lambda it, rates=rates: rates[min(it, len(rates) - 1)])
    for warmup in (1, 60):
        inverse = {"lr": 3e-3, "warmup": warmup}
        add(f"inverse_sqrt_{warmup}", {"op": "inverse_sqrt", **inverse}, lambda it, s=inverse: inverse_sqrt(it, **s))
    for steps, rising in [(1, 0.3), (2, 0.3), (10, 0.0), (10, 1.0), (20, 0.1), (60, 0.25)]:
        cycle = {"max_lr": 2e-3, "steps": steps, "pct_start": rising, "div_factor": 10.0, "final_div_factor": 100.0}
        rates = one_cycle(cycle)
        case = f"one_cycle_{steps}_{round(100 * rising)}"
        add(case, {"op": "one_cycle", **cycle}, lambda it, rates=rates: rates[min(it, len(rates) - 1)])


def add_falls(add: Callable[[str, dict, Callable[[int], float]], None]) -> None:
    for case, settings, make in [
        ("step", {"step_size": 30}, StepLR),
        ("step_7", {"step_size": 7, "gamma": 0.8}, StepLR),
        ("exponential", {"gamma": 0.97}, ExponentialLR),
    ]:
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1e-3)
        rates = rates_of(optimizer, make(optimizer, **settings), ITERATIONS)
        add(case, {"op": case.split("_")[0], "lr": 1e-3, **settings}, lambda it, rates=rates: rates[it])
    for one_minus_sqrt in (False, True):
        stable = {"lr": 1e-3, "min_lr": 1e-5, "warmup": 10, "decay": 20, "steps": 90}
        stable["one_minus_sqrt"] = one_minus_sqrt
        case = "warmup_stable_decay" + ("_one_minus_sqrt" if one_minus_sqrt else "")
        add(case, {"op": "warmup_stable_decay", **stable}, lambda it, s=stable: warmup_stable_decay(it, **s))


def warmup_stable_decay(it: int, lr: float, min_lr: float, warmup: int, decay: int, steps: int, one_minus_sqrt: bool):
    """nanoGPT's warm-up, a constant rate, and the decay of Hägele et al. 2024, eq. 1, down to min_lr."""
    if it < warmup:
        return lr * (it + 1) / (warmup + 1)
    fraction = min(max(it - (steps - decay), 0) / decay, 1.0)
    return min_lr + (lr - min_lr) * (1.0 - (math.sqrt(fraction) if one_minus_sqrt else fraction))


def add_plateaus(goldens: GoldenFile) -> None:
    """Rates after each of some measurements, which improve more and more slowly."""
    draw = Draw("plateau")
    measurements = 1.0 / (1.0 + torch.arange(ITERATIONS)) + 0.01 * draw.normal(ITERATIONS).abs()
    for case, mode, settings in [
        ("plateau", "min", {}),
        ("plateau_cooldown", "min", {"patience": 2, "cooldown": 3, "factor": 0.5, "threshold": 0.05}),
        ("plateau_max", "max", {"patience": 3, "factor": 0.3, "min_lr": 1e-5}),
    ]:
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1e-3)
        schedule = ReduceLROnPlateau(optimizer, mode, **settings)
        values, rates = measurements if mode == "min" else -measurements + 2.0, []
        for value in values.tolist():
            schedule.step(value)
            rates.append(schedule.get_last_lr()[0])
        parameters = {"op": "plateau", "lr": 1e-3, "maximise": mode == "max", **settings}
        goldens.add(case, parameters, {"measurements": values, "lr": torch.tensor(rates, dtype=torch.float64)})


def torch_decay(op: str, lr: float, min_lr: float, warmup: int, steps: int) -> list[float]:
    """The rates of iterations 0 to `steps` of PyTorch's schedules, used one after the other."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)
    if op == "warmup_cosine":
        fall = CosineAnnealingLR(optimizer, T_max=steps - warmup, eta_min=min_lr)
    else:
        fall = LinearLR(optimizer, start_factor=1.0, end_factor=min_lr / lr, total_iters=steps - warmup)
    if warmup == 0:
        return rates_of(optimizer, fall, steps + 1)
    rise = LinearLR(optimizer, start_factor=1 / (warmup + 1), end_factor=1.0, total_iters=warmup)
    return rates_of(optimizer, SequentialLR(optimizer, [rise, fall], milestones=[warmup]), steps + 1)


def rates_of(optimizer: torch.optim.Optimizer, schedule: LRScheduler, count: int) -> list[float]:
    rates = []
    for iteration in range(count):
        rates.append(schedule.get_last_lr()[0])
        if iteration + 1 < count:
            optimizer.step()
            schedule.step()
    return rates


def warmup_then(decay: Callable[[float], float], it: int, lr: float, min_lr: float, warmup: int, steps: int):
    """nanoGPT's schedule; `decay` maps the finished fraction, 0..1, to the remaining share of lr - min_lr."""
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
    return rates_of(optimizer, one_cycle_schedule(optimizer, settings, cycle_momentum=False), settings["steps"])


def one_cycle_momentum(settings: dict) -> list[float]:
    """Adam's first beta."""
    optimizer = torch.optim.Adam([torch.zeros(1, requires_grad=True)])
    schedule = one_cycle_schedule(optimizer, settings, cycle_momentum=True)
    betas = []
    for step in range(settings["steps"]):
        betas.append(optimizer.param_groups[0]["betas"][0])
        if step + 1 < settings["steps"]:
            optimizer.step()
            schedule.step()
    return betas


def one_cycle_schedule(optimizer: torch.optim.Optimizer, settings: dict, cycle_momentum: bool) -> OneCycleLR:
    return OneCycleLR(
        optimizer,
        settings["max_lr"],
        total_steps=settings["steps"],
        pct_start=settings["pct_start"],
        anneal_strategy=settings.get("anneal_strategy", "cos"),
        div_factor=settings["div_factor"],
        final_div_factor=settings["final_div_factor"],
        cycle_momentum=cycle_momentum,
    )
