"""How far the forget gates of a network stand open."""

import minitorch as mt
from minitorch import nn
from textbook.checks.released import exercise


def _bias_cases(draw, more=()):
    yield from [(1, 1, 1, False, 1, 0.5), (3, 2, 3, True, 40, 0.25), (2, 3, 1, False, 10**6, 0.9)]
    yield 2, 2, 1, False, 1, 0.2  # a gate that is more shut than open
    yield from more


def _biases_after(answer, inputs, hidden, layers, bidirectional, steps, left):
    lstm = nn.LSTM(inputs, hidden, layers, bidirectional=bidirectional).double()
    for i, parameter in enumerate(lstm.parameters()):
        parameter.data = (mt.arange(parameter.numel()) + i).cos().reshape(parameter.shape)
    before = dict(lstm.named_parameters())
    answer(lstm, steps, left)
    values = dict(lstm.named_parameters())
    blocks = {name: p.detach().chunk(4) for name, p in values.items() if "bias" in name}
    forget = {
        name.replace("bias_ih", "bias_ih + bias_hh"): ih[1] + blocks[name.replace("ih", "hh")][1]
        for name, ih in blocks.items()
        if "ih" in name
    }
    return {
        "the bias of the forget gate": forget,
        "what should not change": {
            **{name: p.detach() for name, p in values.items() if "weight" in name},
            **{f"{name}, i, g, o": mt.cat([b[0], b[2], b[3]]) for name, b in blocks.items()},
        },
        "which parameters are other tensors than before": ", ".join(
            name for name, p in values.items() if p is not before.get(name)
        )
        or "none",
        "whether all weights are still trained": all(p.requires_grad for p in values.values()),
    }


open_forget_gates = exercise(
    "open_forget_gates",
    cases=_bias_cases,
    run=_biases_after,
    gradients=False,
    see='chapter 02, "What keeps a gradient alive"',
)
