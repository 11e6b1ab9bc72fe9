"""Answers to the exercises of ``statistics.py``."""

import minitorch as mt
from textbook.checks.chapter_09.statistics import _padded_cases, batch_statistics


@batch_statistics.answer(
    hidden_cases=lambda draw: _padded_cases(
        draw, others=[(3, 3, 3, [3, 1, 2]), (1, 4, 2, [2]), (4, 5, 2, None), (3, 2, 4, [0, 1, 0])]
    )
)
def batch_statistics(x, real):
    """x (B, n, d) and real (B, n) give mean (d) and variance (d)."""
    tokens = x[real]  # (number of real tokens, d)
    mean = tokens.mean(dim=0)
    return mean, ((tokens - mean) ** 2).mean(dim=0)


def _of_sequences(x, real):
    """Mean and variance of each sequence that has real tokens: two tensors (B', d)."""
    rows = [row[there] for row, there in zip(x, real, strict=True) if there.any()]
    return (
        mt.stack([row.mean(dim=0) for row in rows]),
        mt.stack([row.var(dim=0, unbiased=False) for row in rows]),
    )


# Right in another way


def statistics_with_where(x, real):
    """NaN is replaced before it is multiplied by anything."""
    there = real.unsqueeze(-1)
    count = real.sum()
    mean = mt.where(there, x, 0.0).sum(dim=(0, 1)) / count
    return mean, (mt.where(there, x - mean, 0.0) ** 2).sum(dim=(0, 1)) / count


def statistics_by_second_moment(x, real):
    tokens = x.flatten(0, 1)[real.flatten()]
    mean = tokens.mean(0)
    return [mean, (tokens**2).mean(0) - mean**2]


def statistics_of_kept_tokens(x, real):
    tokens = mt.stack([x[b, i] for b in range(len(x)) for i in range(x.shape[1]) if real[b, i]])
    return tokens.mean(dim=0), tokens.var(dim=0, unbiased=False)


def statistics_in_numpy(x, real):
    tokens = x.numpy()[real.numpy()]
    return mt.tensor(tokens.mean(axis=0)), mt.tensor(tokens.var(axis=0))


def statistics_with_products(x, real):
    shares = (real / real.sum()).flatten()
    rows = mt.where(real.unsqueeze(-1), x, 0.0).flatten(0, 1)
    mean = shares @ rows
    return mean, shares @ (rows - mean) ** 2


right = {
    "batch_statistics": [
        statistics_with_where,
        statistics_by_second_moment,
        statistics_of_kept_tokens,
        statistics_with_products,
        statistics_in_numpy,
    ],
}
