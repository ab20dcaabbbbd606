"""The ops in ops/array and core/tensor.h: how their cases are drawn, and PyTorch's function for each."""

import functools
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F

from random_draws import (ANY, BOTH, FLOATS, NUMBERS, ROUNDED, SUMS, Draw, Op, along, along_or_flat, masked, over, plus,
                          reduction, two, two_dims, two_or_either_number, two_or_number, unary, with_number)


def clamp(d: Draw) -> None:
    d.tensor(d.shape())
    low = d.number()
    d.arguments |= d.choice([{"min": low}, {"max": low}, {"min": low, "max": low + 2}])


def lerp(d: Draw) -> None:
    two(d)
    if d.chance(0.5):
        d.tensor(d.broadcast(d.inputs[0].shape))
    else:
        d.arguments["weight"] = d.choice([0, 1, 0.3, 0.5, 0.8, -1.5])


def where(d: Draw) -> None:
    shape = d.shape()
    d.tensor(d.broadcast(shape), torch.bool)
    d.tensor(shape)
    if d.chance(0.5):
        d.tensor(d.broadcast(shape))
    else:
        d.arguments |= {"number": d.number(), "first": d.chance(0.5)}


def diff(d: Draw) -> None:
    along(d)
    shape, dim = d.inputs[0].shape, d.arguments["dim"]
    for _ in range(2):
        other = list(shape)
        if -len(shape) <= dim < len(shape):
            other[dim] = d.size()
        d.inputs.append(None) if d.chance(0.6) else d.tensor(other)
    d.arguments["n"] = d.choice([0, 1, 1, 2, 3])


def topk(d: Draw) -> None:
    along(d)
    d.arguments |= {"k": d.randint(0, min(max(d.inputs[0].shape), 5)), "largest": d.chance(0.5)}


def searchsorted(d: Draw) -> None:
    batch = d.shape(0, 2) if d.chance(0.5) else []
    d.tensor([*batch, d.size()], change=lambda x: x.sort()[0], grad=False)
    d.tensor([*batch, d.size()] if batch else d.shape(), grad=False)
    d.arguments["right"] = d.chance(0.5)


def bincount(d: Draw) -> None:
    n = d.size()
    d.indices([n], 6)
    d.inputs.append(None) if d.chance(0.5) else d.tensor([n], d.choice(FLOATS), grad=False)
    d.arguments["minlength"] = d.choice([0, 3, 9])


def embedding(d: Draw) -> None:
    rows, width = d.size(), d.size()
    d.tensor([rows, width])
    d.indices(d.shape(0, 3), rows)


def index_select(d: Draw) -> None:
    along(d)
    d.indices([d.size()], d.choice(d.inputs[0].shape))


def lines(d: Draw, *, grows: bool) -> list[int]:
    """A tensor, a dim, and a shape that is not larger, except in this dim if it `grows`."""
    along(d)
    shape, dim = d.inputs[0].shape, d.arguments["dim"] % len(d.inputs[0].shape)
    return [d.size() if i == dim and grows else d.randint(0, size) if d.chance(0.3) else size
            for i, size in enumerate(shape)]


def gather(d: Draw) -> None:
    shape = lines(d, grows=True)
    d.indices(shape, d.inputs[0].shape[d.arguments["dim"] % len(shape)])


def scatter(d: Draw) -> None:
    gather(d)
    larger = d.chance(0.2)  # without a gradient in PyTorch
    d.tensor([size + larger for size in d.inputs[1].shape], grad=not larger)


def take_along_dim(d: Draw) -> None:
    along_or_flat(d)
    shape = list(d.inputs[0].shape)
    if "dim" not in d.arguments:
        return d.indices(d.shape(0, 2), math.prod(shape))
    dim = d.arguments["dim"] % len(shape)
    other = [d.size() if i == dim else 1 if d.chance(0.2) else size for i, size in enumerate(shape)]
    d.indices(other, shape[dim])


