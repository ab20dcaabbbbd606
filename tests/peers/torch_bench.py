"""Times the same work as `bench`, in plain PyTorch. Prints a JSON object on one line.

    python torch_bench.py attention --mechanism fastmax2 --formulation factorised --tokens 1024 [--causal]
    python torch_bench.py layer --layer fastformer --tokens 32768 --width 256 --heads 16 [--causal]
    python torch_bench.py model --model lenet|residual|gru|lstm|batch_norm
    python torch_bench.py step --preset nanogpt-cpu|nanogpt-gpu|mnist-small|large --attention softmax
    python torch_bench.py step --preset lra-listops|lra-text-nystrom|… --attention softmax [--batch 4]

The options --compile, --threads, --seconds, --device and --precision come first. Without --threads PyTorch chooses the
number. PyTorch 1.13 runs `attention --mechanism softmax --formulation formula`; the rest needs PyTorch 2.
"""

import argparse
import functools
import json
import pathlib
import re
import resource
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

import attention
import models
from mechanisms import LAYERS, Options, attention_layer


def synchronise() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def median_ms(work: Callable[[], object], seconds: float) -> float:
    for _ in range(3):  # compiles, too
        work()
    synchronise()
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        work()
        synchronise()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def times(run: Callable[[], torch.Tensor], leaves: list[torch.Tensor], seconds: float) -> dict:
    cotangent = torch.randn_like(run())

    def forward() -> None:
        with torch.no_grad():
            run()

    def forward_backward() -> None:
        for leaf in leaves:
            leaf.grad = None
        run().backward(cotangent)

    return {"forward_ms": median_ms(forward, seconds), "forward_backward_ms": median_ms(forward_backward, seconds)}


