"""GRU and LSTM. The output of a case is the layers' output and their final states, flattened and joined."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from golden_file import Draw, GoldenFile

# name: PyTorch's options, whether first states are given, the sequences' lengths
CASES = {
    "plain": ({}, False, None),
    "no_bias": ({"bias": False}, True, None),
    "two_layers": ({"num_layers": 2}, True, None),
    "bidirectional": ({"bidirectional": True, "batch_first": True}, True, None),
    "padded": ({}, True, [3, 6, 1]),
    "all_options": ({"num_layers": 2, "bidirectional": True, "batch_first": True}, True, [4, 1, 6]),
    "padded_from_zero": ({"num_layers": 2, "bidirectional": True}, False, [6, 2, 5]),
}
STEPS, BATCH, INPUT, HIDDEN = 6, 3, 4, 5


def build() -> GoldenFile:
    goldens = GoldenFile()
    for op, layer, states in [("gru", nn.GRU, ["h0"]), ("lstm", nn.LSTM, ["h0", "c0"])]:
        for name, (options, has_states, lengths) in CASES.items():
            add(goldens, f"{op}_{name}", op, layer, options, states if has_states else [], lengths)
    return goldens


def add(goldens: GoldenFile, case: str, op: str, layer, options: dict, states: list[str], lengths) -> None:
    draw = Draw(case)
    module = layer(INPUT, HIDDEN, dtype=torch.float64, **options)
    names = [name for name, _ in module.named_parameters()]
    batch_first = options.get("batch_first", False)
    inputs = {"input": draw.normal(*((BATCH, STEPS) if batch_first else (STEPS, BATCH)), INPUT)}
    of_states = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    for state in states:
        inputs[state] = draw.normal(of_states, BATCH, HIDDEN, scale=0.5)
    for name, parameter in module.named_parameters():
        inputs[name] = draw.normal(*parameter.shape, scale=0.5)
    constants = {} if lengths is None else {"lengths": torch.tensor(lengths)}

    def run(x: Tensor, *rest: Tensor) -> Tensor:
        first, weights = rest[: len(states)], rest[len(states) : len(states) + len(names)]
        start = {0: (), 1: first, 2: (tuple(first),)}[len(states)]
        if lengths is not None:
            x = pack_padded_sequence(x, torch.tensor(lengths), batch_first, enforce_sorted=False)
        output, final = torch.func.functional_call(module, dict(zip(names, weights)), (x, *start))
        if lengths is not None:
            output, _ = pad_packed_sequence(output, batch_first, total_length=STEPS)
        final = (final,) if op == "gru" else final
        return torch.cat([values.flatten() for values in (output, *final)])

    reduction = options.get("num_layers", 1) * STEPS * (INPUT + HIDDEN)
    goldens.add_with_gradients(case, {"op": op, **options, "reduction": reduction}, run, inputs, constants)
