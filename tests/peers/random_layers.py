"""The ops in ops/matmul, ops/layers and ops/attention: how their cases are drawn, and PyTorch's function for each."""

import typing
from collections.abc import Callable

import torch
import torch.nn.functional as F

from random_draws import BOTH, NUMBERS, REDUCTIONS, ROUNDED, SUMS, Draw, Op, along, plus, reduction, shaped, two, unary

EPS, IGNORED = [1e-5, 0.1], [-100, 0, 2]
EQUATIONS = ["ij,jk->ik", "bij,bjk->bik", "ii->i", "ij->ji", "i,ij,j->", "ij,ij->", "bij,kj->bki", "i,j", "ij->",
             "iij,j->i", "abc,cd,bd->a", "...ij,jk->...ik", "ii", "ba"]
NORMS = {"ulps": 4096, "sums": True}  # the difference of two nearly equal values is divided by their deviation


def matmul(d: Draw) -> None:
    m, k, n, batch = d.size(), d.size(), d.size(), d.shape(0, 2)
    first = d.choice([[k], [*batch, m, k], [*batch, m, k]])
    d.tensor(first)
    d.tensor(d.choice([[k], [k, n], [*d.broadcast(batch), k, n]]) if d.chance(0.97) else [k + 1, n])


def einsum(d: Draw) -> None:
    d.arguments["equation"] = d.choice(EQUATIONS)
    shaped(*d.arguments["equation"].split("->")[0].split(","))(d)


def batch_norm(d: Draw) -> None:
    shape = d.tensor(d.shape(2))
    d.tensor(shape[1:2], grad=False)
    d.tensor(shape[1:2], grad=False, change=lambda x: x.abs() + 0.1)
    d.maybe_tensor(shape[1:2])
    d.maybe_tensor(shape[1:2])


def group_norm(d: Draw) -> None:
    groups = d.choice([1, 2, 3])
    shape = d.shape(2)
    d.tensor([shape[0], groups * d.choice([1, 2]) + d.chance(0.05), *shape[2:]])
    d.maybe_tensor(d.inputs[0].shape[1:2])
    d.maybe_tensor(d.inputs[0].shape[1:2])
    d.arguments["num_groups"] = groups


def convolution(dims: int, transposed: bool = False) -> Callable[[Draw], None]:
    def draw(d: Draw) -> None:
        def options(*choices: int) -> typing.Any:
            return d.choice(choices) if dims == 1 else [d.choice(choices), d.choice(choices)]
        groups, into, out = d.choice([1, 1, 2, 3]), d.choice([1, 2, 3]), d.choice([1, 2, 3])
        kernel = [d.choice([1, 1, 2, 3]) for _ in range(dims)]
        size = [d.choice([1, 4, 5, 7, 11]) for _ in kernel]
        d.tensor([d.choice([0, 1, 2, 3]), groups * into + d.chance(0.02), *size])
        d.tensor([groups * into, out, *kernel] if transposed else [groups * out, into, *kernel])
        d.maybe_tensor([groups * out])
        d.arguments |= {"stride": options(1, 1, 2, 3), "padding": options(0, 0, 1, 2), "dilation": options(1, 1, 2),
                        "groups": groups}
        if transposed:
            d.arguments["output_padding"] = options(0, 0, 0, 1)
        elif d.chance(0.15):
            d.arguments |= {"stride": options(1), "padding": d.choice(["same", "valid"])}
        elif dims == 1:
            d.arguments["padding"] = [d.arguments["padding"]]
    return draw


def pooling(dims: int, largest: bool) -> Callable[[Draw], None]:
    def draw(d: Draw) -> None:
        def options(*choices: int) -> typing.Any:
            return d.choice(choices) if dims == 1 else [d.choice(choices), d.choice(choices)]
        d.tensor([d.choice([0, 1, 2]), d.choice([1, 2, 3]), *(d.choice([1, 3, 4, 5, 8, 11]) for _ in range(dims))])
        d.arguments |= {"kernel_size": options(1, 2, 2, 3), "stride": options(1, 2, 3), "padding": options(0, 0, 1),
                        "dilation": options(1, 1, 2) if largest else options(1)}
    return draw


