"""A small encoder–decoder with padding in its sources: forward and backward."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from golden_file import Draw, GoldenFile
from layer_cases import BLOCK_NAMES, causal_mask, torch_block, torch_parameter_name

ENCODER_LAYERS, DECODER_LAYERS, WIDTH, HEADS, HIDDEN, VOCABULARY = 2, 2, 8, 2, 12, 9
SOURCE_TOKENS, TARGET_TOKENS = 10, 6
LENGTHS, TARGET_LENGTH = [7, 3, 5], 4

# Parts of a decoder block here, and in torch.nn.TransformerDecoderLayer.
DECODER_NAMES = {
    "norm1": "norm1",
    "attention.qkv": "self_attn.in_proj_",
    "attention.out": "self_attn.out_proj.",
    "norm2": "norm2",
    "cross.qkv": "multihead_attn.in_proj_",
    "cross.out": "multihead_attn.out_proj.",
    "norm3": "norm3",
    "mlp.fc1": "linear1",
    "mlp.fc2": "linear2",
}


def build() -> GoldenFile:
    goldens = GoldenFile()
    for case, pre_norm in [("pre_norm", True), ("post_norm", False)]:
        draw = Draw(f"encoder_decoder_{case}")
        inputs = {name: draw.normal(*shape, scale=0.3) for name, shape in shapes().items()}
        longest = max(LENGTHS)
        constants = {
            "source": draw.integers(VOCABULARY, len(LENGTHS), longest),
            "source_mask": torch.arange(longest) < torch.tensor(LENGTHS)[:, None],
            "target": draw.integers(VOCABULARY, len(LENGTHS), TARGET_LENGTH),
        }

        def run(*values: Tensor) -> Tensor:
            return logits(dict(zip([*inputs, *constants], values)), pre_norm)

        settings = {"op": "encoder_decoder", "pre_norm": pre_norm, "encoder_layers": ENCODER_LAYERS}
        settings |= {"decoder_layers": DECODER_LAYERS, "width": WIDTH, "heads": HEADS, "hidden": HIDDEN}
        settings |= {"vocabulary": VOCABULARY, "source_tokens": SOURCE_TOKENS, "target_tokens": TARGET_TOKENS}
        per_block = 4 * WIDTH + 2 * longest + WIDTH + HIDDEN
        settings["reduction"] = (ENCODER_LAYERS + 2 * DECODER_LAYERS) * per_block + 2 * WIDTH + VOCABULARY
        goldens.add_with_gradients(case, settings, run, inputs, constants)
    return goldens


def shapes() -> dict[str, tuple[int, ...]]:
    """Every parameter by its name in the model."""
    encoder = {name: value.shape for name, value in torch_block(WIDTH, HEADS, HIDDEN, True, True).named_parameters()}
    decoder = {name: value.shape for name, value in decoder_block(True).named_parameters()}
    result = {"tok.weight": (VOCABULARY, WIDTH)}
    result |= {"source_pos.weight": (SOURCE_TOKENS, WIDTH), "target_pos.weight": (TARGET_TOKENS, WIDTH)}
    for layer in range(ENCODER_LAYERS):
        for name in names_of(BLOCK_NAMES):
            result[f"encoder.{layer}.{name}"] = encoder[torch_parameter_name(name)]
    for layer in range(DECODER_LAYERS):
        for name in names_of(DECODER_NAMES):
            result[f"decoder.{layer}.{name}"] = decoder[decoder_parameter_name(name)]
    for norm in ("encoder_norm", "decoder_norm"):
        result |= {f"{norm}.weight": (WIDTH,), f"{norm}.bias": (WIDTH,)}
    return result


def names_of(parts: dict[str, str]) -> list[str]:
    return [f"{part}.{kind}" for part in parts for kind in ("weight", "bias")]


def decoder_parameter_name(name: str) -> str:
    """`cross.qkv.weight` -> `multihead_attn.in_proj_weight`, `mlp.fc1.bias` -> `linear1.bias`."""
    module, kind = name.rsplit(".", 1)
    part = DECODER_NAMES[module]
    return part + kind if part[-1] in "_." else f"{part}.{kind}"


def decoder_block(pre_norm: bool) -> nn.Module:
    return nn.TransformerDecoderLayer(
        WIDTH,
        HEADS,
        HIDDEN,
        dropout=0.0,
        activation=F.gelu,
        batch_first=True,
        norm_first=pre_norm,
        dtype=torch.float64,
    )


def logits(parameters: dict[str, Tensor], pre_norm: bool) -> Tensor:
    source, target, padding = parameters["source"], parameters["target"], ~parameters["source_mask"]
    memory = parameters["tok.weight"][source] + parameters["source_pos.weight"][: source.shape[1]]
    block = torch_block(WIDTH, HEADS, HIDDEN, pre_norm, bias=True)
    for layer in range(ENCODER_LAYERS):
        weights = {torch_parameter_name(n): parameters[f"encoder.{layer}.{n}"] for n in names_of(BLOCK_NAMES)}
        memory = torch.func.functional_call(block, weights, (memory,), {"src_key_padding_mask": padding})
    memory = norm(parameters, "encoder_norm", memory)
    x = parameters["tok.weight"][target] + parameters["target_pos.weight"][: target.shape[1]]
    block = decoder_block(pre_norm)
    masks = {"tgt_mask": causal_mask(target.shape[1]), "memory_key_padding_mask": padding}
    for layer in range(DECODER_LAYERS):
        weights = {decoder_parameter_name(n): parameters[f"decoder.{layer}.{n}"] for n in names_of(DECODER_NAMES)}
        x = torch.func.functional_call(block, weights, (x, memory), masks)
    return norm(parameters, "decoder_norm", x) @ parameters["tok.weight"].T


def norm(parameters: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return F.layer_norm(x, (WIDTH,), parameters[f"{name}.weight"], parameters[f"{name}.bias"])
