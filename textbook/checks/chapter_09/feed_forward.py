"""The gated feed-forward network as a module."""

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, made, results_of


def _network_cases(draw, hidden):
    """Sizes (width, hidden) and an input; all sizes differ, so that a swapped one shows."""
    public = [((2, 5), (3, 2)), ((3, 4), (2, 2, 3))]
    for sizes, shape in [((4, 2), (2, 3, 4)), ((1, 6), (2, 1, 3, 1))] if hidden else public:
        yield sizes, draw.normal(*shape)


def _run_network(answer, sizes, x):
    return results_of(
        answer(*sizes),
        drawn(_Network, *sizes),
        {"x": x},
        lambda network: {
            "the output": network(x),
            "the output of a second call": network(2 * x[..., :1, :]),
        },
    )


def _hidden_as_it_is(answer, sizes, x):
    width, hidden = sizes
    made_for = tuple(answer(*sizes).gate.weight.shape)
    if made_for[1] == width and made_for[0] != hidden:
        return (
            f"For the argument hidden = {hidden} the hidden layer has {made_for[0]} units: take "
            "hidden as it is, whoever makes the network has chosen it."
        )
    return None


def _positions_stay_apart(answer, sizes, x):
    network, others = made(_Network, answer, sizes), x.clone()
    if not all(mt.equal(network(x), network(x)) for _ in range(5)):
        return "Two calls with the same input must give the same output: no dropout in here."
    others[..., -1, :] += 1
    if not mt.allclose(network(x)[..., :-1, :], network(others)[..., :-1, :]):
        return "The output at a position must not depend on what stands at another."
    return None


@exercise(
    cases=_network_cases,
    run=_run_network,
    properties=(_hidden_as_it_is, _positions_stay_apart),
    gradients=False,
    see='chapter 09, "The feed-forward network"',
)
class FeedForward(nn.Module):
    """A gated network with one hidden layer, the same for every position."""

    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        """Tokens (..., n, width) give outputs (..., n, width)."""
        return self.down(F.silu(self.gate(x)) * self.up(x))


_Network = FeedForward.reference


class NetworkInPieces(_Network):
    """The same; each piece that mistakes exchange is a method of its own."""

    def forward(self, x):
        return self.down(self.between(self.gate(x), self.up(x)))

    def between(self, gate, up):
        return self.bend(gate) * up

    def bend(self, gate):
        return gate * gate.sigmoid()


def _bent(function):
    class Bent(NetworkInPieces):
        def bend(self, gate):
            return function(gate)

    return Bent


def _between(function):
    class Between(NetworkInPieces):
        def between(self, gate, up):
            return function(gate, up)

    return Between


for name, hint, answer in (
    (
        "right but for the gate, which has a sigmoid",
        "SiLU(z) is z times sigmoid(z).",
        _bent(mt.sigmoid),
    ),
    (
        "right but for the gate, which has a ReLU",
        "SiLU(z) is z times sigmoid(z), which is not 0 below 0.",
        _bent(mt.relu),
    ),
    (
        "right but for the gate, which has a GELU",
        "SiLU(z) is z times sigmoid(z).",
        _bent(F.gelu),
    ),
    (
        "right but for the gate, which has a tanh",
        "SiLU(z) is z times sigmoid(z).",
        _bent(mt.tanh),
    ),
    (
        "right but for the gate, which has a softmax",
        "Each hidden unit has its SiLU, by itself.",
        _bent(lambda gate: gate.softmax(dim=-1)),
    ),
    (
        "right but for the gate, which is not bent: it has no SiLU",
        "SiLU(gate(x)) times up(x).",
        _bent(lambda gate: gate),
    ),
    (
        "right but for gate and up, which are exchanged: up(x) goes through the SiLU",
        "SiLU(gate(x)) times up(x).",
        _between(lambda gate, up: gate * F.silu(up)),
    ),
    (
        "right but for a second SiLU, on up(x)",
        "SiLU(gate(x)) times up(x), as it is.",
        _between(lambda gate, up: F.silu(gate) * F.silu(up)),
    ),
    (
        "right but for the SiLU, which comes after the product",
        "SiLU(gate(x)) times up(x).",
        _between(lambda gate, up: F.silu(gate * up)),
    ),
    (
        "right but for gate and up, which are added",
        "A gate multiplies.",
        _between(lambda gate, up: F.silu(gate) + up),
    ),
    (
        "a network without a gate: down(SiLU(up(x)))",
        "SiLU(gate(x)) times up(x).",
        _between(lambda gate, up: F.silu(up) + 0 * gate),
    ),
    (
        "the network of the chapter: down(ReLU(up(x))), with a gate that is not used",
        "SiLU(gate(x)) times up(x).",
        _between(lambda gate, up: up.relu() + 0 * gate),
    ),
):
    FeedForward.wrong(name, hint)(answer)


@FeedForward.wrong(
    "the network of the chapter, without a gate",
    "Three layers without biases: gate, up and down. down(SiLU(gate(x)) * up(x)).",
)
class _(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(self.up(x).relu())


@FeedForward.wrong(
    "right but for the SiLU, which comes at the end, after down",
    "SiLU(gate(x)) times up(x), then down.",
)
class _(_Network):
    def forward(self, x):
        return F.silu(self.down(self.gate(x) * self.up(x)))


@FeedForward.wrong(
    "right, and then x is added",
    "The residual connection belongs to the block, outside of this network.",
)
class _(_Network):
    def forward(self, x):
        return x + super().forward(x)


@FeedForward.wrong(
    "right but for the layer down, which is missing: its output is (..., n, hidden)",
    "down goes from hidden back to width.",
)
class _(_Network):
    def forward(self, x):
        return F.silu(self.gate(x)) * self.up(x)


@FeedForward.wrong(
    "a network that mixes positions: it takes their mean",
    "Each position goes through the network by itself; nn.Linear does that with any axes in front.",
)
class _(_Network):
    def forward(self, x):
        return super().forward(x.mean(dim=-2, keepdim=True)).expand(*x.shape)


@FeedForward.wrong(
    "right but for biases, which its layers have",
    "nn.Linear(..., bias=False), all three.",
)
class _(_Network):
    def __init__(self, width, hidden):
        super().__init__(width, hidden)
        self.gate, self.up = nn.Linear(width, hidden), nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)


@FeedForward.wrong(
    "a network whose hidden layer is as wide as the input",
    "gate and up go from width to hidden, down from hidden to width.",
)
class _(_Network):
    def __init__(self, width, hidden):
        super().__init__(width, width)


@FeedForward.wrong(
    "a network whose sizes are exchanged",
    "gate and up go from width to hidden, down from hidden to width.",
)
class _(_Network):
    def __init__(self, width, hidden):
        super().__init__(hidden, width)
