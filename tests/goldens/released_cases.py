"""A small Fastformer encoder under the names of the published implementation, written from its formulas.

The file has the layout of a weights file: every tensor that does not begin with `test.` is a weight.
"""

import math
import pathlib

import safetensors.numpy
import torch
import torch.nn.functional as F
from torch import Tensor

from golden_file import Draw

BATCH, TOKENS, MAX_TOKENS, WIDTH, HEADS, HIDDEN, LAYERS = 3, 6, 8, 12, 3, 10, 2
EPS = 1e-12


def weights() -> dict[str, Tensor]:
    draw = Draw("released")
    tensors = {"position_embeddings.weight": draw.normal(MAX_TOKENS, WIDTH, scale=0.3)}

    def linear(name: str, out: int, into: int) -> None:
        tensors[f"{name}.weight"] = draw.normal(out, into, scale=1 / math.sqrt(into))
        tensors[f"{name}.bias"] = draw.normal(out, scale=0.1)

    def layer_norm(name: str) -> None:
        tensors[f"{name}.weight"] = 1 + draw.normal(WIDTH, scale=0.1)
        tensors[f"{name}.bias"] = draw.normal(WIDTH, scale=0.1)

    layer_norm("LayerNorm")
    for i in range(LAYERS):
        attention = f"encoders.{i}.attention"
        for name in ("query", "key", "transform"):
            linear(f"{attention}.self.{name}", WIDTH, WIDTH)
        for name in ("query_att", "key_att"):
            linear(f"{attention}.self.{name}", HEADS, WIDTH)
        linear(f"{attention}.output.dense", WIDTH, WIDTH)
        layer_norm(f"{attention}.output.LayerNorm")
        linear(f"encoders.{i}.intermediate.dense", HIDDEN, WIDTH)
        linear(f"encoders.{i}.output.dense", WIDTH, HIDDEN)
        layer_norm(f"encoders.{i}.output.LayerNorm")
    linear("poolers.0.att_fc1", WIDTH, WIDTH)
    linear("poolers.0.att_fc2", 1, WIDTH)
    return tensors


def encode(w: dict[str, Tensor], x: Tensor, mask: Tensor) -> Tensor:
    """[B, N, C] and a mask [B, N] of ones and zeros -> [B, C]."""

    def linear(name: str, t: Tensor) -> Tensor:
        return t @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def layer_norm(name: str, t: Tensor) -> Tensor:
        return F.layer_norm(t, (WIDTH,), w[f"{name}.weight"], w[f"{name}.bias"], EPS)

    def heads(t: Tensor) -> Tensor:
        return t.reshape(BATCH, TOKENS, HEADS, WIDTH // HEADS)

    def pool(name: str, t: Tensor) -> Tensor:
        """The sum of a column over the tokens, with weights of each head by logits from all numbers: [B, 1, H, D]."""
        logits = linear(name, t) / math.sqrt(WIDTH // HEADS) + (1 - mask)[..., None] * -10000
        return (torch.softmax(logits, 1)[..., None] * heads(t)).sum(1, keepdim=True)

    x = layer_norm("LayerNorm", x + w["position_embeddings.weight"][:TOKENS])
    for i in range(LAYERS):
        attention = f"encoders.{i}.attention"
        query, key = linear(f"{attention}.self.query", x), linear(f"{attention}.self.key", x)
        p = (pool(f"{attention}.self.query_att", query) * heads(key)).reshape(x.shape)
        u = (pool(f"{attention}.self.key_att", p) * heads(query)).reshape(x.shape)
        mixed = linear(f"{attention}.self.transform", u) + query
        x = layer_norm(f"{attention}.output.LayerNorm", linear(f"{attention}.output.dense", mixed) + x)
        hidden = F.gelu(linear(f"encoders.{i}.intermediate.dense", x))
        x = layer_norm(f"encoders.{i}.output.LayerNorm", linear(f"encoders.{i}.output.dense", hidden) + x)
    scores = torch.exp(linear("poolers.0.att_fc2", torch.tanh(linear("poolers.0.att_fc1", x)))) * mask[..., None]
    return (scores / (scores.sum(1, keepdim=True) + 1e-8) * x).sum(1)


def save(path: pathlib.Path) -> None:
    draw = Draw("released inputs")
    w = {name: tensor.requires_grad_() for name, tensor in weights().items()}
    x = draw.normal(BATCH, TOKENS, WIDTH).requires_grad_()
    mask = torch.ones(BATCH, TOKENS, dtype=torch.float64)
    mask[1, 4:] = mask[2, 1:] = 0
    cotangent = draw.normal(BATCH, WIDTH)
    output = encode(w, x, mask)
    output.backward(cotangent)
    tests = {
        "input": x,
        "attention_mask": mask,
        "output": output,
        "output_gradient": cotangent,
        "input_gradient": x.grad,
    } | {f"gradient.{name}": tensor.grad for name, tensor in w.items()}
    tensors = w | {f"test.{name}": tensor for name, tensor in tests.items()}
    path.parent.mkdir(exist_ok=True)
    arrays = {name: tensor.detach().numpy().copy() for name, tensor in tensors.items()}
    sizes = {"layers": LAYERS, "heads": HEADS, "width": WIDTH, "hidden": HIDDEN, "max_tokens": MAX_TOKENS}
    safetensors.numpy.save_file(arrays, path, {name: str(size) for name, size in sizes.items()} | {"torch": torch.__version__})
