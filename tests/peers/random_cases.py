#!/usr/bin/env python3
"""Runs random cases of linnet's ops and PyTorch's, and compares results, gradients and errors.

    tests/peers/random_cases.py [--cases 5000] [--seed 1] [--ops REGEX] [--only NUMBER]

A case's op, tensors and arguments depend only on its number and the seed. Shapes also have sizes of 0 and 1; tensors
are also views, transposed, sliced, expanded; elements are also tied, NaN, infinite. The table at the end has the cases
of each family of ops, and the differences: each is either explained by EXPLAINED below, or printed. Exits with 1 if one
is not explained.

Needs PyTorch, safetensors and a build with tests, for bin/linnet_cases.
"""

import argparse
import collections
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import typing
import warnings

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from random_arrays import ARRAY_OPS
from random_draws import FLOATING, Draw
from random_layers import LAYER_OPS

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALL = {name: (family, op) for family, ops in (ARRAY_OPS | LAYER_OPS).items() for name, op in ops.items()}
BATCH = 500  # cases in one process


def name_of(number: int) -> str:
    return list(ALL)[number % len(ALL)]


class Explained(typing.NamedTuple):
    """An intended difference."""

    ops: str  # a regular expression
    line: str  # a regular expression for a line of `differences`
    why: str
    holds: typing.Callable[["Case"], bool] = lambda case: True  # whether this case is one of them


def named_twice(case: "Case") -> bool:
    """Whether indices contain a place twice."""
    x, *rest = (input and input.view().detach() for input in case.draw.inputs)
    if case.name == "index_put":
        return torch.index_put(torch.zeros(x.shape), tuple(rest[1:]), torch.tensor(1.0), accumulate=True).max() > 1
    index = rest[0].long()
    return torch.zeros(x.shape).scatter_add(case.draw.arguments["dim"], index, torch.ones(index.shape)).max() > 1


def short_vectors(case: "Case") -> bool:
    """Whether a vector is not longer than eps."""
    views = torch.broadcast_tensors(*(x.view().detach() for x in case.draw.inputs))
    dim, eps = case.draw.arguments["dim"], case.draw.arguments["eps"]
    return any((torch.linalg.vector_norm(x, dim=dim) <= eps).any() for x in views)


def at_bound(case: "Case") -> bool:
    """Whether an element is one of the bounds."""
    x = case.draw.inputs[0].view()
    return any((x == bound).any() for bound in case.draw.arguments.values())


def near_certain(case: "Case") -> bool:
    """Whether a probability is almost 0 or 1."""
    x = case.draw.inputs[0].view().detach()
    return bool((x * (1 - x) <= 1e-12).any())


def tied(case: "Case") -> bool:
    return case.draw.ties or case.draw.special


def expanded(case: "Case") -> bool:
    return any(0 in x.strides for x in case.draw.inputs if x is not None)


def without_values(case: "Case") -> bool:
    return any(0 in x.shape for x in case.draw.inputs if x is not None)


def special(case: "Case") -> bool:
    return case.draw.special


