#!/usr/bin/env python3
"""Compares the mechanisms of attention.py with their definitions, which compute all tokens² weights, in float64.

    tests/peers/check_attention.py

Results and gradients must agree, also if blocks do not divide the number of tokens. The mean of many results with
dropout must be the result without dropout.
"""

import sys
from collections.abc import Callable

import torch
from torch import Tensor

import attention

DRAWS = 1000


def weights(q: Tensor, k: Tensor, seen: Tensor, scale: float | None = None) -> Tensor:
    s = (q.shape[-1] ** -0.5 if scale is None else scale) * q @ k.transpose(-1, -2)
    return torch.softmax(s.masked_fill(~seen, -torch.inf), -1).nan_to_num(0.0)


def distance(tokens: int) -> Tensor:
    """j - i of query i and key j."""
    return torch.arange(tokens) - torch.arange(tokens)[:, None]


def in_window(tokens: int, window: int, causal: bool) -> Tensor:
    d = distance(tokens)
    return (d <= 0) & (d >= -window) if causal else d.abs() <= window // 2


def longformer(q: Tensor, k: Tensor, v: Tensor, causal: bool, window: int, first: int, of_global: tuple) -> Tensor:
    tokens = q.shape[2]
    seen = in_window(tokens, window, causal)
    seen[:, :first] = True
    if causal:
        seen &= distance(tokens) <= 0
    rows = weights(of_global[0], of_global[1], distance(tokens)[:first] <= (0 if causal else tokens)) @ of_global[2]
    return torch.cat([rows, (weights(q, k, seen) @ v)[:, :, first:]], 2)


