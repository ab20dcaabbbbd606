#!/usr/bin/env python3
"""Times linnet's beam search and plain PyTorch loops over the same model, and compares their results.

    tests/peers/beam_search.py [--threads N] [--rounds N] [--python PYTHON]

Needs PyTorch, safetensors and a release build with tests, for bin/linnet_beam_search. There are 16 sources of 256
tokens, 4 beams and up to 64 tokens; the model has 4 + 4 layers, width 256, 16 heads and a vocabulary of 8,000. The loop
`plain` evaluates the decoder on all tokens so far, as torch.nn.TransformerDecoder must; `cached` caches keys and values
and reorders them. Fails if a score differs by more than 1e-3, or if a text differs.
"""

import argparse
import json
import pathlib
import sys
import tempfile
import time

import measure

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADS, LAYERS, BEAMS, MOST, PENALTY = 16, 4, 4, 64, 0.6
PADDING, BEGIN, END = 0, 1, 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--loop", nargs=2, metavar=("VARIANT", "FILE"), help="time one loop, for this program itself")
    arguments = parser.parse_args()
    if arguments.loop:
        return time_loop(*arguments.loop, arguments.threads)
    with tempfile.TemporaryDirectory() as temporary:
        file = str(pathlib.Path(temporary) / "beam.safetensors")
        linnet = [str(ROOT / "build/bin/linnet_beam_search"), file, str(arguments.threads)]
        measure.run(linnet)  # writes the file
        loop = [arguments.python, __file__, "--threads", str(arguments.threads), "--loop"]
        commands = {"linnet": linnet, "plain": [*loop, "plain", file], "cached": [*loop, "cached", file]}
        results, _ = measure.in_alternation(commands, arguments.rounds)
    ours = measure.median(results["linnet"], "ms")
    print(f"beam search, {arguments.threads} threads, {measure.processor()}")
    for side, found in results.items():
        print(f"{side:8} {measure.show(found, 'ms')} ms: {measure.median(found, 'ms') / ours:.1f} times linnet's")


def time_loop(variant: str, file: str, threads: int) -> None:
    import torch
    from safetensors.torch import load_file

    torch.set_num_threads(threads)
    stored = load_file(file)
    with torch.inference_mode():
        begin = time.perf_counter()
        found = search(Writer(stored, cached=variant == "cached"), stored["sources"])
        milliseconds = 1e3 * (time.perf_counter() - begin)
    for i, (ids, score) in enumerate(found):
        assert ids == stored[f"found.{i}"].tolist(), f"source {i}: another text"
        assert abs(score - stored["scores"][i].item()) < 1e-3, f"source {i}: another score"
    print(json.dumps({"ms": milliseconds}))


class Writer:
    """The model, from linnet's weights."""

    def __init__(self, weights: dict, cached: bool):
        self.weights, self.cached = weights, cached

    def linear(self, name: str, x, rows: slice = slice(None)):
        from torch.nn import functional as F

        return F.linear(x, self.weights[f"{name}.weight"][rows], self.weights[f"{name}.bias"][rows])

    def norm(self, name: str, x):
        from torch.nn import functional as F

        return F.layer_norm(x, x.shape[-1:], self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def heads(self, x):
        return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)

    def attend(self, name: str, q, k, v, causal: bool = False):
        from torch.nn import functional as F

        o = F.scaled_dot_product_attention(self.heads(q), self.heads(k), self.heads(v), is_causal=causal)
        return self.linear(f"{name}.out", o.transpose(1, 2).flatten(2))

    def feed_forward(self, name: str, x):
        from torch.nn import functional as F

        return self.linear(f"{name}.fc2", F.gelu(self.linear(f"{name}.fc1", x)))

    def encode(self, sources):
        x = self.weights["tok.weight"][sources] + self.weights["source_pos.weight"][: sources.shape[1]]
        for i in range(LAYERS):
            name = f"encoder.{i}"
            x = x + self.attend(f"{name}.attention", *self.qkv(f"{name}.attention", self.norm(f"{name}.norm1", x)))
            x = x + self.feed_forward(f"{name}.mlp", self.norm(f"{name}.norm2", x))
        return self.norm("encoder_norm", x)

    def qkv(self, name: str, x):
        return self.linear(f"{name}.qkv", x).chunk(3, -1)

    def memory_of(self, sources, beams: int):
        """The encoder's tokens for each beam, or with a cache the keys and values of each layer."""
        memory = self.encode(sources)
        width = memory.shape[-1]
        if not self.cached:
            return memory.repeat_interleave(beams, 0)
        pairs = (self.linear(f"decoder.{i}.cross.qkv", memory, slice(width, None)).chunk(2, -1) for i in range(LAYERS))
        return [[part.repeat_interleave(beams, 0) for part in pair] for pair in pairs]

    def step(self, texts, memory, past: list):
        """Log-probabilities of the token after the texts [R, T]. `past` holds each layer's keys and values."""
        import torch

        first = texts.shape[1] - 1 if self.cached else 0
        x = self.weights["tok.weight"][texts[:, first:]] + self.weights["target_pos.weight"][first : texts.shape[1]]
        width = x.shape[-1]
        for i in range(LAYERS):
            name = f"decoder.{i}"
            q, k, v = self.qkv(f"{name}.attention", self.norm(f"{name}.norm1", x))
            if self.cached:
                if past[i]:
                    k, v = torch.cat([past[i][0], k], 1), torch.cat([past[i][1], v], 1)
                past[i] = [k, v]
            x = x + self.attend(f"{name}.attention", q, k, v, causal=not self.cached)
            y = self.norm(f"{name}.norm2", x)
            q = self.linear(f"{name}.cross.qkv", y, slice(0, width))
            k, v = memory[i] if self.cached else self.linear(f"{name}.cross.qkv", memory, slice(width, None)).chunk(2, -1)
            x = x + self.attend(f"{name}.cross", q, k, v)
            x = x + self.feed_forward(f"{name}.mlp", self.norm(f"{name}.norm3", x))
        return torch.log_softmax(self.norm("decoder_norm", x[:, -1]) @ self.weights["tok.weight"].T, -1)


