"""Where ops put special values: signed zeros, denormals, the ends of the exponents, infinities and NaN.

A case is an op, its inputs and arguments, by the names of tests/peers, whose table says what PyTorch has for it.
"""

import json
import math
import pathlib
import sys
import typing
import warnings

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))

from random_arrays import ARRAY_OPS  # noqa: E402: behind the path
from random_layers import LAYER_OPS  # noqa: E402

IN_TORCH = {name: op.torch for ops in (ARRAY_OPS | LAYER_OPS).values() for name, op in ops.items()}


# Optional tensors.
LEFT_OUT = {"layer_norm": 2, "group_norm": 2, "rms_norm": 1, "binary_cross_entropy_with_logits": 2, "diff": 2}


class Case(typing.NamedTuple):
    op: str
    inputs: list[str]  # names of tensors that `inputs` makes
    arguments: dict[str, typing.Any] = {}
    constants: int = 0  # the number of last inputs that get no gradient


def inputs(dtype: torch.dtype) -> dict[str, Tensor]:
    """The tensors that cases take; the first dim counts independent elements or rows."""
    info = torch.finfo(dtype)
    least, large, inf, nan = info.smallest_normal * info.eps, info.max, math.inf, math.nan

    def tensor(values: list) -> Tensor:
        return torch.tensor(values, dtype=dtype)

    def signed(*values: float) -> list[float]:
        return [x for value in values for x in (value, -value)] + [nan]

    denormals = [least, info.smallest_normal - least]
    named = {"values": tensor(signed(0.0, *denormals, info.smallest_normal, 1e-30, 1e-5, 0.5, 1, 1.5, 2, 20, 88.5,
                                     100, 710, 746, 1e15, 1e30, large, inf))}
    for_pairs = tensor(signed(0.0, least, 1e-30, 0.5, 1, 3, 1e30, large, inf))
    named["pairs"] = torch.cartesian_prod(for_pairs, for_pairs)
    named["first"], named["second"] = named["pairs"].T.contiguous()

    i, j = torch.triu_indices(len(for_pairs), len(for_pairs))
    swapped = (i + j) % 2 == 0  # so that both orders occur
    i, j = torch.where(swapped, j, i), torch.where(swapped, i, j)
    named["rows"] = torch.stack([for_pairs[i], torch.full_like(for_pairs[i], 0.25), for_pairs[j]], 1)
    named["other_rows"] = named["rows"].roll(7, 0).flip(1)
    named["targets"] = torch.arange(len(i)) % 3
    named["row_signs"] = 1 - 2 * (torch.arange(len(i)) % 2)

    # In long rows at places 5 and 33: within the vectors of the first 32 elements, and after them.
    places = [(x, None) for x in (nan, inf, -inf, large)] + [(None, x) for x in (nan, inf, -inf, -large)]
    places += [(inf, -inf), (nan, inf), (-inf, nan), (-inf, -inf), (1e30, least), (-0.0, large), (large, large)]
    named["long_rows"] = torch.linspace(-0.5, 0.52, 35, dtype=dtype).repeat(len(places), 1)
    for row, (first, second) in zip(named["long_rows"], places):
        row[5], row[33] = (old if new is None else new for old, new in [(row[5], first), (row[33], second)])
    named["long_targets"] = torch.tensor([5, 33, 0])[torch.arange(len(places)) % 3]
    named["minus_infinities"] = torch.full((3, 35), -inf, dtype=dtype)

    named["distances"], named["signs"] = torch.cartesian_prod(named["values"], tensor([1, -1])).T.contiguous()
    shares = tensor([0.0, least, 1e-30, 1e-5, 0.25, 0.5, 1 - info.eps, 1])
    named["probabilities"], named["shares"] = torch.cartesian_prod(shares, shares).T.contiguous()
    some, targets = tensor([0, -0.5, 1e-30, 1e30, -large, inf, -inf, nan]), tensor([0, 1, 1e30, -inf, nan])
    variances = tensor([0, least, 1e-30, 1, 1e30, large, inf, nan])
    triples = torch.cartesian_prod(some, targets, variances).T.contiguous()
    named["means"], named["outcomes"], named["variances"] = triples
    return named


