"""The gated feed-forward network as a module."""

import minitorch as mt
from textbook.checks.modules import drawn, made, results_of
from textbook.checks.released import exercise


def _network_cases(draw, others=()):
    """Sizes (width, hidden) and an input; all sizes differ, so that a swapped one shows."""
    public = [((2, 5), (3, 2)), ((3, 4), (2, 2, 3))]
    for sizes, shape in others or public:
        yield sizes, draw.normal(*shape)


def _run_network(answer, sizes, x):
    return results_of(
        answer(*sizes),
        drawn(FeedForward.reference, *sizes),
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
    network, others = made(FeedForward.reference, answer, sizes), x.clone()
    if not all(mt.equal(network(x), network(x)) for _ in range(5)):
        return "Two calls with the same input must give the same output: no dropout in here."
    others[..., -1, :] += 1
    if not mt.allclose(network(x)[..., :-1, :], network(others)[..., :-1, :]):
        return "The output at a position must not depend on what stands at another."
    return None


FeedForward = exercise(
    "FeedForward",
    cases=_network_cases,
    run=_run_network,
    properties=(_hidden_as_it_is, _positions_stay_apart),
    gradients=False,
    see='chapter 09, "The feed-forward network"',
)
