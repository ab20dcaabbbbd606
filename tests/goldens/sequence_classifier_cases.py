"""A small classifier of token ids with padding, of single sequences and of pairs: forward and backward."""

import torch
import torch.nn.functional as F
from torch import Tensor

from golden_file import Draw, GoldenFile
from layer_cases import BLOCK_NAMES, torch_block, torch_parameter_name

LAYERS, WIDTH, HEADS, HIDDEN, VOCABULARY, CLASSES, HEAD_HIDDEN = 2, 8, 2, 12, 9, 3, 10
MAX_TOKENS = 10
LENGTHS, OTHER_LENGTHS = [7, 3, 5], [2, 4, 1]


def build() -> GoldenFile:
    goldens = GoldenFile()
    for case, pooling, pairs in [
        ("mean", "mean", False),
        ("padded_mean", "padded_mean", False),
        ("attention_pooling", "attention", False),
        ("first", "first", False),
        ("pairs", "mean", True),
        ("pairs_padded_mean", "padded_mean", True),
    ]:
        draw = Draw(f"sequence_classifier_{case}")
        inputs = {name: draw.normal(*shape, scale=0.3) for name, shape in shapes(pooling, pairs).items()}
        constants = {}
        if pooling == "attention":
            constants["pool.fc2.bias"] = inputs.pop("pool.fc2.bias")  # it cancels, so its gradient is only rounding
        constants |= tokens(draw, "", LENGTHS)
        if pairs:
            constants |= tokens(draw, "2", OTHER_LENGTHS)

        def run(*values: Tensor) -> Tensor:
            named = dict(zip([*inputs, *constants], values))
            vectors = [encode(named, pooling, named["ids"], named["padding_mask"])]
            if pairs:
                vectors.append(encode(named, pooling, named["ids2"], named["padding_mask2"]))
            return head(named, vectors)

        settings = {"op": "sequence_classifier", "pooling": pooling, "pairs": pairs, "layers": LAYERS}
        settings |= {"width": WIDTH, "heads": HEADS, "hidden": HIDDEN, "vocabulary": VOCABULARY, "classes": CLASSES}
        settings |= {"head_hidden": HEAD_HIDDEN, "max_tokens": MAX_TOKENS, "activation": "gelu"}
        longest = max(LENGTHS)
        per_block = 4 * WIDTH + 2 * longest + WIDTH + HIDDEN
        settings["reduction"] = LAYERS * per_block + WIDTH + longest + 4 * WIDTH + HEAD_HIDDEN
        goldens.add_with_gradients(case, settings, run, inputs, constants)
    return goldens


def shapes(pooling: str, pairs: bool) -> dict[str, tuple[int, ...]]:
    """Every parameter by its name in the model."""
    block = torch_block(WIDTH, HEADS, HIDDEN, pre_norm=True, bias=True)
    block_shapes = {name: value.shape for name, value in block.named_parameters()}
    result = {"tok.weight": (VOCABULARY, WIDTH), "pos.weight": (MAX_TOKENS, WIDTH)}
    for layer in range(LAYERS):
        for part in BLOCK_NAMES:
            for kind in ("weight", "bias"):
                name = f"{part}.{kind}"
                result[f"blocks.{layer}.{name}"] = block_shapes[torch_parameter_name(name)]
    result |= {"norm.weight": (WIDTH,), "norm.bias": (WIDTH,)}
    if pooling == "attention":
        result |= {"pool.fc1.weight": (WIDTH, WIDTH), "pool.fc1.bias": (WIDTH,)}
        result |= {"pool.fc2.weight": (1, WIDTH), "pool.fc2.bias": (1,)}
    result |= {"fc1.weight": (HEAD_HIDDEN, (4 if pairs else 1) * WIDTH), "fc1.bias": (HEAD_HIDDEN,)}
    return result | {"fc2.weight": (CLASSES, HEAD_HIDDEN), "fc2.bias": (CLASSES,)}


def tokens(draw: Draw, suffix: str, lengths: list[int]) -> dict[str, Tensor]:
    """Ids [B, N], also random at padding, and the padding mask, which is false there."""
    longest = max(lengths)
    ids = draw.integers(VOCABULARY, len(lengths), longest)
    return {f"ids{suffix}": ids, f"padding_mask{suffix}": torch.arange(longest) < torch.tensor(lengths)[:, None]}


def encode(parameters: dict[str, Tensor], pooling: str, ids: Tensor, padding_mask: Tensor) -> Tensor:
    block = torch_block(WIDTH, HEADS, HIDDEN, pre_norm=True, bias=True)
    x = parameters["tok.weight"][ids] + parameters["pos.weight"][: ids.shape[1]]
    for layer in range(LAYERS):
        names = [f"{part}.{kind}" for part in BLOCK_NAMES for kind in ("weight", "bias")]
        weights = {torch_parameter_name(name): parameters[f"blocks.{layer}.{name}"] for name in names}
        x = torch.func.functional_call(block, weights, (x,), {"src_key_padding_mask": ~padding_mask})
    x = F.layer_norm(x, (WIDTH,), parameters["norm.weight"], parameters["norm.bias"])
    if pooling == "first":
        return x[:, 0]
    if pooling == "attention":
        scores = linear(parameters, "pool.fc2", torch.tanh(linear(parameters, "pool.fc1", x)))
        weights = torch.softmax(scores.squeeze(-1).masked_fill(~padding_mask, -torch.inf), -1)
        return torch.einsum("bn,bnc->bc", weights, x)
    total = (x * padding_mask[:, :, None]).sum(1)
    return total / (MAX_TOKENS if pooling == "padded_mean" else padding_mask.sum(1, keepdim=True))


def head(parameters: dict[str, Tensor], vectors: list[Tensor]) -> Tensor:
    x = vectors[0]
    if len(vectors) == 2:
        a, b = vectors
        x = torch.cat([a, b, a * b, a - b], -1)
    return linear(parameters, "fc2", F.relu(linear(parameters, "fc1", x)))


def linear(parameters: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return F.linear(x, parameters[f"{name}.weight"], parameters[f"{name}.bias"])