def bigbird(q: Tensor, k: Tensor, v: Tensor, others: Tensor, block: int) -> Tensor:
    tokens, heads = q.shape[2], q.shape[1]
    blocks = -(-tokens // block)
    seen = (distance(blocks).abs() <= 1).repeat(heads, 1, 1)
    for edge in (0, blocks - 1):
        seen[:, edge] = seen[:, :, edge] = True
    for head, rows in enumerate(others):
        for row, drawn in enumerate(rows):
            seen[head, row + 1, drawn] = True
    of_tokens = seen.repeat_interleave(block, 1).repeat_interleave(block, 2)[:, :tokens, :tokens]
    return weights(q, k, of_tokens) @ v


def pools(x: Tensor, w: Tensor, stride: int) -> Tensor:
    kernel, tokens, rows = len(w), x.shape[2], []
    for start in range(0, tokens, stride):
        count = min(kernel, tokens - start)
        share = torch.softmax(x[:, :, min(start + (kernel - 1) // 2, tokens - 1)] @ w[:count].T, -1)
        rows.append((share[..., None] * x[:, :, start : start + count]).sum(2))
    return torch.stack(rows, 2)


def pooled(q: Tensor, k: Tensor, v: Tensor, w_k: Tensor, w_v: Tensor, causal: bool, window2: int) -> Tensor:
    tokens, stride = q.shape[2], 4
    starts, i = torch.arange(0, tokens, stride), torch.arange(tokens)[:, None]
    seen = (starts + (len(w_k) - 1) / 2 - i).abs() <= window2 / 2
    if causal:
        seen &= starts + len(w_k) - 1 <= i
    return weights(q, pools(k, w_k, stride), seen) @ pools(v, w_v, stride)


def reformer(q: Tensor, v: Tensor, rotations: Tensor, causal: bool, chunk: int) -> Tensor:
    batch, heads, tokens, width = q.shape
    seen = torch.zeros(batch, heads, tokens, tokens, dtype=torch.bool)
    rotated = torch.einsum("bhnd,hdrk->bhrnk", q, rotations)
    buckets = torch.cat([rotated, -rotated], -1).argmax(-1)
    for b in range(batch):
        for h in range(heads):
            for bucket in buckets[b, h]:
                chunk_of = bucket.argsort(stable=True).argsort() // chunk
                back = chunk_of[:, None] - chunk_of
                seen[b, h] |= (bucket[:, None] == bucket) & (back >= 0) & (back <= 1)
    if causal:
        seen &= distance(tokens) <= 0
    k = q * torch.rsqrt(q.square().mean(-1, keepdim=True) + 1e-6) * width**-0.5
    s = q @ k.transpose(-1, -2)
    s = s.masked_fill(torch.eye(tokens, dtype=torch.bool), -5e4).masked_fill(~seen, -torch.inf)
    return torch.softmax(s, -1) @ v


def informer(q: Tensor, k: Tensor, v: Tensor, samples: Tensor) -> Tensor:
    tokens, count = samples.shape
    o = v.mean(2, keepdim=True).expand_as(v).clone()
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            s = (q[b, h, :, None] * k[b, h, samples]).sum(-1)
            chosen = (s.amax(1) - s.sum(1) / tokens).argsort(descending=True)[:count]
            o[b, h, chosen] = attention.softmax_formula(q[b : b + 1, h : h + 1, chosen], k[b : b + 1, h : h + 1],
                                                        v[b : b + 1, h : h + 1], False)[0, 0]  # fmt: skip
    return o


def cases(tokens: int, causal: bool) -> dict[str, tuple[Callable, Callable, list[Tensor]]]:
    """By name: the mechanism as a function of the dropout rate, its definition, and their inputs."""
    draw = lambda *shape: torch.randn(shape, requires_grad=True)  # noqa: E731
    q, k, v = (draw(2, 2, tokens, 8) for _ in range(3))
    of_global = tuple(draw(2, 2, count, 8) for count in (2, tokens, tokens))
    w_k, w_v = draw(5, 8), draw(5, 8)
    omega, rotations = attention.projection(8, 20), attention.random_rotations(tokens, 2, 8, 3, 8)
    qkv = [q, k, v]
    found = {
        "softmax": (lambda p: attention.softmax(q, k, v, causal, p),
                    lambda: attention.softmax_formula(q, k, v, causal), qkv),
        "linear": (lambda p: attention.linear_factorised(q, k, v, causal),
                   lambda: attention.linear_quadratic(q, k, v, causal), qkv),
        "performer": (lambda p: attention.performer_factorised(q, k, v, omega, causal),
                      lambda: attention.performer_quadratic(q, k, v, omega, causal), qkv),
        "near": (lambda p: attention.near(q, k, v, causal, 6, 0, p, 8),
                 lambda: weights(q, k, in_window(tokens, 6, causal)) @ v, qkv),
        "longformer": (lambda p: attention.longformer(q, k, v, causal, 6, 2, of_global, p),
                       lambda: longformer(q, k, v, causal, 6, 2, of_global), [*qkv, *of_global]),
        "pooled": (lambda p: attention.pooled(q, k, v, w_k, w_v, causal, 24, dropout=p, block=8),
                   lambda: pooled(q, k, v, w_k, w_v, causal, 24), [*qkv, w_k, w_v]),
        "reformer": (lambda p: attention.reformer(q, v, rotations, causal, 8, p),
                     lambda: reformer(q, v, rotations, causal, 8), [q, v]),
    }  # fmt: skip
    for order in (1, 2):
        found[f"fastmax{order}"] = (
            lambda p, order=order: attention.fastmax_factorised(q, k, v, causal, order),
            lambda order=order: attention.fastmax_quadratic(q, k, v, causal, order),
            qkv,
        )
    if causal:
        return found
    e, f = draw(6, tokens), draw(6, tokens)
    others = attention.random_blocks(2, -(-tokens // 4), 2)
    samples = {count: attention.sampled_keys(tokens, count) for count in (1, 7)}
    found |= {
        "linformer": (lambda p: attention.linformer(q, k, v, e, f, p),
                      lambda: attention.softmax_formula(q, e @ k, f @ v, False), [*qkv, e, f]),
        "bigbird": (lambda p: attention.bigbird(q, k, v, others, 4, p), lambda: bigbird(q, k, v, others, 4), qkv),
        "informer, all scores": (lambda p: attention.informer(q, k, v, samples[7], p),
                                 lambda: informer(q, k, v, samples[7]), qkv),
        "informer, keys gathered": (lambda p: attention.informer(q, k, v, samples[1], p),
                                    lambda: informer(q, k, v, samples[1]), qkv),
    }  # fmt: skip
    return found


def difference(function: Callable, definition: Callable, inputs: list[Tensor]) -> float:
    """The largest difference in result and gradients, relative to the definition's largest number."""
    a, b = function(0.0), definition()
    cotangent = torch.randn_like(a)
    pairs = zip([a, *torch.autograd.grad(a, inputs, cotangent)], [b, *torch.autograd.grad(b, inputs, cotangent)])
    # Unlike Python's max, torch's is NaN if one number is.
    return float(torch.stack([(x - y).detach().abs().max() / y.detach().abs().max() for x, y in pairs]).max())


def dropout_bias(function: Callable) -> tuple[float, float]:
    """The largest difference between the mean of many draws and the result without dropout, in standard errors of the
    mean; and the largest standard deviation.
    """
    with torch.no_grad():
        exact = function(0.0)
        total = square = 0
        for _ in range(DRAWS):
            o = function(0.3) - exact
            total, square = total + o, square + o * o
        deviation = (square / DRAWS).sqrt()
        return float((total.abs() / DRAWS / (deviation / DRAWS**0.5 + 1e-12)).max()), float(deviation.max())


def main() -> None:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    failed = 0
    for tokens in (64, 51, 50):
        for causal in (False, True):
            for name, (function, definition, inputs) in cases(tokens, causal).items():
                off = difference(function, definition, inputs)
                failed += not off <= 1e-10
                print(f"{name}{' causal' if causal else ''}, {tokens} tokens: differ by {off:.0e}")
                if tokens == 51 and not causal and not name.startswith(("fastmax", "linear", "performer")):
                    bias, deviation = dropout_bias(function)
                    failed += not (bias <= 6 and deviation >= 1e-3)
                    print(f"{name} with dropout: the mean is {bias:.1f} standard errors off, deviation {deviation:.2f}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
