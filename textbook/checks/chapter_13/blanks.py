"""The loss on blanks, in parts."""

import minitorch as mt
from textbook.checks.released import exercise


def _loss_cases(draw, V=4, more=()):
    """Parts of a batch, each scores (B, n, V), original tokens and blanks (B, n)."""

    def part(batch, n, blanks):
        chosen = mt.zeros(batch * n, dtype=mt.bool)
        chosen[mt.tensor(draw.random.permutation(batch * n)[:blanks])] = True
        scores = 3 * draw.normal(batch, n, V)
        return scores, draw.integers(V, batch, n), chosen.reshape(batch, n)

    yield ([part(1, 2, 1)],)
    yield ([part(2, 3, 4)],)
    yield ([part(2, 3, 1), part(1, 4, 3)],)
    yield ([part(3, 2, 2), part(3, 2, 5), part(1, 5, 0)],)
    yield ([part(2, 2, 0)],)
    scores, original, blanks = part(2, 4, 3)
    yield ([(scores.masked_fill(~blanks.unsqueeze(-1), mt.nan), original, blanks)],)
    scores, original, blanks = part(1, 3, 2)
    yield ([(1000 * scores, original, blanks)],)
    for count in more:
        yield ([part(2, 7, 1 + i) for i in range(count)],)


def _a_tensor(answer, parts):
    if not isinstance(answer(parts), mt.Tensor):
        return "A plain number has no `backward`: return a tensor, also where there are no blanks."
    return None


def _a_gradient_of_nothing(answer, parts):
    """Without blanks the gradient is 0, and `backward` does not stop."""
    leaves = [(scores.detach().requires_grad_(), *others) for scores, *others in parts]
    if not answer(leaves).requires_grad:
        return (
            "`backward` stops with an error, since the loss has come from no scores. An empty sum "
            "of them is 0, and carries a gradient: scores[blanks].sum()."
        )
    return None


blank_loss = exercise(
    "blank_loss",
    cases=_loss_cases,
    forbidden=("cross_entropy",),
    instead="log_softmax or logsumexp, and the blanks as an index",
    properties=(_a_tensor, _a_gradient_of_nothing),
    see='chapter 13, "A masked language model"',
)
