"""A loss with smoothed targets, in which padding has no part."""

import math

import minitorch as mt
from textbook.checks.compare import difference
from textbook.checks.exercise import exercise


def _loss_cases(draw, hidden):
    """Scores (B, T, V), targets (B, T), smoothing, the number of the padding token."""
    sizes = (
        [(1, 3, 4, 0), (2, 4, 5, 2), (3, 3, 6, 5)] if not hidden else [(2, 5, 7, 3), (3, 4, 4, 0)]
    )
    for i, (batch, steps, size, padding) in enumerate(sizes):
        for smoothing in (0.1, 0.0, 0.3, 1.0)[: 4 if i == 1 else 2]:
            scores = draw.normal(batch, steps, size)
            targets = (padding + 1 + draw.integers(size - 1, batch, steps)) % size
            lengths = (1 + draw.integers(steps, batch)).unsqueeze(1)
            lengths[0] = steps - 1 if batch > 1 else steps
            targets = targets.masked_fill(mt.arange(steps) >= lengths, padding)
            yield scores, targets, smoothing, padding
    scores = scores.clone()
    scores[..., padding] = -mt.inf  # a model that never says padding
    yield scores, targets, 0.2, padding
    scores = draw.normal(*scores.shape) * 400
    yield scores, targets, 0.1, padding
    scores = draw.normal(*scores.shape)
    scores[targets == padding] = mt.nan
    yield scores, targets, 0.1, padding


def _wanted(right, allowed, smoothing):
    """The distribution that is asked for: (..., V)."""
    others = allowed & (right == 0)
    return (1 - smoothing) * right + smoothing * others / others.sum(dim=-1, keepdim=True)


def _column(scores, padding):
    """(V): True at the padding token."""
    return mt.arange(scores.shape[-1]) == padding


def _mean(losses, real):
    return losses[real].mean()


def _smoothed(
    wanted=_wanted,
    log_p=lambda scores: scores.log_softmax(dim=-1),
    reduce=_mean,
    clean=lambda scores, real: scores.masked_fill(~real.unsqueeze(-1), 0.0),
    allowed=lambda tokens, padding: tokens != padding,
    times=lambda q, log_p: mt.where(q == 0, 0.0, q * log_p.masked_fill(q == 0, 0.0)),
    counts=lambda targets, padding: targets != padding,
    keep=lambda scores, padding: scores,
):
    """The loss with one of its pieces exchanged."""

    def loss(scores, targets, smoothing, padding):
        real, tokens = counts(targets, padding), mt.arange(scores.shape[-1])
        right = (targets.unsqueeze(-1) == tokens).to(scores.dtype)
        q = wanted(right, allowed(tokens, padding), smoothing)
        losses = -times(q, log_p(keep(clean(scores, real), padding))).sum(dim=-1)
        return reduce(losses, real)

    return loss


def _asked_for(check, answer, *_):
    """The distribution that a loss asks for, read off its gradient softmax(scores) S - q."""
    scores = mt.zeros(1, 1, 5, requires_grad=True)
    loss = answer(scores, mt.tensor([[3]]), 0.3, 1)
    loss.backward()
    total = loss.item() / math.log(5)
    asked = [total / 5 - x for x in scores.grad.flatten().tolist()]
    wanted = [0.1, 0.0, 0.1, 0.7, 0.1]
    if max(abs(x - y) for x, y in zip(asked, wanted, strict=True)) < 1e-6:
        return None
    return (
        "With V = 5, padding 1, smoothing 0.3 and the right token 3, your loss asks for the shares "
        f"q = [{', '.join(f'{x + 0.0:.3g}' for x in asked)}]; "
        f"[{', '.join(f'{x:.3g}' for x in wanted)}] belongs there."
    )


def _multiplied_by_0(check, answer, scores, targets, smoothing, padding):
    """Right but for scores that are NaN at padding."""
    if scores.isnan().any():
        wanted = check.reference(scores, targets, smoothing, padding)
        if not difference(answer(scores, targets, smoothing, padding), wanted, ""):
            return (
                "The loss is right; the gradient is NaN: on the way back 0 meets NaN. Take "
                "scores[real] before the softmax."
            )
    numbers = scores.masked_fill((targets == padding).unsqueeze(-1), 0.0)
    case = numbers, targets, smoothing, padding
    if scores.isnan().any() and not difference(answer(*case), check.reference(*case), ""):
        return (
            "With numbers in place of the NaN at padding it is right. A loss that is multiplied by "
            "0 stays NaN: leave these positions out, by an index or by masked_fill."
        )
    return None


