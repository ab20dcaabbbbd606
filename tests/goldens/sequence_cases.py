"""Sequences of different lengths, padded to the same length."""

from functools import partial

import torch
from torch.nn.utils.rnn import pad_sequence

from golden_file import Draw, GoldenFile

# name: PyTorch's options, the sequences' lengths, the dims after them
CASES = {
    "plain": ({}, [3, 5, 2], []),
    "batch_first": ({"batch_first": True, "padding_value": -1.5}, [3, 5, 2], [4]),
    "images": ({"padding_value": 2.0}, [1, 4, 4], [2, 3]),
    "empty": ({"batch_first": True}, [2, 0, 1], [2]),
    "equal": ({}, [3, 3, 3], [2]),
}


def build() -> GoldenFile:
    goldens = GoldenFile()
    for name, (options, lengths, sizes) in CASES.items():
        draw = Draw(f"pad_sequence_{name}")
        sequences = {f"input{i}": draw.normal(length, *sizes) for i, length in enumerate(lengths)}
        goldens.add_with_gradients(
            f"pad_sequence_{name}",
            {"op": "pad_sequence", "reduction": 1, **options},
            partial(padded, options),
            sequences,
            {"padding_mask": torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)},
        )
    return goldens


def padded(options: dict, *sequences_and_mask: torch.Tensor) -> torch.Tensor:
    return pad_sequence(sequences_and_mask[:-1], **options)
