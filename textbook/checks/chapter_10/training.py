"""The rate of each step, and the loss with smoothed labels."""

import minitorch as mt
from minitorch import nn, optim
from textbook.checks.exercise import exercise

# The schedule


def _rate_cases(draw, hidden):
    """Rates that the groups have before, the step, the width and the steps of warm-up."""
    yield from [([1.0], 1, 16, 4), ([0.1], 4, 16, 4), ([0.5, 2.0], 9, 4, 4), ([0.3], 100, 64, 25)]
    if hidden:
        yield from [([1.0, 0.0, 3.0], 2, 512, 4000), ([0.1], 5000, 512, 4000), ([1.0], 1, 1, 1)]


def _rates_after(answer, before, step, width, steps):
    """The rates of all groups, and where a step of plain gradient descent then leads."""
    groups = [{"params": [nn.Parameter(mt.ones(1))], "lr": rate} for rate in before]
    optimizer = optim.SGD(groups, lr=7.0)
    for group in groups:
        group["params"][0].grad = mt.ones(1)
    answer(optimizer, step, width, steps)
    taken = [1 - group["params"][0].item() for group in groups]
    optimizer.step()
    return {
        "the list of the groups' rates": [group["lr"] for group in optimizer.param_groups],
        "the list of what your function itself takes off the weights": taken,
        "the list of weights after a step": [1 - group["params"][0].item() for group in groups],
    }


def rate(step, width, steps):
    """The rate of Vaswani et al. (2017)."""
    return width**-0.5 * min(step**-0.5, step * steps**-1.5)


def _setting(rate, groups=lambda optimizer: optimizer.param_groups):
    """A schedule with another rate or for other groups."""

    def set_rate(optimizer, step, width, steps):
        for group in groups(optimizer):
            group["lr"] = rate(step, width, steps)

    return set_rate


@exercise(
    cases=_rate_cases,
    run=_rates_after,
    gradients=False,
    see='chapter 11, "With and without each ingredient (E1)"',
)
def set_rate(optimizer, step, width, steps):
    """Set the learning rate of a step, counted from 1, in all groups of the optimizer."""
    for group in optimizer.param_groups:
        group["lr"] = width**-0.5 * min(step**-0.5, step * steps**-1.5)


@set_rate.wrong(
    "one that leaves the rates of the optimizer's groups as they are",
    "A rate that is returned, or written elsewhere, is not used: for each group of "
    "optimizer.param_groups, set group['lr'].",
)
def _(optimizer, step, width, steps):
    return rate(step, width, steps)


@set_rate.wrong(
    "right for the first group of parameters, and the other groups keep their rate",
    "There may be several groups: go through all of optimizer.param_groups.",
)
def _(optimizer, step, width, steps):
    _setting(rate, lambda optimizer: optimizer.param_groups[:1])(optimizer, step, width, steps)


@set_rate.wrong(
    "a factor: the rate that is there already is multiplied",
    "The formula gives the rate itself. Multiplied at each step, it would shrink to nothing.",
)
def _(optimizer, step, width, steps):
    for group in optimizer.param_groups:
        group["lr"] *= rate(step, width, steps)


@set_rate.wrong(
    "right but for a step of the optimizer, which it takes, too",
    "It sets the rate alone: optimizer.step() comes after the gradients, in the training loop.",
)
def _(optimizer, step, width, steps):
    _setting(rate)(optimizer, step, width, steps)
    optimizer.step()


@set_rate.wrong(
    "right but for the rate, which is a tensor",
    "A learning rate is a plain number: leave the tensors out, or take .item().",
)
def _(optimizer, step, width, steps):
    _setting(lambda *numbers: mt.tensor(rate(*numbers)))(optimizer, step, width, steps)


