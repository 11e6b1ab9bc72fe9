"""Networks of a given number of parameters, and how far their forget gates stand open."""

import math

import minitorch as mt
from minitorch import nn
from textbook.checks.exercise import exercise

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
        for budget in (exact, exact - 1, exact + 1, exact + 2 * more // 3):
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


@exercise(
    cases=_budget_cases,
    hidden_cases=lambda draw: _budget_cases(
        draw, others=[(7, 4, True, 11), (1, 2, False, 1), (40, 1, True, 33), (300, 3, True, 40_000)]
    ),
    run=_without_networks,
    reasons=(_rounded,),
    gradients=False,
    see='chapter 02, "The gated recurrent unit"',
)
def widest(kind, inputs, layers, bidirectional, budget):
    """The largest number of units with which the network has at most so many parameters."""
    blocks = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    directions = 2 if bidirectional else 1

    def parameters(hidden):
        first = inputs + hidden + 2
        above = directions * hidden + hidden + 2
        return directions * blocks * hidden * (first + (layers - 1) * above)

    low, high = 0, 1  # low units fit; from now on, high do not
    while parameters(high) <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if parameters(middle) <= budget else (low, middle)
    return low


# How far the forget gates stand open


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


@exercise(
    cases=_bias_cases,
    hidden_cases=lambda draw: _bias_cases(
        draw, more=[(2, 4, 4, False, 7, 0.01), (4, 3, 2, True, 1000, 0.5)]
    ),
    run=_biases_after,
    gradients=False,
    see='chapter 02, "What keeps a gradient alive"',
)
def open_forget_gates(lstm, steps, left):
    """Biases for which the forget gates let a share of the gradient through so many steps."""
    gate = left ** (1 / steps)
    forget = slice(lstm.hidden_size, 2 * lstm.hidden_size)
    with mt.no_grad():
        for name, parameter in lstm.named_parameters():
            if name.startswith("bias_ih"):
                parameter[forget] = math.log(gate / (1 - gate))
            elif name.startswith("bias_hh"):
                parameter[forget] = 0


def _with_other_tensors(lstm, steps, left):
    open_forget_gates.reference(lstm, steps, left)
    for name, parameter in list(lstm.named_parameters()):
        setattr(lstm, name, nn.Parameter(parameter.detach().clone()))