EXPLAINED = [
    Explained("abs|norm|l1_loss|smooth_l1_loss", "gradient .*: nan, PyTorch -?0",
              "linnet's gradient of |x| is NaN at NaN"),
    Explained("median", "gradient .*: nan, PyTorch",
              "linnet's gradient is NaN where the median is, PyTorch's goes to NaNs"),
    Explained("var", "gradient .*: nan, PyTorch", "linnet's gradient is NaN where x has an infinity", special),
    Explained("prod", "gradient 0.*PyTorch nan", "PyTorch's product of the other elements passes infinity times 0"),
    Explained("cumprod", "gradient 0.*nan", "linnet multiplies the other elements, PyTorch divides by x", special),
    Explained("elu", "gradient .*nan", "at NaN linnet gives the cotangent, PyTorch NaN in some layouts", special),
    Explained("clamp", "gradient", "linnet passes the gradient at a bound, PyTorch 2.15 does not", at_bound),
    Explained("hinge_embedding_loss|cosine_embedding_loss", "gradient",
              "linnet passes the gradient at the margin, as clamp at a bound", tied),
    Explained("kl_div", "gradient 1.*, PyTorch nan", "0 * log 0 is constant in linnet's gradient by a target of 0"),
    Explained("binary_cross_entropy.*", "gradient 1.*: nan, PyTorch -?inf",
              "the gradient by the target of an infinite logit", special),
    Explained("binary_cross_entropy_with_logits", "gradient 0.*nan",
              "an infinite weight multiplies two parts of the gradient, of either sign", special),
    Explained("binary_cross_entropy", "PyTorch refuses: all elements of .* between 0 and 1",
              "linnet gives NaN", special),
    Explained("binary_cross_entropy", "gradient 0",
              "within 1e-12 of 0 or 1 PyTorch divides by 1e-12 as float32 rounds it", near_certain),
    Explained("scatter|index_put", "gradient 1",
              "PyTorch's gradient goes to each value for a place, linnet's to the last", named_twice),
    Explained("cosine_similarity", "gradient",
              "linnet's gradient is that of the norm that eps replaced", short_vectors),
    Explained("softmax", "PyTorch nan", "the softmax of a line of -inf is 0 in linnet", special),
    Explained("cross_entropy", "gradient 0.*, PyTorch nan",
              "linnet leaves out a row that is ignored, NaN too", special),
    Explained("softmax_attention", "nan",
              "in linnet a hidden key has no effect, even if it is NaN; with an infinite query or key all "
              "scores may be -inf, for which linnet gives NaN", special),
    Explained("short_conv", "(result|gradient) .*nan",
              "linnet has no tokens outside the sequence, while PyTorch pads with 0, and 0 * inf is NaN", special),
    Explained("batch_norm|group_norm", "result .*: nan, PyTorch -?inf",
              "linnet's means of infinities, and products with an infinite weight, are NaN", special),
    Explained("max_pool.*", "gradient", "of several NaN in a window linnet takes the first, PyTorch the last", special),
    Explained("unique", "result 1", "each NaN is an element of its own, in any order", special),
    Explained("median_along", "result", "PyTorch sorts a copy that shares elements", expanded),
    Explained("batch_norm", "gradient 0", "PyTorch reads a weight that is expanded as if it were not", expanded),
    Explained("take_along_dim", "linnet refuses: .*outside", "PyTorch wraps an index that is too large"),
    Explained("take_along_dim", "PyTorch refuses: view size", "PyTorch flattens by a view"),
    Explained("bincount", "torch.float.*PyTorch torch.int64",
              "PyTorch's counts of nothing ignore the dtype of the weights"),
    Explained("batch_norm", "linnet refuses: .*has no value", "an empty batch has no variance"),
    Explained("batch_norm|group_norm", "PyTorch refuses: (Expected|select)",
              "linnet takes one value, no channels, no pixels"),
    Explained("conv_transpose2d", "linnet refuses: .*(output_padding|nothing is left)",
              "PyTorch does not check an empty batch", without_values),
    Explained("max_pool.*", "linnet refuses: .*only padding", "PyTorch gives -inf"),
    Explained("median", "linnet refuses: .*no elements", "PyTorch gives NaN"),
    Explained("trace", "PyTorch refuses: .*not implemented", "linnet sums bools too"),
    Explained(".*loss", "linnet refuses: .*one shape", "PyTorch broadcasts, with a warning"),
    Explained(".*", "linnet refuses: .*does not exist: the tensor has rank 0", "PyTorch takes rank 0 for rank 1 there"),
]


class Outcome(typing.NamedTuple):
    """A library's outcome of a case: results and gradients, or the text of its error."""

    results: list[torch.Tensor]
    gradients: list[torch.Tensor | None]
    error: str | None