def of_one_form(a: argparse.Namespace) -> tuple[dict[str, Callable], list[torch.Tensor]]:
    """The mechanisms with only one form, with linnet's default options, and the tensors that get gradients besides q, k
    and v. Each call draws new rotations and samples, as in linnet.
    """
    if a.causal and a.mechanism in ("linformer", "bigbird", "informer"):
        raise SystemExit(f"--causal: {a.mechanism} has no causal form")
    if a.mechanism == "linformer":
        e, f = ((a.tokens**-0.5 * torch.randn(64, a.tokens)).requires_grad_() for _ in range(2))
        return {"projected": lambda q, k, v: attention.linformer(q, k, v, e, f)}, [e, f]
    if a.mechanism == "longformer":
        return {"blocked": lambda q, k, v: attention.longformer(q, k, v, a.causal)}, []
    if a.mechanism == "bigbird":
        others = attention.random_blocks(a.heads, a.tokens // 16, 1)
        return {"blocked": lambda q, k, v: attention.bigbird(q, k, v, others)}, []
    if a.mechanism == "poolingformer":
        w = torch.zeros(5, a.head_dim)
        return {"blocked": lambda q, k, v: attention.poolingformer(q, k, v, w, w, a.causal)}, []
    if a.mechanism == "reformer":
        rotations = functools.partial(attention.random_rotations, a.tokens, a.heads, a.head_dim)
        return {"chunked": lambda q, k, v: attention.reformer(q, v, rotations(), a.causal)}, []
    if a.mechanism == "informer":
        return {"sampled": lambda q, k, v: attention.informer(q, k, v, attention.sampled_keys(a.tokens))}, []
    raise SystemExit(f"--mechanism {a.mechanism}: it has no peer here")


def bench_attention(a: argparse.Namespace) -> dict:
    shape = (a.batch, a.tokens, a.heads, a.head_dim)
    dtype = torch.bfloat16 if a.precision == "bfloat16" else torch.float32
    maps = [torch.randn(shape, dtype=dtype, requires_grad=True) for _ in range(3)]
    learned: list[torch.Tensor] = []
    if a.mechanism == "softmax":
        functions = {
            "sdpa": lambda q, k, v: attention.softmax(q, k, v, a.causal),
            "formula": lambda q, k, v: attention.softmax_formula(q, k, v, a.causal),
        }
    elif a.mechanism == "linear":
        functions = {
            "factorised": lambda q, k, v: attention.linear_factorised(q, k, v, a.causal),
            "quadratic": lambda q, k, v: attention.linear_quadratic(q, k, v, a.causal),
        }
    elif a.mechanism == "performer":
        omega = attention.projection(a.head_dim).to(dtype)
        functions = {
            "factorised": lambda q, k, v: attention.performer_factorised(q, k, v, omega, a.causal),
            "quadratic": lambda q, k, v: attention.performer_quadratic(q, k, v, omega, a.causal),
        }
    elif a.mechanism.startswith("fastmax"):
        order = int(a.mechanism[-1])
        functions = {
            "quadratic": lambda q, k, v: attention.fastmax_quadratic(q, k, v, a.causal, order),
            "factorised": lambda q, k, v: attention.fastmax_factorised(q, k, v, a.causal, order),
        }
    else:
        functions, learned = of_one_form(a)
    formulation = a.formulation or next(iter(functions))
    if formulation not in functions:
        raise SystemExit(f"--formulation {formulation}: {a.mechanism} has {' and '.join(functions)}")
    function = functions[formulation]
    if a.compile:
        function = torch.compile(function, mode=a.mode)
    return times(lambda: function(*(x.transpose(1, 2) for x in maps)), maps + learned, a.seconds)


def bench_layer(a: argparse.Namespace) -> dict:
    layer = attention_layer(Options(a.layer, a.width, a.heads, a.causal, tokens=a.tokens, max_tokens=a.tokens))
    function = torch.compile(layer, mode=a.mode) if a.compile else layer
    x = torch.randn(a.batch, a.tokens, a.width, requires_grad=True)
    return times(lambda: function(x), [x, *layer.parameters()], a.seconds)


def bench_model(a: argparse.Namespace) -> dict:
    if a.model == "batch_norm":
        norm = nn.BatchNorm2d(64)
        x = torch.randn(32, 64, 32, 32, requires_grad=True)
        function = torch.compile(norm, mode=a.mode) if a.compile else norm
        both = times(lambda: function(x), [x, *norm.parameters()], a.seconds)
        return {"ms_per_step": both["forward_backward_ms"], "resident_bytes": resident_bytes()}
    model, shape = {
        "lenet": (models.lenet, (64, 1, 28, 28)),
        "residual": (models.residual, (32, 64, 32, 32)),
        "gru": (lambda: models.Reader(nn.GRU), (32, 128, 256)),
        "lstm": (lambda: models.Reader(nn.LSTM), (32, 128, 256)),
    }[a.model]
    x, y = torch.randn(shape), torch.randint(10, shape[:1])
    return training_step(a, model(), lambda function: F.cross_entropy(function(x), y))


# The Long Range Arena's tasks: ids, classes, tokens, tokens with padding, batches of Skyformer and of Nyströmformer.
ARENA = {
    "listops": (16, 10, 1999, 2048, 32, 32),
    "text": (257, 2, 4000, 4096, 16, 32),
    "retrieval": (257, 2, 4000, 4096, 16, 32),
    "image": (257, 10, 1024, 1024, 256, 256),
    "pathfinder": (257, 2, 1024, 1024, 128, 256),
}
ARENA_PRESETS = [f"lra-{task}{ending}" for task in ARENA for ending in ("", "-nystrom")] + ["lra-listops-small"]
ARENA_SIZES = {
    "linformer_rank": 128, "performer_features": 128, "informer_queries": 128, "hashes": 2, "block": 64,
    "random_blocks": 3,
}  # fmt: skip


def bench_arena(a: argparse.Namespace) -> dict:
    """Random ids, all sequences as long as the longest of the task. --batch replaces the preset's batch."""
    _, task, *ending = a.preset.split("-")
    vocabulary, classes, tokens, max_tokens, size, nystrom_size = ARENA[task]
    sizes, clip = ARENA_SIZES, by_value
    if ending:  # neither Nyströmformer nor linnet's small preset clips
        size, clip = nystrom_size, None
        sizes = sizes | {"linformer_rank": 256, "performer_features": 256}
    if ending == ["small"]:
        tokens, max_tokens, sizes = 256, 256, {}
    size = size if a.batch is None else a.batch
    options = Options(a.attention, 64, 2, dropout=0.1, tokens=tokens, max_tokens=max_tokens, sizes=sizes)
    pairs = task == "retrieval"
    model = models.SequenceClassifier(options, vocabulary, classes, pairs)
    ids = torch.randint(1, vocabulary, ((2,) if pairs else ()) + (size, tokens))
    labels = torch.randint(classes, (size,))
    optimizer = {"weight_decay": 0.0, "betas": (0.9, 0.999), "eps": 1e-6}
    return training_step(a, model, lambda function: function(ids, labels), clip, **optimizer)


def bench_step(a: argparse.Namespace) -> dict:
    if a.preset in ARENA_PRESETS:
        return bench_arena(a)
    if a.preset == "mnist-small":
        model = models.PatchClassifier(a.attention)
        batch = (torch.rand(128, 784), torch.randint(10, (128,)))
        clip, options = None, {"weight_decay": 0.01}
    else:
        layers, heads, width, context, size, dropout = {
            "nanogpt-cpu": (4, 4, 128, 64, 12, 0.0),
            "nanogpt-gpu": (6, 6, 384, 256, 64, 0.2),
            "large": (12, 12, 768, 256, 4, 0.0),
        }[a.preset]
        model = models.TextModel(a.attention, layers, heads, width, context, dropout)
        text = torch.randint(65, (size, context + 1))
        batch = (text[:, :-1].contiguous(), text[:, 1:].contiguous())
        clip, options = by_norm, {"weight_decay": 0.1, "betas": (0.9, 0.99)}
    return training_step(a, model, lambda function: function(*batch), clip, **options)


def by_norm(model: nn.Module) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def by_value(model: nn.Module) -> None:
    nn.utils.clip_grad_value_(model.parameters(), 1.0)


def training_step(
    a: argparse.Namespace,
    model: nn.Module,
    loss_of: Callable,
    clip: Callable[[nn.Module], None] | None = None,
    **options,
) -> dict:
    """Times a training step. `loss_of` gives the loss of the model or of its compiled form."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True, **options)
    function = torch.compile(model, mode=a.mode) if a.compile else model

    def step() -> None:
        with torch.autocast(a.device, torch.bfloat16, enabled=a.precision == "bfloat16"):
            loss = loss_of(function)
        loss.backward()
        if clip:
            clip(model)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()

    return {
        "ms_per_step": median_ms(step, 5 * a.seconds),
        "resident_bytes": resident_bytes(),
    }


def resident_bytes() -> int:
    """The peak memory of this process; with --compile it includes the compiler."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def limit_memory() -> None:
    """Makes allocations beyond the free memory fail, before the system kills this process or another."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    free = 1024 * int(re.search(r"MemAvailable: *(\d+)", pathlib.Path("/proc/meminfo").read_text())[1])
    resource.setrlimit(resource.RLIMIT_DATA, (free if most == resource.RLIM_INFINITY else min(free, most), most))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--mode", choices=["reduce-overhead", "max-autotune"], help="of torch.compile")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument(
        "--precision",
        default="float32",
        choices=["float32", "tf32", "bfloat16"],
        help="of products, as linnet's; bfloat16 of attention's tensors too, and of a step by autocast",
    )
    kinds = parser.add_subparsers(required=True)
    case = kinds.add_parser("attention")
    case.set_defaults(run=bench_attention)
    case.add_argument("--mechanism", default="softmax")
    case.add_argument("--formulation", help="sdpa or formula of softmax, quadratic or factorised of some others")
    case.add_argument("--head-dim", type=int, default=32)
    layer = kinds.add_parser("layer")
    layer.set_defaults(run=bench_layer)
    layer.add_argument("--layer", default="softmax", choices=LAYERS)
    layer.add_argument("--width", type=int, default=256)
    for shaped, heads, tokens in ((case, 4, 1024), (layer, 16, 32768)):
        shaped.add_argument("--causal", action="store_true")
        shaped.add_argument("--batch", type=int, default=1)
        shaped.add_argument("--heads", type=int, default=heads)
        shaped.add_argument("--tokens", type=int, default=tokens)
    model = kinds.add_parser("model")
    model.set_defaults(run=bench_model)
    model.add_argument("--model", default="lenet", choices=["lenet", "residual", "gru", "lstm", "batch_norm"])
    step = kinds.add_parser("step")
    step.set_defaults(run=bench_step)
    step.add_argument("--preset", default="nanogpt-cpu",
                      choices=["nanogpt-cpu", "nanogpt-gpu", "mnist-small", "large", *ARENA_PRESETS])  # fmt: skip
    step.add_argument("--attention", default="softmax", choices=LAYERS)
    step.add_argument("--batch", type=int, help="only with a preset lra-…")
    arguments = parser.parse_args()
    if arguments.run == bench_step and arguments.batch is not None and arguments.preset not in ARENA_PRESETS:
        parser.error(f"--batch needs a preset of the Long Range Arena, not {arguments.preset}")
    if arguments.device == "cpu":
        limit_memory()
    torch.set_default_device(arguments.device)
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high" if arguments.precision == "tf32" else "highest")
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    try:
        print(json.dumps(arguments.run(arguments)))
    except (RuntimeError, MemoryError) as error:
        if not re.search(r"allocate memory|bad_alloc|out of memory|^$", str(error)):
            raise
        raise SystemExit("it does not fit into the free memory") from error


if __name__ == "__main__":
    main()
