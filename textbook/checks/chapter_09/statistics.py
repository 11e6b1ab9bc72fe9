"""The statistics of a batch with padding."""

import minitorch as mt
from textbook.checks.released import exercise


def _padded_cases(draw, others=()):
    """Padding at the end and anywhere, down to one real token; in it whatever there may be."""
    sizes = others or [(2, 3, 4, [3, 1]), (2, 4, 2, None), (3, 4, 1, [4, 0, 1]), (2, 2, 3, [0, 1])]
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


batch_statistics = exercise(
    "batch_statistics",
    cases=_padded_cases,
    properties=(_padding_takes_no_part,),
    reasons=(_all_real_tokens_are_equal,),
    gradients=False,
    see='chapter 09, "Batch norm"',
)
