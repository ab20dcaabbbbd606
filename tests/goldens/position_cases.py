"""Rotary and sinusoidal positions by the papers' formulas, compared with Hugging Face's LLaMA."""

import math

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from golden_file import Draw, GoldenFile

BASE = 10000.0


def rotate(x: Tensor, start: int) -> Tensor:
    """Dims i and i + D/2 of x [.., N, D], as one complex number, times e^(j p θ_i) (Su et al. 2021, section 3.2.2)."""
    tokens, half = x.shape[-2], x.shape[-1] // 2
    theta = torch.tensor([BASE ** (-2 * i / x.shape[-1]) for i in range(half)], dtype=torch.float64)
    angle = torch.arange(start, start + tokens, dtype=torch.float64)[:, None] * theta
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([turned.real, turned.imag], -1)


def check_against_llama(x: Tensor, start: int) -> None:
    """LLaMA's own function takes [B, H, N, D], and computes its angles in float32."""
    dim, tokens = x.shape[-1], x.shape[-2]
    config = transformers.LlamaConfig(
        hidden_size=dim, num_attention_heads=1, head_dim=dim, rope_parameters={"rope_type": "default", "rope_theta": BASE}
    )
    cosine, sine = LlamaRotaryEmbedding(config)(x, torch.arange(start, start + tokens)[None])
    expected, _ = apply_rotary_pos_emb(x, x, cosine, sine)
    torch.testing.assert_close(rotate(x, start), expected, rtol=0, atol=1e-6 * (1 + start))


def sinusoidal(count: int, width: int, start: int) -> Tensor:
    """Vaswani et al. 2017, section 3.5, element by element."""
    table = torch.zeros(count, width, dtype=torch.float64)
    for row in range(count):
        for i in range(width // 2):
            angle = (start + row) / BASE ** (2 * i / width)
            table[row, 2 * i], table[row, 2 * i + 1] = math.sin(angle), math.cos(angle)
    return table


def attention(x: Tensor, qkv: Tensor, out: Tensor, heads: int, mechanism: str) -> Tensor:
    """Causal self-attention of x [B, N, C] with rotated queries and keys, but not values."""
    batch, tokens, width = x.shape
    q, k, v = (part.view(batch, tokens, heads, width // heads).transpose(1, 2) for part in (x @ qkv.T).chunk(3, -1))
    if mechanism == "softmax":
        o = F.scaled_dot_product_attention(rotate(q, 0), rotate(k, 0), v, is_causal=True)
    else:  # fastmax2, which rotates after standardising
        q, k = (rotate(F.layer_norm(part, part.shape[-1:], eps=1e-5), 0) for part in (q, k))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        weights = (1 + scores + scores**2 / 2).tril()
        o = weights @ v / weights.sum(-1, keepdim=True)
    return o.transpose(1, 2).reshape(batch, tokens, width) @ out.T


def build() -> GoldenFile:
    goldens = GoldenFile()
    for case, shape, start in [
        ("rotate", (2, 3, 7, 8), 0),
        ("rotate_later", (2, 3, 7, 8), 5),
        ("rotate_pair", (1, 1, 5, 2), 3),
        ("rotate_far", (1, 2, 3, 6), 100_000),
    ]:
        x = Draw(case).normal(*shape)
        if start < 1000:
            check_against_llama(x, start)
        goldens.add_with_gradients(
            case, {"op": "rotate", "start": start, "reduction": 4}, lambda x, start=start: rotate(x, start), {"input": x}
        )

    for case, count, width, start in [("sinusoidal", 6, 8, 0), ("sinusoidal_later", 3, 6, 1000)]:
        parameters = {"op": "sinusoidal", "count": count, "width": width, "start": start, "reduction": 4}
        goldens.add(case, parameters, {"output": sinusoidal(count, width, start)})

    width, heads, tokens = 12, 3, 9
    for mechanism in ("softmax", "fastmax2"):
        case = f"{mechanism}_rotary"
        draw = Draw(case)
        inputs = {"input": draw.normal(2, tokens, width)}
        inputs |= {"qkv.weight": draw.normal(3 * width, width, scale=0.5), "out.weight": draw.normal(width, width)}
        parameters = {"op": "rotary_attention", "mechanism": mechanism, "width": width, "heads": heads}
        goldens.add_with_gradients(
            case,
            {**parameters, "reduction": 3 * width + tokens},
            lambda x, qkv, out, mechanism=mechanism: attention(x, qkv, out, heads, mechanism),
            inputs,
        )
    return goldens
