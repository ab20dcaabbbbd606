"""Attention mechanisms in plain PyTorch, as their papers write them. q, k, v: [B, H, N, D]. `dropout` is the rate at
which weights are dropped after normalisation.
"""

import functools
import math

import torch
import torch.nn.functional as F
from torch import Tensor


def softmax(q: Tensor, k: Tensor, v: Tensor, causal: bool, dropout: float = 0.0) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=causal)


@functools.cache
def later(tokens: int) -> Tensor:
    """Which keys come after each query. The mask is cached, as in models without the fused function."""
    return torch.ones(tokens, tokens, dtype=torch.bool).triu(1)


def softmax_formula(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """softmax(q k^T / √D) v, for PyTorch 1.13, which has only the formula. Scales q, as its attention layer does."""
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


def projection(width: int, features: int = 0) -> Tensor:
    """Ω of FAVOR+ [features, D]: orthogonal blocks, with lengths of normal vectors and the signs that make the blocks
    Haar-distributed. 0 features mean D ln D.
    """
    features = features or int(width * math.log(width))
    blocks = [torch.linalg.qr(torch.randn(width, width)) for _ in range(-(-features // width))]
    rows = torch.cat([(q * r.diagonal().sign()).T for q, r in blocks])[:features]
    return rows * torch.randn(features, width).norm(dim=1, keepdim=True)


def performer_features(q: Tensor, k: Tensor, omega: Tensor) -> tuple[Tensor, Tensor]:
    """φ(q), φ(k) of FAVOR+ (Choromanski et al. 2021), relative to the largest exponent of each feature and query."""
    q, k = q.shape[-1] ** -0.25 * q, k.shape[-1] ** -0.25 * k
    a, b = q @ omega.T, k @ omega.T - 0.5 * (k * k).sum(-1, keepdim=True)
    most = b.detach().amax(2, keepdim=True)
    a = a + most
    return torch.exp(a - a.detach().amax(-1, keepdim=True)), torch.exp(b - most)


def performer_quadratic(q: Tensor, k: Tensor, v: Tensor, omega: Tensor, causal: bool) -> Tensor:
    """(φ(q) φ(k)^T * mask) v / g"""
    q, k = performer_features(q, k, omega)
    f = q @ k.transpose(-1, -2)
    if causal:
        f = f.tril()
    return f @ v / f.sum(-1, keepdim=True)


def performer_factorised(q: Tensor, k: Tensor, v: Tensor, omega: Tensor, causal: bool) -> Tensor:
    """Sums over the keys first, prefix sums when causal."""
    q, k = performer_features(q, k, omega)
    if causal:
        state = torch.einsum("bhnm,bhnd->bhnmd", k, v).cumsum(2)
        return torch.einsum("bhnm,bhnmd->bhnd", q, state) / (q * k.cumsum(2)).sum(-1, keepdim=True)
    return q @ (k.transpose(-1, -2) @ v) / (q @ k.sum(2).unsqueeze(-1))


def linformer(q: Tensor, k: Tensor, v: Tensor, e: Tensor, f: Tensor, dropout: float = 0.0) -> Tensor:
    """Wang et al. 2020, eq. 7: the maps e and f [K, N] project keys and values along the tokens."""
    k, v = torch.einsum("kn,bhnd->bhkd", e, k), torch.einsum("kn,bhnd->bhkd", f, v)
    return softmax(q, k, v, False, dropout)


def take(x: Tensor, index: Tensor) -> Tensor:
    """The rows index [B or 1, H, K] of x [B, H, M, C]: [B, H, K, C]. index_select is faster than gather."""
    batch, heads, count, width = x.shape
    rows = index + count * torch.arange(batch * heads).view(batch, heads, 1)
    return x.reshape(-1, width).index_select(0, rows.flatten()).view(batch, heads, -1, width)


def attend(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, dropout: float) -> Tensor:
    """Softmax attention in each block, with q [B, H, blocks, queries, D], k and v [B, H, blocks, keys, D] and bool seen
    [blocks, queries or 1, keys]: [B, H, blocks · queries, D]. A query that sees no key gives 0.
    """
    o = F.scaled_dot_product_attention(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), seen, dropout)
    return o.flatten(1, 2).unflatten(0, q.shape[:2])


def in_blocks(x: Tensor, block: int) -> Tensor:
    """Blocks of tokens, with 0 after the last token: [B, H, blocks, block, D]."""
    return F.pad(x, (0, 0, 0, -x.shape[2] % block)).unflatten(2, (-1, block))


def with_neighbours(x: Tensor, block: int, before: int, after: int) -> Tensor:
    """Blocks of tokens with those before and after; 0 beyond the ends: [B, H, blocks, before + block + after, D]."""
    rows = F.pad(x, (0, 0, before, after + -x.shape[2] % block))
    return rows.unfold(2, before + block + after, block).transpose(-1, -2)


def near(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, window: int, first: int, dropout: float = 0.0, block: int = 128
) -> Tensor:
    """Softmax over the `first` tokens and those at most window / 2 away, or, if causal, at most window before."""
    tokens = q.shape[2]
    before, after = (window, 0) if causal else (window // 2, window // 2)
    i = torch.arange(tokens + -tokens % block).view(-1, block, 1)
    j = i[:, :1] - before + torch.arange(before + block + after)
    seen = (j >= first) & (j < tokens) & (j >= i - before) & (j <= i + after)

    def keys(x: Tensor) -> Tensor:
        shared = x[:, :, None, :first].expand(-1, -1, len(i), -1, -1)
        return torch.cat([shared, with_neighbours(x, block, before, after)], 3)

    o = attend(in_blocks(q, block), keys(k), keys(v), F.pad(seen, (first, 0), value=True), dropout)
    return o[:, :, :tokens]


def longformer(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    window: int = 256,
    global_tokens: int = 1,
    of_global: tuple[Tensor, Tensor, Tensor] | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Beltagy et al. 2020, section 3.1, with the first tokens as global tokens. `of_global` has the queries of the
    global tokens and the keys and values that they see; without it, these are q, k and v.
    """
    q_global, k_global, v_global = of_global or (q[:, :, :global_tokens], k, v)
    rows = softmax(q_global, k_global, v_global, causal, dropout)
    return torch.cat([rows, near(q, k, v, causal, window, global_tokens, dropout)[:, :, global_tokens:]], 2)


def random_blocks(heads: int, blocks: int, count: int) -> Tensor:
    """For each block except the first and the last, random ones of the blocks that it does not see otherwise:
    [H, blocks - 2, count]. With so few blocks that BigBird is softmax attention: [H, 0, count].
    """
    if blocks <= 5 + 2 * count:
        return torch.empty(heads, 0, count, dtype=torch.int64)
    i, j = torch.arange(1, blocks - 1)[:, None], torch.arange(blocks)
    free = ((i - j).abs() > 1) & (j > 0) & (j < blocks - 1)
    return torch.stack([torch.multinomial(free.float(), count) for _ in range(heads)])


def bigbird(q: Tensor, k: Tensor, v: Tensor, others: Tensor, block: int = 16, dropout: float = 0.0) -> Tensor:
    """Zaheer et al. 2020, section 2, with random_blocks as `others`."""
    tokens, (inner, count) = q.shape[2], others.shape[1:]
    if inner == 0:
        return softmax(q, k, v, False, dropout)
    # The first and the last block count once, even if they are also neighbours.
    seen = torch.ones(inner, 5 + count, block, dtype=torch.bool)
    seen[0, 1] = seen[-1, 3] = False
    seen[:, 4, block - -tokens % block :] = False

    def keys(x: Tensor) -> Tensor:
        x = in_blocks(x, block)
        first, last = (end.expand(-1, -1, inner, -1, -1) for end in (x[:, :, :1], x[:, :, -1:]))
        drawn = take(x.flatten(3), others.flatten(1)[None]).view(*x.shape[:2], inner, -1, x.shape[4])
        return torch.cat([first, x[:, :, :-2], x[:, :, 1:-1], x[:, :, 2:], last, drawn], 3)

    behind = block + inner * block
    rows = q[:, :, block:behind].unflatten(2, (-1, block))
    middle = attend(rows, keys(k), keys(v), seen.flatten(1)[:, None], dropout)
    ends = softmax(torch.cat([q[:, :, :block], q[:, :, behind:]], 2), k, v, False, dropout)
    return torch.cat([ends[:, :, :block], middle, ends[:, :, block:]], 2)


def pools(x: Tensor, w: Tensor, stride: int) -> Tensor:
    """Light dynamic convolution: from every stride-th token on, a mean of K tokens with weights softmax(w x_c), where w
    is [K, D] and x_c is the middle token. Pools are cut at the last token, which is x_c if the middle is beyond it.
    """
    kernel, tokens = w.shape[0], x.shape[2]
    starts = torch.arange(0, tokens, stride)
    middles = x[:, :, (kernel - 1) // 2 :: stride]
    if (missing := len(starts) - middles.shape[2]) > 0:
        middles = torch.cat([middles, x[:, :, -1:].expand(-1, -1, missing, -1)], 2)
    logits = (middles @ w.T).masked_fill(starts[:, None] + torch.arange(kernel) >= tokens, -torch.inf)
    rows = F.pad(x, (0, 0, 0, (len(starts) - 1) * stride + kernel - tokens)).unfold(2, kernel, stride)
    return (rows * torch.softmax(logits, -1)[..., None, :]).sum(-1)


def pooled(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    causal: bool,
    window2: int = 512,
    stride: int = 4,
    dropout: float = 0.0,
    block: int = 128,
) -> Tensor:
    """Softmax over pools of tokens whose middle is at most window2 / 2 away, the second level of Poolingformer. The
    stride divides the block.
    """
    tokens, kernel = q.shape[2], w_k.shape[0]
    before = (window2 + kernel - 1) // (2 * stride)
    after = 0 if causal else before
    i = torch.arange(tokens + -tokens % block).view(-1, block, 1)
    p = i[:, :1] // stride - before + torch.arange(before + block // stride + after)
    seen = (p >= 0) & (stride * p < tokens) & ((2 * stride * p + kernel - 1 - 2 * i).abs() <= window2)
    if causal:
        seen &= stride * p + kernel - 1 <= i
    keys, values = (
        with_neighbours(pools(x, w, stride), block // stride, before, after) for x, w in ((k, w_k), (v, w_v))
    )
    return attend(in_blocks(q, block), keys, values, seen, dropout)[:, :, :tokens]


def poolingformer(q: Tensor, k: Tensor, v: Tensor, w_k: Tensor, w_v: Tensor, causal: bool, window: int = 256) -> Tensor:
    """Zhang et al. 2021, section 3, without maps between the levels."""
    y = near(q, k, v, causal, window, 0)
    return y + pooled(y, y, y, w_k, w_v, causal)


def random_rotations(tokens: int, heads: int, width: int, rounds: int = 4, chunk: int = 64) -> Tensor:
    """Reformer's rotations [H, D, rounds, buckets / 2], with about one bucket for each chunk."""
    return torch.randn(heads, width, rounds, max(2, -(-tokens // chunk)) // 2)


def reformer(
    q: Tensor, v: Tensor, rotations: Tensor, causal: bool, chunk: int = 64, dropout: float = 0.0
) -> Tensor:
    """Kitaev et al. 2020, section 2, with random_rotations. Tokens of other buckets are hidden. A token that is seen in
    several rounds counts once.
    """
    heads, tokens, width = q.shape[1:]
    q, v = (in_blocks(x, chunk).flatten(2, 3) for x in (q, v))
    rounds, chunks = rotations.shape[2], q.shape[2] // chunk

    def sort(x: Tensor) -> Tensor:
        """Rows of x [B, H, N, C] in the order of each round: [B, H, R, chunks, chunk, C]."""
        return take(x, order.flatten(2)).unflatten(2, (rounds, chunks, chunk))

    def look_back(x: Tensor, none: int = 0) -> Tensor:
        """Each chunk after the previous one; the first of a round comes after `none`."""
        return torch.cat([F.pad(x[:, :, :, :-1], (0, 0, 0, 0, 1, 0), value=none), x], 4)

    def pairs(x: Tensor, none: int) -> tuple[Tensor, Tensor]:
        """x for the queries of a chunk as a column, and for its keys as a row."""
        return x, look_back(x, none).transpose(-1, -2)

    with torch.no_grad():
        rotated = torch.einsum("bhnd,hdrk->bhrnk", q, rotations)
        bucket = torch.cat([rotated, -rotated], -1).argmax(-1)
        bucket[..., tokens:] = 2 * rotations.shape[3]  # the zeros that fill the last chunk have their own bucket
        order = bucket.argsort(stable=True)
        back = order.argsort()
        # Bucket and chunk in one number: in each round a token sees its bucket in its own chunk and the previous one.
        place = (bucket * (chunks + 1) + back // chunk).int()
        seen = 0
        for of_round in sort(place.transpose(2, 3)).split(1, -1):
            i, j = pairs(of_round, -2)
            seen = seen + ((j == i) | (j == i - 1)).to(q.dtype)
        in_columns = lambda x: x.int().view(*x.shape[:3], chunks, chunk, 1)  # noqa: E731
        i, j = pairs(in_columns(bucket.gather(3, order)), -1)
        hidden = i != j
        i, j = pairs(in_columns(order), -1)
        if causal:
            hidden |= j > i
        bias = seen.log().neg().masked_fill(hidden, -torch.inf)
    q, v = sort(q), look_back(sort(v))
    k = look_back(q * torch.rsqrt(q.square().mean(-1, keepdim=True) + 1e-6) * width**-0.5)
    s = (q @ k.transpose(-1, -2)).masked_fill(i == j, -5e4) + bias
    total = s.logsumexp(-1, keepdim=True)
    o = F.dropout(torch.exp(s - total), dropout) @ v

    def unsort(x: Tensor) -> Tensor:
        return take(x.flatten(3, 4).flatten(1, 2), back.flatten(1, 2)).unflatten(1, (heads, rounds))

    return (torch.softmax(unsort(total), 2) * unsort(o)).sum(2)[:, :, :tokens]


def sampled_keys(tokens: int, count: int = 0) -> Tensor:
    """The keys that Informer draws for each query: [N, count], at most N; for 0 the authors' number."""
    return torch.randint(tokens, (tokens, min(tokens, count or 5 * math.ceil(math.log(tokens)))))


def informer(q: Tensor, k: Tensor, v: Tensor, samples: Tensor, dropout: float = 0.0) -> Tensor:
    """Zhou et al. 2021, eqs. 3 and 4, with sampled_keys [N, u] and u chosen queries."""
    tokens, count = samples.shape
    with torch.no_grad():
        if tokens <= 32 * count:  # in this case, computing all scores is faster than gathering keys
            s = (q @ k.transpose(-1, -2)).gather(3, samples.expand(*q.shape[:2], -1, -1))
        else:
            s = torch.einsum("bhnd,bhnud->bhnu", q, k[:, :, samples])
        chosen = (s.amax(-1) - s.sum(-1) / tokens).topk(count).indices
    o = softmax(take(q, chosen), k, v, False, dropout)
    return v.mean(2, keepdim=True).expand_as(v).scatter(2, chosen[..., None].expand_as(o), o)


def additive(
    q: Tensor, k: Tensor, v: Tensor, w_q: Tensor, w_k: Tensor, causal: bool, dropout: float = 0.0
) -> Tensor:
    """Eqs. 3 to 6 of the Fastformer paper. If causal: prefix sums, relative to the largest logit of all; no dropout.
    """

    def pool(x: Tensor, w: Tensor) -> Tensor:
        logits = (x * w[:, None]).sum(-1, keepdim=True) * x.shape[-1] ** -0.5
        if not causal:
            return (F.dropout(torch.softmax(logits, 2), dropout) * x).sum(2, keepdim=True)
        weights = torch.exp(logits - logits.amax(2, keepdim=True))
        return (weights * x).cumsum(2) / weights.cumsum(2)

    p = pool(q, w_q) * k
    return pool(p, w_k) * v
