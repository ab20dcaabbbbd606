"""Optimizers on fixed gradients, and gradient clipping."""

import torch
from torch import Tensor

from golden_file import Draw, GoldenFile

SHAPES = {"weight": (4, 3), "bias": (3,)}
STEPS = 20
SAVED_STEPS = (1, 5, 20)


def build() -> GoldenFile:
    goldens = GoldenFile()
    add_optimizers(goldens)
    add_clipping(goldens)
    return goldens


def add_optimizers(goldens: GoldenFile) -> None:
    draw = Draw("optim")
    initial = {name: draw.normal(*shape) for name, shape in SHAPES.items()}
    gradients = {name: draw.normal(STEPS, *shape) for name, shape in SHAPES.items()}
    shared = {f"initial_{name}": value for name, value in initial.items()}
    shared |= {f"gradients_{name}": value for name, value in gradients.items()}
    goldens.add("inputs", {"op": "inputs", "steps": STEPS}, shared)

    sgd = (torch.optim.SGD, [1e-1, 3e-2])
    adam, adamw = (torch.optim.Adam, [1e-2, 3e-3]), (torch.optim.AdamW, [1e-2, 3e-3])
    for case, (optimizer, group_lr), options in [
        ("sgd", sgd, {}),
        ("sgd_momentum", sgd, {"momentum": 0.9}),
        ("sgd_nesterov", sgd, {"momentum": 0.9, "nesterov": True}),
        ("sgd_weight_decay", sgd, {"momentum": 0.9, "weight_decay": 0.1}),
        ("sgd_dampening", sgd, {"momentum": 0.9, "dampening": 0.4}),
        ("adam", adam, {}),
        ("adam_weight_decay", adam, {"weight_decay": 0.1}),
        ("adamw_defaults", adamw, {}),
        ("adamw", adamw, {"weight_decay": 0.1, "betas": [0.9, 0.99]}),
    ]:
        saved = run_optimizer(optimizer, group_lr, options, initial, gradients)
        parameters = {"op": optimizer.__name__, "options": options}
        parameters["group_lr"] = dict(zip(initial, group_lr))  # one parameter group each
        parameters |= {"saved_steps": SAVED_STEPS, "reduction": STEPS}
        goldens.add(case, parameters, saved)


def run_optimizer(
    optimizer: type[torch.optim.Optimizer],
    group_lr: list[float],
    options: dict,
    initial: dict[str, Tensor],
    gradients: dict[str, Tensor],
) -> dict[str, Tensor]:
    parameters = {name: value.clone().requires_grad_() for name, value in initial.items()}
    groups = [{"params": [value], "lr": lr} for value, lr in zip(parameters.values(), group_lr)]
    stepper = optimizer(groups, **options)
    saved = {}
    for step in range(1, STEPS + 1):
        for name, value in parameters.items():
            value.grad = gradients[name][step - 1].clone()
        stepper.step()
        if step in SAVED_STEPS:
            saved |= {f"{name}_step_{step}": value.detach().clone() for name, value in parameters.items()}
    return saved


def add_clipping(goldens: GoldenFile) -> None:
    draw = Draw("clip")
    gradients = {f"grad_{name}": draw.normal(*shape) for name, shape in SHAPES.items()}

    def clip(function) -> tuple[dict[str, Tensor], Tensor | None]:
        parameters = [torch.zeros_like(value, requires_grad=True) for value in gradients.values()]
        for parameter, gradient in zip(parameters, gradients.values()):
            parameter.grad = gradient.clone()
        result = function(parameters)
        return {f"clipped_{name}": p.grad for name, p in zip(gradients, parameters)}, result

    for case, max_norm in [("clip_grad_norm", 1.5), ("clip_grad_norm_inactive", 100.0)]:
        clipped, total = clip(lambda parameters: torch.nn.utils.clip_grad_norm_(parameters, max_norm))
        options = {"op": "clip_grad_norm", "max_norm": max_norm, "reduction": 15}
        goldens.add(case, options, {**gradients, **clipped, "total_norm": total})

    clipped, _ = clip(lambda parameters: torch.nn.utils.clip_grad_value_(parameters, 0.4))
    options = {"op": "clip_grad_value", "clip_value": 0.4, "reduction": 1}
    goldens.add("clip_grad_value", options, {**gradients, **clipped})
