"""Functions of one or two numbers, also at their kinks, where PyTorch chooses a gradient."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from golden_file import Draw, GoldenFile


def build() -> GoldenFile:
    goldens = GoldenFile()
    add_functions(goldens)
    add_activations(goldens)
    add_pairs(goldens)
    return goldens


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def add_functions(goldens: GoldenFile) -> None:
    halves = tensor(-2.5, -2.0, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.0, 2.5)
    tiny = tensor(-(2.0**-40), -0.0, 0.0, 2.0**-40)
    for op in ("floor", "ceil", "round", "trunc"):
        add_one(goldens, op, {}, getattr(torch, op), torch.cat([Draw(op).normal(10, scale=3), halves]))
    for op in ("expm1", "log1p", "atan", "sinh", "cosh"):
        values = Draw(op).normal(16, scale=2)
        add_one(goldens, op, {}, getattr(torch, op), torch.cat([values.abs() if op == "log1p" else values, tiny]))
    for op in ("log2", "log10"):
        add_one(goldens, op, {}, getattr(torch, op), torch.cat([Draw(op).normal(16).abs(), tensor(0.125, 1, 100)]))
    for op in ("tan", "asin", "acos"):
        values = Draw(op).normal(16, scale=0.4).clamp(-0.9375, 0.9375)
        add_one(goldens, op, {}, getattr(torch, op), torch.cat([values, tiny]))


def add_activations(goldens: GoldenFile) -> None:
    tails = tensor(-40, -12.5, -6, -3, -2, -1, -0.5, -0.0, 0.0, 0.5, 1, 2, 3, 6, 12.5, 40)
    for op, function, options in [
        ("leaky_relu", F.leaky_relu, {}),
        ("leaky_relu", F.leaky_relu, {"negative_slope": 0.25}),
        ("elu", F.elu, {}),
        ("elu", F.elu, {"alpha": 1.5}),
        ("hardtanh", F.hardtanh, {}),
        ("hardtanh", F.hardtanh, {"min_val": -0.5, "max_val": 2.0}),
        ("logsigmoid", F.logsigmoid, {}),
        ("glu", F.glu, {}),
        ("glu", F.glu, {"dim": 0}),
    ]:
        values = torch.cat([Draw(op).normal(8), tails]).reshape(4, 6)
        add_one(goldens, op, options, partial(function, **options), values)


def add_pairs(goldens: GoldenFile) -> None:
    def operands(op: str) -> dict[str, Tensor]:
        draw = Draw(op)
        return {"input": draw.normal(3, 6, scale=4), "other": draw.normal(6)}

    goldens.add_with_gradients("atan2", {"op": "atan2", "reduction": 3}, torch.atan2, operands("atan2"))
    goldens.add_with_gradients("remainder", {"op": "remainder", "reduction": 3}, torch.remainder, operands("remainder"))
    weights = {"weight": tensor(-0.5, 0, 0.25, 0.5, 1, 1.5)}
    goldens.add_with_gradients("lerp", {"op": "lerp", "reduction": 3}, torch.lerp, {**operands("lerp"), **weights})


def add_one(goldens: GoldenFile, op: str, options: dict, function, values: Tensor) -> None:
    case = "_".join([op, *options])
    reduction = 8 if op == "glu" else 1  # a product and a sigmoid
    goldens.add_with_gradients(case, {"op": op, **options, "reduction": reduction}, function, {"input": values})