def recurrent(gates: int) -> Callable[[Draw], None]:
    def draw(d: Draw) -> None:
        steps, batch, into, width = (d.choice([1, 2, 3, 5]) for _ in range(4))
        d.tensor([steps, batch, into])
        for _ in range(gates - 2):
            d.maybe_tensor([batch, width])
        d.tensor([gates * width, into])
        d.tensor([gates * width, width + d.chance(0.02)])
        d.maybe_tensor([gates * width])
        d.maybe_tensor([gates * width])
        d.arguments["reverse"] = d.chance(0.5)
    return draw


def short_conv(d: Draw) -> None:
    batch, tokens, channels = d.tensor(d.shape(3, 3))
    d.tensor([channels, d.choice([1, 2, 3, 4])])
    d.inputs.append(None) if d.chance(0.5) else d.tensor([batch, tokens], torch.bool)


def attention(d: Draw) -> None:
    shaped("bhnd", "bhmd", "bhmd")(d)
    shape = d.inputs[1].shape
    d.inputs.append(None) if d.chance(0.5) else d.tensor([shape[0], shape[2]], torch.bool)


def classes(d: Draw) -> None:
    shape = d.tensor(d.shape(1))
    d.indices(shape[:-1], shape[-1])


def nll_loss(d: Draw) -> None:
    classes(d)
    d.inputs.append(None) if d.chance(0.5) else d.tensor(d.inputs[0].shape[-1:], grad=False, change=torch.abs)


def kl_div(d: Draw) -> None:
    shape = d.tensor(d.shape())
    d.arguments["log_target"] = d.chance(0.5)
    d.tensor(shape, change=lambda x: x if d.arguments["log_target"] else x.relu())


def gaussian_nll_loss(d: Draw) -> None:
    shaped("...", "...")(d)
    shape = d.inputs[0].shape
    d.tensor(d.choice([shape, [*shape[:-1], 1], shape[:-1]]) if shape else [],
             change=lambda x: x if d.chance(0.05) else x.abs())


def cosine_similarity(d: Draw) -> None:
    two(d)
    d.arguments |= {"dim": d.dim(max(len(x.shape) for x in d.inputs)), "eps": d.choice([1e-8, 0.5])}


def signs(rows: bool) -> Callable[[Draw], None]:
    """Inputs with targets of 1 and -1: for each row of two inputs, or for each element of one."""
    def draw(d: Draw) -> None:
        shape = d.tensor(d.shape(1, 2))
        if rows:
            shape = d.tensor(shape)[:-1]
        d.tensor(shape, d.choice([d.dtype, torch.int64]), grad=False, change=lambda x: (x > 0) * 2 - 1)
    return draw


def binary_cross_entropy(of_logits: bool) -> Callable[[Draw], None]:
    def draw(d: Draw) -> None:
        shape = d.tensor(d.shape(), change=torch.clone if of_logits else torch.sigmoid)
        d.tensor(shape, change=torch.sigmoid)
        for _ in range(2 if of_logits else 1):  # weight and pos_weight
            d.inputs.append(None) if d.chance(0.4) else d.tensor(d.broadcast(shape), grad=False)
    return draw


def rows(loss: Callable) -> Callable:
    """A loss whose classes are the last dim in linnet."""
    def call(x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None = None, **rest) -> torch.Tensor:
        if target.shape != x.shape[:-1]:
            raise ValueError("targets of another shape")
        y = loss(x.reshape(target.numel(), x.shape[-1]), target.reshape(-1).long(), weight, **rest)
        return y.reshape(target.shape) if rest["reduction"] == "none" else y
    return call


def batch_normed(x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor, weight=None, bias=None, **rest) -> list:
    mean, var = mean.clone(), var.clone()
    return [F.batch_norm(x, mean, var, weight, bias, **rest), mean, var]


