"""A tiny decoder-only language model: forward, backward and five AdamW steps."""

import torch
import torch.nn.functional as F
from torch import Tensor

from golden_file import Draw, GoldenFile
from layer_cases import BLOCK_NAMES, causal_mask, torch_block, torch_parameter_name

LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY, BATCH = 2, 16, 2, 8, 11, 3
HIDDEN = 4 * WIDTH


def build() -> GoldenFile:
    draw = Draw("decoder")
    parameters = {name: draw.normal(*shape, scale=0.2) for name, shape in shapes().items()}
    for name, value in parameters.items():
        if "norm" in name:
            value += 1.0
    # Rounded again after the sum, so that the numbers are exact in float32.
    parameters = {name: value.float().double().requires_grad_() for name, value in parameters.items()}
    tokens, targets = (draw.integers(VOCABULARY, BATCH, CONTEXT) for _ in range(2))
    results = {"tokens": tokens, "targets": targets}
    results |= {name: value.detach().clone() for name, value in parameters.items()}

    # As nanoGPT: matrices decay, gains do not.
    adamw = {"lr": 1e-2, "betas": [0.9, 0.99], "eps": 1e-8, "weight_decay": 0.1}
    matrices = [value for value in parameters.values() if value.ndim >= 2]
    gains = [value for value in parameters.values() if value.ndim < 2]
    groups = [{"params": matrices}, {"params": gains, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, **adamw)
    losses = []
    for step in range(5):
        logits = decoder(parameters, tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.detach())
        if step == 0:
            results |= {"logits": logits.detach()}
            results |= {f"grad_{name}": value.grad.clone() for name, value in parameters.items()}
        optimizer.step()
    results["losses"] = torch.stack(losses)
    results |= {f"step_5_{name}": value for name, value in parameters.items()}

    settings = {"op": "decoder", "layers": LAYERS, "width": WIDTH, "heads": HEADS, "context": CONTEXT}
    settings |= {"vocabulary": VOCABULARY, "hidden": HIDDEN, "activation": "gelu", "adamw": adamw}
    per_block = 4 * WIDTH + 2 * CONTEXT + WIDTH + HIDDEN
    goldens = GoldenFile()
    goldens.add("decoder", {**settings, "reduction": LAYERS * per_block + 2 * WIDTH}, results)
    return goldens


def shapes() -> dict[str, tuple[int, ...]]:
    """Every parameter by its name in the model, in the order of the forward pass."""
    block = torch_block(WIDTH, HEADS, HIDDEN, pre_norm=True, bias=False)
    block_shapes = {name: value.shape for name, value in block.named_parameters()}
    result = {"tok.weight": (VOCABULARY, WIDTH), "pos.weight": (CONTEXT, WIDTH)}
    for layer in range(LAYERS):
        for part in BLOCK_NAMES:
            name = f"{part}.weight"
            result[f"blocks.{layer}.{name}"] = block_shapes[torch_parameter_name(name)]
    result["norm.weight"] = (WIDTH,)
    return result


def decoder(parameters: dict[str, Tensor], tokens: Tensor) -> Tensor:
    """Logits [B, N, V] of tokens [B, N]; the head is the token embedding."""
    block = torch_block(WIDTH, HEADS, HIDDEN, pre_norm=True, bias=False)
    x = parameters["tok.weight"][tokens] + parameters["pos.weight"]
    for layer in range(LAYERS):
        names = [f"{part}.weight" for part in BLOCK_NAMES]
        weights = {torch_parameter_name(name): parameters[f"blocks.{layer}.{name}"] for name in names}
        x = torch.func.functional_call(block, weights, (x,), {"src_mask": causal_mask(CONTEXT)})
    x = F.layer_norm(x, (WIDTH,), parameters["norm.weight"])
    return x @ parameters["tok.weight"].T