def index_put(d: Draw) -> None:
    shape = d.tensor(d.shape(1, 3))
    if d.chance(0.3):  # a mask
        mask = d.randint(1, len(shape))
        d.tensor(d.choice([[], [1] * (len(shape) - mask)]))
        d.tensor(shape[:mask], torch.bool)
    else:
        count, places = d.randint(1, len(shape)), d.shape(0, 2)
        d.tensor(d.broadcast([*places, *shape[count:]]))
        for size in shape[:count]:
            d.indices([1 if d.chance(0.1) else place for place in places], size, torch.int64)
    d.arguments["accumulate"] = d.chance(0.5)


def one_hot(d: Draw) -> None:
    d.arguments["num_classes"] = d.choice([1, 2, 5])
    d.indices(d.shape(), d.arguments["num_classes"])


def diag(d: Draw) -> None:
    d.tensor(d.shape(1, 2))
    d.arguments["diagonal"] = d.randint(-3, 3)


def matrix(d: Draw) -> None:
    d.tensor(d.shape(2, 2) if d.chance(0.95) else d.shape())


def roll(d: Draw) -> None:
    flip(d)
    d.arguments["shifts"] = [d.randint(-9, 9) for _ in d.arguments["dims"] or [0]]


def repeat(d: Draw) -> None:
    rank = len(d.tensor(d.shape(0, 3)))
    d.arguments["sizes"] = [d.choice([0, 1, 1, 2, 3]) for _ in range(rank + d.choice([-1, 0, 0, 1]))]


def repeat_interleave(d: Draw) -> None:
    along_or_flat(d)
    shape, dim = d.inputs[0].shape, d.arguments.get("dim")
    if d.chance(0.5):
        d.arguments["repeats"] = d.randint(0, 3)
    else:
        size = math.prod(shape) if dim is None else shape[dim % len(shape)]
        d.indices([1] if d.chance(0.2) else [size], 4, wrong=0)


def meshgrid(d: Draw) -> None:
    for _ in range(d.randint(1, 4)):
        d.tensor(d.shape(0, 1))
    d.arguments["indexing"] = d.choice(["ij", "xy"])


def concat(d: Draw) -> None:
    along(d)
    shape, dim = d.inputs[0].shape, d.arguments["dim"] % len(d.inputs[0].shape)
    for _ in range(d.randint(0, 3)):
        d.tensor([d.size() if i == dim or d.chance(0.01) else size for i, size in enumerate(shape)])


def stack(d: Draw) -> None:
    shape = d.tensor(d.shape(0, 3))
    for _ in range(d.randint(0, 3)):
        d.tensor(shape)
    d.arguments["dim"] = d.dim(len(shape) + 1)


def pad(d: Draw) -> None:
    rank = len(d.tensor(d.shape(1)))
    d.arguments |= {"pad": [d.choice([0, 1, 2]) for _ in range(2 * d.randint(0, rank))], "value": d.number()}


def reshape(name: str) -> Callable[[Draw], None]:
    def draw(d: Draw) -> None:
        shape = d.tensor(d.shape())
        other = [*shape[2:], *shape[:2]] if d.chance(0.3) else list(shape)
        for _ in range(2):
            i = d.randint(0, len(other))
            other[i:i + 2] = d.choice([other[i:i + 2], [math.prod(other[i:i + 2])], [1, *other[i:i + 2]]])
        if other and d.chance(0.3):
            other[d.randrange(len(other))] = -1
        d.arguments[name] = other
    return draw


def narrow(d: Draw) -> None:
    along(d)
    size = d.choice(d.inputs[0].shape)
    d.arguments |= {"start": (start := d.randint(0, size)), "length": d.randint(0, size - start)}


def squeeze(d: Draw) -> None:
    along(d)
    shape = list(d.inputs.pop().shape)
    if -len(shape) <= d.arguments["dim"] < len(shape):
        shape[d.arguments["dim"]] = 1
    d.tensor(shape)


def unsqueeze(d: Draw) -> None:
    d.arguments["dim"] = d.dim(len(d.tensor(d.shape())) + 1)


def expand(d: Draw) -> None:
    shape = d.shape(1)
    inner = d.tensor(d.broadcast(shape))
    d.arguments["size"] = [-1 if size == other and i and d.chance(0.3) else size
                           for i, (size, other) in enumerate(zip(shape, [None] * (len(shape) - len(inner)) + inner))]


