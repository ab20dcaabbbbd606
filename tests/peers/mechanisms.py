"""Attention layers: each mechanism with its linear maps."""

import dataclasses

import torch
from torch import Tensor, nn

import attention


@dataclasses.dataclass
class Options:
    mechanism: str
    width: int
    heads: int
    causal: bool = False
    bias: bool = True
    dropout: float = 0.0  # rate for attention weights; the factorised mechanisms have none
    tokens: int = 0  # length of the sequences, for BigBird
    max_tokens: int = 0  # largest length, for Linformer
    sizes: dict[str, int] = dataclasses.field(default_factory=dict)  # linnet's options by name, if not its defaults

    @property
    def head_dim(self) -> int:
        return self.width // self.heads


class Attention(nn.Module):
    """Softmax attention. The other mechanisms with queries, keys and values override `attend`."""

    def __init__(self, options: Options):
        super().__init__()
        self.options, self.heads, self.causal = options, options.heads, options.causal
        self.out = nn.Linear(options.width, options.width, options.bias)
        self.make_maps(options)

    def make_maps(self, options: Options) -> None:
        self.qkv = nn.Linear(options.width, 3 * options.width, options.bias)

    def size(self, name: str, default: int) -> int:
        return self.options.sizes.get(name, default)

    @property
    def dropout(self) -> float:
        return self.options.dropout if self.training else 0.0

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def split_maps(self, x: Tensor, count: int = 3) -> list[Tensor]:
        """The heads of `count` linear maps whose results are side by side."""
        return [self.split(part) for part in x.chunk(count, -1)]

    def merge(self, o: Tensor) -> Tensor:
        return o.transpose(1, 2).flatten(2)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention.softmax(q, k, v, self.causal, self.dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.merge(self.attend(*self.split_maps(self.qkv(x)))))


class Fastmax(Attention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        order = int(self.options.mechanism[-1])
        quadratic = is_quadratic(q, q.shape[3] ** order, self.causal)
        function = attention.fastmax_quadratic if quadratic else attention.fastmax_factorised
        return function(q, k, v, self.causal, order)


class Linear(Attention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        quadratic = is_quadratic(q, q.shape[3], self.causal)
        function = attention.linear_quadratic if quadratic else attention.linear_factorised
        return function(q, k, v, self.causal)


class Performer(Attention):
    def __init__(self, options: Options):
        super().__init__(options)
        self.register_buffer("omega", attention.projection(options.head_dim, self.size("performer_features", 0)))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        quadratic = is_quadratic(q, len(self.omega), self.causal)
        function = attention.performer_quadratic if quadratic else attention.performer_factorised
        return function(q, k, v, self.omega, self.causal)


def is_quadratic(q: Tensor, features: int, causal: bool) -> bool:
    """Whether a factorised mechanism is faster with all tokens² weights, as for short texts in causal models."""
    return causal or q.shape[2] < features


class Fastformer(Attention):
    def make_maps(self, options: Options) -> None:
        self.query = nn.Linear(options.width, options.width, options.bias)
        self.key = nn.Linear(options.width, options.width, options.bias)
        self.w_q = nn.Parameter(torch.empty(options.heads, options.head_dim).uniform_(-0.1, 0.1))
        self.w_k = nn.Parameter(torch.empty(options.heads, options.head_dim).uniform_(-0.1, 0.1))

    def forward(self, x: Tensor) -> Tensor:
        query = self.query(x)
        q, k = self.split(query), self.split(self.key(x))
        u = attention.additive(q, k, q, self.w_q, self.w_k, self.causal, self.dropout)
        return self.out(self.merge(u)) + query


class Linformer(Attention):
    def __init__(self, options: Options):
        super().__init__(options)
        tokens = options.max_tokens
        shape = (self.size("linformer_rank", min(64, tokens)), tokens)
        self.e, self.f = (nn.Parameter(tokens**-0.5 * torch.randn(shape)) for _ in range(2))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        e, f = (projection[:, : k.shape[2]] for projection in (self.e, self.f))
        return attention.linformer(q, k, v, e, f, self.dropout)


class Longformer(Attention):
    """The rows of the global token have separate linear maps."""

    def make_maps(self, options: Options) -> None:
        super().make_maps(options)
        self.q_global = nn.Linear(options.width, options.width, options.bias)
        self.kv_global = nn.Linear(options.width, 2 * options.width, options.bias)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split_maps(self.qkv(x))
        of_global = (self.split(self.q_global(x[:, :1])), *self.split_maps(self.kv_global(x), 2))
        o = attention.longformer(q, k, v, self.causal, of_global=of_global, dropout=self.dropout)
        return self.out(self.merge(o))


class BigBird(Attention):
    def __init__(self, options: Options):
        super().__init__(options)
        self.block = self.size("block", 16)
        others = attention.random_blocks(options.heads, -(-options.tokens // self.block), self.size("random_blocks", 1))
        self.register_buffer("others", others)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention.bigbird(q, k, v, self.others, self.block, self.dropout)


class Poolingformer(Attention):
    """The second level has separate linear maps."""

    def make_maps(self, options: Options) -> None:
        super().make_maps(options)
        self.qkv2 = nn.Linear(options.width, 3 * options.width, options.bias)
        self.pool_k, self.pool_v = (nn.Parameter(torch.zeros(5, options.head_dim)) for _ in range(2))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        y = attention.near(q, k, v, self.causal, 256, 0, self.dropout)
        second = self.split_maps(self.qkv2(self.merge(y)))
        return y + attention.pooled(*second, self.pool_k, self.pool_v, self.causal, dropout=self.dropout)


class Reformer(Attention):
    """The queries are also the keys."""

    def make_maps(self, options: Options) -> None:
        self.qk = nn.Linear(options.width, options.width, options.bias)
        self.v = nn.Linear(options.width, options.width, options.bias)

    def forward(self, x: Tensor) -> Tensor:
        q, v = self.split(self.qk(x)), self.split(self.v(x))
        rotations = attention.random_rotations(q.shape[2], q.shape[1], q.shape[3], self.size("hashes", 4))
        return self.out(self.merge(attention.reformer(q, v, rotations, self.causal, dropout=self.dropout)))


class Informer(Attention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        samples = attention.sampled_keys(q.shape[2], self.size("informer_queries", 0))
        return attention.informer(q, k, v, samples, self.dropout)


LAYERS = {
    "softmax": Attention, "fastmax1": Fastmax, "fastmax2": Fastmax, "fastformer": Fastformer, "linear": Linear,
    "performer": Performer, "linformer": Linformer, "longformer": Longformer, "bigbird": BigBird,
    "poolingformer": Poolingformer, "reformer": Reformer, "informer": Informer,
}  # fmt: skip


def attention_layer(options: Options) -> Attention:
    return LAYERS[options.mechanism](options)
