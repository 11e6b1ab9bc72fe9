"""Parts, masks and pairs that the checks of blocks and stacks hand in and get back."""

import minitorch as mt
from minitorch import nn
from textbook.checks.compare import brief


def _mixed(x, memory, allowed):
    """What each row of x (B, T, width) gets of the memory (B, n, width), a good deal of all."""
    scores = (x.tanh() @ memory.tanh().mT / x.shape[-1]).unsqueeze(1)  # (B, 1, T, n)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -mt.inf)
    return (scores.softmax(dim=-1) @ memory.unsqueeze(1)).squeeze(1)


class Look(nn.Module):
    """An attention with one matrix, called as that of chapter 06."""

    def __init__(self, width):
        super().__init__()
        self.value = nn.Linear(width, width, bias=False)

    def forward(self, x, memory, allowed=None):
        """x (B, T, width), memory (B, n, width) and a mask or None give (B, T, width)."""
        if not isinstance(memory, mt.Tensor) or memory.ndim != 3:
            raise TypeError(
                "an attention is called with two sequences and a mask: the one that asks, the one "
                "that is looked at, and where it may look"
            )
        return self.value(_mixed(x, memory, allowed))


class Layer(nn.Module):
    """What a stack is made of in the checks of stacks: as little as shows how it is called."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(mt.ones(width, width))

    def forward(self, x, allowed=None, memory=None, memory_allowed=None):
        """x (B, T, width), and what a block gets, give (B, T, width)."""
        x = x + _mixed(x, x, allowed) @ self.weight
        return x if memory is None else x + _mixed(x, memory, memory_allowed)


class Embedded(nn.Module):
    """One matrix that embeds tokens, and gives scores."""

    def __init__(self, vocabulary, width):
        super().__init__()
        self.weight = nn.Parameter(mt.ones(vocabulary, width))

    def forward(self, tokens):
        """Tokens (B, n) give (B, n, width)."""
        return 2 * self.weight[tokens]

    def scores(self, x):
        """x (B, T, width) gives (B, T, V)."""
        return x @ self.weight.T


def real_mask(draw, batch, n):
    """(B, n): the last sequence is whole, each of the others has a token and padding."""
    lengths = mt.cat([1 + draw.integers(n - 1, batch - 1), mt.tensor([n])])
    return mt.arange(n) < lengths.unsqueeze(1)


def cuts_off(call):
    """A reason: the scores that ``call(answer, *case)`` gives lack a place of the target.

    It returns the scores and the target (B, T).
    """

    def says(check, answer, *case):
        scores, target = call(answer, *case)
        if scores.shape[1] == target.shape[1] - 1:
            return (
                "A place of the target is missing: nothing is cut off here, each token that is "
                "read gets its scores."
            )
        return None

    return says


def with_axes(real):
    """(B, n) -> (B, 1, 1, n)."""
    return real.unsqueeze(1).unsqueeze(1)


def pair(value, parts):
    """The value if it is a pair, as a tuple; else an error that says what it should hold."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(f"expected a pair, {parts}; got {brief(value)}")
    return tuple(value)