def to(d: Draw) -> None:
    d.special = False  # the conversion of NaN to an integer is not defined
    unary(d)
    d.arguments["dtype"] = str(d.choice(ANY))[6:]


def flip(d: Draw) -> None:
    d.arguments["dims"] = d.dims(len(d.tensor(d.shape())))


def permute(d: Draw) -> None:
    rank = len(d.tensor(d.shape()))
    d.arguments["dims"] = [d.choice([dim, dim - rank]) for dim in d.sample(range(rank), rank)]


def movedim(d: Draw) -> None:
    rank = len(d.tensor(d.shape(1)))
    source = d.dims(rank)
    places = [d.choice([dim, dim - rank]) for dim in d.sample(range(rank), len(source))]
    d.arguments |= {"source": source, "destination": places}


def created(**choices: list) -> Callable[[Draw], None]:
    """No tensor, but a dtype and arguments."""
    def draw(d: Draw) -> None:
        d.arguments |= {name: d.choice(values) for name, values in choices.items()} | {"dtype": str(d.dtype)[6:]}
    return draw


def full(d: Draw) -> None:
    d.arguments |= {"size": d.shape(), "fill_value": d.number(), "dtype": str(d.dtype)[6:]}


def copy(d: Draw) -> None:
    shape = d.tensor(d.shape(), grad=False)
    d.tensor(d.broadcast(shape), d.choice([torch.float32, torch.float64]), grad=False)


def prod(x: torch.Tensor, dim: list[int], keepdim: bool) -> torch.Tensor:
    for each in sorted((each % x.dim() for each in dim or range(x.dim())), reverse=True):
        x = x.prod(each, keepdim)
    return x.prod() if x.dim() == 0 else x


def where_numbers(condition: torch.Tensor, a: torch.Tensor, b: torch.Tensor | None = None, number: float = 0,
                  first: bool = False) -> torch.Tensor:
    b = torch.tensor(number, dtype=a.dtype) if b is None else b
    return torch.where(condition, b, a) if first else torch.where(condition, a, b)