def recurrent_layer(kernel: Callable, states: int) -> Callable:
    def call(x: torch.Tensor, *rest: torch.Tensor | None, reverse: bool) -> list[torch.Tensor]:
        initial, (into, across, *biases) = rest[:states], rest[states:]
        initial = [x.new_zeros(x.shape[1], across.shape[1]) if h is None else h for h in initial]
        parameters = [into, across, *(into.new_zeros(into.shape[0]) if b is None else b for b in biases)]
        hx = [h.unsqueeze(0) for h in initial]
        out, *last = kernel(x.flip(0) if reverse else x, hx if states == 2 else hx[0], parameters, True, 1, 0.0, False,
                            False, False)
        return [out.flip(0) if reverse else out, *(h.squeeze(0) for h in last)]
    return call


def short_convolution(x: torch.Tensor, weight: torch.Tensor, mask: torch.Tensor | None, causal: bool) -> torch.Tensor:
    kept = x if mask is None else torch.where(mask[..., None], x, 0)
    width = weight.shape[1]
    before = width - 1 if causal else (width - 1) // 2
    padded = F.pad(kept, (0, 0, before, width - 1 - before))
    return x + sum(padded[:, t:t + x.shape[1]] * weight[:, t] for t in range(width))


def cosine_embedding(x: torch.Tensor, y: torch.Tensor, target: torch.Tensor, margin: float, reduction: str):
    cosine = F.cosine_similarity(x, y, dim=-1)
    return reduced(torch.where(target == 1, 1 - cosine, (cosine - margin).clamp(min=0)), reduction)


def reduced(loss: torch.Tensor, reduction: str) -> torch.Tensor:
    return {"none": lambda x: x, "mean": torch.mean, "sum": torch.sum}[reduction](loss)


def attention_of(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, is_causal: bool):
    seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
    seen = seen.tril(k.shape[2] - q.shape[2]) if is_causal else seen
    return F.scaled_dot_product_attention(q, k, v, seen if mask is None else seen & mask[:, None, None, :])


