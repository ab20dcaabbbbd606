"""Optimizers on fixed gradients, and gradient clipping."""

from unittest import mock

import torch
from torch import Tensor
from torch.optim.lr_scheduler import OneCycleLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from golden_file import Draw, GoldenFile

SHAPES = {"weight": (4, 3), "bias": (3,)}
STEPS = 20
SAVED_STEPS = (1, 5, 20)
CYCLE = {"max_lr": 3e-2, "anneal_strategy": "linear", "pct_start": 0.4}


def build() -> GoldenFile:
    goldens = GoldenFile()
    add_optimizers(goldens)
    add_clipping(goldens)
    add_average(goldens)
    return goldens


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, algorithm 2."""

    def __init__(self, groups, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(groups, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (beta1, beta2), lr = group["betas"], group["lr"]
            for theta in group["params"]:
                g, m = theta.grad, self.state[theta].get("m", torch.zeros_like(theta))
                c = beta1 * m + (1 - beta1) * g
                theta -= lr * (torch.sign(c) + group["weight_decay"] * theta)
                self.state[theta]["m"] = beta2 * m + (1 - beta2) * g


def add_optimizers(goldens: GoldenFile) -> None:
    draw = Draw("optim")
    initial = {name: draw.normal(*shape) for name, shape in SHAPES.items()}
    gradients = {name: draw.normal(STEPS, *shape) for name, shape in SHAPES.items()}
    shared = {f"initial_{name}": value for name, value in initial.items()}
    shared |= {f"gradients_{name}": value for name, value in gradients.items()}
    goldens.add("inputs", {"op": "inputs", "steps": STEPS}, shared)

    sgd = (torch.optim.SGD, [1e-1, 3e-2])
    rmsprop, lion, muon = (torch.optim.RMSprop, [1e-2, 3e-3]), (Lion, [1e-2, 3e-3]), (torch.optim.Muon, [1e-1])
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
        ("rmsprop", rmsprop, {}),
        ("rmsprop_momentum", rmsprop, {"momentum": 0.9, "weight_decay": 0.1, "alpha": 0.9}),
        ("rmsprop_centered", rmsprop, {"centered": True}),
        ("rmsprop_centered_momentum", rmsprop, {"centered": True, "momentum": 0.5, "eps": 1e-3}),
        ("lion", lion, {}),
        ("lion_weight_decay", lion, {"weight_decay": 0.1, "betas": [0.95, 0.98]}),
        ("muon", muon, {}),
        ("muon_plain", muon, {"nesterov": False, "momentum": 0.8, "weight_decay": 0.0, "ns_steps": 3}),
        ("muon_match_rms_adamw", muon, {"adjust_lr_fn": "match_rms_adamw"}),
        ("muon_spectral_unclamped", muon, {"adjust_lr_fn": "spectral_unclamped"}),
    ]:
        saved = run_optimizer(optimizer, group_lr, options, initial, gradients)
        parameters = {"op": optimizer.__name__, "options": options}
        parameters["group_lr"] = dict(zip(initial, group_lr))  # one parameter group each
        parameters |= {"saved_steps": SAVED_STEPS, "reduction": STEPS}
        goldens.add(case, parameters, saved)
    for case, (optimizer, group_lr), options in [
        ("adam", adam, {}),
        ("adamw", adamw, {}),
        ("sgd", sgd, {"momentum": 0.9, "dampening": 0.4}),
        ("sgd_nesterov", sgd, {"momentum": 0.9, "nesterov": True}),
        ("rmsprop", rmsprop, {"momentum": 0.9}),
        ("muon", muon, {}),
    ]:
        saved = run_optimizer(optimizer, group_lr, options, initial, gradients, CYCLE)
        parameters = {"op": optimizer.__name__, "options": options}
        parameters |= {"group_lr": dict(zip(initial, group_lr)), "cycle": CYCLE}
        parameters |= {"saved_steps": SAVED_STEPS, "reduction": STEPS}
        goldens.add(f"{case}_one_cycle", parameters, saved)


def run_optimizer(
    optimizer: type[torch.optim.Optimizer],
    group_lr: list[float],
    options: dict,
    initial: dict[str, Tensor],
    gradients: dict[str, Tensor],
    cycle: dict | None = None,
) -> dict[str, Tensor]:
    """Trains the first parameters, as many as there are rates; with `cycle`, by OneCycleLR and its momentum."""
    parameters = {name: value.clone().requires_grad_() for (name, value), _ in zip(initial.items(), group_lr)}
    groups = [{"params": [value], "lr": lr} for value, lr in zip(parameters.values(), group_lr)]
    stepper = optimizer(groups, **options)
    schedule = OneCycleLR(stepper, total_steps=STEPS, **cycle) if cycle else None
    saved = {}
    for step in range(1, STEPS + 1):
        for name, value in parameters.items():
            value.grad = gradients[name][step - 1].clone()
        with mock.patch.object(torch, "bfloat16", torch.float64):  # Muon's products
            stepper.step()
        if schedule and step < STEPS:
            schedule.step()
        if step in SAVED_STEPS:
            saved |= {f"{name}_step_{step}": value.detach().clone() for name, value in parameters.items()}
    return saved


def add_average(goldens: GoldenFile) -> None:
    """Averages of parameters that are random in each step."""
    draw, steps = Draw("average"), 6
    weights = draw.normal(steps, 4, 3)
    model = torch.nn.Linear(3, 4, bias=False, dtype=torch.float64)
    for case, options in [("average", {}), ("average_decay", {"decay": 0.75})]:
        averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(**options))
        averages = []
        for weight in weights:
            model.weight.data = weight.clone()
            averaged.update_parameters(model)
            averages.append(averaged.module.weight.detach().clone())
        parameters = {"op": "average", "options": options, "reduction": steps}
        goldens.add(case, parameters, {"weights": weights, "averages": torch.stack(averages)})


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
