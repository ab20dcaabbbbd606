"""Losses, with the gradients of all their floating-point inputs."""

from functools import partial

import torch
import torch.nn.functional as F

from golden_file import Draw, GoldenFile


def build() -> GoldenFile:
    goldens = GoldenFile()
    add_cross_entropy(goldens)
    add_mse(goldens)
    add_binary_cross_entropy(goldens)
    return goldens


def add_cross_entropy(goldens: GoldenFile) -> None:
    rows, classes, ignored = 8, 5, -100
    for suffix, some_ignored, smoothing in [
        ("", False, 0.0),
        ("_ignore_index", True, 0.0),
        ("_label_smoothing", False, 0.1),
        ("_ignore_index_label_smoothing", True, 0.1),
    ]:
        for reduction in ("mean", "sum", "none"):
            case = f"cross_entropy{suffix}_{reduction}"
            draw = Draw(case)
            logits, target = draw.normal(rows, classes, scale=3.0), draw.integers(classes, rows)
            if some_ignored:
                target[[1, 4, 6]] = ignored
            parameters = {"op": "cross_entropy", "reduction_mode": reduction, "label_smoothing": smoothing}
            parameters |= {"ignore_index": ignored, "reduction": rows + classes}
            loss = partial(F.cross_entropy, reduction=reduction, label_smoothing=smoothing, ignore_index=ignored)
            goldens.add_with_gradients(case, parameters, loss, {"input": logits}, {"target": target})


def add_mse(goldens: GoldenFile) -> None:
    for reduction in ("mean", "sum", "none"):
        case = f"mse_{reduction}"
        draw = Draw(case)
        inputs = {"input": draw.normal(4, 6), "target": draw.normal(4, 6)}
        parameters = {"op": "mse_loss", "reduction_mode": reduction, "reduction": 24}
        goldens.add_with_gradients(case, parameters, partial(F.mse_loss, reduction=reduction), inputs)


def add_binary_cross_entropy(goldens: GoldenFile) -> None:
    for suffix, weighted in [("", False), ("_pos_weight", True)]:
        for reduction in ("mean", "sum", "none"):
            case = f"binary_cross_entropy{suffix}_{reduction}"
            draw = Draw(case)
            logits = draw.normal(6, 4, scale=3.0)
            logits[0] = torch.tensor([60.0, -60.0, 60.0, -60.0])  # exp() alone would lose these
            constants = {"target": draw.integers(2, 6, 4).double()}
            if weighted:
                constants["pos_weight"] = torch.tensor([0.5, 1.0, 2.5, 4.0], dtype=torch.float64)

            def loss(input, target, pos_weight=None):
                return F.binary_cross_entropy_with_logits(
                    input, target, pos_weight=pos_weight, reduction=reduction
                )

            parameters = {"op": "binary_cross_entropy_with_logits", "reduction_mode": reduction}
            goldens.add_with_gradients(case, {**parameters, "reduction": 24}, loss, {"input": logits}, constants)
