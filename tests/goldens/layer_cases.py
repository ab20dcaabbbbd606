"""Layers, transformer blocks and the functions that they are made of."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from golden_file import Draw, GoldenFile


def build() -> GoldenFile:
    goldens = GoldenFile()
    add_linear(goldens)
    add_embedding(goldens)
    add_norm_layers(goldens)
    add_feed_forward(goldens)
    add_blocks(goldens)
    add_activations(goldens)
    add_reductions(goldens)
    return goldens


def add_linear(goldens: GoldenFile) -> None:
    for case, bias in [("linear", True), ("linear_no_bias", False)]:
        draw = Draw(case)
        inputs = {"input": draw.normal(2, 4, 5), "weight": draw.normal(3, 5)}
        if bias:
            inputs["bias"] = draw.normal(3)
        goldens.add_with_gradients(case, {"op": "linear", "bias": bias, "reduction": 8}, F.linear, inputs)


def add_embedding(goldens: GoldenFile) -> None:
    draw = Draw("embedding")
    goldens.add_with_gradients(
        "embedding",
        {"op": "embedding", "reduction": 8},
        lambda weight, indices: F.embedding(indices, weight),
        {"weight": draw.normal(9, 3)},
        {"indices": draw.integers(9, 2, 6)},
    )


def add_norm_layers(goldens: GoldenFile) -> None:
    width = 12

    for case, names in [
        ("layer_norm", ["weight", "bias"]),
        ("layer_norm_no_bias", ["weight"]),
        ("layer_norm_no_affine", []),
    ]:
        draw = Draw(case)
        inputs = {"input": draw.normal(2, 5, width), **{name: draw.normal(width) for name in names}}
        parameters = {"op": "layer_norm", "eps": 1e-5, "affine": len(names) > 0, "bias": len(names) == 2}
        goldens.add_with_gradients(
            case,
            {**parameters, "reduction": width},
            lambda x, *affine: F.layer_norm(x, (width,), *affine, eps=1e-5),
            inputs,
        )

    draw = Draw("rms_norm")
    goldens.add_with_gradients(
        "rms_norm",
        {"op": "rms_norm", "eps": 1e-6, "reduction": width},
        lambda x, weight: F.rms_norm(x, (width,), weight, eps=1e-6),
        {"input": draw.normal(2, 5, width), "weight": draw.normal(width)},
    )


def add_feed_forward(goldens: GoldenFile) -> None:
    draw = Draw("feed_forward")
    goldens.add_with_gradients(
        "feed_forward",
        {"op": "feed_forward", "width": 6, "hidden": 10, "activation": "gelu", "reduction": 10 + 6},
        lambda x, w1, b1, w2, b2: F.linear(F.gelu(F.linear(x, w1, b1)), w2, b2),
        {
            "input": draw.normal(2, 3, 6),
            "fc1.weight": draw.normal(10, 6),
            "fc1.bias": draw.normal(10),
            "fc2.weight": draw.normal(6, 10),
            "fc2.bias": draw.normal(6),
        },
    )


# A block's parameters: linnet's names and those of nn.TransformerEncoderLayer. The rows of the qkv
# weight are all queries, then all keys, then all values, each ordered by head.
BLOCK_NAMES = {
    "norm1": "norm1",
    "attention.qkv": "self_attn.in_proj",
    "attention.out": "self_attn.out_proj",
    "norm2": "norm2",
    "mlp.fc1": "linear1",
    "mlp.fc2": "linear2",
}


def torch_parameter_name(name: str) -> str:
    """`attention.qkv.weight` -> `self_attn.in_proj_weight`, `mlp.fc1.bias` -> `linear1.bias`."""
    module, kind = name.rsplit(".", 1)
    return f"{BLOCK_NAMES[module]}{'_' if module == 'attention.qkv' else '.'}{kind}"


def torch_block(width: int, heads: int, hidden: int, pre_norm: bool, bias: bool) -> nn.Module:
    return nn.TransformerEncoderLayer(
        width,
        heads,
        hidden,
        dropout=0.0,
        activation=F.gelu,
        batch_first=True,
        norm_first=pre_norm,
        bias=bias,
        dtype=torch.float64,
    )


def causal_mask(tokens: int) -> Tensor:
    """True where a query (row) must not see a key (column), as nn.TransformerEncoderLayer expects it."""
    return torch.ones(tokens, tokens, dtype=torch.bool).triu(1)


def add_blocks(goldens: GoldenFile) -> None:
    width, heads, hidden, tokens = 12, 3, 24, 7
    for case, pre_norm, causal in [("block_pre_norm", True, True), ("block_post_norm", False, False)]:
        draw = Draw(case)
        module = torch_block(width, heads, hidden, pre_norm, bias=True)
        shapes = {name: value.shape for name, value in module.named_parameters()}
        names = [f"{part}.{kind}" for part in BLOCK_NAMES for kind in ("weight", "bias")]
        inputs = {"input": draw.normal(2, tokens, width)}
        for name in names:
            inputs[name] = draw.normal(*shapes[torch_parameter_name(name)], scale=0.5)

        def run(x: Tensor, *weights: Tensor) -> Tensor:
            values = {torch_parameter_name(name): value for name, value in zip(names, weights)}
            mask = causal_mask(tokens) if causal else None
            return torch.func.functional_call(module, values, (x,), {"src_mask": mask})

        parameters = {"op": "block", "width": width, "heads": heads, "hidden": hidden}
        parameters |= {"pre_norm": pre_norm, "causal": causal, "activation": "gelu"}
        # norm, qkv, scores and sum over keys, out, norm, fc1, fc2
        reduction = 4 * width + 2 * tokens + width + hidden
        goldens.add_with_gradients(case, {**parameters, "reduction": reduction}, run, inputs)


def add_activations(goldens: GoldenFile) -> None:
    functions = {
        "gelu": F.gelu,
        "gelu_tanh": partial(F.gelu, approximate="tanh"),
        "silu": F.silu,
        "softplus": F.softplus,
    }
    # Includes the tails, but not 16..30, where PyTorch's softplus returns x, with an error of exp(-x).
    tails = torch.tensor([-40.0, -12.5, -6.0, -3.0, -0.0, 0.0, 3.0, 6.0, 12.5, 40.0], dtype=torch.float64)
    for case, function in functions.items():
        values = torch.cat([Draw(case).normal(14), tails]).reshape(4, 6)
        goldens.add_with_gradients(case, {"op": case, "reduction": 1}, function, {"input": values})


def add_reductions(goldens: GoldenFile) -> None:
    def add(case: str, parameters: dict, function) -> None:
        values = Draw(case).normal(3, 7, 4)
        goldens.add_with_gradients(case, {**parameters, "dim": 1, "reduction": 7}, function, {"input": values})

    add("log_softmax", {"op": "log_softmax"}, partial(F.log_softmax, dim=1))
    add("logsumexp", {"op": "logsumexp"}, partial(torch.logsumexp, dim=1))
    add("cumsum", {"op": "cumsum"}, partial(torch.cumsum, dim=1))
    for correction in (0, 1):
        parameters = {"op": "var", "correction": correction}
        add(f"var_correction_{correction}", parameters, partial(torch.var, dim=1, correction=correction))
    for order in ("1", "2", "inf"):
        parameters = {"op": "norm", "order": order}
        add(f"norm_{order}", parameters, partial(torch.linalg.vector_norm, ord=float(order), dim=1))
