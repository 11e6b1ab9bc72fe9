"""The statistics of a batch with padding."""

import minitorch as mt
from textbook.checks.exercise import exercise


def _padded_cases(draw, hidden):
    """Padding at the end and anywhere, down to one real token; in it whatever there may be."""
    sizes = [(2, 3, 4, [3, 1]), (2, 4, 2, None), (3, 4, 1, [4, 0, 1]), (2, 2, 3, [0, 1])]
    if hidden:
        sizes = [(3, 3, 3, [3, 1, 2]), (1, 4, 2, [2]), (4, 5, 2, None), (3, 2, 4, [0, 1, 0])]
    for i, (batch, n, d, lengths) in enumerate(sizes):
        if lengths is None:
            real = draw.integers(2, batch, n) == 0
            real[-1, -1] = True
        else:
            real = mt.arange(n) < mt.tensor(lengths).unsqueeze(1)
        x = draw.normal(batch, n, d) + 2
        if i >= 2:
            x[~real] = mt.tensor([1e300, mt.nan, mt.inf, -mt.inf, mt.nan])[: x.shape[-1]].to(x)
        yield x, real


def _share(real):
    """1 at real tokens and 0 elsewhere, with an axis for the features: (B, n, 1)."""
    return real.unsqueeze(-1).double()


def _zeros_at_padding(x, real):
    return x.masked_fill(~real.unsqueeze(-1), 0.0)


def _mean_of_real(x, real):
    """(..., d)."""
    return _zeros_at_padding(x, real).sum(dim=(0, 1)) / real.sum()


def _statistics(
    mean=_mean_of_real, variance=lambda x, real, mean: _mean_of_real((x - mean) ** 2, real)
):
    """Mean and variance with one of them exchanged."""

    def statistics(x, real):
        center = mean(x, real)
        return center, variance(x, real, center)

    return statistics


def _variance_of_all(x, real, mean):
    return ((x - mean) ** 2).mean(dim=(0, 1))


def _padding_takes_no_part(answer, x, real):
    padding = (~real).unsqueeze(-1)
    before, after = answer(x, real), answer(mt.where(padding, 5.0, x), real)
    same = [mt.allclose(a, b, equal_nan=True) for a, b in zip(before, after, strict=True)]
    if not all(same):
        return "What stands in the padding must change neither the mean nor the variance."
    return None


def _all_real_tokens_are_equal(check, answer, x, real):
    mean, variance = answer(x, real)
    if mean.shape != x.shape[-1:] or variance.shape != mean.shape:
        return None

    def differ(*given):
        pairs = zip((mean, variance), answer(*given), strict=True)
        return not all(mt.allclose(a, b, equal_nan=True) for a, b in pairs)

    if differ(x.flatten(0, 1).unsqueeze(0), real.flatten().unsqueeze(0)):
        return "Every real token counts the same, in whichever sequence it stands, long or short."
    other = x.clone()
    other[..., 0] = other[..., 0] * 2 + 1
    pairs = zip((mean, variance), answer(other, real), strict=True)
    if not all(mt.allclose(a[1:], b[1:], equal_nan=True) for a, b in pairs):
        return "The statistics of a feature must not depend on the other features."
    return None


@exercise(
    cases=_padded_cases,
    properties=(_padding_takes_no_part,),
    reasons=(_all_real_tokens_are_equal,),
    gradients=False,
    see='chapter 09, "Batch norm"',
)
def batch_statistics(x, real):
    """x (B, n, d) and real (B, n) give mean (d) and variance (d)."""
    tokens = x[real]  # (number of real tokens, d)
    mean = tokens.mean(dim=0)
    return mean, ((tokens - mean) ** 2).mean(dim=0)


batch_statistics.wrong(
    "right but for padding of NaN or infinity, which a product with 0 does not remove",
    "0 times NaN is NaN. Take the real tokens alone, x[real], or put zeros there with masked_fill "
    "or where.",
)(
    _statistics(
        lambda x, real: (x * _share(real)).sum(dim=(0, 1)) / real.sum(),
        lambda x, real, mean: ((x - mean) ** 2 * _share(real)).sum(dim=(0, 1)) / real.sum(),
    )
)


@batch_statistics.wrong(
    "right for padding at the end: it takes the first tokens of each sequence",
    "Padding may stand anywhere: real says where.",
)
def _(x, real):
    tokens = mt.cat([row[: int(there.sum())] for row, there in zip(x, real, strict=True)])
    mean = tokens.mean(dim=0)
    return mean, ((tokens - mean) ** 2).mean(dim=0)


@batch_statistics.wrong(
    "right but for a sequence without real tokens, whose mean is 0/0",
    "All real tokens of the batch together: a sequence with none adds nothing.",
)
def _(x, real):
    means = mt.stack([row[there].mean(dim=0) for row, there in zip(x, real, strict=True)])
    shares = real.sum(dim=1, keepdim=True) / real.sum()
    mean = (means * shares).sum(dim=0)
    return mean, ((x[real] - mean) ** 2).mean(dim=0)


