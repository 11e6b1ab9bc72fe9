"""The feed-forward network as a module."""

import minitorch as mt
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
        lambda network: {"the output": network(x)},
    )


def _positions_stay_apart(answer, sizes, x):
    network, others = made(_Network, answer, sizes), x.clone()
    if not mt.equal(network(x), network(x)):
        return "Two calls with the same input must give the same output."
    others[..., -1, :] += 1
    if not mt.allclose(network(x)[..., :-1, :], network(others)[..., :-1, :]):
        return "The output at a position must not depend on what stands at another."
    return None


@exercise(
    cases=_network_cases,
    run=_run_network,
    properties=(_positions_stay_apart,),
    gradients=False,
    see='chapter 09, "The feed-forward network"',
)
class FeedForward(nn.Module):
    """A network with one hidden layer, the same for every position."""

    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        """Tokens (..., n, width) give outputs (..., n, width)."""
        return self.down(self.up(x).relu())


_Network = FeedForward.reference


@FeedForward.wrong(
    "two linear layers with nothing between them, so one linear map",
    "Put the ReLU between up and down: without it the network cannot compute more than a matrix.",
)
class _(_Network):
    def forward(self, x):
        return self.down(self.up(x))


@FeedForward.wrong(
    "right but for the ReLU, which comes after the second layer",
    "It belongs between the two. The output may be negative.",
)
class _(_Network):
    def forward(self, x):
        return self.down(self.up(x)).relu()


@FeedForward.wrong(
    "right but for a second ReLU, at the end",
    "The output may be negative: nothing comes after the second layer.",
)
class _(_Network):
    def forward(self, x):
        return super().forward(x).relu()


@FeedForward.wrong(
    "right but for the ReLU, which comes before the first layer",
    "It belongs between the two layers.",
)
class _(_Network):
    def forward(self, x):
        return self.down(self.up(x.relu()))


@FeedForward.wrong(
    "right, and then x is added",
    "The residual connection belongs to the block, outside of this network.",
)
class _(_Network):
    def forward(self, x):
        return x + super().forward(x)


@FeedForward.wrong(
    "right but for the function between the layers, which is a softmax",
    "This is no attention: each hidden unit has its ReLU, by itself.",
)
class _(_Network):
    def forward(self, x):
        return self.down(self.up(x).softmax(dim=-1))


@FeedForward.wrong(
    "right but for the function between the layers, which is a tanh",
    "It should be the ReLU.",
)
class _(_Network):
    def forward(self, x):
        return self.down(self.up(x).tanh())


@FeedForward.wrong(
    "right but for the function between the layers, which is a sigmoid",
    "It should be the ReLU.",
)
class _(_Network):
    def forward(self, x):
        return self.down(self.up(x).sigmoid())


@FeedForward.wrong(
    "right but for the function between the layers, which is a GELU",
    "Many models have it there; this one has the ReLU of 2017.",
)
class _(_Network):
    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x)))


@FeedForward.wrong(
    "right but for the sign: it takes the negative part",
    "ReLU(x) is max(x, 0).",
)
class _(_Network):
    def forward(self, x):
        return self.down(self.up(x).clamp(max=0))


@FeedForward.wrong(
    "a network that mixes positions: it takes their mean",
    "Each position goes through the network by itself; nn.Linear does that with any axes in front.",
)
class _(_Network):
    def forward(self, x):
        return super().forward(x.mean(dim=-2, keepdim=True)).expand(*x.shape)


@FeedForward.wrong(
    "right but for the biases, which its layers do not have",
    "b_1 and b_2 are part of it: nn.Linear with its bias.",
)
class _(_Network):
    def __init__(self, width, hidden):
        super().__init__(width, hidden)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)


@FeedForward.wrong(
    "a network whose hidden layer is as wide as the input",
    "The layer up goes from width to hidden, the layer down from hidden to width.",
)
class _(_Network):
    def __init__(self, width, hidden):
        super().__init__(width, width)


@FeedForward.wrong(
    "a network whose two layers are exchanged, or the sizes of its layers",
    "The layer up goes from width to hidden, the layer down from hidden to width.",
)
class _(_Network):
    def __init__(self, width, hidden):
        super().__init__(hidden, width)
