#!/usr/bin/env python3
"""Writes the reference files that the C++ tests compare against (see README.md).

    pip install torch numpy safetensors transformers pillow opencv-python-headless scikit-learn rouge-score
    python3 tests/goldens/make_goldens.py [FOLDER]

Every case draws its inputs from a seed of its name, so a new case does not change the others.
"""

import pathlib
import sys

import torch

import array_cases
import attention_cases
import batch_norm_cases
import convolution_cases
import decoder_cases
import elementwise_cases
import encoder_decoder_cases
import functional_cases
import gpt2_cases
import layer_cases
import loss_cases
import metric_cases
import numpy_files
import optimizer_cases
import pathfinder_cases
import position_cases
import preset_cases
import recurrent_cases
import released_cases
import schedule_cases
import sequence_cases
import sequence_classifier_cases
import special_cases


def main() -> None:
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    torch.set_num_threads(1)  # the order of sums, and so the last bits, depend on the thread count
    torch.use_deterministic_algorithms(True)
    files = {
        "array": array_cases.build(),
        "elementwise": elementwise_cases.build(),
        "layers": layer_cases.build(),
        "convolutions": convolution_cases.build(),
        "functional": functional_cases.build(),
        "batch_norm": batch_norm_cases.build(),
        "recurrent": recurrent_cases.build(),
        "softmax": attention_cases.build_softmax(),
        "fastmax": attention_cases.build_fastmax(),
        "fastformer": attention_cases.build_fastformer(),
        "losses": loss_cases.build(),
        "optim": optimizer_cases.build(),
        "schedules": schedule_cases.build(),
        "sequences": sequence_cases.build(),
        "decoder": decoder_cases.build(),
        "sequence_classifier": sequence_classifier_cases.build(),
        "encoder_decoder": encoder_decoder_cases.build(),
        "pathfinder": pathfinder_cases.build(),
        "positions": position_cases.build(),
        "presets": preset_cases.build(),
        "metrics": metric_cases.build(),
    }
    for name, goldens in files.items():
        path = folder / f"{name}.safetensors"
        goldens.save(path)
        print(f"{path.name}: {len(goldens.cases)} cases, {path.stat().st_size} bytes")
    released_cases.save(folder / "weights" / "released_fastformer.safetensors")
    gpt2_cases.save(folder / "weights" / "gpt2")
    numpy_files.save(folder / "numpy")
    special_cases.save(folder / "special")


if __name__ == "__main__":
    main()
