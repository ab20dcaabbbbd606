#!/usr/bin/env python3
"""Runs the Python blocks of the pages for users of other libraries, examples/docs/from_*.md.

    tests/peers/from_pages.py    # PyTorch's page; JAX's and MLX's if their packages are installed

The blocks of a page run in order, in one namespace and an empty folder. Objects that a page does not define, such as
`x` or the data, are made before the block that needs them. After some blocks a check tests whether they did what the
page says. Without a GPU, blocks that name one run on the CPU. A traceback names the line of the page.
"""

import importlib.util
import os
import pathlib
import re
import sys
import tempfile
import textwrap

DOCS = pathlib.Path(__file__).resolve().parents[2] / "examples/docs"


class Page:
    """A page, the package that it needs, and code to run before and after the blocks that contain a text."""

    def __init__(self, name: str, package: str, first: str, before: dict, after: dict, gpu: tuple):
        self.path, self.package, self.first = DOCS / name, package, textwrap.dedent(first)
        self.before, self.after, self.gpu = before, after, gpu

    def blocks(self) -> list[tuple[int, str]]:
        """The Python blocks with the numbers of their first lines."""
        text = self.path.read_text()
        found = re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        return [(text.count("\n", 0, block.start(1)) + 1, block[1]) for block in found]

    def run(self) -> None:
        if importlib.util.find_spec(self.package) is None:
            print(f"{self.path.name}: left out, there is no {self.package} here")
            return
        names: dict = {}
        exec(self.first, names)
        has_gpu, on_gpu, on_cpu = self.gpu
        blocks = self.blocks()
        unused = {*self.before, *self.after}
        for line, code in blocks:
            hooks = {text for text in unused if text in code}
            unused -= hooks
            for text in hooks & self.before.keys():
                exec(textwrap.dedent(self.before[text]), names)
            if not eval(has_gpu, names):
                code = code.replace(on_gpu, on_cpu)
            exec(compile("\n" * (line - 1) + code, self.path, "exec"), names)
            for text in hooks & self.after.keys():
                exec(textwrap.dedent(self.after[text]), names)
        if unused:
            sys.exit(f"{self.path.name}: no block has {', '.join(sorted(unused))}")
        print(f"{self.path.name}: {len(blocks)} blocks ran")


PYTORCH = Page(
    "from_pytorch.md",
    "torch",
    """
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.utils.data import DataLoader
    x = torch.randn(2, 3)
    """,
    {
        "adamw = ": "model = Mlp(); train = [(torch.randn(784), i % 10) for i in range(128)]",
        "model.state_dict()": "optimizer, step = adamw, 2",
        "small = Model()": "Model = Mlp",
    },
    {
        "adamw = ": "assert not torch.is_grad_enabled() and not model.training\ntorch.set_grad_enabled(True)",
        "w.grad = None": "assert w.grad is None and loss.item() > 0",
        "attn_mask=seen": """
            assert torch.allclose(masked, causal, atol=1e-6) and not torch.equal(q, k)
            biased.sum().backward()
            assert bias.grad.shape == (4, 16, 16)
            """,
        "class Layer": """
            layer, tokens = Layer().eval(), torch.randn(2, 16, 32)
            padding = torch.arange(16).expand(2, 16) >= 12
            changed = tokens.masked_fill(padding[..., None], 7)
            assert torch.allclose(layer(tokens, padding)[:, :12], layer(changed, padding)[:, :12], atol=1e-6)
            """,
        "model.state_dict()": "assert run['step'] == step",
        "dropped = ": "assert torch.equal(random.get_state(), saved)",
    },
    ("torch.cuda.is_available()", '"cuda"', '"cpu"'),
)

JAX = Page(
    "from_jax.md",
    "jax",
    """
    import pathlib
    import jax
    import jax.numpy as jnp
    import optax
    import orbax.checkpoint
    from flax import nnx
    x = jax.random.normal(jax.random.key(1), (2, 3))
    """,
    {
        "adamw = ": """
            graph, params = nnx.split(Mlp(nnx.Rngs(0)))
            apply = lambda params, x: nnx.merge(graph, params)(x)
            batches = [(jnp.ones((64, 784)), jnp.arange(64) % 10)] * 2
            """,
        "checkpointer = ": 'path = pathlib.Path("run").resolve()',
    },
    {
        "w = w - 0.1": "assert gradient.shape == w.shape",
        "dot_product_attention": """
            assert jnp.allclose(masked, causal, atol=1e-5) and not jnp.array_equal(q, k) and not jnp.array_equal(k, v)
            assert jnp.allclose(biased, jax.nn.dot_product_attention(q, k, v), atol=1e-5)
            """,
        "checkpointer = ": "assert set(run) == {'params', 'state'}",
        "x.astype": "assert exact.dtype == jnp.float64",
    },
    ('any(d.platform == "gpu" for d in jax.devices())', 'devices("gpu")', 'devices("cpu")'),
)

MLX = Page(
    "from_mlx.md",
    "mlx",
    """
    import mlx.core as mx
    import mlx.nn as nn
    import mlx.optimizers as optim
    from mlx.utils import tree_flatten
    x = mx.random.normal((2, 3))
    """,
    {
        "adamw = ": "model = Mlp(); batches = [(mx.random.normal((64, 784)), mx.arange(64) % 10)] * 2",
    },
    {
        "mask=seen": "assert mx.allclose(masked, causal, atol=1e-5).item() and not mx.array_equal(q, k).item()",
    },
    ("mx.metal.is_available()", "mx.gpu", "mx.cpu"),
)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for page in (PYTORCH, JAX, MLX):
            page.run()
