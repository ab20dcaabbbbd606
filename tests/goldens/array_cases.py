"""Reductions along a dim, copies in another order, and elements selected by index or mask, with ties and zeros."""

from functools import partial

import torch
from torch import Tensor

from golden_file import Draw, GoldenFile


def build() -> GoldenFile:
    goldens = GoldenFile()
    add_reductions(goldens)
    add_arrangements(goldens)
    add_selections(goldens)
    add_integers(goldens)
    return goldens


def add_reductions(goldens: GoldenFile) -> None:
    values = Draw("reductions").normal(3, 4, 5)
    one_zero, two_zeros = values.clone(), values.clone()
    one_zero[1, 2, 3] = 0
    two_zeros[1, 2, 1:3] = 0
    for name, input in [("plain", values), ("one_zero", one_zero), ("two_zeros", two_zeros)]:
        add(goldens, "prod", name, {"dim": 2, "reduction": 5}, partial(torch.prod, dim=2), input)
        add(goldens, "cumprod", name, {"dim": 2, "reduction": 25}, partial(torch.cumprod, dim=2), input)
    ties = Draw("ties").normal(4, 6).round()
    for dim in (0, 1):
        add(goldens, "median", f"dim_{dim}", {"dim": dim}, lambda x: torch.median(x, dim).values, values[0])
        add(goldens, "median", f"ties_{dim}", {"dim": dim}, lambda x: torch.median(x, dim).values, ties)
        add(goldens, "diff", f"dim_{dim}", {"n": 1 + dim, "dim": dim}, partial(torch.diff, n=1 + dim, dim=dim), ties)
    ends = {"prepend": Draw("prepend").normal(4, 2), "append": Draw("append").normal(4, 1)}
    goldens.add_with_gradients(
        "diff_ends",
        {"op": "diff_ends", "reduction": 2},
        lambda x, prepend, append: torch.diff(x, prepend=prepend, append=append),
        {"input": ties, **ends},
    )
    vectors = {"input": Draw("outer").normal(4), "other": Draw("other").normal(3)}
    goldens.add_with_gradients("outer", {"op": "outer", "reduction": 4}, torch.outer, vectors)
    add(goldens, "trace", "tall", {"reduction": 3}, torch.trace, values[0, :, :3])


def add_arrangements(goldens: GoldenFile) -> None:
    values = Draw("arrangements").normal(3, 4, 2)
    add(goldens, "flip", "two_dims", {"dims": [0, -1]}, partial(torch.flip, dims=(0, -1)), values)
    for shifts, dims in [([5], []), ([-1], [1]), ([2, -7], [0, 1])]:
        name = "_".join(str(number).replace("-", "m") for number in shifts + dims)
        roll = partial(torch.roll, shifts=shifts, dims=dims or None) if dims else partial(torch.roll, shifts=shifts[0])
        add(goldens, "roll", name, {"shifts": shifts, "dims": dims}, roll, values)
    add(goldens, "repeat", "leading", {"sizes": [2, 1, 3, 2], "reduction": 12}, lambda x: x.repeat(2, 1, 3, 2), values)
    add(goldens, "tile", "last", {"sizes": [3, 2], "reduction": 6}, lambda x: torch.tile(x, (3, 2)), values)
    add(goldens, "repeat_interleave", "all", {"repeats": 3}, lambda x: torch.repeat_interleave(x, 3), values)
    add(
        goldens,
        "repeat_interleave",
        "dim",
        {"repeats": 2, "dim": 1},
        lambda x: torch.repeat_interleave(x, 2, dim=1),
        values,
    )
    goldens.add_with_gradients(
        "repeat_interleave_each",
        {"op": "repeat_interleave_each", "reduction": 4},
        lambda x, repeats: torch.repeat_interleave(x, repeats, dim=1),
        {"input": values},
        {"repeats": torch.tensor([2, 0, 1, 3])},
    )
    for diagonal in (-1, 0, 2):
        name = str(diagonal).replace("-", "m")
        for kind, input in [("vector", values[0, :, 0]), ("matrix", values[:, :, 0])]:
            add(goldens, "diag", f"{kind}_{name}", {"diagonal": diagonal}, partial(torch.diag, diagonal=diagonal), input)


def add_selections(goldens: GoldenFile) -> None:
    draw = Draw("selections")
    input = {"input": draw.normal(4, 5)}

    def chosen(op: str, function, inputs: dict[str, Tensor], constants: dict[str, Tensor]) -> None:
        goldens.add_with_gradients(op, {"op": op, "reduction": 4}, function, inputs, constants)

    chosen("masked_select", torch.masked_select, input, {"mask": draw.normal(4, 5) > 0.2})
    index = draw.integers(4, 3, 5)
    chosen("take_along_dim", lambda x, i: torch.take_along_dim(x, i, dim=0), input, {"index": index})
    chosen("take_along_dim_flat", torch.take_along_dim, input, {"index": draw.integers(20, 7)})
    different = torch.stack([draw.normal(4).argsort() for _ in range(5)], 1)[:3]
    with_source = {**input, "src": draw.normal(3, 5)}
    chosen("scatter", lambda x, src, i: x.scatter(0, i, src), with_source, {"index": different})
    chosen("scatter_add", lambda x, src, i: x.scatter_add(0, i, src), with_source, {"index": index})
    places = {"first": torch.tensor([3, 0, 3, 1]), "second": torch.tensor([0, 2, 0, 4])}
    values = {**input, "values": draw.normal(4)}
    chosen("index_put_add", lambda x, v, i, j: x.index_put((i, j), v, accumulate=True), values, places)
    places = {"first": torch.tensor([3, 0, 1])}
    values = {**input, "values": draw.normal(3, 5)}
    chosen("index_put", lambda x, v, i: x.index_put((i,), v), values, places)


def add_integers(goldens: GoldenFile) -> None:
    draw = Draw("integers")
    ties = draw.normal(4, 6).round()
    values, inverse, counts = torch.unique(ties, return_inverse=True, return_counts=True)
    unique = {"input": ties, "values": values, "inverse": inverse, "counts": counts}
    goldens.add("unique", {"op": "unique"}, unique)
    goldens.add("nonzero", {"op": "nonzero"}, {"input": ties, "output": torch.nonzero(ties)})
    numbers = draw.integers(7, 30)
    counted = {"input": numbers, "output": torch.bincount(numbers, minlength=9)}
    goldens.add("bincount", {"op": "bincount", "minlength": 9}, counted)
    sequence = torch.sort(draw.normal(2, 9).round(), dim=1).values
    wanted = draw.normal(2, 6).round()
    for right in (False, True):
        places = torch.searchsorted(sequence, wanted, right=right)
        case = {"sequence": sequence, "input": wanted, "output": places}
        goldens.add(f"searchsorted_{right}", {"op": "searchsorted", "right": right}, case)


def add(goldens: GoldenFile, op: str, name: str, options: dict, function, input: Tensor) -> None:
    goldens.add_with_gradients(f"{op}_{name}", {"op": op, "reduction": 4, **options}, function, {"input": input})