def search(model: Writer, sources) -> list[tuple[list[int], float]]:
    """The rules of linnet's nn::beam_search, as a loop over steps, sources and candidates."""
    import torch

    count = len(sources)
    memory = model.memory_of(sources, BEAMS)
    texts = torch.full((count * BEAMS, 1), BEGIN)
    sums = torch.full((count, BEAMS), -torch.inf)
    sums[:, 0] = 0
    past: list = [None] * LAYERS
    closed: list[list] = [[] for _ in range(count)]
    finished = [False] * count
    for length in range(1, MOST + 1):
        log_probs = model.step(texts, memory, past)
        log_probs[:, [PADDING, BEGIN]] = -torch.inf
        for row, text in enumerate(texts[:, 1:].tolist()):
            for i in range(len(text) - 2):
                if text[i : i + 2] == text[-2:]:
                    log_probs[row, text[i + 2]] = -torch.inf
        vocabulary = log_probs.shape[1]
        best = (sums.reshape(-1, 1) + log_probs).reshape(count, -1).topk(2 * BEAMS, -1)
        rows, ids = torch.zeros(count * BEAMS, dtype=torch.int64), torch.zeros(count * BEAMS, dtype=torch.int64)
        for source in range(count):
            if finished[source]:
                continue
            taken = 0
            for place in range(2 * BEAMS):
                total, choice = best.values[source, place].item(), best.indices[source, place].item()
                row, token = source * BEAMS + choice // vocabulary, choice % vocabulary
                if token == END:
                    if place < BEAMS:
                        closed[source].append((texts[row, 1:].tolist(), total / ((5 + length) / 6) ** PENALTY))
                elif taken < BEAMS:
                    rows[source * BEAMS + taken], ids[source * BEAMS + taken] = row, token
                    sums[source, taken] = total
                    taken += 1
            closed[source].sort(key=lambda hypothesis: -hypothesis[1])
            reach = sums[source, 0].item() / ((5 + MOST) / 6) ** PENALTY
            finished[source] = len(closed[source]) >= BEAMS and reach <= closed[source][BEAMS - 1][1]
        texts = torch.cat([texts[rows], ids[:, None]], 1)
        if model.cached:
            past = [[part[rows] for part in pair] for pair in past]
        if all(finished):
            break
    for source in range(count):
        if not finished[source]:
            score = [total / ((5 + MOST) / 6) ** PENALTY for total in sums[source].tolist()]
            beams = texts[source * BEAMS : (source + 1) * BEAMS, 1:].tolist()
            closed[source].extend(zip(beams, score))
            closed[source].sort(key=lambda hypothesis: -hypothesis[1])
    return [hypotheses[0] for hypotheses in closed]


if __name__ == "__main__":
    main()
