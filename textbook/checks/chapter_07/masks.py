"""Masks: for the last tokens of a batch, out of PyTorch's two, and what a stack of them reaches."""

import minitorch as mt
from textbook.checks.released import exercise

# The last tokens of a batch


def _length_cases(draw):
    """Lengths, the number of queries T and that of positions n; some rows may look nowhere."""
    yield mt.tensor([2, 3]), 3, 4
    yield mt.tensor([3, 1, 5]), 2, 5
    yield mt.tensor([1, 4]), 4, 4


chunk_mask = exercise(
    "chunk_mask",
    cases=_length_cases,
    see='chapter 07, "Padding"',
)


# What a stack of masks reaches


def _stack_cases(draw):
    """Lists of masks (n, n), some of whose rows are empty."""
    causal = mt.ones(4, 4, dtype=mt.bool).tril()
    window = _window(6)
    strict = mt.ones(5, 5, dtype=mt.bool).tril(-1)
    yield ([causal],)
    yield ([window, window],)
    yield ([strict & strict.tril(-2), strict & ~strict.tril(-2)],)
    yield ([mt.eye(3).bool()],)
    yield ([draw.normal(5, 5) > 0.8 for _ in range(3)],)
    yield ([mt.ones(4, 4, dtype=mt.bool)] * 40,)  # more ways than an int64 can count


def _window(n):
    """Each position sees itself and the one before."""
    return mt.ones(n, n, dtype=mt.bool).tril() & mt.ones(n, n, dtype=mt.bool).triu(-1)


def _product(one, other):
    """Of two booleans (n, n): whether there is a way from i over any k to j."""
    return one.double() @ other.double() > 0


def _way(check, answer, masks):
    """The way from the first token that is missed to its output; or that there is none."""
    found, steps = answer(masks), [mt.eye(len(masks[0])).bool()]
    for allowed in masks:
        steps.append(_product(allowed | mt.eye(len(allowed)).bool(), steps[-1]))
    if not isinstance(found, mt.Tensor) or found.shape != steps[-1].shape:
        return None
    wrong = (found != steps[-1]).nonzero().tolist()
    if not wrong:
        return None
    output, token = wrong[0]
    if not steps[-1][output, token].item():
        return (
            f"No way leads from token {token} to output {output} in {len(masks)} steps, "
            "one for each layer."
        )
    ways, place = [], output
    for layer in range(len(masks), 0, -1):
        if not steps[layer - 1][place, token].item():
            heard = masks[layer - 1][place] & steps[layer - 1][:, token]
            other = heard.nonzero()[0].item()
            ways.insert(0, f"in layer {layer} place {place} looks at {other}")
            place = other
    ways = ", ".join(ways) or "each layer adds to what is there, and looks at nothing else"
    return f"Output {output} depends on token {token}: {ways}. All places keep what they have."


reach = exercise(
    "reach",
    cases=_stack_cases,
    reasons=(_way,),
    gradients=False,
    see='chapter 07, "Gradients from the future (C15)"',
)