ARRAY_OPS = {
    "elementwise": {
        **{name: Op(getattr(torch, name), unary, NUMBERS) for name in
           ("floor", "ceil", "round", "trunc", "abs", "sign", "neg", "square")},
        **{name: Op(getattr(torch, name), unary, **ROUNDED) for name in
           ("exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos",
            "atan", "sinh", "cosh", "reciprocal", "erf")},
        "clamp": Op(torch.clamp, clamp, NUMBERS),
        "nan_to_num": Op(torch.nan_to_num, plus(unary, nan=[0, 2], posinf=[1, 3], neginf=[-1, 0]), NUMBERS),
        "add": Op(with_number(torch.add), two_or_number, NUMBERS),
        "sub": Op(with_number(torch.sub), two_or_either_number, NUMBERS),
        "mul": Op(with_number(torch.mul), two_or_number, NUMBERS),
        "div": Op(with_number(torch.div), two_or_either_number),
        "remainder": Op(with_number(torch.remainder), two_or_either_number, NUMBERS),
        "floor_divide": Op(with_number(functools.partial(torch.div, rounding_mode="floor")), two_or_either_number,
                           NUMBERS),
        "pow": Op(with_number(torch.pow), two_or_either_number, **ROUNDED),
        "atan2": Op(torch.atan2, two, **ROUNDED),
        "lerp": Op(torch.lerp, lerp, **SUMS),
        "maximum": Op(with_number(torch.maximum), two_or_number, NUMBERS),
        "minimum": Op(with_number(torch.minimum), two_or_number, NUMBERS),
        "where": Op(where_numbers, where, ANY),
        "masked_fill": Op(torch.masked_fill, plus(masked, value=[0, -1, 2]), NUMBERS),
    },
    "comparisons": {
        **{name: Op(with_number(getattr(torch, name)), two_or_number, NUMBERS) for name in
           ("eq", "ne", "lt", "le", "gt", "ge")},
        **{name: Op(getattr(torch, name), unary) for name in ("isnan", "isinf", "isfinite")},
        "logical_not": Op(torch.logical_not, unary, [torch.bool]),
        "logical_and": Op(torch.logical_and, two, [torch.bool]),
        "logical_or": Op(torch.logical_or, two, [torch.bool]),
        "logical_xor": Op(torch.logical_xor, two, [torch.bool]),
        "isclose": Op(torch.isclose, plus(two, rtol=[0, 1e-5, 0.5], atol=[0, 0.3], equal_nan=BOTH), ANY),
        "allclose": Op(lambda *x, **rest: torch.tensor(torch.allclose(*x, **rest)),
                       plus(two, rtol=[1e-5, 0.5], atol=[0, 9], equal_nan=BOTH)),
    },
    "reductions": {
        "sum": Op(over(torch.sum), reduction, ANY, **SUMS),
        "prod": Op(prod, reduction, ANY, ulps=64),
        "mean": Op(over(torch.mean), reduction, **SUMS),
        "var": Op(over(torch.var), plus(reduction, correction=[0, 1, 2]), **SUMS),
        "max": Op(over(torch.amax), reduction, NUMBERS),
        "min": Op(over(torch.amin), reduction, NUMBERS),
        "max_along": Op(torch.max, plus(along, keepdim=BOTH), NUMBERS),
        "min_along": Op(torch.min, plus(along, keepdim=BOTH), NUMBERS),
        "median": Op(torch.median, unary, NUMBERS),
        "median_along": Op(torch.median, plus(along, keepdim=BOTH), NUMBERS, any_index=True),
        "argmax": Op(torch.argmax, plus(along, keepdim=BOTH), NUMBERS),
        "argmin": Op(torch.argmin, plus(along, keepdim=BOTH), NUMBERS),
        "logsumexp": Op(over(torch.logsumexp), reduction, **SUMS),
        "any": Op(over(torch.any), reduction, ANY),
        "all": Op(over(torch.all), reduction, ANY),
        "norm": Op(over(torch.linalg.vector_norm), plus(reduction, ord=[1, 2, 2, 3, math.inf]), **SUMS),
        "cumsum": Op(torch.cumsum, along, ANY, **SUMS),
        "cumprod": Op(torch.cumprod, along, ANY, ulps=64),
        "diff": Op(lambda x, before, after, **rest: torch.diff(x, prepend=before, append=after, **rest), diff, ANY),
    },
    "sorting and selection": {
        "sort": Op(lambda x, **rest: torch.sort(x, stable=True, **rest), plus(along, descending=BOTH), ANY),
        "argsort": Op(lambda x, **rest: torch.argsort(x, stable=True, **rest), plus(along, descending=BOTH), ANY),
        "topk": Op(torch.topk, topk, NUMBERS, any_index=True),
        "searchsorted": Op(torch.searchsorted, searchsorted, NUMBERS),
        "nonzero": Op(torch.nonzero, unary, ANY),
        "masked_select": Op(torch.masked_select, masked, ANY),
        "unique": Op(lambda x: torch.unique(x.detach(), return_inverse=True, return_counts=True), unary, ANY),
        "bincount": Op(torch.bincount, bincount, **SUMS),
    },
    "indexing": {
        "embedding": Op(lambda weight, ids: F.embedding(ids, weight), embedding),
        "index_select": Op(lambda x, index, dim: torch.index_select(x, dim, index), index_select, ANY),
        "gather": Op(lambda x, index, dim: torch.gather(x, dim, index.long()), gather, ANY),
        "scatter_add": Op(lambda x, index, src, dim: torch.scatter_add(x, dim, index.long(), src), scatter,
                          NUMBERS, **SUMS),
        "take_along_dim": Op(lambda x, index, **rest: torch.take_along_dim(x, index.long(), **rest),
                             take_along_dim, ANY),
        "scatter": Op(lambda x, index, src, dim: torch.scatter(x, dim, index.long(), src), scatter, ANY),
        "scatter_value": Op(lambda x, index, dim, value: torch.scatter(x, dim, index.long(), value),
                            plus(gather, value=[0, 1, 3]), NUMBERS),
        "index_put": Op(lambda x, values, *indices, accumulate: torch.index_put(x, indices, values, accumulate),
                        index_put, NUMBERS, **SUMS),
        "one_hot": Op(lambda ids, num_classes: F.one_hot(ids.long(), num_classes), one_hot),
        "tril": Op(torch.tril, plus(unary, diagonal=[-2, -1, 0, 1, 2]), ANY),
        "triu": Op(torch.triu, plus(unary, diagonal=[-2, -1, 0, 1, 2]), ANY),
        "diag": Op(torch.diag, diag, ANY),
        "trace": Op(torch.trace, matrix, ANY, **SUMS),
    },
    "arranging and joining": {
        "flip": Op(torch.flip, flip, ANY),
        "roll": Op(torch.roll, roll, ANY),
        "repeat": Op(lambda x, sizes: x.repeat(sizes), repeat, ANY),
        "tile": Op(lambda x, sizes: torch.tile(x, sizes), repeat, ANY),
        "repeat_interleave": Op(lambda x, repeats_of=None, repeats=None, dim=None: torch.repeat_interleave(
            x, repeats_of if repeats is None else repeats, dim), repeat_interleave, ANY),
        "meshgrid": Op(torch.meshgrid, meshgrid, ANY),
        "concat": Op(lambda *tensors, dim: torch.cat(tensors, dim), concat, ANY),
        "stack": Op(lambda *tensors, dim: torch.stack(tensors, dim), stack, ANY),
        "pad": Op(F.pad, pad, NUMBERS),
    },
    "creation": {
        "full": Op(torch.full, full, NUMBERS),
        "arange": Op(torch.arange, created(start=[-2, 0, 1], end=[-3, 0, 4, 9], step=[1, 2, 3, -1]), NUMBERS),
        "linspace": Op(torch.linspace, created(start=[-2, 0.5], end=[0.5, 7], steps=[0, 1, 2, 5, 100]), **SUMS),
        "eye": Op(torch.eye, created(n=[0, 1, 3], m=[0, 1, 2, 5]), ANY),
    },
    "views and copies": {
        "reshape": Op(torch.reshape, reshape("shape"), ANY),
        "view": Op(lambda x, size: x.view(size), reshape("size"), ANY),
        "flatten": Op(torch.flatten, two_dims("start_dim", "end_dim"), ANY),
        "transpose": Op(torch.transpose, two_dims("dim0", "dim1"), ANY),
        "permute": Op(torch.permute, permute, ANY),
        "movedim": Op(torch.movedim, movedim, ANY),
        "unbind": Op(torch.unbind, along, ANY),
        "narrow": Op(torch.narrow, narrow, ANY),
        "slice": Op(lambda x, dim, start, stop, step: x.movedim(dim, 0)[start:stop:step].movedim(0, dim),
                    plus(along, start=[-9, -2, 0, 0, 1, 3], stop=[-1, 0, 2, 4, 99], step=[1, 1, 2, 3]), ANY),
        "select": Op(torch.select, plus(along, index=[-1, 0, 0, 1]), ANY),
        "diagonal": Op(torch.diagonal, plus(two_dims("dim1", "dim2"), offset=[-2, -1, 0, 0, 1, 2]), ANY),
        "squeeze": Op(torch.squeeze, squeeze, ANY),
        "unsqueeze": Op(torch.unsqueeze, unsqueeze, ANY),
        "expand": Op(lambda x, size: x.expand(size), expand, ANY),
        "split": Op(lambda x, split_size, dim: x.split(split_size, dim), plus(along, split_size=[1, 2, 3, 9]), ANY),
        "chunk": Op(torch.chunk, plus(along, chunks=[1, 2, 3, 9]), ANY),
        "mT": Op(lambda x: x.transpose(-2, -1), unary, ANY),
        "contiguous": Op(lambda x: x.contiguous(), unary, ANY),
        "clone": Op(torch.clone, unary, ANY),
        "to": Op(lambda x, dtype: x.to(dtype), to, ANY),
        "copy_": Op(lambda x, source: x.clone().copy_(source), copy),
    },
}  # fmt: skip
