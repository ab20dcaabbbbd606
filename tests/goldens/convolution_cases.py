"""Convolutions and poolings."""

import torch.nn.functional as F
from torch import Tensor

from golden_file import Draw, GoldenFile

# name: the input, the weight, whether there is a bias, PyTorch's options
CONV2D = {
    "plain": ((2, 3, 6, 5), (4, 3, 3, 2), True, {}),
    "one_by_one": ((2, 3, 4, 4), (5, 3, 1, 1), True, {}),
    "stride_padding": ((2, 2, 7, 8), (3, 2, 3, 3), False, {"stride": (2, 3), "padding": (1, 2)}),
    "dilation": ((1, 2, 8, 7), (3, 2, 3, 2), True, {"dilation": (2, 3), "padding": 2}),
    "groups": ((2, 6, 5, 5), (4, 3, 3, 3), True, {"groups": 2, "padding": 1}),
    "depthwise": ((2, 4, 6, 6), (8, 1, 3, 3), False, {"groups": 4, "stride": 2}),
    "same_even": ((2, 2, 5, 6), (3, 2, 4, 2), True, {"padding": "same"}),
    "same_dilated": ((1, 2, 6, 5), (2, 2, 3, 4), True, {"padding": "same", "dilation": (2, 1)}),
    "large_kernel": ((1, 1, 4, 4), (2, 1, 6, 6), True, {"padding": 1}),
    "all_padding": ((1, 1, 2, 2), (1, 1, 1, 1), False, {"padding": 3, "stride": 2}),
}
CONV1D = {
    "plain": ((2, 3, 9), (4, 3, 3), True, {}),
    "options": ((2, 4, 12), (6, 2, 3), True, {"stride": 2, "padding": 3, "dilation": 2, "groups": 2}),
    "same": ((1, 2, 7), (2, 2, 4), False, {"padding": "same"}),
}
TRANSPOSED = {
    "plain": ((2, 3, 4, 3), (3, 2, 3, 2), True, {}),
    "options": (
        (2, 4, 3, 4),
        (4, 3, 3, 3),
        True,
        {"stride": (2, 3), "padding": (1, 2), "output_padding": (1, 2), "groups": 2, "dilation": (2, 1)},
    ),
    "doubling": ((1, 3, 4, 4), (3, 2, 4, 4), False, {"stride": 2, "padding": 1}),
}
# name: the input, the kernel, PyTorch's options
MAX_POOL2D = {
    "halving": ((2, 3, 6, 4), 2, {}),
    "overlapping": ((2, 2, 7, 8), (3, 2), {"stride": (2, 1), "padding": (1, 1)}),
    "dilated": ((1, 2, 8, 7), 3, {"stride": 1, "dilation": (2, 3)}),
}
AVG_POOL2D = {
    "halving": ((2, 3, 6, 4), 2, {}),
    "overlapping": ((2, 2, 7, 8), (3, 2), {"stride": (2, 1), "padding": (1, 1)}),
}
POOL1D = {"overlapping": ((2, 3, 9), 3, {"stride": 2, "padding": 1})}


def build() -> GoldenFile:
    goldens = GoldenFile()
    for op, function, cases in [
        ("conv2d", F.conv2d, CONV2D),
        ("conv1d", F.conv1d, CONV1D),
        ("conv_transpose2d", F.conv_transpose2d, TRANSPOSED),
    ]:
        for name, (shape, kernel, bias, options) in cases.items():
            add_convolution(goldens, f"{op}_{name}", op, function, shape, kernel, bias, options)
    for op, function, cases in [
        ("max_pool2d", F.max_pool2d, MAX_POOL2D),
        ("avg_pool2d", F.avg_pool2d, AVG_POOL2D),
        ("max_pool1d", F.max_pool1d, POOL1D),
        ("avg_pool1d", F.avg_pool1d, POOL1D),
    ]:
        for name, (shape, kernel, options) in cases.items():
            case = f"{op}_{name}"
            parameters = {"op": op, "kernel": kernel, **options, "reduction": 16}
            inputs = {"input": Draw(case).normal(*shape)}
            goldens.add_with_gradients(case, parameters, lambda x: function(x, kernel, **options), inputs)
    return goldens


def add_convolution(goldens: GoldenFile, case: str, op: str, function, shape, kernel, bias, options) -> None:
    draw = Draw(case)
    inputs = {"input": draw.normal(*shape), "weight": draw.normal(*kernel)}
    if bias:
        outputs = kernel[1] * options.get("groups", 1) if op == "conv_transpose2d" else kernel[0]
        inputs["bias"] = draw.normal(outputs)

    def run(x: Tensor, weight: Tensor, offsets: Tensor | None = None) -> Tensor:
        return function(x, weight, offsets, **options)

    goldens.add_with_gradients(case, {"op": op, **options, "reduction": 256}, run, inputs)
