#!/usr/bin/env python3
"""Shows that PyTorch and linnet load each other's weights, by the names of PyTorch's state_dict.

    tests/peers/weights.py [--program build/bin/linnet_weights]

For each layer and model of MODELS, in float64: PyTorch trains it for three steps and saves its state_dict as a
safetensors file, which linnet loads. linnet trains one and saves it, and PyTorch loads it. Both load strictly: no name
may be missing or unexpected, and no shape may differ. Then both must give the same outputs for the same input, within
1e-9. Prints a table, and exits with 1 if an output differs.

Needs PyTorch, safetensors and a build with tests, for bin/linnet_weights.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Model(nn.Module):
    """A model of one layer, called `layer`."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return y[0] if isinstance(y, tuple) else y


class Containers(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8))
        self.list = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.heads = nn.ModuleDict({"digits": nn.Linear(8, 10), "letters": nn.Linear(8, 26)})

    def forward(self, x: Tensor) -> Tensor:
        x = self.net(x)
        for linear in self.list:
            x = F.relu(linear(x))
        return torch.cat([head(x) for head in self.heads.values()], -1)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, pixels: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(pixels)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))


RECURRENT = {"num_layers": 2, "batch_first": True, "bidirectional": True}

# By the names of weights.cpp: a function that makes the model, and the shape of its input.
MODELS = {
    "Linear": (lambda: Model(nn.Linear(6, 5)), (3, 6)),
    "Linear without bias": (lambda: Model(nn.Linear(6, 5, bias=False)), (3, 6)),
    "Conv1d": (lambda: Model(nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2)), (3, 4, 9)),
    "Conv2d": (
        lambda: Model(nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(2, 1), dilation=(1, 2), groups=2)),
        (3, 4, 7, 8),
    ),
    "ConvTranspose2d": (
        lambda: Model(
            nn.ConvTranspose2d(4, 6, (3, 2), stride=2, padding=1, output_padding=(1, 0), groups=2, dilation=2)
        ),
        (3, 4, 5, 6),
    ),
    "BatchNorm1d": (lambda: Model(nn.BatchNorm1d(5)), (8, 5)),
    "BatchNorm2d": (lambda: Model(nn.BatchNorm2d(5, eps=1e-3, momentum=None)), (4, 5, 3, 2)),
    "BatchNorm2d without statistics": (lambda: Model(nn.BatchNorm2d(5, track_running_stats=False)), (4, 5, 3, 2)),
    "GroupNorm": (lambda: Model(nn.GroupNorm(2, 6)), (3, 6, 4)),
    "LayerNorm": (lambda: Model(nn.LayerNorm(6)), (3, 6)),
    "RMSNorm": (lambda: Model(nn.RMSNorm(6, eps=1e-6)), (3, 6)),
    "Embedding": (lambda: Model(nn.Embedding(7, 4)), (3, 5)),
    "GRU": (lambda: Model(nn.GRU(3, 4, **RECURRENT)), (2, 5, 3)),
    "LSTM": (lambda: Model(nn.LSTM(3, 4, **RECURRENT)), (2, 5, 3)),
    "GRU without bias": (lambda: Model(nn.GRU(3, 4, bias=False)), (5, 2, 3)),
    "Containers": (Containers, (3, 6)),
    "LeNet": (LeNet, (2, 1, 28, 28)),
}


def train(model: nn.Module, x: Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def largest_difference(model: nn.Module, x: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return (model.eval()(x) - y).abs().max().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/bin/linnet_weights")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    differences = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        trained = {}
        for name, (make, shape) in MODELS.items():
            x = torch.randint(7, shape) if name == "Embedding" else torch.randn(shape)
            trained[name] = make()
            train(trained[name], x)
            save_file({"x": x}, folder / f"{name}.input.safetensors")
            save_file(trained[name].state_dict(), folder / f"{name}.pytorch.safetensors")
        subprocess.run([arguments.program, folder], check=True)
        print("model                           tensors  PyTorch → linnet  linnet → PyTorch")
        for name, (make, _) in MODELS.items():
            file = {what: load_file(folder / f"{name}.{what}.safetensors")
                    for what in ("input", "loaded", "linnet", "saved")}
            there = largest_difference(trained[name], file["input"]["x"], file["loaded"]["y"])
            model = make()
            model.load_state_dict(file["linnet"], strict=True)
            back = largest_difference(model, file["input"]["x"], file["saved"]["y"])
            print(f"{name:30s}  {len(file['linnet']):7}  {there:16.1e}  {back:16.1e}")
            differences += [there, back]
    sys.exit(not all(difference <= 1e-9 for difference in differences))


if __name__ == "__main__":
    main()