@exercise(
    cases=_loss_cases,
    reasons=(_multiplied_by_0, _asked_for),
    forbidden=("cross_entropy",),
    instead="log_softmax, indexing, sums and means",
    see='chapter 11, "The ingredients of training"',
)
def smoothed_loss(scores, targets, smoothing, padding):
    """scores (B, T, V), targets (B, T) give the mean loss over all targets that are no padding."""
    real = targets != padding
    log_p, words = scores[real].log_softmax(dim=-1), targets[real]  # (R, V), (R)
    right = log_p[mt.arange(len(words)), words]
    sayable = mt.arange(scores.shape[-1]) != padding
    others = log_p[:, sayable].sum(dim=-1) - right
    return -((1 - smoothing) * right + smoothing / (scores.shape[-1] - 2) * others).mean()


def _spread(share):
    """Targets of which `share(right, allowed, smoothing)` is what the tokens get."""
    return {"wanted": share}


for name, hint, pieces in (
    (
        "the plain cross-entropy: nothing is smoothed",
        "1 - smoothing on the right token; the rest goes to the other tokens.",
        _spread(lambda right, allowed, smoothing: right),
    ),
    (
        "the loss of chapter 11: every token gets a share of the rest, padding and the right one "
        "too",
        "The right token keeps 1 - smoothing, padding gets nothing, and V - 2 tokens share the "
        "rest.",
        _spread(
            lambda right, allowed, smoothing: (1 - smoothing) * right + smoothing / right.shape[-1]
        ),
    ),
    (
        "right but for padding, which gets a share of the rest",
        "Nobody should learn to say padding: the rest goes to V - 2 tokens, not to V - 1.",
        _spread(lambda right, allowed, smoothing: _wanted(right, allowed | ~allowed, smoothing)),
    ),
    (
        "right but for the right token, which gets a share of the rest, too",
        "The right token keeps 1 - smoothing: the rest goes to the V - 2 others.",
        _spread(
            lambda right, allowed, smoothing: (
                (1 - smoothing) * right + smoothing * allowed / (right.shape[-1] - 1)
            )
        ),
    ),
    (
        "right but for the right token, which gets smoothing / (V - 2) on top",
        "The right token has enough: it keeps 1 - smoothing, and only the others share the rest.",
        _spread(
            lambda right, allowed, smoothing: (
                (1 - smoothing) * right + smoothing * allowed / (right.shape[-1] - 2)
            )
        ),
    ),
    (
        "right but for padding, which gets smoothing / (V - 2) as well",
        "Nobody should learn to say padding: its share is 0.",
        _spread(
            lambda right, allowed, smoothing: (
                (1 - smoothing) * right + smoothing * (right == 0) / (right.shape[-1] - 2)
            )
        ),
    ),
    (
        "right but for every share of the rest, which is smoothing / V",
        "V - 2 tokens share the rest, so that all adds up to 1.",
        _spread(
            lambda right, allowed, smoothing: (
                (1 - smoothing) * right + smoothing * (allowed & (right == 0)) / right.shape[-1]
            )
        ),
    ),
    (
        "right but for every share of the rest, which is smoothing / (V - 1)",
        "Neither the right token nor padding gets a share: V - 2 tokens are left.",
        _spread(
            lambda right, allowed, smoothing: (
                (1 - smoothing) * right
                + smoothing * (allowed & (right == 0)) / (right.shape[-1] - 1)
            )
        ),
    ),
    (
        "right but for the rest, of which each token gets all",
        "V - 2 tokens share it: each gets smoothing / (V - 2).",
        _spread(
            lambda right, allowed, smoothing: (
                (1 - smoothing) * right + smoothing * (allowed & (right == 0))
            )
        ),
    ),
    (
        "right but for the right token, which keeps its 1",
        "It gives smoothing away: 1 - smoothing is left.",
        _spread(
            lambda right, allowed, smoothing: (
                right + _wanted(right, allowed, smoothing) * (right == 0)
            )
        ),
    ),
    (
        "right but for the two shares, which are exchanged",
        "1 - smoothing belongs to the right token, smoothing to the others.",
        _spread(lambda right, allowed, smoothing: _wanted(right, allowed, 1 - smoothing)),
    ),
    (
        "right but for the sign",
        "Logarithms of probabilities are negative; the loss is minus their mean.",
        {"reduce": lambda losses, real: -_mean(losses, real)},
    ),
    (
        "right but for the mean: it divides by the number of all positions",
        "The loss is a mean over real tokens: padding is no part of the count.",
        {"reduce": lambda losses, real: mt.where(real, losses, 0.0).mean()},
    ),
    (
        "right but for the mean: it is taken for each sequence, and then over the sequences",
        "Each real token of the batch counts the same: one mean over all of them.",
        {"reduce": lambda losses, real: (mt.where(real, losses, 0.0).sum(1) / real.sum(1)).mean()},
    ),
    (
        "the sum of the losses, not their mean",
        "Divide by the number of real tokens.",
        {"reduce": lambda losses, real: losses[real].sum()},
    ),
    (
        "a loss of each token, not their mean",
        "Return one number, the mean over all real tokens.",
        {"reduce": lambda losses, real: losses[real]},
    ),
    (
        "right but for the logarithm: it takes the scores as they are",
        "Scores are no logarithms of probabilities before log_softmax.",
        {"log_p": lambda scores: scores},
    ),
    (
        "right but for the logarithm, which is missing: it takes the probabilities",
        "The loss is -sum q log p, with the logarithm of the softmax.",
        {"log_p": lambda scores: scores.softmax(dim=-1)},
    ),
    (
        "right but for the softmax, which goes over the positions",
        "The softmax goes over the vocabulary, the last axis.",
        {"log_p": lambda scores: scores.log_softmax(dim=1)},
    ),
    (
        "right but for the softmax, from which padding is left out",
        "p is the softmax over all V tokens: what the model gives to padding, it loses elsewhere. "
        "Only q is 0 there.",
        {"keep": lambda scores, padding: scores.masked_fill(_column(scores, padding), -mt.inf)},
    ),
    (
        "infinite or not a number where scores are large: log(softmax) underflows",
        "The softmax of a score that lies hundreds below is 0, and log(0) is minus infinity. Use "
        "log_softmax.",
        {"log_p": lambda scores: scores.softmax(dim=-1).log()},
    ),
    (
        "right but for large scores: a small number is added before the logarithm",
        "It bends every logarithm, and cuts the losses off. log_softmax needs no such help.",
        {"log_p": lambda scores: (scores.softmax(dim=-1) + 1e-9).log()},
    ),
    (
        "not a number where padding has the score minus infinity: its share 0 is multiplied by it",
        "0 times infinity is not a number. Leave the column of padding out.",
        {"times": lambda q, log_p: q * log_p},
    ),
    (
        "not a number where scores at padding are: they are multiplied by 0",
        "0 times NaN is NaN, in the gradient, too. Leave these positions out: scores[real].",
        {
            "clean": lambda scores, real: scores,
            "reduce": lambda losses, real: (losses * real).sum() / real.sum(),
        },
    ),
    (
        "right but for the padding, which is taken to be 0",
        "The padding's number is the argument padding.",
        {
            "counts": lambda targets, padding: targets != 0,
            "allowed": lambda tokens, padding: tokens != 0,
        },
    ),
):
    smoothed_loss.wrong(name, hint)(_smoothed(**pieces))


@smoothed_loss.wrong(
    "the Kullback-Leibler divergence: the entropy of the smoothed targets is taken off",
    "It has the same gradient, and is smaller by a number: the loss asked for is -sum q log p.",
)
def _(scores, targets, smoothing, padding):
    rest = scores.shape[-1] - 2
    parts = mt.tensor([1 - smoothing] + [smoothing / rest] * rest, dtype=scores.dtype)
    parts = parts[parts > 0]
    return _smoothed()(scores, targets, smoothing, padding) + (parts * parts.log()).sum()
