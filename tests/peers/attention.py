"""Attention mechanisms in plain PyTorch, as their papers write them. q, k, v: [B, H, N, D]."""

import functools
import math

import torch
import torch.nn.functional as F
from torch import Tensor


def softmax(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


@functools.cache
def later(tokens: int) -> Tensor:
    """Which keys come after each query; kept, as models without the fused function keep their mask."""
    return torch.ones(tokens, tokens, dtype=torch.bool).triu(1)


def softmax_formula(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """softmax(q k^T / √D) v, all that PyTorch 1.13 has; like its own attention layer, this scales the smaller q."""
    s = q.shape[-1] ** -0.5 * q @ k.transpose(-1, -2)
    if causal:
        s = s.masked_fill(later(q.shape[2]), -torch.inf)
    return torch.softmax(s, -1) @ v


def standardise(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], eps=1e-5)


def scale_of(order: int, width: int) -> float:
    return width**-0.5 if order == 2 else 0.999 / width


def fastmax_quadratic(q: Tensor, k: Tensor, v: Tensor, causal: bool, order: int) -> Tensor:
    """(f(q k^T) * mask) v / g"""
    s = scale_of(order, q.shape[-1]) * standardise(q) @ standardise(k).transpose(-1, -2)
    f = 1 + s + 0.5 * s * s if order == 2 else 1 + s
    if causal:
        f = f.tril()
    return f @ v / f.sum(-1, keepdim=True)


def fastmax_factorised(q: Tensor, k: Tensor, v: Tensor, causal: bool, order: int) -> Tensor:
    """Eqs. 28 to 35 of the FAST paper: sums over the keys first, prefix sums when causal."""
    q, k = scale_of(order, q.shape[-1]) * standardise(q), standardise(k)
    v = torch.cat([v, torch.ones_like(v[..., :1])], -1)
    if causal:
        constant = v.cumsum(2)
        linear = torch.einsum("bhnm,bhnd->bhnmd", k, v).cumsum(2)
        total = constant + torch.einsum("bhnm,bhnmd->bhnd", q, linear)
        if order == 2:
            square = torch.einsum("bhnm,bhnl,bhnd->bhnmld", k, k, v).cumsum(2)
            total = total + 0.5 * torch.einsum("bhnm,bhnl,bhnmld->bhnd", q, q, square)
    else:
        total = v.sum(2, keepdim=True) + q @ (k.transpose(-1, -2) @ v)
        if order == 2:
            pairs = lambda x: (x[..., :, None] * x[..., None, :]).flatten(-2)  # noqa: E731
            total = total + 0.5 * pairs(q) @ (pairs(k).transpose(-1, -2) @ v)
    return total[..., :-1] / total[..., -1:]


def linear_quadratic(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """(φ(q) φ(k)^T * mask) v / g with φ(x) = elu(x) + 1"""
    f = (F.elu(q) + 1) @ (F.elu(k) + 1).transpose(-1, -2)
    if causal:
        f = f.tril()
    return f @ v / f.sum(-1, keepdim=True)


def linear_factorised(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """Eqs. 5 to 12 of Katharopoulos et al. 2020: sums over the keys first, prefix sums when causal."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    if causal:
        state = torch.einsum("bhnm,bhnd->bhnmd", k, v).cumsum(2)
        return torch.einsum("bhnm,bhnmd->bhnd", q, state) / (q * k.cumsum(2)).sum(-1, keepdim=True)
    return q @ (k.transpose(-1, -2) @ v) / (q @ k.sum(2).unsqueeze(-1))


@functools.cache
def projection(width: int) -> Tensor:
    """Ω of FAVOR+, D ln D rows: orthogonal blocks with lengths of normal vectors, and the signs that make them Haar."""
    features = int(width * math.log(width))
    blocks = [torch.linalg.qr(torch.randn(width, width)) for _ in range(-(-features // width))]
    rows = torch.cat([(q * r.diagonal().sign()).T for q, r in blocks])[:features]
    return rows * torch.randn(features, width).norm(dim=1, keepdim=True)


def performer_features(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """φ(q), φ(k) of FAVOR+ (Choromanski et al. 2021), relative to the largest exponent of each feature and query."""
    omega = projection(q.shape[-1])
    q, k = q.shape[-1] ** -0.25 * q, k.shape[-1] ** -0.25 * k
    a, b = q @ omega.T, k @ omega.T - 0.5 * (k * k).sum(-1, keepdim=True)
    most = b.detach().amax(2, keepdim=True)
    a = a + most
    return torch.exp(a - a.detach().amax(-1, keepdim=True)), torch.exp(b - most)


def performer_quadratic(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """(φ(q) φ(k)^T * mask) v / g"""
    q, k = performer_features(q, k)
    f = q @ k.transpose(-1, -2)
    if causal:
        f = f.tril()
    return f @ v / f.sum(-1, keepdim=True)


def performer_factorised(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """Sums over the keys first, prefix sums when causal."""
    q, k = performer_features(q, k)
    if causal:
        state = torch.einsum("bhnm,bhnd->bhnmd", k, v).cumsum(2)
        return torch.einsum("bhnm,bhnmd->bhnd", q, state) / (q * k.cumsum(2)).sum(-1, keepdim=True)
    return q @ (k.transpose(-1, -2) @ v) / (q @ k.sum(2).unsqueeze(-1))


def additive(q: Tensor, k: Tensor, v: Tensor, w_q: Tensor, w_k: Tensor, causal: bool) -> Tensor:
    """Eqs. 3 to 6 of the Fastformer paper; causal with prefix sums, shifted by the largest logit of all."""

    def pool(x: Tensor, w: Tensor) -> Tensor:
        logits = (x * w[:, None]).sum(-1, keepdim=True) * x.shape[-1] ** -0.5
        if not causal:
            return (torch.softmax(logits, 2) * x).sum(2, keepdim=True)
        weights = torch.exp(logits - logits.amax(2, keepdim=True))
        return (weights * x).cumsum(2) / weights.cumsum(2)

    p = pool(q, w_q) * k
    return pool(p, w_k) * v