class Case:
    """A call of an op, drawn from its number and a seed, and PyTorch's outcome."""

    def __init__(self, seed: int, number: int):
        self.number, self.name = number, name_of(number)
        self.family, self.op = ALL[self.name]
        self.draw = Draw(f"{seed}.{number}", self.op.dtypes)
        self.op.draw(self.draw)
        self.cotangents: dict[int, torch.Tensor] = {}
        self.theirs = self.in_torch()

    def in_torch(self) -> Outcome:
        inputs = [input and input.view() for input in self.draw.inputs]
        arguments = dict(self.draw.arguments)
        if "dtype" in arguments:
            arguments["dtype"] = getattr(torch, arguments["dtype"])
        try:
            results = self.op.torch(*inputs, **arguments)
            results = [results] if isinstance(results, torch.Tensor) else list(results)
            for i, result in enumerate(results):
                if result.requires_grad:
                    noise = torch.randn(result.shape, generator=self.draw.generator, dtype=torch.float64)
                    self.cotangents[i] = noise.to(result.dtype)
            leaves = [input for input in inputs if input is not None and input.requires_grad]
            gradients = [None] * len(leaves)
            if self.cotangents and leaves:
                outputs = [results[i] for i in self.cotangents]
                gradients = torch.autograd.grad(outputs, leaves, list(self.cotangents.values()), allow_unused=True)
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            return Outcome([], [], str(error).splitlines()[0])
        return Outcome([result.detach() for result in results], list(gradients), None)

    def tensors(self) -> dict[str, torch.Tensor]:
        inputs = {f"{self.number}.input{i}": x.memory for i, x in enumerate(self.draw.inputs) if x is not None}
        return inputs | {f"{self.number}.cotangent{i}": x for i, x in self.cotangents.items()}

    def text(self) -> str:
        inputs = [x and {"shape": x.shape, "strides": x.strides, "offset": x.offset, "grad": x.grad}
                  for x in self.draw.inputs]
        arguments = {name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
                     for name, value in self.draw.arguments.items()}
        return json.dumps({"op": self.name, "inputs": inputs, "arguments": arguments})

    def differences(self, ours: Outcome) -> list[str]:
        """A line for each difference; none if both sides throw, or if everything agrees."""
        if ours.error or self.theirs.error:
            return [] if ours.error and self.theirs.error else [
                f"linnet refuses: {ours.error}" if ours.error else f"PyTorch refuses: {self.theirs.error}"]
        if len(ours.results) != len(self.theirs.results):
            return [f"{len(ours.results)} results, PyTorch {len(self.theirs.results)}"]
        scale = math.prod(max(1.0, largest(x.view())) for x in self.draw.inputs if x is not None)
        lines, other_index = [], False
        for i, (x, y) in enumerate(zip(ours.results, self.theirs.results)):
            if self.op.any_index and i == 1 and x.shape == y.shape and not torch.equal(x, y):
                other_index = True
                x, y = self.at(x), self.at(y)
            lines += difference(f"result {i}", x, y, self.op.ulps, scale if self.op.sums else 0)
        ulps = max(self.op.ulps, 16)
        scale *= max([1.0, *map(largest, self.cotangents.values())])
        for i, (x, y) in enumerate(zip(ours.gradients, self.theirs.gradients)):
            if other_index or (x is None and y is None):
                continue
            x, y = (torch.zeros_like(y) if x is None else x), (torch.zeros_like(x) if y is None else y)
            lines += difference(f"gradient {i}", x, y, ulps, scale)
        return lines

    def at(self, index: torch.Tensor) -> torch.Tensor:
        """The elements at the indices that an op found."""
        x, dim = self.draw.inputs[0].view().detach(), self.draw.arguments["dim"]
        index = index if index.dim() == x.dim() else index.unsqueeze(dim)
        return x.gather(dim, index)


def largest(x: torch.Tensor) -> float:
    x = x.detach().double()
    x = x[x.isfinite()].abs()
    return x.max().item() if x.numel() else 0.0


