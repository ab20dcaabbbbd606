#!/usr/bin/env python3
"""Computes the cost of sums of gradients over a network, without measuring: how long they take for a model, and how
much of it backward does not hide. Prints a Markdown table. To use your own figures:

    python tests/peers/ranks_model.py
    python tests/peers/ranks_model.py --network 'mine: 2.5 us, 11 GB/s' --step-ms 400 --ranks 16

A message takes the latency, plus its bytes divided by the bandwidth of one direction while the other is as busy. Sums
are those of nn::DataParallel: buckets of gradients, each by recursive halving and doubling, with 2 log2(R) messages and
2 (R - 1) / R of its bytes. A bucket's next message is sent when backward reaches the next parameter, as in the library,
or after backward. The network moves messages by itself, one after the other, and no rank is late. The time to add
received gradients is counted only after backward; during backward it is ordinary work of the rank.
"""

import argparse
import math
import re

# Latency in microseconds, GB/s in each direction while both are busy. README.md lists the sources.
NETWORKS = {
    "TCP on EC2, 10 Gb/s a connection": (30.3, 0.59),
    "25 Gb/s Ethernet, TCP": (30.3, 2.9),
    "40 Gb/s Ethernet, usNIC": (1.93, 4.65),
    "EFA on EC2, 100 Gb/s Ethernet": (16.1, 3.8),
    "InfiniBand of Pleiades": (2.6, 4.9),
    "InfiniBand HDR, 200 Gb/s": (1.2, 24.0),
    "InfiniBand NDR, 400 Gb/s": (2.0, 50.0),
}
SUM_RATE = 12.7  # GB/s at which a rank adds received gradients; measured on one core of a Zen 4
BACKWARD = 2 / 3  # backward's share of a step


def parameters(layers: int, width: int, context: int, vocabulary: int) -> list[int]:
    """The sizes of a DecoderLM's parameters, in the order in which backward reaches them."""
    norm = [width, width]
    attention = [width, width * width, 3 * width, 3 * width * width]
    perceptron = [width, 4 * width * width, 4 * width, 4 * width * width]
    return norm + layers * (perceptron + norm + attention + norm) + [context * width, vocabulary * width]


def buckets(sizes: list[int], most: int) -> list[list[int]]:
    """The parameters of each bucket, by their index, as DataParallel divides them."""
    result, count = [], math.inf
    for i, size in enumerate(sizes):
        if 4 * (count + size) > most:
            result.append([])
            count = 0
        result[-1].append(i)
        count += size
    return result


def messages(size: float, ranks: int) -> list[float]:
    """The bytes of each message that a rank sends for the sum of `size` bytes."""
    halving = [size / 2 ** (level + 1) for level in range(int(math.log2(ranks)))]
    return halving + halving[::-1]


def sum_seconds(size: float, ranks: int, latency: float, bandwidth: float) -> float:
    sent = messages(size, ranks)
    return len(sent) * latency + sum(sent) / bandwidth + sum(sent) / 2 / (1e9 * SUM_RATE)


class Sum:
    """The running sum of a bucket."""

    def __init__(self, size: float, ranks: int):
        self.left = messages(size, ranks)
        self.halving = len(self.left) // 2
        self.arrives = None  # when the current message arrives
        self.bytes = 0.0

    def advance(self, now: float, network: "Network") -> float:
        """Sends the next message if the last one has arrived; returns the time afterwards."""
        if self.arrives is not None and self.arrives <= now:
            self.arrives = None
            if self.halving > 0:
                now += self.bytes / (1e9 * SUM_RATE)
                self.halving -= 1
        if self.arrives is None and self.left:
            self.bytes = self.left.pop(0)
            self.arrives = network.send(now, self.bytes)
        return now


class Network:
    def __init__(self, latency: float, bandwidth: float):
        self.latency, self.bandwidth, self.free = latency, bandwidth, 0.0

    def send(self, now: float, size: float) -> float:
        self.free = max(self.free, now) + size / self.bandwidth
        return self.free + self.latency


def not_hidden(sizes: list[int], most: int, ranks: int, network: Network, backward: float) -> float:
    """The seconds from the end of backward to that of the last sum."""
    under_way: list[Sum] = []
    waiting = buckets(sizes, most)
    now, done, total = 0.0, 0, sum(sizes)
    for i, size in enumerate(sizes):
        now += backward * size / total
        for one in under_way:
            now = one.advance(now, network)
        if i == waiting[len(under_way)][-1]:
            under_way.append(Sum(4.0 * sum(sizes[j] for j in waiting[len(under_way)]), ranks))
            now = under_way[-1].advance(now, network)
    end = now
    for one in under_way:
        while one.arrives is not None:
            now = one.advance(max(now, one.arrives), network)
    return now - end


def network_of(text: str) -> tuple[str, tuple[float, float]]:
    match = re.fullmatch(r"(.+): *([0-9.]+) us, *([0-9.]+) GB/s", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not like 'mine: 2.5 us, 11 GB/s'")
    return match[1], (float(match[2]), float(match[3]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", type=network_of, action="append", help="replaces the listed networks")
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 64, 512])
    parser.add_argument("--step-ms", type=float, nargs="+", default=[2790, 100], help="time of a step of a single rank")
    parser.add_argument("--bucket-kib", type=int, default=1024)
    for name, default in (("layers", 12), ("width", 768), ("context", 256), ("vocabulary", 65)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--sums", action="store_true", help="instead, the time of single sums by their bytes")
    arguments = parser.parse_args()
    networks = dict(arguments.network or NETWORKS.items())
    if arguments.sums:
        print("| bytes | " + " | ".join(f"{name}, {r} ranks, µs" for name in networks for r in arguments.ranks) + " |")
        print("|---" * (1 + len(networks) * len(arguments.ranks)) + "|")
        for size in (8, 512, 4096, 32768, 1 << 18, 1 << 21, 1 << 24):
            times = [sum_seconds(size, r, 1e-6 * a, 1e9 * b) for a, b in networks.values() for r in arguments.ranks]
            print(f"| {size} | " + " | ".join(f"{1e6 * time:.1f}" for time in times) + " |")
        return
    sizes = parameters(arguments.layers, arguments.width, arguments.context, arguments.vocabulary)
    most, of_ranks = 1024 * arguments.bucket_kib, " / ".join(map(str, arguments.ranks))
    print(f"{sum(sizes) / 1e6:.1f} million parameters; milliseconds with {of_ranks} ranks\n")
    columns = ["network", "µs, GB/s", "sums alone"]
    columns += [f"not hidden in a step of {ms:,.0f} ms" for ms in arguments.step_ms] + ["parameters broadcast"]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for name, (latency, bandwidth) in networks.items():
        figures: list[list[float]] = [[] for _ in columns[2:]]
        for ranks in arguments.ranks:
            seconds = 1e-6 * latency, 1e9 * bandwidth
            parts = [4 * sum(sizes[i] for i in bucket) for bucket in buckets(sizes, most)]
            figures[0].append(sum(sum_seconds(part, ranks, *seconds) for part in parts))
            for column, ms in enumerate(arguments.step_ms, 1):
                figures[column].append(not_hidden(sizes, most, ranks, Network(*seconds), 1e-3 * ms * BACKWARD))
            # A lower bound: each owner's part goes once over every link, with a tree of latencies for each parameter.
            figures[-1].append(4 * sum(sizes) / seconds[1] + len(sizes) * math.log2(ranks) * seconds[0])
        cells = [" / ".join(f"{1e3 * time:,.{0 if time > 0.01 else 1}f}" for time in column) for column in figures]
        print(f"| {name} | {latency}, {bandwidth} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
