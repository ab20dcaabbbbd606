"""The presets' models, made of PyTorch's modules, and ten training steps of each preset.

This file repeats the settings of the presets, with a smaller width, context and image.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, OneCycleLR, SequentialLR

from golden_file import Draw, GoldenFile
from layer_cases import BLOCK_NAMES, torch_parameter_name

STEPS, WIDTH, HEADS, BATCH = 10, 12, 4, 4


class NanoGpt(nn.Module):
    """Preset nanogpt-cpu: four pre-norm layers without biases, learned positions, a head tied to the embedding."""

    def __init__(self, vocabulary: int, context: int):
        super().__init__()
        self.tok = nn.Embedding(vocabulary, WIDTH)
        self.pos = nn.Embedding(context, WIDTH)
        self.encoder = encoder(layers=4, hidden=4 * WIDTH, bias=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(context, dtype=torch.float64))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        return F.linear(self.encoder(x, mask=self.mask, is_causal=True), self.tok.weight)


class MnistSmall(nn.Module):
    """Preset mnist-small: six pre-norm layers with biases over patches of 4 x 4 pixels, averaged before the head."""

    def __init__(self, side: int, classes: int):
        super().__init__()
        self.side = side
        self.unfold = nn.Unfold(4, stride=4)
        self.patch = nn.Linear(16, WIDTH)
        self.pos = nn.Parameter(torch.zeros((side // 4) ** 2, WIDTH))
        self.encoder = encoder(layers=6, hidden=2 * WIDTH, bias=True)
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.unfold(images.view(-1, 1, self.side, self.side)).mT
        return self.head(self.encoder(self.patch(patches) + self.pos).mean(1))


def encoder(layers: int, hidden: int, bias: bool) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(
        WIDTH, HEADS, hidden, dropout=0.0, activation=F.gelu, batch_first=True, norm_first=True, bias=bias
    )
    return nn.TransformerEncoder(layer, layers, nn.LayerNorm(WIDTH, bias=bias), enable_nested_tensor=False)


def torch_name(name: str) -> str:
    """`blocks.0.mlp.fc1.weight` -> `encoder.layers.0.linear1.weight`, `pos.weight` of images -> `pos`."""
    if name.startswith("blocks."):
        _, layer, rest = name.split(".", 2)
        return f"encoder.layers.{layer}.{torch_parameter_name(rest)}"
    return f"encoder.{name}" if name.startswith("norm.") else name


def linnet_names(layers: int, bias: bool, before: list[str], after: list[str]) -> list[str]:
    kinds = ("weight", "bias") if bias else ("weight",)
    blocks = [f"blocks.{layer}.{part}.{kind}" for layer in range(layers) for part in BLOCK_NAMES for kind in kinds]
    return before + blocks + [f"norm.{kind}" for kind in kinds] + after


def train(
    case: str,
    model: nn.Module,
    names: dict[str, str],
    inputs: Tensor,
    targets: Tensor,
    optimizer: torch.optim.Optimizer,
    schedule: LRScheduler,
    clip: float,
) -> dict[str, Tensor]:
    """Ten steps from random parameters; `names` maps linnet's to the model's."""
    parameters = dict(model.named_parameters())
    assert sorted(names.values()) == sorted(parameters)
    draw = Draw(case)
    with torch.no_grad():
        for ours, theirs in names.items():
            gain = 1.0 if "norm" in ours and ours.endswith("weight") else 0.0
            value = gain + draw.normal(*parameters[theirs].shape, scale=0.3)
            parameters[theirs].copy_(value.float())  # rounded, so that it is exact in float32 after the sum, too
    results = {"inputs": inputs, "targets": targets}
    results |= {f"start_{ours}": parameters[theirs].detach().clone() for ours, theirs in names.items()}

    losses, norms, rates = [], [], []
    for step in range(STEPS):
        logits = model(inputs[step])
        loss = F.cross_entropy(logits.flatten(0, -2), targets[step].flatten())
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            results["logits"] = logits.detach()
        losses.append(loss.detach())
        rates.append(schedule.get_last_lr()[0])
        if clip > 0:
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), clip).item())
        optimizer.step()
        if step + 1 < STEPS:
            schedule.step()
    assert not norms or max(norms) > clip, norms  # otherwise training without clipping would pass the test
    results |= {"losses": torch.stack(losses), "rates": torch.tensor(rates, dtype=torch.float64)}
    return results | {f"end_{ours}": parameters[theirs].detach().clone() for ours, theirs in names.items()}


def nanogpt_cpu() -> tuple[dict, dict[str, Tensor]]:
    vocabulary, context, warmup, lr, min_lr = 11, 8, 3, 1e-3, 1e-4
    model = NanoGpt(vocabulary, context).double()
    names = {name: torch_name(name) for name in linnet_names(4, False, ["tok.weight", "pos.weight"], [])}
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    gains = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": gains, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.99), eps=1e-8)
    rise = LinearLR(optimizer, start_factor=1 / (warmup + 1), end_factor=1.0, total_iters=warmup)
    fall = CosineAnnealingLR(optimizer, T_max=STEPS - warmup, eta_min=min_lr)
    schedule = SequentialLR(optimizer, [rise, fall], milestones=[warmup])
    draw = Draw("nanogpt_cpu.data")
    inputs, targets = (draw.integers(vocabulary, STEPS, BATCH, context) for _ in range(2))
    settings = {"op": "preset", "task": "shakespeare", "preset": "nanogpt-cpu", "warmup": warmup}
    settings |= {"context": context, "vocabulary": vocabulary, "layers": 4, "reduction": 4 * (9 * WIDTH + 2 * context)}
    return settings, train("nanogpt_cpu", model, names, inputs, targets, optimizer, schedule, clip=1.0)


def mnist_small() -> tuple[dict, dict[str, Tensor]]:
    side, classes = 12, 10
    model = MnistSmall(side, classes).double()
    before, after = ["patch.weight", "patch.bias", "pos.weight"], ["head.weight", "head.bias"]
    names = {name: torch_name(name) for name in linnet_names(6, True, before, after)}
    names["pos.weight"] = "pos"
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    schedule = OneCycleLR(optimizer, max_lr=1e-3, total_steps=STEPS, cycle_momentum=False)
    draw = Draw("mnist_small.data")
    inputs, targets = draw.normal(STEPS, BATCH, side * side), draw.integers(classes, STEPS, BATCH)
    settings = {"op": "preset", "task": "mnist", "preset": "mnist-small", "warmup": 0, "side": side}
    settings |= {"classes": classes, "layers": 6, "reduction": 6 * (7 * WIDTH + 2 * 9) + 16}
    return settings, train("mnist_small", model, names, inputs, targets, optimizer, schedule, clip=0.0)


def build() -> GoldenFile:
    goldens = GoldenFile()
    for case, make in [("nanogpt_cpu", nanogpt_cpu), ("mnist_small", mnist_small)]:
        settings, tensors = make()
        settings |= {"width": WIDTH, "heads": HEADS, "batch": BATCH, "steps": STEPS}
        goldens.add(case, settings, tensors)
    return goldens
