"""Answers to the exercises of ``padding.py``."""

import numpy as np

import minitorch as mt
from textbook.checks.chapter_07.padding import _kinds, reading_padding
from textbook.checks.exercise import Draw
from textbook.checks.suspects import in_parts, shuffled


@reading_padding.answer(hidden_cases=lambda draw: in_parts(shuffled(_kinds(), Draw(1).random), 1))
def reading_padding(encoders):
    """The numbers of the encoders that do not give each sentence what it gets alone."""

    def as_alone(encoder, lengths, n):
        x = mt.randn(len(lengths), n, 6, dtype=mt.float64)
        together = encoder(x, mt.tensor(lengths))
        return all(
            mt.allclose(
                together[b, :length],
                encoder(x[b : b + 1, :length], mt.tensor([length]))[0],
                atol=1e-9,
            )
            for b, length in enumerate(lengths)
        )

    batches = [([3, 5], 6), ([2, 4, 3], 4), ([4, 1, 5, 2], 7), ([1], 3), ([5], 7)]
    return [
        i
        for i, encoder in enumerate(encoders)
        if not all(as_alone(encoder, *batch) for batch in batches)
    ]


# Right in another way


def reading_with_numpy(encoders):
    random, found = np.random.default_rng(2), []
    for i, encoder in enumerate(encoders):
        worst = 0.0
        for lengths in ([5, 2], [3, 6, 1], [4, 2, 6, 3], [1, 7, 2]):
            x = random.standard_normal((len(lengths), 8, 6))
            together = encoder(mt.tensor(x), mt.tensor(lengths)).numpy()
            for b, length in enumerate(lengths):
                short = mt.tensor(x[b : b + 1, :length].copy())
                alone = encoder(short, mt.tensor([length])).numpy()[0]
                worst = max(worst, np.nan_to_num(np.abs(together[b, :length] - alone), nan=9).max())
        if worst > 1e-9:
            found.append(np.int64(i))
    return found


def reading_by_growing(encoders):
    """A sentence in a larger and larger batch."""

    def reads(encoder):
        x = mt.randn(4, 7, 6, dtype=mt.float64)
        lengths = [3, 5, 2, 4]
        alone = [encoder(x[b : b + 1, :n], mt.tensor([n]))[0] for b, n in enumerate(lengths)]
        for batch in (1, 2, 3, 4):
            together = encoder(x[:batch], mt.tensor(lengths[:batch]))
            for b in range(batch):
                if not mt.allclose(together[b, : lengths[b]], alone[b], atol=1e-9):
                    return True
        return False

    return tuple(i for i, encoder in enumerate(encoders) if reads(encoder))


right = {
    "reading_padding": [reading_with_numpy, reading_by_growing],
}
