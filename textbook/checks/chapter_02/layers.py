"""Networks of a given number of parameters, and how far their forget gates stand open."""

import math

import minitorch as mt
from minitorch import nn
from textbook.checks.exercise import exercise

# As wide as a number of parameters allows


def _budget_cases(draw, hidden):
    """Budgets that are met exactly, missed by one, too small for one unit, and large.

    With 10 ** 13 inputs a float cannot tell a budget that is met from one that is missed by one.
    """
    sizes = [*_SIZES[hidden], (10**13, 1, False, 99_991)]
    sizes = [(kind, *size) for kind in ("RNN", "GRU", "LSTM") for size in sizes]
    for kind, inputs, layers, bidirectional, hidden_size in sizes:
        exact = _count()(kind, inputs, hidden_size, layers, bidirectional)
        more = _count()(kind, inputs, hidden_size + 1, layers, bidirectional) - exact
        for budget in (exact, exact - 1, exact + 2 * more // 3):
            yield kind, inputs, layers, bidirectional, budget
    yield "LSTM", 5, 2, True, 10
    yield "GRU", 64, 1, False, 123_456_789_012


_SIZES = {
    False: [
        (3, 1, False, 2),
        (5, 1, True, 4),
        (2, 3, False, 3),
        (4, 2, True, 7),
        (32, 1, False, 64),
    ],
    True: [(7, 4, True, 11), (1, 2, False, 1), (40, 1, True, 33), (300, 3, True, 40_000)],
}
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


def _widest(
    fits=lambda count, budget: count <= budget, finish=lambda found, closer: found, **pieces
):
    """The width with one of the pieces exchanged."""
    count = _count(**pieces)

    def widest(kind, inputs, layers, bidirectional, budget):
        def size(hidden):
            return count(kind, inputs, hidden, layers, bidirectional)

        low, high = 0, 1
        while fits(size(high), budget):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(size(middle), budget) else (low, middle)
        nearer = low + (size(low + 1) - budget < budget - size(low))
        return finish(low, nearer)

    return widest


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


for name, hint, pieces in (
    (
        "right but for the biases: one vector where PyTorch has two",
        "There is one bias beside W_ih and one beside W_hh: 2 H for each block.",
        {"biases": 1},
    ),
    (
        "right but for the biases, which are not counted",
        "Each block has 2 H biases.",
        {"biases": 0},
    ),
    (
        "the width of a plain RNN, whatever kind is",
        "The matrices of a GRU have three blocks of H rows, r, z, n, those of an LSTM four, i, f, "
        "g, o.",
        {"blocks": dict.fromkeys(_BLOCKS, 1)},
    ),
    (
        "right but for the candidates: only the gates are counted",
        "Beside its gates a GRU has the candidate n, and an LSTM the candidate g: three and four "
        "blocks.",
        {"blocks": {"RNN": 1, "GRU": 2, "LSTM": 3}},
    ),
    (
        "right but for the GRU, of which two blocks are counted",
        "A GRU has three blocks: r, z and the candidate n.",
        {"blocks": {"RNN": 1, "GRU": 2, "LSTM": 4}},
    ),
    (
        "right but for the LSTM, which is counted like a GRU",
        "An LSTM has four blocks, i, f, g and o.",
        {"blocks": {"RNN": 1, "GRU": 3, "LSTM": 3}},
    ),
    (
        "right but for the layers, of which it counts one more",
        "The first of the layers reads the inputs; layers - 1 stand above it.",
        {"layers_of": lambda layers: layers + 1},
    ),
    (
        "right but for budgets in which not one unit fits, where it is None",
        "0: there is no such network.",
        {"finish": lambda found, nearer: found or None},
    ),
    (
        "right but for the GRU, which is counted like an LSTM",
        "A GRU has three blocks, r, z and n.",
        {"blocks": {"RNN": 1, "GRU": 4, "LSTM": 4}},
    ),
    (
        "right but for the upper layers: each is counted as if it read the inputs",
        "From the second layer on, a layer reads the output of the one below: H numbers, or 2 H.",
        {"above": lambda inputs, hidden, directions: inputs},
    ),
    (
        "right but for the upper layers: each is counted as if it read one direction",
        "The output of a bidirectional layer has 2 H numbers, and both directions above read all "
        "of them.",
        {"above": lambda inputs, hidden, directions: hidden},
    ),
    (
        "right for one layer alone",
        "The layers above have parameters as well.",
        {"layers_of": lambda layers: 1},
    ),
    (
        "right but for W_hh, counted as if it read both directions",
        "Each direction has its own state of H numbers: W_hh has H columns.",
        {"recurrent": lambda hidden, directions: hidden * directions},
    ),
    (
        "right but for W_hh, which is not counted",
        "Each block has W_ih (H, d), W_hh (H, H) and two biases.",
        {"recurrent": lambda hidden, directions: 0},
    ),
    (
        "the width for one direction",
        "A bidirectional layer holds two sets of weights.",
        {"directions": lambda bidirectional: 1},
    ),
    (
        "right but for budgets that are met exactly, where it is one too small",
        "At most so many parameters: <=.",
        {"fits": lambda count, budget: count < budget},
    ),
    (
        "one unit too many",
        "The largest that still fits, not the first that does not.",
        {"finish": lambda found, nearer: found + 1},
    ),
    ("one unit too few", "The largest that fits.", {"finish": lambda found, nearer: found - 1}),
    (
        "the width that comes nearest to the budget",
        "It may not be exceeded: the largest that fits.",
        {"finish": lambda found, nearer: nearer},
    ),
    (
        "right but for budgets in which not one unit fits, where it is 1",
        "0: there is no such network.",
        {"finish": lambda found, nearer: max(found, 1)},
    ),
):
    widest.wrong(name, hint)(_widest(**pieces))


@widest.wrong(
    "right but for the directions: one is counted, though the layers above read both",
    "A bidirectional layer holds two sets of weights: count each layer twice.",
)
def _(kind, inputs, layers, bidirectional, budget):
    return widest.reference(kind, inputs, layers, bidirectional, budget * (1 + bidirectional))


# How far the forget gates stand open


def _bias_cases(draw, hidden):
    yield from [(1, 1, 1, False, 1, 0.5), (3, 2, 3, True, 40, 0.25), (2, 3, 1, False, 10**6, 0.9)]
    if hidden:
        yield from [(2, 4, 4, False, 7, 0.01), (4, 3, 2, True, 1000, 0.5)]


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
        "the bias of the forget gate, a dict,": forget,
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


def _logit(steps, left):
    gate = left ** (1 / steps)
    return math.log(gate / (1 - gate))


def _opening(
    value=_logit,
    rows=1,
    ih=lambda value, old: value,
    hh=lambda value, old: 0 * old,
    applies=str,
    others=lambda bias: None,
):
    """Change the rows of one gate in each bias whose name ``applies``."""

    def opening(lstm, steps, left):
        with mt.no_grad():
            for name, bias in lstm.named_parameters():
                if name.startswith("bias") and applies(name):
                    block = slice(rows * lstm.hidden_size, (rows + 1) * lstm.hidden_size)
                    new = (ih if "_ih_" in name else hh)(value(steps, left), bias[block].clone())
                    others(bias)
                    bias[block] = new

    return opening


@exercise(
    cases=_bias_cases,
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


POWER = "Each step multiplies by the gate: gate ** steps is what is left."
SUM = "bias_ih and bias_hh are added. Set one to the value and the other to 0."
FORGET = "The order is i, f, g, o: the forget gate has the rows from H to 2 H."
ONLY = "Change only the rows from H to 2 H of each bias."
for name, hint, pieces in (
    (
        "right but for the sigmoid: the bias is the gate itself",
        "The gate is the sigmoid of the bias. Which bias gives this gate? log(f / (1 - f)).",
        {"value": lambda steps, left: left ** (1 / steps)},
    ),
    (
        "right but for the sigmoid, whose inverse is not the logarithm",
        "f = 1 / (1 + exp(-b)): solve for b.",
        {"value": lambda steps, left: math.log(left) / steps},
    ),
    (
        "right but for the logarithm, which is missing: the bias is f / (1 - f)",
        "f = 1 / (1 + exp(-b)): the bias is the logarithm of f / (1 - f).",
        {"value": lambda steps, left: left ** (1 / steps) / (1 - left ** (1 / steps))},
    ),
    (
        "right but for the logarithm, which is that to the base 10",
        "The sigmoid has e for its base: math.log.",
        {"value": lambda steps, left: _logit(steps, left) / math.log(10)},
    ),
    (
        "right but for the steps, of which it counts one more",
        "The gate is applied `steps` times.",
        {"value": lambda steps, left: _logit(steps + 1, left)},
    ),
    (
        "the logarithm of the number of steps, whatever share is to be left",
        "How much is left matters, too: the gate is the root of `left`.",
        {"value": lambda steps, left: math.log(steps)},
    ),
    (
        "right but for the sign of the bias",
        "A positive bias opens a gate.",
        {"value": lambda steps, left: -_logit(steps, left)},
    ),
    (
        "right for one step alone: the gate lets the share through at each step",
        POWER,
        {"value": lambda steps, left: _logit(1, left)},
    ),
    (
        "right but for the root: the gate is left ** steps",
        POWER + " So the gate is the root.",
        {
            "value": lambda steps, left: (
                math.log(left**steps / (1 - left**steps)) if left**steps else 0.0
            )
        },
    ),
    (
        "right but for the product: each gate takes away the same part of what was there at first",
        POWER,
        {"value": lambda steps, left: _logit(1, 1 - (1 - left) / steps)},
    ),
    (
        "right but for the share, which is taken for what is lost",
        "`left` of the gradient is left.",
        {"value": lambda steps, left: _logit(steps, 1 - left)},
    ),
    (
        "right but for the sum: both biases are set, which gives twice as much",
        SUM,
        {"hh": lambda value, old: value},
    ),
    (
        "right for bias_ih, but bias_hh keeps its random numbers",
        SUM,
        {"hh": lambda value, old: old},
    ),
    (
        "right for bias_hh, but bias_ih keeps its random numbers",
        SUM,
        {"ih": lambda value, old: old, "hh": lambda value, old: value},
    ),
    (
        "an addition to the random numbers that are there",
        "The sum of both biases is to be exactly the value: overwrite.",
        {"ih": lambda value, old: old + value, "hh": lambda value, old: old},
    ),
    ("right but for the gate: the first block is the input gate", FORGET, {"rows": 0}),
    ("right but for the gate: the third block is the candidate", FORGET, {"rows": 2}),
    ("right but for the gate: the last block is the output gate", FORGET, {"rows": 3}),
    (
        "right for the first layer alone",
        "Each layer and direction has its own biases: bias_ih_l0, bias_ih_l0_reverse, bias_ih_l1, "
        "...",
        {"applies": lambda name: "_l0" in name},
    ),
    (
        "right for the first two layers alone",
        "There may be any number of layers: go through named_parameters().",
        {"applies": lambda name: "_l0" in name or "_l1" in name},
    ),
    (
        "right for the forward direction alone",
        "The names of the backward direction end in _reverse, such as bias_ih_l0_reverse.",
        {"applies": lambda name: "reverse" not in name},
    ),
    (
        "right for the forget gates, but sets the biases of the other gates to 0",
        ONLY,
        {"others": lambda bias: bias.zero_()},
    ),
):
    open_forget_gates.wrong(name, hint)(_opening(**pieces))


@open_forget_gates.wrong(
    "right for the forget gates, but sets the biases of the other gates too", ONLY
)
def _(lstm, steps, left):
    with mt.no_grad():
        for name, bias in lstm.named_parameters():
            if name.startswith("bias"):
                bias[:] = _logit(steps, left) if "_ih_" in name else 0


@open_forget_gates.wrong(
    "right in its numbers, but the biases are other tensors than before",
    "An optimizer that was made before would go on with the old ones. Change the numbers in place, "
    "within no_grad(): parameter[rows] = ...",
)
def _(lstm, steps, left):
    open_forget_gates.reference(lstm, steps, left)
    for name, parameter in list(lstm.named_parameters()):
        setattr(lstm, name, nn.Parameter(parameter.detach().clone()))


@open_forget_gates.wrong(
    "one that leaves all biases as they are",
    "Change the parameters in place, within no_grad() or through .data: bias[rows] = ...",
)
def _(lstm, steps, left):
    pass