batch_statistics.wrong(
    "the statistics of all positions: padding is counted with whatever stands there",
    "Only positions where real is True count: in the sums, and in their number.",
)(_statistics(lambda x, real: x.mean(dim=(0, 1)), _variance_of_all))
batch_statistics.wrong(
    "the statistics of all positions with zeros for the padding: what batch norm finds",
    "Zeros change the mean and the variance, too. Divide by the number of real tokens, and leave "
    "padding out of the sum of the squared differences.",
)(
    lambda x, real: _statistics(lambda x, real: x.mean(dim=(0, 1)), _variance_of_all)(
        _zeros_at_padding(x, real), real
    )
)
batch_statistics.wrong(
    "right but for the number that the sums are divided by, which counts the padding",
    "Divide by the number of real tokens, real.sum().",
)(
    _statistics(
        lambda x, real: _zeros_at_padding(x, real).mean(dim=(0, 1)),
        lambda x, real, mean: _zeros_at_padding((x - mean) ** 2, real).mean(dim=(0, 1)),
    )
)
batch_statistics.wrong(
    "right but for the variance, which goes over all positions",
    "The squared differences of real tokens alone.",
)(_statistics(variance=_variance_of_all))
batch_statistics.wrong(
    "right but for the variance: padding, set to zero, still differs from the mean",
    "First the difference and its square, then the mask: a masked x of 0 adds the square of the "
    "mean.",
)(
    _statistics(
        variance=lambda x, real, mean: (
            ((_zeros_at_padding(x, real) - mean) ** 2).sum(dim=(0, 1)) / real.sum()
        )
    )
)
batch_statistics.wrong(
    "right but for the variance: its sum is divided by all positions",
    "Divide by the number of real tokens, as for the mean.",
)(
    _statistics(
        variance=lambda x, real, mean: _zeros_at_padding((x - mean) ** 2, real).mean(dim=(0, 1)),
    )
)
batch_statistics.wrong(
    "right but for the mean: its sum is divided by all positions",
    "Divide by the number of real tokens, real.sum().",
)(
    lambda x, real: (
        _zeros_at_padding(x, real).mean(dim=(0, 1)),
        _statistics()(x, real)[1],
    )
)
batch_statistics.wrong(
    "right but for the variance, which divides by the number of real tokens less one",
    "Here the variance is the mean of the squares. Library functions divide by one less unless "
    "told otherwise: unbiased=False.",
)(
    _statistics(
        variance=lambda x, real, mean: (
            _zeros_at_padding((x - mean) ** 2, real).sum(dim=(0, 1)) / (real.sum() - 1)
        )
    )
)
batch_statistics.wrong(
    "right but for the variance, of which it gives the root",
    "The variance itself: no square root.",
)(_statistics(variance=lambda x, real, mean: _statistics()(x, real)[1] ** 0.5))
batch_statistics.wrong(
    "right but for the variance, from which the mean is not subtracted",
    "The variance is the mean of (x - mean) squared.",
)(_statistics(variance=lambda x, real, mean: _mean_of_real(x**2, real)))
batch_statistics.wrong(
    "the sums, not yet divided",
    "Divide by the number of real tokens, real.sum().",
)(
    _statistics(
        lambda x, real: _zeros_at_padding(x, real).sum(dim=(0, 1)),
        lambda x, real, mean: _zeros_at_padding((x - _mean_of_real(x, real)) ** 2, real).sum(
            dim=(0, 1)
        ),
    )
)
batch_statistics.wrong(
    "the statistics of the padding",
    "real is True at real tokens, and these are wanted.",
)(lambda x, real: _statistics()(x, ~real))
batch_statistics.wrong(
    "a mean and a variance for each token, as in layer norm",
    "A number for each feature, over all real tokens of the batch: (d).",
)(_statistics(lambda x, real: x.mean(dim=-1), lambda x, real, _: x.var(dim=-1, unbiased=False)))
batch_statistics.wrong(
    "a mean and a variance for each real token, as in layer norm",
    "A number for each feature, over all real tokens of the batch: (d).",
)(lambda x, real: (x[real].mean(dim=-1), x[real].var(dim=-1, unbiased=False)))
batch_statistics.wrong(
    "one mean and one variance for all features",
    "A number for each feature: (d).",
)(
    lambda x, real: (
        x[real].mean(),
        x[real].var(unbiased=False),
    )
)
batch_statistics.wrong(
    "right but for the order: the variance comes first",
    "Return the mean, then the variance.",
)(lambda x, real: _statistics()(x, real)[::-1])


def _of_sequences(x, real):
    """Mean and variance of each sequence that has real tokens: two tensors (B', d)."""
    rows = [row[there] for row, there in zip(x, real, strict=True) if there.any()]
    return (
        mt.stack([row.mean(dim=0) for row in rows]),
        mt.stack([row.var(dim=0, unbiased=False) for row in rows]),
    )


@batch_statistics.wrong(
    "an average over the sequences, each with its own mean and variance",
    "Every real token counts the same: a short sequence must not count as much as a long one.",
)
def _(x, real):
    means, variances = _of_sequences(x, real)
    return means.mean(dim=0), variances.mean(dim=0)


@batch_statistics.wrong(
    "right but for the mean, which is the mean of the sequences' own means",
    "Every real token counts the same: a short sequence must not count as much as a long one.",
)
def _(x, real):
    return _of_sequences(x, real)[0].mean(dim=0), _statistics()(x, real)[1]
