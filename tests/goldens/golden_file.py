"""A set of named cases: tensors plus parameters, saved as one safetensors file."""

import json
import pathlib
import zlib
from collections.abc import Callable

import numpy as np
import safetensors.numpy
import torch
from torch import Tensor


class Draw:
    """Random inputs that depend only on a name.

    Values are rounded to float32 first: a test in float32 then starts from the same numbers.
    """

    def __init__(self, name: str):
        self._rng = np.random.default_rng(zlib.crc32(name.encode()))

    def normal(self, *shape: int, scale: float = 1.0) -> Tensor:
        values = scale * self._rng.standard_normal(shape)
        return torch.from_numpy(np.asarray(values, np.float32).astype(np.float64))

    def integers(self, high: int, *shape: int) -> Tensor:
        return torch.from_numpy(self._rng.integers(0, high, shape))


class GoldenFile:
    def __init__(self):
        self.cases: dict[str, dict] = {}
        self._tensors: dict[str, np.ndarray] = {}

    def add(self, case: str, parameters: dict, tensors: dict[str, Tensor]) -> None:
        """Stores `parameters` under the case's name and every tensor as `case.tensor`."""
        assert "." not in case and case not in self.cases, case
        self.cases[case] = parameters
        for name, tensor in tensors.items():
            values = np.asarray(tensor.detach().numpy(), order="C")
            assert not np.issubdtype(values.dtype, np.floating) or np.isfinite(values).all(), (case, name)
            self._tensors[f"{case}.{name}"] = values

    def add_with_gradients(
        self,
        case: str,
        parameters: dict,
        function: Callable[..., Tensor],
        inputs: dict[str, Tensor],
        constants: dict[str, Tensor] | None = None,
    ) -> None:
        """Runs `function(*inputs, *constants)` and stores its output, a random cotangent as
        `grad_output`, and for every input `x` the gradient of <output, grad_output> as `grad_x`."""
        constants = constants or {}
        leaves = [value.clone().requires_grad_() for value in inputs.values()]
        output = function(*leaves, *constants.values())
        grad_output = Draw(case + ".grad_output").normal(*output.shape)
        gradients = torch.autograd.grad(output, leaves, grad_output)
        named_gradients = {f"grad_{name}": g for name, g in zip(inputs, gradients)}
        results = {"output": output, "grad_output": grad_output, **named_gradients}
        self.add(case, parameters, {**inputs, **constants, **results})

    def save(self, path: pathlib.Path) -> None:
        metadata = {case: json.dumps(parameters) for case, parameters in self.cases.items()}
        versions = {"torch_version": torch.__version__.split("+")[0], "numpy_version": np.__version__}
        path.write_bytes(with_sorted_header(safetensors.numpy.save(self._tensors, {**versions, **metadata})))


def with_sorted_header(file: bytes) -> bytes:
    """The same file with sorted keys in the header. The library writes the metadata in random order,
    so every run would change the files. Layout: header size (8 bytes), JSON header, data."""
    size = int.from_bytes(file[:8], "little")
    header = json.dumps(json.loads(file[8 : 8 + size]), sort_keys=True).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + file[8 + size :]
