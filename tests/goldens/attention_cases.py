"""Attention by explicit N x N formulas: softmax, Fastmax and Fastformer's additive attention.

B: batch, H: heads, N: tokens, D: head dimension. `key_mask` [B, N] is false where a key is hidden.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from golden_file import Draw, GoldenFile


def visible_keys(tokens: int, causal: bool, key_mask: Tensor | None) -> Tensor:
    """[B or 1, 1, N, N]: true where the query (row) sees the key (column)."""
    visible = torch.ones(1, 1, tokens, tokens, dtype=torch.bool)
    if causal:
        visible = visible.tril()
    return visible if key_mask is None else visible & key_mask[:, None, None, :]


def weighted_mean(weights: Tensor, visible: Tensor, values: Tensor) -> Tensor:
    """Rows of `values` [.., N, D] averaged with `weights` [.., N, N] over the visible keys; 0, with zero
    gradients, where no key is visible."""
    weights = weights * visible
    total = weights.sum(-1, keepdim=True)
    return weights @ values / torch.where(visible.any(-1, keepdim=True), total, 1.0)


def exp_weights(scores: Tensor, visible: Tensor) -> Tensor:
    """exp(scores) up to a factor for each row, which cancels in the weighted mean."""
    scores = torch.where(visible, scores, -torch.inf)
    shift = scores.detach().amax(-1, keepdim=True)
    return torch.exp(scores - torch.where(shift.isfinite(), shift, 0.0))


def padded_keys(batch: int, tokens: int) -> Tensor:
    """Hides the first and the last two tokens of the first sequence, and all of the last sequence. So there are
    rows without a visible key, with and without causality."""
    mask = torch.ones(batch, tokens, dtype=torch.bool)
    mask[0, 0] = mask[0, -2:] = False
    mask[-1, :] = False
    return mask


def add_case(
    goldens: GoldenFile,
    case: str,
    parameters: dict,
    function: Callable[..., Tensor],
    shape: tuple[int, int, int, int],
    weights: dict[str, Tensor] | None = None,
    masked: bool = False,
) -> None:
    batch, heads, tokens, head_dim = shape
    draw = Draw(case)
    inputs = {name: draw.normal(*shape) for name in ("query", "key", "value")} | (weights or {})
    constants = {"key_mask": padded_keys(batch, tokens)} if masked else {}
    goldens.add_with_gradients(case, {**parameters, "reduction": tokens + head_dim}, function, inputs, constants)


# ---- softmax: o_i = sum_n softmax_n(q_i.k_n / sqrt(D)) v_n


def softmax_attention(q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, causal: bool) -> Tensor:
    visible = visible_keys(q.shape[-2], causal, key_mask)
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    return weighted_mean(exp_weights(scores, visible), visible, v)


def build_softmax() -> GoldenFile:
    goldens = GoldenFile()
    for case, shape, causal, masked in [
        ("softmax", (2, 3, 17, 8), False, False),
        ("softmax_causal", (2, 3, 17, 8), True, False),
        ("softmax_masked", (2, 2, 9, 4), False, True),
        ("softmax_causal_masked", (2, 2, 9, 4), True, True),
        ("softmax_long", (1, 1, 130, 4), False, False),
        ("softmax_causal_long", (1, 1, 130, 4), True, False),
    ]:

        def run(q, k, v, key_mask=None):
            output = softmax_attention(q, k, v, key_mask, causal)
            if key_mask is None:  # PyTorch does not define the result of rows without a visible key
                torch.testing.assert_close(F.scaled_dot_product_attention(q, k, v, is_causal=causal), output)
            return output

        add_case(goldens, case, {"op": "softmax_attention", "causal": causal}, run, shape, masked=masked)
    return goldens


# ---- fastmax (Gerami et al. 2024, eqs. 5-12): weights f(s) = a0 + a1 s + a2 s^2


def fastmax_scale(scale: str | float, head_dim: int) -> float:
    named = {"paper": 1.0, "sqrt": 1.0 / math.sqrt(head_dim), "unit": 0.999 / head_dim}
    return named[scale] if isinstance(scale, str) else scale


def fastmax_attention(q, k, v, key_mask, causal, coefficients, normalisation, scale) -> Tensor:
    head_dim = q.shape[-1]
    if normalisation == "standard":
        q, k = (F.layer_norm(x, (head_dim,), eps=1e-5) for x in (q, k))
    scores = fastmax_scale(scale, head_dim) * (q @ k.mT)
    weights = sum(a * scores**power for power, a in enumerate(coefficients))
    return weighted_mean(weights, visible_keys(q.shape[-2], causal, key_mask), v)


def build_fastmax() -> GoldenFile:
    goldens = GoldenFile()
    taylor = {1: [1.0, 1.0], 2: [1.0, 1.0, 0.5]}
    small, long = (2, 2, 9, 4), (1, 1, 70, 6)

    def add(case, order, scale, causal, masked=False, normalisation="standard", coefficients=None, shape=small):
        case += "_causal" * causal + "_masked" * masked
        coefficients = coefficients or taylor[order]

        def run(q, k, v, key_mask=None):
            return fastmax_attention(q, k, v, key_mask, causal, coefficients, normalisation, scale)

        parameters = {"op": "fastmax_attention", "order": order, "coefficients": coefficients}
        parameters |= {"normalisation": normalisation, "scale": scale, "causal": causal}
        add_case(goldens, case, parameters, run, shape, masked=masked)

    for causal in (False, True):
        add("fastmax1_unit", 1, "unit", causal)  # the other scales can make f negative
        add("fastmax1_unit", 1, "unit", causal, masked=True)
        for normalisation in ("standard", "none"):
            suffix = "" if normalisation == "standard" else "_unnormalised"
            for scale in ("paper", "sqrt", "unit"):
                add(f"fastmax2_{scale}{suffix}", 2, scale, causal, normalisation=normalisation)
        add("fastmax2_sqrt", 2, "sqrt", causal, masked=True)
        add("fastmax2_number", 2, 0.2, causal)
        add("fastmax2_coefficients", 2, "sqrt", causal, coefficients=[1.5, 0.7, 0.3])
        add("fastmax2_sqrt_long", 2, "sqrt", causal, shape=long)
    return goldens


# ---- Fastformer (Wu et al. 2021, eqs. 3-6), up to u_i and per head


def fastformer_attention(q, k, v, w_q, w_k, key_mask, causal, interaction) -> Tensor:
    """If causal, row j of every N x N matrix holds the weights of token j's prefix; otherwise
    all rows are equal. `w_q`, `w_k`: [H, D]."""
    scale = 1.0 / math.sqrt(q.shape[-1])
    combine = {"product": torch.mul, "add": torch.add}[interaction]
    visible = visible_keys(q.shape[-2], causal, key_mask)

    def additive_pool(x: Tensor, w: Tensor) -> Tensor:
        logits = scale * torch.einsum("bhnd,hd->bhn", x, w)
        return weighted_mean(exp_weights(logits[:, :, None, :], visible), visible, x)

    global_query = additive_pool(q, w_q)  # eqs. 3 and 4
    p = combine(global_query, k)
    global_key = additive_pool(p, w_k)  # eqs. 5 and 6
    return combine(global_key, v) * visible.any(-1, keepdim=True)


def build_fastformer() -> GoldenFile:
    goldens = GoldenFile()
    def add(case, interaction, causal, masked=False, logit_scale=1.0, shape=(2, 2, 9, 4)):
        case += "_causal" * causal + "_masked" * masked
        draw = Draw(case + ".weights")
        weights = {name: draw.normal(shape[1], shape[3], scale=logit_scale) for name in ("w_query", "w_key")}

        def run(q, k, v, w_q, w_k, key_mask=None):
            return fastformer_attention(q, k, v, w_q, w_k, key_mask, causal, interaction)

        parameters = {"op": "fastformer_attention", "interaction": interaction, "causal": causal}
        add_case(goldens, case, parameters, run, shape, weights, masked)

    for causal in (False, True):
        for interaction in ("product", "add"):
            for masked in (False, True):
                add(f"fastformer_{interaction}", interaction, causal, masked)
        add("fastformer_large_logits", "product", causal, logit_scale=60.0)  # a naive cumsum(exp) fails
        add("fastformer_long", "product", causal, shape=(1, 1, 130, 4))
    return goldens