for name, hint, wrong_rate in (
    (
        "right but for the minimum, which is a maximum",
        "At step 1 the second term is the smaller one: it rises until both meet at step w.",
        lambda step, width, steps: width**-0.5 * max(step**-0.5, step * steps**-1.5),
    ),
    (
        "right but for the width, which is left out",
        "Multiply by width to the power of -1/2.",
        lambda step, width, steps: min(step**-0.5, step * steps**-1.5),
    ),
    (
        "right but for the count of steps, which starts at 0",
        "The first step is 1 already: use step as it is.",
        lambda step, width, steps: width**-0.5 * min((step + 1) ** -0.5, (step + 1) * steps**-1.5),
    ),
    (
        "right up to step w, then constant",
        "After the warm-up the rate falls with the root of t.",
        lambda step, width, steps: (width * steps) ** -0.5 * min(1, step / steps),
    ),
    (
        "a fall from the first step on, without warm-up",
        "Up to step w the smaller term is t times w to the power of -3/2 (and not of 3/2).",
        lambda step, width, steps: (width * step) ** -0.5,
    ),
    (
        "right but for the rise, whose power of w is -1/2",
        "The line must meet the fall at step w: w times w to the power of -3/2 is w to the power "
        "of -1/2.",
        lambda step, width, steps: width**-0.5 * min(step**-0.5, step * steps**-0.5),
    ),
):
    set_rate.wrong(name, hint)(_setting(wrong_rate))


# Label smoothing

PADDING = 0


def _loss_cases(draw, hidden):
    """Scores (B, T, V), targets (B, T) with padding at the end, the smoothing."""
    sizes = [(1, 2, 3, 0.1), (3, 3, 5, 0.4), (2, 2, 4, 0.0)] + [(3, 4, 7, 0.2)] * hidden
    for batch, length, vocabulary, smoothing in sizes:
        targets = 1 + draw.integers(vocabulary - 1, batch, length)
        if batch > 1:
            targets[0, 1:] = PADDING
        yield draw.normal(batch, length, vocabulary) * 3, targets, smoothing, PADDING
    yield draw.normal(2, 2, 3) * 400, mt.tensor([[1, 2], [0, 1]]), 0.1, 2


def spread_over_all(right, smoothing):
    """The target's distribution (..., V) from one-hot rows: a share goes to every token."""
    return (1 - smoothing) * right + smoothing / right.shape[-1]


def mean_over(real, losses):
    """The mean of the losses at real tokens."""
    return losses[real].mean()


def _smoothed(
    distribution=spread_over_all,
    reduce=mean_over,
    log_p=lambda scores: scores.log_softmax(dim=-1),
):
    """The loss with one of its pieces exchanged."""

    def loss(scores, targets, smoothing, padding):
        right = mt.eye(scores.shape[-1])[targets]  # (B, T, V)
        losses = -(distribution(right, smoothing) * log_p(scores)).sum(dim=-1)
        return reduce(targets != padding, losses)

    return loss


def _stays_finite(answer, scores, targets, smoothing, padding):
    if not mt.isfinite(answer(scores, targets, smoothing, padding)).all():
        return (
            "The loss must stay finite, with scores in the hundreds, too: a softmax rounds to 0, "
            "whose logarithm is minus infinity. log_softmax takes both in one step."
        )
    return None


def _padding_takes_no_part(answer, scores, targets, smoothing, padding):
    others = mt.where((targets == padding).unsqueeze(-1), 2 * scores.flip(-1), scores)
    before = answer(scores, targets, smoothing, padding)
    if not mt.allclose(answer(others, targets, smoothing, padding), before):
        return "The scores at padding must not change the loss."
    return None


@exercise(
    cases=_loss_cases,
    forbidden=("cross_entropy",),
    instead="log_softmax, indexing, sums and means",
    properties=(_stays_finite, _padding_takes_no_part),
    see='chapter 11, "With and without each ingredient (E1)"',
)
def smoothed_cross_entropy(scores, targets, smoothing, padding):
    """scores (B, T, V), targets (B, T) give the mean loss over all targets that are no padding."""
    real = targets != padding
    log_p = scores.log_softmax(dim=-1)[real]  # (number of real tokens, V)
    right = log_p[mt.arange(len(log_p)), targets[real]]
    return -((1 - smoothing) * right + smoothing * log_p.mean(dim=-1)).mean()


