"""Functions of torch.nn.functional that linnet composes of other ops: activations, images, padding, distances."""

import torch
import torch.nn.functional as F

from golden_file import Draw, GoldenFile

# name: the input, options of F.interpolate
INTERPOLATE = {
    "nearest": ((2, 2, 5, 4), {"size": (7, 3)}),
    "nearest_exact": ((1, 2, 5, 6), {"size": (3, 8), "mode": "nearest-exact"}),
    "factor": ((2, 1, 4, 5), {"scale_factor": 2}),
    "linear": ((2, 3, 7), {"size": 11, "mode": "linear"}),
    "bilinear": ((2, 2, 4, 6), {"size": (9, 3), "mode": "bilinear"}),
    "bilinear_factor": ((1, 2, 5, 7), {"scale_factor": (1.5, 0.7), "mode": "bilinear"}),
    "bilinear_corners": ((1, 2, 5, 3), {"size": (8, 1), "mode": "bilinear", "align_corners": True}),
    "trilinear": ((1, 1, 3, 4, 2), {"size": (5, 3, 4), "mode": "trilinear"}),
    "bicubic": ((1, 2, 5, 6), {"size": (9, 4), "mode": "bicubic"}),
    "bicubic_corners": ((1, 1, 4, 5), {"scale_factor": 2.5, "mode": "bicubic", "align_corners": True}),
}
# name: the input, the widths
PAD = {
    "last": ((2, 3, 5), (2, 4)),
    "both": ((2, 2, 4, 5), (1, 3, 2, 0)),
}
# The gradient of F.hardsigmoid has a sixth in float32, also for float64.
ACTIVATIONS = {
    "relu6": F.relu6,
    "hardsigmoid": lambda x: F.relu6(x + 3) / 6,
    "hardswish": F.hardswish,
    "mish": F.mish,
    "selu": F.selu,
}


def build() -> GoldenFile:
    goldens = GoldenFile()
    for name, function in ACTIVATIONS.items():
        inputs = {"input": Draw(name).normal(6, 7, scale=3.0)}
        goldens.add_with_gradients(name, {"op": name, "reduction": 1}, function, inputs)
    for slopes in (1, 3):
        draw = Draw(f"prelu_{slopes}")
        inputs = {"input": draw.normal(2, 3, 4), "weight": draw.normal(slopes)}
        goldens.add_with_gradients(f"prelu_{slopes}", {"op": "prelu", "reduction": 24}, F.prelu, inputs)
    add_images(goldens)
    add_indexing(goldens)
    add_distances(goldens)
    return goldens


def add_images(goldens: GoldenFile) -> None:
    for name, (shape, options) in INTERPOLATE.items():
        case = f"interpolate_{name}"
        inputs = {"input": Draw(case).normal(*shape)}
        parameters = {"op": "interpolate", **options, "reduction": 64}
        goldens.add_with_gradients(case, parameters, lambda x: F.interpolate(x, **options), inputs)
    for size in ((1, 1), (3, 2), (7, 5)):
        case = f"adaptive_avg_pool2d_{size[0]}_{size[1]}"
        inputs = {"input": Draw(case).normal(2, 3, 5, 7)}
        parameters = {"op": "adaptive_avg_pool2d", "output_size": size, "reduction": 35}
        goldens.add_with_gradients(case, parameters, lambda x: F.adaptive_avg_pool2d(x, size), inputs)
    inputs = {"input": Draw("pixel_shuffle").normal(2, 12, 3, 2)}
    parameters = {"op": "pixel_shuffle", "factor": 2, "reduction": 1}
    goldens.add_with_gradients("pixel_shuffle", parameters, lambda x: F.pixel_shuffle(x, 2), inputs)
    inputs = {"input": Draw("pixel_unshuffle").normal(2, 1, 6, 9)}
    parameters = {"op": "pixel_unshuffle", "factor": 3, "reduction": 1}
    goldens.add_with_gradients("pixel_unshuffle", parameters, lambda x: F.pixel_unshuffle(x, 3), inputs)
    for mode in ("reflect", "replicate", "circular"):
        for name, (shape, widths) in PAD.items():
            case = f"pad_{mode}_{name}"
            inputs = {"input": Draw(case).normal(*shape)}
            parameters = {"op": "pad", "mode": mode, "widths": widths, "reduction": 16}
            goldens.add_with_gradients(case, parameters, lambda x: F.pad(x, widths, mode), inputs)


def add_indexing(goldens: GoldenFile) -> None:
    draw = Draw("index")
    inputs = {"input": draw.normal(4, 5, 2)}
    constants = {"first": draw.integers(4, 3, 1), "second": draw.integers(5, 2)}
    goldens.add_with_gradients("index", {"op": "index", "reduction": 6}, lambda x, i, j: x[i, j], inputs, constants)
    for dim in (0, 1):
        case = f"index_add_{dim}"
        draw = Draw(case)
        source = (3, 5) if dim == 0 else (4, 3)
        inputs = {"input": draw.normal(4, 5), "source": draw.normal(*source)}
        parameters = {"op": "index_add", "dim": dim, "alpha": -1.5, "reduction": 3}
        goldens.add_with_gradients(
            case,
            parameters,
            lambda x, source, index: x.index_add(dim, index, source, alpha=-1.5),
            inputs,
            {"index": draw.integers(4, 3)},
        )


def add_distances(goldens: GoldenFile) -> None:
    for p in (1.0, 2.0, 3.0):
        case = f"normalize_{p:.0f}"
        parameters = {"op": "normalize", "p": p, "reduction": 8}
        inputs = {"input": Draw(case).normal(3, 4, 2)}
        goldens.add_with_gradients(case, parameters, lambda x: F.normalize(x, p), inputs)
        case = f"cdist_{p:.0f}"
        draw = Draw(case)
        inputs = {"x1": draw.normal(2, 3, 4), "x2": draw.normal(5, 4)}
        exact = "donot_use_mm_for_euclid_dist"
        parameters = {"op": "cdist", "p": p, "reduction": 20}
        goldens.add_with_gradients(case, parameters, lambda a, b: torch.cdist(a, b, p, exact), inputs)
    draw = Draw("pairwise_distance")
    inputs = {"x1": draw.normal(3, 4), "x2": draw.normal(4)}
    goldens.add_with_gradients(
        "pairwise_distance", {"op": "pairwise_distance", "reduction": 12}, F.pairwise_distance, inputs
    )
    for swap in (False, True):
        case = f"triplet_margin_loss_{'swap' if swap else 'plain'}"
        draw = Draw(case)
        inputs = {name: draw.normal(6, 4) for name in ("anchor", "positive", "negative")}
        parameters = {"op": "triplet_margin_loss", "swap": swap, "reduction": 48}
        goldens.add_with_gradients(
            case, parameters, lambda a, p, n: F.triplet_margin_loss(a, p, n, margin=0.7, swap=swap), inputs
        )
    draw = Draw("margin_ranking_loss")
    inputs = {"input1": draw.normal(9), "input2": draw.normal(9)}
    goldens.add_with_gradients(
        "margin_ranking_loss",
        {"op": "margin_ranking_loss", "reduction": 9},
        lambda a, b, target: F.margin_ranking_loss(a, b, target, margin=0.3),
        inputs,
        {"target": 2 * draw.integers(2, 9) - 1},
    )