UNARY = [Case(op, ["values"]) for op in (
    "floor", "ceil", "round", "trunc", "abs", "sign", "neg", "square", "exp", "expm1", "log", "log1p", "log2", "log10",
    "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "reciprocal", "erf", "isnan", "isinf",
    "isfinite", "tanh", "sigmoid", "relu", "silu", "logsigmoid")] + [
    Case("clamp", ["values"], {"min": -2.5, "max": 2.5}),
    Case("nan_to_num", ["values"], {"nan": 2, "posinf": 3, "neginf": -1}),
    Case("leaky_relu", ["values"], {"negative_slope": 0.01}),
    Case("elu", ["values"], {"alpha": 1}),
    Case("elu", ["values"], {"alpha": 0.5}),
    Case("hardtanh", ["values"], {"min_val": -1, "max_val": 1}),
    Case("gelu", ["values"], {"approximate": "none"}),
    Case("gelu", ["values"], {"approximate": "tanh"}),
    Case("softplus", ["values"], {"beta": 1}),
    Case("softplus", ["values"], {"beta": 3}),
    *(Case("pow", ["values"], {"number": y, "first": False}) for y in (0, 1, 2, 3, 0.5, -0.5, -1)),
    *(Case("pow", ["values"], {"number": x, "first": True}) for x in (0, 1, 2, -0.5)),
]
PAIRS = ["first", "second"]
BINARY = [Case(op, PAIRS) for op in (
    "add", "sub", "mul", "div", "remainder", "floor_divide", "pow", "atan2", "maximum", "minimum", "eq", "ne", "lt",
    "le", "gt", "ge")] + [
    Case("lerp", PAIRS, {"weight": 0.25}),
    Case("lerp", ["first", "second", "first"]),
    Case("isclose", PAIRS, {"rtol": 1e-5, "atol": 1e-8, "equal_nan": False}),
    Case("isclose", PAIRS, {"rtol": 1e-5, "atol": 1e-8, "equal_nan": True}),
    Case("glu", ["pairs"], {"dim": 1}),
]
LOSSES = [Case(op, PAIRS, {"reduction": "none", **arguments}) for op, arguments in (
    ("mse_loss", {}), ("l1_loss", {}), ("huber_loss", {"delta": 1}), ("smooth_l1_loss", {"beta": 1}),
    ("smooth_l1_loss", {"beta": 0}), ("kl_div", {"log_target": False}), ("kl_div", {"log_target": True}),
    ("binary_cross_entropy_with_logits", {}))] + [
    Case("binary_cross_entropy", ["probabilities", "shares"], {"reduction": "none"}),
    Case("hinge_embedding_loss", ["distances", "signs"], {"margin": 1, "reduction": "none"}, 1),
    Case("gaussian_nll_loss", ["means", "outcomes", "variances"], {"full": True, "eps": 1e-6, "reduction": "none"}),
]
DIM = {"dim": 1}
OVER = {"dim": [1], "keepdim": False}
ALONG = {"dim": 1, "keepdim": False}
OF_ROWS = [
    *(Case(op, [], OVER) for op in ("sum", "mean", "max", "min", "logsumexp", "any", "all", "prod")),
    *(Case("norm", [], {"ord": p, **OVER}) for p in (1, 2, 3, "inf")),
    Case("var", [], {"correction": 1, **OVER}),
    *(Case(op, [], ALONG) for op in ("max_along", "min_along", "median_along", "argmax", "argmin")),
    *(Case(op, [], DIM) for op in ("softmax", "log_softmax", "cumsum", "cumprod")),
    *(Case(op, [], {"descending": down, **DIM}) for op in ("sort", "argsort") for down in (False, True)),
    Case("topk", [], {"k": 2, "largest": True, **DIM}),
    Case("topk", [], {"k": 2, "largest": False, **DIM}),
    Case("diff", [], {"n": 1, **DIM}),
    Case("layer_norm", [], {"eps": 1e-5}),
    Case("rms_norm", [], {"eps": 1e-5}),
    Case("group_norm", [], {"num_groups": 1, "eps": 1e-5}),
]


def cases() -> list[Case]:
    found = UNARY + BINARY + LOSSES
    for rows in ("rows", "long_rows"):
        found += [Case(case.op, [rows], case.arguments) for case in OF_ROWS]
    found += [Case(case.op, ["minus_infinities"], case.arguments) for case in OF_ROWS
              if case.op in ("logsumexp", "softmax", "log_softmax", "max", "argmax")]
    for rows, targets in (("rows", "targets"), ("long_rows", "long_targets")):
        with_targets = [rows, targets]
        for smoothing in (0, 0.25):
            options = {"ignore_index": -100, "label_smoothing": smoothing, "reduction": "none"}
            found.append(Case("cross_entropy", with_targets, options, 1))
        found.append(Case("nll_loss", with_targets, {"ignore_index": -100, "reduction": "none"}, 1))
    found.append(Case("cosine_similarity", ["rows", "other_rows"], {"dim": 1, "eps": 1e-8}))
    with_signs = ["rows", "other_rows", "row_signs"]
    found.append(Case("cosine_embedding_loss", with_signs, {"margin": 0, "reduction": "none"}, 1))
    return found


def weights(output: Tensor) -> Tensor | float:
    return 1 + torch.arange(output.shape[-1]) % 3 / 2 if output.dim() == 2 else 1


def results(case: Case, named: dict[str, Tensor]) -> dict[str, Tensor]:
    """PyTorch's results, and the gradients of their sum; elements of rows have the weights 1, 1.5, 2, 1, …"""
    tensors = [named[name].clone() for name in case.inputs]
    leaves = tensors[:len(tensors) - case.constants]
    for leaf in leaves:
        leaf.requires_grad_()
    arguments = {name: math.inf if value == "inf" else value for name, value in case.arguments.items()}
    outputs = IN_TORCH[case.op](*tensors, *[None] * LEFT_OUT.get(case.op, 0), **arguments)
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    found = {f"output{i}": output.detach() for i, output in enumerate(outputs)}
    differentiable = [output for output in outputs if output.requires_grad]
    if differentiable:
        gradients = torch.autograd.grad([(output * weights(output)).sum() for output in differentiable], leaves)
        found |= {f"grad{i}": gradient for i, gradient in enumerate(gradients)}
    return found


def save(folder: pathlib.Path) -> None:
    """cases.json, and values.npz with the inputs as DTYPE.NAME and the results of case 7 as DTYPE.7.NAME."""
    warnings.filterwarnings("ignore")  # of shapes that broadcast
    folder.mkdir(exist_ok=True)
    arrays = {}
    for dtype in (torch.float32, torch.float64):
        name = str(dtype).removeprefix("torch.")
        named = inputs(dtype)
        arrays |= {f"{name}.{key}": value for key, value in named.items()}
        for i, case in enumerate(cases()):
            arrays |= {f"{name}.{i}.{key}": value for key, value in results(case, named).items()}
    np.savez_compressed(folder / "values.npz", **{key: value.numpy() for key, value in arrays.items()})
    lines = ",\n".join(json.dumps(case._asdict()) for case in cases())
    (folder / "cases.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    save(pathlib.Path(__file__).parent / "special")
