#!/usr/bin/env python3
"""Loads model.safetensors of a run of train_shakespeare into a PyTorch model and compares the two models' logits.

    tests/peers/rebuild.py RUN_FOLDER

Needs PyTorch, safetensors and a build with tests, for bin/linnet_logits. Fails when a logit differs by more than 1e-4.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file

import models

ROOT = pathlib.Path(__file__).resolve().parents[2]


def rebuild(folder: pathlib.Path) -> torch.nn.Module:
    settings = json.loads((folder / "config.json").read_text())["settings"]
    weights = load_file(folder / "model.safetensors")
    vocabulary = weights["tok.weight"].shape[0]
    sizes = (settings[name] for name in ("attention", "layers", "heads", "width", "context"))
    model = models.TextModel(*sizes, vocabulary=vocabulary)
    model.load_state_dict({name.replace(".mlp.", "."): tensor for name, tensor in weights.items()})  # strict
    return model.eval()


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    model = rebuild(folder)
    with tempfile.TemporaryDirectory() as temporary:
        file = pathlib.Path(temporary) / "logits.safetensors"
        subprocess.run([ROOT / "build/bin/linnet_logits", folder, file], check=True)
        ours = load_file(file)
    with torch.no_grad():
        theirs = model.logits(ours["tokens"])
    difference = (ours["logits"] - theirs).abs().max().item()
    print(f"{folder}: {theirs.numel():,} logits of size up to {theirs.abs().max():.2f} differ by at most {difference:.1e}")
    sys.exit(not difference <= 1e-4)  # NaN fails too


if __name__ == "__main__":
    main()
