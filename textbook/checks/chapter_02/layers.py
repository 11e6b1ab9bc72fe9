"""Networks of a given number of parameters, and how far their forget gates stand open."""

import minitorch as mt
from minitorch import nn
from textbook.checks.released import exercise

# As wide as a number of parameters allows


def _budget_cases(draw, others=()):
    """Budgets that are met exactly, missed by one, too small for one unit, and large.

    With 10 ** 13 inputs a float cannot tell a budget that is met from one that is missed by one.
    """
    sizes = [*(others or _SIZES), (10**13, 1, False, 99_991)]
    sizes = [(kind, *size) for kind in ("RNN", "GRU", "LSTM") for size in sizes]
    for kind, inputs, layers, bidirectional, hidden_size in sizes:
        exact = _count()(kind, inputs, hidden_size, layers, bidirectional)
        more = _count()(kind, inputs, hidden_size + 1, layers, bidirectional) - exact
        for budget in (exact, exact - 1, exact + 2 * more // 3):
            yield kind, inputs, layers, bidirectional, budget
    yield "LSTM", 5, 2, True, 10
    yield "GRU", 64, 1, False, 123_456_789_012


_SIZES = [(3, 1, False, 2), (5, 1, True, 4), (2, 3, False, 3), (4, 2, True, 7), (32, 1, False, 64)]


_BLOCKS = {"RNN": 1, "GRU": 3, "LSTM": 4}


def _count(
    blocks=_BLOCKS,
    biases=2,
    directions=lambda bidirectional: 1 + bidirectional,
    above=lambda inputs, hidden, directions: hidden * directions,
    recurrent=lambda hidden, directions: hidden,
    layers_of=lambda layers: layers,
):
    """The number of parameters, with one part of the sum exchanged."""

    def count(kind, inputs, hidden, layers, bidirectional):
        runs = directions(bidirectional)
        widths = [inputs] + [above(inputs, hidden, runs)] * (layers_of(layers) - 1)
        rows = sum(width + recurrent(hidden, runs) + biases for width in widths)
        return runs * blocks[kind] * hidden * rows

    return count


def _without_networks(answer, kind, inputs, layers, bidirectional, budget):
    """The answer, in a library that builds no recurrent networks."""
    made = nn.RNNBase.__init__

    def refuse(self, *args, **kwargs):
        raise RuntimeError("some budgets fit into no memory: count by a formula, build nothing")

    nn.RNNBase.__init__ = refuse
    try:
        return {"the result": answer(kind, inputs, layers, bidirectional, budget)}
    finally:
        nn.RNNBase.__init__ = made


def _rounded(check, answer, *case):
    """Whether the answer is right as long as floats are exact."""
    exact = [each for each in check.all_cases() if each[-1] < 2**53]
    if any(answer(*each) != check.reference(*each) for each in exact):
        return None
    return (
        "It is right for budgets below 2 ** 53. Above, floats are no longer exact: stay with whole "
        "numbers, by math.isqrt or by bisection."
    )


widest = exercise(
    "widest",
    cases=_budget_cases,
    run=_without_networks,
    reasons=(_rounded,),
    gradients=False,
    see='chapter 02, "The gated recurrent unit"',
)


# How far the forget gates stand open


def _bias_cases(draw, more=()):
    yield from [(1, 1, 1, False, 1, 0.5), (3, 2, 3, True, 40, 0.25), (2, 3, 1, False, 10**6, 0.9)]
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