LAYER_OPS = {
    "activations and softmax": {
        "tanh": Op(torch.tanh, unary, **ROUNDED),
        "sigmoid": Op(torch.sigmoid, unary, **ROUNDED),
        "relu": Op(torch.relu, unary),
        "leaky_relu": Op(F.leaky_relu, plus(unary, negative_slope=[0.01, 0.3, 0, -0.5])),
        "elu": Op(F.elu, plus(unary, alpha=[1, 0.5, 2]), **ROUNDED),
        "hardtanh": Op(F.hardtanh, plus(unary, min_val=[-1, -0.5], max_val=[1, 0.5, -0.7])),
        "gelu": Op(F.gelu, plus(unary, approximate=["none", "tanh"]), **SUMS),
        "silu": Op(F.silu, unary, **ROUNDED),
        "softplus": Op(lambda x, beta: torch.logaddexp(x * beta, torch.zeros_like(x)) / beta,
                       plus(unary, beta=[1, 0.5, 3]), **ROUNDED),
        "logsigmoid": Op(F.logsigmoid, unary, **ROUNDED),
        "glu": Op(F.glu, along, **SUMS),
        "softmax": Op(torch.softmax, along, **SUMS),
        "log_softmax": Op(torch.log_softmax, along, **SUMS),
    },
    "matrix products": {
        "matmul": Op(torch.matmul, matmul, **SUMS),
        "linear": Op(F.linear, shaped("...i", "oi", "o?"), **SUMS),
        "einsum": Op(lambda *tensors, equation: torch.einsum(equation, *tensors), einsum, **SUMS),
        "outer": Op(torch.outer, shaped("i", "j"), NUMBERS),
    },
    "layers": {
        "layer_norm": Op(lambda x, w, b, eps: F.layer_norm(x, x.shape[-1:], w, b, eps),
                         plus(shaped("...i", "i?", "i?"), eps=EPS), **NORMS),
        "rms_norm": Op(lambda x, w, eps: F.rms_norm(x, x.shape[-1:], w, eps), plus(shaped("...i", "i?"), eps=EPS),
                       **NORMS),
        "batch_norm": Op(batch_normed, plus(batch_norm, training=BOTH, momentum=[0.1, 0.7], eps=EPS), **NORMS),
        "group_norm": Op(lambda x, w, b, num_groups, eps: F.group_norm(x, num_groups, w, b, eps),
                         plus(group_norm, eps=EPS), **NORMS),
        "conv1d": Op(F.conv1d, convolution(1), **SUMS),
        "conv2d": Op(F.conv2d, convolution(2), **SUMS),
        "conv_transpose2d": Op(F.conv_transpose2d, convolution(2, transposed=True), **SUMS),
        "max_pool1d": Op(F.max_pool1d, pooling(1, True)),
        "max_pool2d": Op(F.max_pool2d, pooling(2, True)),
        "avg_pool1d": Op(lambda x, dilation, **rest: F.avg_pool1d(x, **rest), pooling(1, False), **SUMS),
        "avg_pool2d": Op(lambda x, dilation, **rest: F.avg_pool2d(x, **rest), pooling(2, False), **SUMS),
        "gru": Op(recurrent_layer(torch.gru, 1), recurrent(3), **SUMS),
        "lstm": Op(recurrent_layer(torch.lstm, 2), recurrent(4), **SUMS),
        "short_conv": Op(short_convolution, plus(short_conv, causal=BOTH), **SUMS),
        "softmax_attention": Op(attention_of, plus(attention, is_causal=BOTH), **SUMS),
    },
    "losses": {
        "cross_entropy": Op(rows(F.cross_entropy),
                            plus(classes, ignore_index=IGNORED, label_smoothing=[0, 0, 0.1, 1], reduction=REDUCTIONS),
                            **SUMS),
        "nll_loss": Op(rows(F.nll_loss), plus(nll_loss, ignore_index=IGNORED, reduction=REDUCTIONS), **SUMS),
        "mse_loss": Op(F.mse_loss, plus(shaped("...", "..."), reduction=REDUCTIONS), **SUMS),
        "l1_loss": Op(F.l1_loss, plus(shaped("...", "..."), reduction=REDUCTIONS), **SUMS),
        "huber_loss": Op(F.huber_loss, plus(shaped("...", "..."), delta=[1, 0.5, 3], reduction=REDUCTIONS), **SUMS),
        "smooth_l1_loss": Op(F.smooth_l1_loss, plus(shaped("...", "..."), beta=[1, 0.5, 0], reduction=REDUCTIONS),
                             **SUMS),
        "kl_div": Op(F.kl_div, plus(kl_div, reduction=[*REDUCTIONS, "batchmean"]), **SUMS),
        "gaussian_nll_loss": Op(F.gaussian_nll_loss,
                                plus(gaussian_nll_loss, full=BOTH, eps=[1e-6, 0.3], reduction=REDUCTIONS), **SUMS),
        "cosine_similarity": Op(F.cosine_similarity, cosine_similarity, **SUMS),
        "cosine_embedding_loss": Op(cosine_embedding,
                                    plus(signs(rows=True), margin=[0, 0.3], reduction=REDUCTIONS), **SUMS),
        "hinge_embedding_loss": Op(F.hinge_embedding_loss,
                                   plus(signs(rows=False), margin=[1, 0.3], reduction=REDUCTIONS), **SUMS),
        "binary_cross_entropy_with_logits": Op(
            lambda x, target, weight, pos_weight, reduction: F.binary_cross_entropy_with_logits(
                x, target, weight, pos_weight=pos_weight, reduction=reduction),
            plus(binary_cross_entropy(of_logits=True), reduction=REDUCTIONS), **SUMS),
        "binary_cross_entropy": Op(F.binary_cross_entropy,
                                   plus(binary_cross_entropy(of_logits=False), reduction=REDUCTIONS), **SUMS),
        "accuracy": Op(lambda x, target: (x.argmax(-1) == target).double().mean(), classes, **ROUNDED),
    },
}  # fmt: skip