def difference(what: str, ours: torch.Tensor, theirs: torch.Tensor, ulps: int, scale: float) -> list[str]:
    """Where two tensors differ by more than `ulps` of PyTorch's element, or of `scale` if that is larger."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return [f"{what}: {ours.dtype}{list(ours.shape)}, PyTorch {theirs.dtype}{list(theirs.shape)}"]
    if theirs.dtype not in FLOATING:
        wrong = ours != theirs
    else:
        allowed = ulps * torch.finfo(theirs.dtype).eps * theirs.double().abs().clamp(min=scale)
        same = (ours == theirs) | (ours.isnan() & theirs.isnan())
        wrong = ~(same | ((ours.double() - theirs.double()).abs() <= allowed.where(theirs.isfinite(), -1)))
    if not wrong.any():
        return []
    numbers = wrong & ~ours.isnan() & ~theirs.isnan()  # shown first, since differences of NaNs may be explained
    at = (numbers if numbers.any() else wrong).nonzero()[0].tolist()
    return [f"{what}{at}: {ours[tuple(at)].item()!r}, PyTorch {theirs[tuple(at)].item()!r}"
            f" ({wrong.sum()} of {wrong.numel()} differ)"]


def in_linnet(cases: list[Case], program: pathlib.Path) -> list[Outcome]:
    with tempfile.TemporaryDirectory() as temporary:
        inputs, outputs = (pathlib.Path(temporary) / name for name in ("cases.safetensors", "results.safetensors"))
        tensors = {name: tensor for case in cases for name, tensor in case.tensors().items()}
        save_file(tensors, inputs, {str(case.number): case.text() for case in cases})
        subprocess.run([program, inputs, outputs], check=True, timeout=100)
        with safe_open(outputs, "pt") as file:
            metadata = file.metadata() or {}
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118: not a dict
    outcomes = []
    for case in cases:
        results = [found[name] for i in range(100) if (name := f"{case.number}.result{i}") in found]
        leaves = sum(x is not None and x.grad for x in case.draw.inputs)
        gradients = [found.get(f"{case.number}.grad{i}") for i in range(leaves)]
        outcomes.append(Outcome(results, gradients, metadata.get(str(case.number))))
    return outcomes


def reason(case: Case, line: str) -> str | None:
    for each in EXPLAINED:
        if re.fullmatch(each.ops, case.name) and re.search(each.line, line) and each.holds(case):
            return each.why
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ops", default=".*", help="only ops whose name matches this regular expression")
    parser.add_argument("--only", type=int, help="the number of one case, which is run and printed")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/bin/linnet_cases")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    counts: collections.Counter[str] = collections.Counter()
    explained: collections.Counter[tuple[str, str]] = collections.Counter()
    refused = unexplained = 0
    numbers = [arguments.only] if arguments.only is not None else [
        number for number in range(arguments.cases) if re.fullmatch(arguments.ops, name_of(number))]
    for begin in range(0, len(numbers), BATCH):
        cases = [Case(arguments.seed, number) for number in numbers[begin:begin + BATCH]]
        for case, ours in zip(cases, in_linnet(cases, arguments.program)):
            counts[case.family] += 1
            refused += bool(ours.error and case.theirs.error)
            for line in case.differences(ours):
                if why := reason(case, line):
                    explained[case.name, why] += 1
                else:
                    unexplained += 1
                    print(f"{case.number} {case.name}: {line}\n    {case.text()}")
            if arguments.only is not None:
                print(case.text(), [x and x.view() for x in case.draw.inputs], "linnet:", ours, "PyTorch:", case.theirs,
                      sep="\n")
    for family, count in counts.items():
        print(f"{count:6,}  {family}")
    print(f"{refused:6,}  of them refused by both")
    for (name, why), count in sorted(explained.items()):
        print(f"{count:6,}  {name}: {why}")
    print(f"{unexplained:6,}  differences without an explanation")
    sys.exit(unexplained > 0)


if __name__ == "__main__":
    main()
