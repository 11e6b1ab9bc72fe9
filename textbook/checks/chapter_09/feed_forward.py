"""The gated feed-forward network as a module."""

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.exercise import exercise
from textbook.checks.modules import drawn, made, results_of


def _network_cases(draw, others=()):
    """Sizes (width, hidden) and an input; all sizes differ, so that a swapped one shows."""
    public = [((2, 5), (3, 2)), ((3, 4), (2, 2, 3))]
    for sizes, shape in others or public:
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
    hidden_cases=lambda draw: _network_cases(
        draw, others=[((4, 2), (2, 3, 4)), ((1, 6), (2, 1, 3, 1))]
    ),
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