for name, hint, pieces in (
    (
        "the plain cross-entropy: nothing is smoothed",
        "The target is a distribution: 1 - smoothing on the right token, and smoothing / V more "
        "on every token.",
        {"distribution": lambda right, smoothing: right},
    ),
    (
        "right but for the right token, which gets 1 - smoothing alone, without its share of the "
        "rest",
        "smoothing / V goes to every one of the V tokens, the right one too: so the distribution "
        "adds up to 1.",
        {
            "distribution": lambda right, smoothing: (
                (1 - smoothing) * right + (1 - right) * smoothing / right.shape[-1]
            )
        },
    ),
    (
        "right but for the rest, which is spread over the other V - 1 tokens",
        "That is a habit, too; here smoothing / V goes to every one of the V tokens.",
        {
            "distribution": lambda right, smoothing: (
                (1 - smoothing) * right + (1 - right) * smoothing / (right.shape[-1] - 1)
            )
        },
    ),
    (
        "right but for every share of the rest, which is smoothing / (V - 1)",
        "smoothing is divided by V, the number of all tokens: so the distribution adds up to 1.",
        {
            "distribution": lambda right, smoothing: (
                (1 - smoothing) * right + smoothing / (right.shape[-1] - 1)
            )
        },
    ),
    (
        "right but for the rest, which is not divided by the size of the vocabulary",
        "All V tokens together get smoothing: each smoothing / V.",
        {"distribution": lambda right, smoothing: (1 - smoothing) * right + smoothing},
    ),
    (
        "right but for the right token, which keeps its 1",
        "The right token gives smoothing away: (1 - smoothing) on it, then smoothing / V on all.",
        {"distribution": lambda right, smoothing: right + smoothing / right.shape[-1]},
    ),
    (
        "right but for the two shares, which are exchanged",
        "1 - smoothing belongs to the right token, smoothing is spread over all.",
        {"distribution": lambda right, smoothing: spread_over_all(right, 1 - smoothing)},
    ),
    (
        "right but for the sign",
        "Logarithms of probabilities are negative; the loss is minus their mean.",
        {"reduce": lambda real, losses: -mean_over(real, losses)},
    ),
    (
        "right but for the padding, which counts",
        "Leave the positions out where the target is padding.",
        {"reduce": lambda real, losses: losses.mean()},
    ),
    (
        "right but for the mean: it divides by the number of all positions",
        "The loss is a mean over real tokens: padding is no part of the count.",
        {"reduce": lambda real, losses: (losses * real).mean()},
    ),
    (
        "right but for the mean: it is taken for each sequence, and then over the sequences",
        "Each real token of the batch counts the same: one mean over all of them.",
        {"reduce": lambda real, losses: ((losses * real).sum(1) / real.sum(1)).mean()},
    ),
    (
        "the sum of the losses, not their mean",
        "Divide by the number of real tokens.",
        {"reduce": lambda real, losses: losses[real].sum()},
    ),
    (
        "right but for the tokens that count: the padding alone",
        "The loss is a mean over the tokens that are no padding.",
        {"reduce": lambda real, losses: losses[~real].mean()},
    ),
    (
        "a loss of each token, not their mean",
        "Return one number, the mean over all real tokens.",
        {"reduce": lambda real, losses: losses},
    ),
    (
        "right but for the logarithm: it takes the scores as they are",
        "Scores are no logarithms of probabilities before log_softmax.",
        {"log_p": lambda scores: scores},
    ),
    (
        "right but for the logarithm, which is missing: it takes the probabilities",
        "The loss is -sum p log q, with the logarithm of the softmax.",
        {"log_p": lambda scores: scores.softmax(dim=-1)},
    ),
    (
        "right but for the softmax, which goes over the positions",
        "The softmax goes over the vocabulary, the last axis.",
        {"log_p": lambda scores: scores.log_softmax(dim=1)},
    ),
    (
        "not a number or infinite where scores are large: log(softmax) underflows",
        "The softmax of a score that lies hundreds below is 0, and log(0) is minus infinity. Use "
        "log_softmax.",
        {"log_p": lambda scores: scores.softmax(dim=-1).log()},
    ),
):
    smoothed_cross_entropy.wrong(name, hint)(_smoothed(**pieces))


@smoothed_cross_entropy.wrong(
    "right but for the positions that count: those where the target is not 0",
    "The padding's number is the argument padding.",
)
def _(scores, targets, smoothing, padding):
    return _smoothed()(scores, targets, smoothing, 0)


@smoothed_cross_entropy.wrong(
    "right but for the shapes: the losses of the right tokens are (B, T, 1), the others (B, T)",
    "Broadcasting makes (B, T, T) of them, with every position beside every other one. Take the "
    "last axis away after gather: squeeze(-1).",
)
def _(scores, targets, smoothing, padding):
    log_p = scores.log_softmax(dim=-1)
    right = log_p.gather(2, targets.unsqueeze(2))
    losses = -(1 - smoothing) * right - smoothing * log_p.mean(dim=-1)
    return losses[targets != padding].mean()
