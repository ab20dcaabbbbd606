"""The models of linnet's presets in plain PyTorch: the same shapes, initial spreads and optimizer settings."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mechanisms import Options, attention_layer


class Block(nn.Module):
    def __init__(self, options: Options, hidden: int, dropout: float = 0.0, activation_dropout: float = 0.0):
        super().__init__()
        width, bias = options.width, options.bias
        self.dropout, self.activation_dropout = nn.Dropout(dropout), nn.Dropout(activation_dropout)
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=bias), nn.LayerNorm(width, bias=bias)
        self.attention = attention_layer(options)
        self.fc1, self.fc2 = nn.Linear(width, hidden, bias), nn.Linear(hidden, width, bias)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.fc2(self.activation_dropout(F.gelu(self.fc1(self.norm2(x))))))


class TextModel(nn.Module):
    def __init__(
        self,
        mechanism: str,
        layers: int,
        heads: int,
        width: int,
        context: int,
        dropout: float = 0.0,
        vocabulary: int = 65,
    ):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.tok, self.pos = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        options = Options(mechanism, width, heads, causal=True, bias=False)
        self.blocks = nn.ModuleList(Block(options, 4 * width, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def logits(self, ids: Tensor) -> Tensor:
        x = self.dropout(self.tok(ids) + self.pos.weight[: ids.shape[1]])
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tok.weight.T

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(self.logits(ids).flatten(0, 1), targets.flatten())


class PatchClassifier(nn.Module):
    def __init__(self, mechanism: str, layers: int = 6, heads: int = 4, width: int = 96, patch: int = 4):
        super().__init__()
        self.patch, self.embed = patch, nn.Linear(patch * patch, width)
        self.pos = nn.Parameter(0.3 * torch.randn((28 // patch) ** 2, width))
        options = Options(mechanism, width, heads, tokens=len(self.pos), max_tokens=len(self.pos))
        self.blocks = nn.ModuleList(Block(options, 2 * width) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        side, p = 28 // self.patch, self.patch
        patches = images.view(-1, side, p, side, p).transpose(2, 3).reshape(-1, side * side, p * p)
        x = self.embed(patches) + self.pos
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x).mean(1)), labels)


class SequenceClassifier(nn.Module):
    """The model of the Long Range Arena's presets, for one sequence, or for two sequences whose vectors it compares."""

    def __init__(self, options: Options, vocabulary: int, classes: int, pairs: bool, layers: int = 2):
        super().__init__()
        width = options.width
        self.tok, self.pos = nn.Embedding(vocabulary, width), nn.Embedding(options.max_tokens, width)
        for embedding in (self.tok, self.pos):
            nn.init.normal_(embedding.weight, std=0.02)
        self.dropout, self.pairs = nn.Dropout(options.dropout), pairs
        rates = {"dropout": options.dropout, "activation_dropout": options.dropout}
        self.blocks = nn.ModuleList(Block(options, 2 * width, **rates) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear((4 if pairs else 1) * width, 2 * width), nn.Linear(2 * width, classes)

    def forward(self, ids: Tensor, labels: Tensor) -> Tensor:
        """ids [B, N], or [2, B, N] for pairs."""
        x = self.dropout(self.tok(ids.flatten(0, -2)) + self.pos.weight[: ids.shape[-1]])
        for block in self.blocks:
            x = block(x)
        pool = self.norm(x).sum(1) / len(self.pos.weight)
        if self.pairs:
            a, b = pool.chunk(2)
            pool = torch.cat([a, b, a * b, a - b], -1)
        return F.cross_entropy(self.fc2(F.relu(self.fc1(pool))), labels)


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


class ResidualBlock(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))


def residual(channels: int = 64) -> nn.Module:
    blocks = [ResidualBlock(channels) for _ in range(4)]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


class Reader(nn.Module):
    def __init__(self, layer: type[nn.RNNBase], width: int = 256):
        super().__init__()
        self.layer, self.head = layer(width, width, batch_first=True), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x)[0][:, -1])
