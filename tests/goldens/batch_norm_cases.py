"""Batch norm and group norm as layers, and a residual block of convolutions and batch norms."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from golden_file import Draw, GoldenFile

STEPS = 3  # training steps; an evaluation follows

# name: PyTorch's layer, the shape of a batch, options of the layer
BATCH_NORMS = {
    "rows": ("BatchNorm1d", (5, 3), {}),
    "signals": ("BatchNorm1d", (2, 3, 4), {"momentum": 0.3, "eps": 1e-3}),
    "long_signals": ("BatchNorm1d", (2, 3, 21), {}),
    "images": ("BatchNorm2d", (3, 2, 5, 4), {}),
    "average": ("BatchNorm2d", (2, 3, 2, 3), {"momentum": None}),
    "no_affine": ("BatchNorm2d", (2, 3, 2, 3), {"affine": False}),
    "no_bias": ("BatchNorm2d", (2, 3, 2, 3), {"bias": False}),
    "no_tracking": ("BatchNorm2d", (2, 3, 2, 3), {"track_running_stats": False}),
    "one_image": ("BatchNorm2d", (1, 3, 2, 2), {}),
}
# name: the shape of the input, num_groups, names of the parameters, eps
GROUP_NORMS = {
    "images": ((2, 6, 3, 2), 3, ("weight", "bias"), 1e-5),
    "large_images": ((2, 4, 5, 6), 2, ("weight", "bias"), 1e-3),
    "rows": ((4, 6), 2, ("weight", "bias"), 1e-5),
    "one_group": ((3, 4, 5), 1, ("weight",), 1e-5),
    "instance": ((2, 3, 4, 5), 3, (), 1e-5),
}


class ResidualBlock(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))


def build() -> GoldenFile:
    goldens = GoldenFile()
    for name, (layer, shape, options) in BATCH_NORMS.items():
        module = getattr(nn, layer)(shape[1], **options)
        add_steps(goldens, f"batch_norm_{name}", {"op": "batch_norm", "layer": layer, **options}, module, shape)
    for name, (shape, num_groups, names, eps) in GROUP_NORMS.items():
        case = f"group_norm_{name}"
        draw = Draw(case)
        inputs = {"input": 2 * draw.normal(*shape) + 1, **{name: draw.normal(shape[1]) for name in names}}
        parameters = {"op": "group_norm", "num_groups": num_groups, "eps": eps, "parameters": names}

        def run(x: Tensor, *affine: Tensor) -> Tensor:
            return F.group_norm(x, num_groups, *affine, eps=eps)

        goldens.add_with_gradients(case, {**parameters, "reduction": 64}, run, inputs)
    block = ResidualBlock(3)
    add_steps(goldens, "residual_block", {"op": "residual_block", "channels": 3}, block, (2, 3, 5, 4))
    return goldens


def add_steps(goldens: GoldenFile, case: str, parameters: dict, module: nn.Module, shape: tuple) -> None:
    """Stores the results of `module` in STEPS training steps, without an optimizer, and one evaluation: `input`,
    `output`, `grad_output` and all gradients, with the step as the first dim, and the state before and after."""
    draw = Draw(case)
    module.double()
    for parameter in module.parameters():
        parameter.data = draw.normal(*parameter.shape)
    tensors = {f"start.{name}": value.clone() for name, value in module.state_dict().items()}
    rows: dict[str, list[Tensor]] = {}
    for step in range(STEPS + 1):
        module.train(step < STEPS)
        x = (2 * draw.normal(*shape) + 1).requires_grad_()
        output, cotangent = module(x), draw.normal(*shape)
        leaves = {"input": x, **dict(module.named_parameters())}
        gradients = torch.autograd.grad(output, list(leaves.values()), cotangent)
        row = {"input": x, "output": output, "grad_output": cotangent}
        row.update({f"grad_{name}": gradient for name, gradient in zip(leaves, gradients)})
        for name, value in row.items():
            rows.setdefault(name, []).append(value)
    tensors.update({name: torch.stack(values) for name, values in rows.items()})
    tensors.update({f"end.{name}": value for name, value in module.state_dict().items()})
    goldens.add(case, {**parameters, "reduction": 256}, tensors)
