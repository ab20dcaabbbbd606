"""The parts of the cases of random_cases.py: random tensors in random layouts, and ops to run on them."""

import math
import random
import typing
from collections.abc import Callable

import torch

FLOATS = [torch.float64, torch.float64, torch.float64, torch.float32]
NUMBERS = [*FLOATS, torch.int64, torch.int32]
ANY = [*NUMBERS, torch.bool]
SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-15, 1e15]
FLOATING = (torch.float32, torch.float64)
BOTH, REDUCTIONS = [True, False], ["none", "mean", "sum"]


class Input(typing.NamedTuple):
    """A tensor as a view of `memory`, which has one dim."""

    memory: torch.Tensor
    shape: list[int]
    strides: list[int]
    offset: int
    grad: bool

    def view(self) -> torch.Tensor:
        view = self.memory.as_strided(self.shape, self.strides, self.offset)
        return view.requires_grad_() if self.grad else view


class Draw(random.Random):
    """Draws the tensors and arguments of one case."""

    def __init__(self, seed: str, dtypes: list[torch.dtype]):
        super().__init__(seed)
        self.dtype = self.choice(dtypes)
        self.special = self.chance(0.15)  # whether floating tensors have NaN, infinities, …
        self.ties = self.chance(0.3)
        self.generator = torch.Generator().manual_seed(self.randrange(2**31))
        self.inputs: list[Input | None] = []
        self.arguments: dict[str, typing.Any] = {}

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def size(self) -> int:
        return self.choices([0, 1, 2, 3, 4, 5, 7, 17], [6, 20, 20, 20, 15, 10, 6, 3])[0]

    def shape(self, least: int = 0, most: int = 4) -> list[int]:
        return [self.size() for _ in range(self.randint(least, most))]

    def layout(self, shape: list[int]) -> tuple[list[int], int, int]:
        """Strides, an offset and the memory that they need, with random transpositions, slices and expansions."""
        steps, gaps, repeated = ([1], [0], 0) if self.chance(0.4) else ([1, 1, 2, 3], [0, 0, 1], 0.1)
        order, strides, stride = [*reversed(range(len(shape)))], [0] * len(shape), 1
        if gaps != [0] and self.chance(0.6):
            self.shuffle(order)
        for dim in order:
            if not self.chance(repeated):
                strides[dim] = stride * self.choice(steps)
                stride = strides[dim] * max(shape[dim], 1) + self.choice(gaps)
        offset = self.choice(gaps)
        return strides, offset, offset + 1 + sum((size - 1) * step for size, step in zip(shape, strides) if size > 1)

    def values(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        if dtype == torch.bool:
            return torch.rand(count, generator=self.generator) < self.choice([0.1, 0.5, 0.9])
        if dtype not in FLOATING:
            return torch.randint(-4, 5, (count,), generator=self.generator, dtype=dtype)
        x = torch.randn(count, generator=self.generator, dtype=torch.float64) * self.choice([1, 1, 1, 10])
        if self.ties:
            x = (x * 2).round() / 2
        if self.special:
            chosen = torch.rand(count, generator=self.generator) < 0.15
            x[chosen] = torch.tensor(self.choices(SPECIAL, k=int(chosen.sum())), dtype=torch.float64)
        return x.to(dtype)

    def tensor(self, shape: list[int], dtype: torch.dtype | None = None, grad: bool = True,
               change: Callable[[torch.Tensor], torch.Tensor] = lambda x: x) -> list[int]:
        """Adds an input, and returns its shape."""
        dtype = dtype or self.dtype
        strides, offset, count = self.layout(shape)
        memory = change(self.values(count, dtype)).to(dtype)
        self.inputs.append(Input(memory, shape, strides, offset, grad and dtype in FLOATING))
        return shape

    def maybe_tensor(self, shape: list[int]) -> None:
        self.inputs.append(None) if self.chance(0.3) else self.tensor(shape)

    def indices(self, shape: list[int], size: int, dtype: torch.dtype | None = None, wrong: float = 0.03) -> None:
        """Adds indices below `size`; one may be out of range."""
        dtype = dtype or self.choice([torch.int64, torch.int64, torch.int32])
        if self.chance(wrong):
            size += 2
        self.tensor(shape, dtype, change=lambda x: torch.randint(0, max(size, 1), x.shape, generator=self.generator))

    def broadcast(self, shape: list[int]) -> list[int]:
        """A shape that broadcasts with `shape`; in rare cases it does not."""
        other = [1 if self.chance(0.3) else size for size in shape[self.randint(0, len(shape)):]]
        return [size + 1 for size in other] if self.chance(0.03) else other

    def dim(self, rank: int) -> int:
        """A dim of a tensor, counted from either side; in rare cases one that does not exist."""
        return self.choice([rank, -rank - 1]) if self.chance(0.02) else self.randint(-rank, max(rank - 1, 0))

    def dims(self, rank: int) -> list[int]:
        return [self.choice([dim, dim - rank]) for dim in self.sample(range(rank), self.randint(0, rank))]

    def number(self) -> float | int:
        whole = self.choice([-2, -1, 0, 1, 2, 3])
        return whole if self.dtype not in FLOATING or self.chance(0.5) else self.choice([0.5, -0.3, 1.7, 2.5])


def unary(d: Draw) -> None:
    d.tensor(d.shape())


def two(d: Draw) -> None:
    shape = d.shape()
    shapes = [d.broadcast(shape), shape] if d.chance(0.3) else [shape, d.broadcast(shape)]
    for each in shapes:
        d.tensor(each)


def plus(draw: Callable[[Draw], None], **choices: list) -> Callable[[Draw], None]:
    """The result of `draw`, and for each further argument one of its values."""
    def both(d: Draw) -> None:
        draw(d)
        d.arguments |= {name: d.choice(values) for name, values in choices.items()}
    return both


def reduction(d: Draw) -> None:
    rank = len(d.tensor(d.shape()))
    d.arguments |= {"dim": d.dims(rank), "keepdim": d.chance(0.5)}


def along(d: Draw) -> None:
    d.arguments["dim"] = d.dim(len(d.tensor(d.shape(1))))


def shaped(*terms: str) -> Callable[[Draw], None]:
    """Tensors whose dims are letters, each with one size, after any dims for "..."; one with "?" may be left out."""
    def draw(d: Draw) -> None:
        sizes = {letter: d.size() for letter in sorted({*"".join(terms)} - {*".?"})}
        lead = d.shape(0, 3)
        for term in terms:
            shape = lead * ("..." in term) + [sizes[letter] for letter in term if letter.isalpha()]
            if not term.endswith("?") or d.chance(0.7):
                d.tensor([*shape, 2] if d.chance(0.01) else shape)
            else:
                d.inputs.append(None)
    return draw


def two_or_number(d: Draw) -> None:
    if d.chance(0.7):
        return two(d)
    d.tensor(d.shape())
    d.arguments |= {"number": d.number(), "first": False}


def two_or_either_number(d: Draw) -> None:
    two_or_number(d)
    if "number" in d.arguments:
        d.arguments["first"] = d.chance(0.5)


def masked(d: Draw) -> None:
    d.tensor(d.broadcast(d.tensor(d.shape())), torch.bool)


def along_or_flat(d: Draw) -> None:
    along(d)
    if d.chance(0.2):
        del d.arguments["dim"]


def two_dims(first: str, second: str) -> Callable[[Draw], None]:
    def draw(d: Draw) -> None:
        rank = len(d.tensor(d.shape(1)))
        d.arguments |= {first: d.dim(rank), second: d.dim(rank)}
    return draw


def with_number(f: Callable) -> Callable:
    """A number takes the tensor's dtype."""
    def call(x: torch.Tensor, y: torch.Tensor | None = None, number: float | None = None, first: bool = False):
        y = torch.tensor(number, dtype=x.dtype) if y is None else y
        return f(y, x) if first else f(x, y)
    return call


def over(f: Callable) -> Callable:
    """Without dims, over all of them."""
    return lambda x, dim, **rest: f(x, dim=dim or list(range(x.dim())), **rest)


class Op(typing.NamedTuple):
    torch: Callable  # takes the tensors, and the arguments by name
    draw: Callable[[Draw], None]
    dtypes: list[torch.dtype] = FLOATS
    ulps: int = 0  # the allowed difference of results
    sums: bool = False  # ulps of the largest summed number, not of each result
    any_index: bool = False  # the second result may be the index of any of several equal elements


SUMS = {"ulps": 64, "sums": True}
ROUNDED = {"ulps": 4}
