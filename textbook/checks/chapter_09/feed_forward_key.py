"""Answers to the exercises of ``feed_forward.py``."""

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_09.feed_forward import FeedForward, _network_cases


@FeedForward.answer(
    hidden_cases=lambda draw: _network_cases(
        draw, others=[((4, 2), (2, 3, 4)), ((1, 6), (2, 1, 3, 1))]
    )
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


# Right in another way


class NetworkOfFunctions(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        gate = F.linear(x, self.gate.weight)
        return (gate / (1 + (-gate).exp()) * (x @ self.up.weight.T)) @ self.down.weight.T


class NetworkOfModules(FeedForward.reference):
    def __init__(self, width, hidden):
        super().__init__(width, hidden)
        self.bend = nn.SiLU()

    def forward(self, x):
        return self.down(self.up(x).mul(self.bend(self.gate(x))))


class NetworkInALoop(FeedForward.reference):
    """The layers are made in the other order; positions come one by one."""

    def __init__(self, width, hidden):
        nn.Module.__init__(self)
        self.down = nn.Linear(hidden, width, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.gate = nn.Linear(width, hidden, bias=False)

    def forward(self, x):
        rows = [self.down(F.silu(self.gate(t)) * self.up(t)) for t in x.flatten(0, -2)]
        return mt.stack(rows).reshape(x.shape)


class NetworkUnitByUnit(FeedForward.reference):
    """The sum of what the hidden units give."""

    def forward(self, x):
        units = zip(self.gate.weight, self.up.weight, self.down.weight.T, strict=True)
        return sum(
            (F.silu(x @ gate) * (x @ toward)).unsqueeze(-1) * give for gate, toward, give in units
        )


right = {
    "FeedForward": [NetworkOfFunctions, NetworkOfModules, NetworkInALoop, NetworkUnitByUnit],
}
