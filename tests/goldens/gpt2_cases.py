"""A small randomly initialised GPT-2 as `transformers` saves it, and its logits."""

import pathlib

import safetensors.torch
import torch
import transformers

from golden_file import Draw

LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY, BATCH = 2, 12, 3, 10, 17, 2


def save(folder: pathlib.Path) -> None:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
        bos_token_id=0, eos_token_id=0, attn_implementation="eager",
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    draw = Draw("gpt2")
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # otherwise gains and biases would be 1 and 0
            gain = 1.0 if ".ln_" in name and name.endswith("weight") else 0.0
            parameter.copy_(gain + draw.normal(*parameter.shape, scale=0.3))
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)  # not part of the model

    tokens = draw.integers(VOCABULARY, BATCH, CONTEXT)
    with torch.no_grad():
        logits = model.double()(tokens).logits
    safetensors.torch.save_file({"tokens": tokens, "logits": logits}, folder / "logits.safetensors")
