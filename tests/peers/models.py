"""The models of linnet's presets in plain PyTorch: the same shapes, initial spreads and optimizer settings."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attention


class Attention(nn.Module):
    def __init__(self, mechanism: str, width: int, heads: int, causal: bool, bias: bool):
        super().__init__()
        self.mechanism, self.heads, self.causal = mechanism, heads, causal
        self.out = nn.Linear(width, width, bias)
        if mechanism == "fastformer":
            self.query, self.key = nn.Linear(width, width, bias), nn.Linear(width, width, bias)
            self.w_q = nn.Parameter(torch.empty(heads, width // heads).uniform_(-0.1, 0.1))
            self.w_k = nn.Parameter(torch.empty(heads, width // heads).uniform_(-0.1, 0.1))
        else:
            self.qkv = nn.Linear(width, 3 * width, bias)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        if self.mechanism == "fastformer":
            query = self.query(x)
            q, k = self.split(query), self.split(self.key(x))
            u = attention.additive(q, k, q, self.w_q, self.w_k, self.causal)
            return self.out(u.transpose(1, 2).flatten(2)) + query
        q, k, v = (self.split(t) for t in self.qkv(x).chunk(3, -1))
        if self.mechanism == "softmax":
            o = attention.softmax(q, k, v, self.causal)
        elif self.mechanism == "linear":
            o = attention.linear_quadratic(q, k, v, self.causal)
        elif self.mechanism == "performer":
            o = attention.performer_quadratic(q, k, v, self.causal)
        else:
            o = attention.fastmax_quadratic(q, k, v, self.causal, int(self.mechanism[-1]))
        return self.out(o.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(
        self, mechanism: str, width: int, heads: int, hidden: int, causal: bool, bias: bool, dropout: float = 0.0
    ):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=bias), nn.LayerNorm(width, bias=bias)
        self.attention = Attention(mechanism, width, heads, causal, bias)
        self.fc1, self.fc2 = nn.Linear(width, hidden, bias), nn.Linear(hidden, width, bias)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.fc2(F.gelu(self.fc1(self.norm2(x)))))


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
        self.blocks = nn.ModuleList(
            Block(mechanism, width, heads, 4 * width, True, False, dropout) for _ in range(layers)
        )
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
        self.blocks = nn.ModuleList(Block(mechanism, width, heads, 2 * width, False, True) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        side, p = 28 // self.patch, self.patch
        patches = images.view(-1, side, p, side, p).transpose(2, 3).reshape(-1, side * side, p * p)
        x = self.embed(patches) + self.pos
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x).mean(1)), labels)


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
