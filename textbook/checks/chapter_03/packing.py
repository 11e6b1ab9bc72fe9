"""What padding costs, and what packing saves."""

from textbook.checks.reasons import no_whole_number, part_by_part
from textbook.checks.released import exercise


def _length_cases(draw, count=17, size=4):
    """A last batch that is not full, one batch, batches of one, and large numbers."""
    yield [5, 2, 1], 2
    yield [3, 9, 4, 1, 7], 2
    yield [2, 7, 3], 5
    yield [4, 1, 6], 1
    yield [2, 8, 8, 3, 5, 1, 9, 4], 3
    yield [10**17 + 1, 3, 10**17, 8, 2], 3
    yield [int(n) + 1 for n in draw.integers(40, count).tolist()], size


def _batches(lengths, size):
    return [lengths[i : i + size] for i in range(0, len(lengths), size)]


def _padded(batches):
    return sum(len(batch) * max(batch) for batch in batches)


def _each(cut=_batches, count=len, longest=max):
    """For each batch so many sentences times so many words, added up."""
    return lambda lengths, size: sum(count(batch) * longest(batch) for batch in cut(lengths, size))


def _full(lengths, size):
    return [batch for batch in _batches(lengths, size) if len(batch) == size]


PADDED = {
    "every batch is filled up to the longest sentence of the corpus, not to its own": (
        lambda lengths, size: len(lengths) * max(lengths)
    ),
    "the last batch is counted as if it were full; it has the sentences that are left": (
        lambda lengths, size: sum(size * max(batch) for batch in _batches(lengths, size))
    ),
    "the last batch is left out where it is not full": _each(cut=_full),
    "the padding is counted alone; a cell is computed for every word, too": (
        lambda lengths, size: _padded(_batches(lengths, size)) - sum(lengths)
    ),
    "the last sentence of a batch is taken for its longest": _each(longest=lambda b: b[-1]),
    "the first sentence of a batch is taken for its longest": _each(longest=lambda b: b[0]),
    "the shortest sentence of a batch is taken in place of its longest": _each(longest=min),
    "`size` is taken for the number of batches; so many sentences go into one": _each(
        cut=lambda lengths, size: _batches(lengths, max(1, len(lengths) // size))
    ),
    "`size` batches are made; so many sentences go into one": _each(
        cut=lambda lengths, size: _batches(lengths, -(-len(lengths) // size))
    ),
    "the mean length, cut to an int, is taken in place of the longest": _each(
        longest=lambda b: int(sum(b) / len(b))
    ),
    "the mean length, by //, is taken in place of the longest": _each(
        longest=lambda b: sum(b) // len(b)
    ),
    "the mean length is taken in place of the longest": _each(longest=lambda b: sum(b) / len(b)),
    "the steps are counted, not a cell for each sentence at each of them": _each(
        count=lambda batch: 1
    ),
}
SLIPS = {
    "padded": PADDED,
    "sorted": {
        words: lambda lengths, size, way=way: way(sorted(lengths), size)
        for words, way in PADDED.items()
    }
    | {
        "the longest come first; the shortest should": lambda lengths, size: _padded(
            _batches(sorted(lengths, reverse=True), size)
        ),
    },
    "packed": {words: way for words, way in PADDED.items() if "mean" not in words}
    | {
        "each sentence has a word more": lambda lengths, size: sum(lengths) + len(lengths),
        "it is what packing saves": lambda lengths, size: (
            _padded(_batches(lengths, size)) - sum(lengths)
        ),
        "the last batch is left out where it is not full": lambda lengths, size: sum(
            map(sum, _full(lengths, size))
        ),
    },
    "steps": {
        "it is a step for every word; the sentences of a batch take theirs side by side": (
            lambda lengths, size: sum(lengths)
        ),
        "it is the longest batch alone; one batch comes after the other": (
            lambda lengths, size: max(lengths)
        ),
        "the steps of each batch are multiplied by its sentences, which take theirs side by side": (
            lambda lengths, size: sum(map(max, _batches(lengths, size))) * size
        ),
        "it is the number of batches": lambda lengths, size: len(_batches(lengths, size)),
        "it is the number of sentences": lambda lengths, size: len(lengths),
        "it is that of the sorted corpus": lambda lengths, size: sum(
            map(max, _batches(sorted(lengths), size))
        ),
        "all batches take as many as the longest": lambda lengths, size: (
            max(lengths) * len(_batches(lengths, size))
        ),
        "the last batch is left out where it is not full": lambda lengths, size: sum(
            map(max, _full(lengths, size))
        ),
    },
}


def _rounded(check, answer, lengths, size):
    """That the first wrong number is off by a rounding error alone."""
    right, found = check.reference(lengths, size), answer(lengths, size)
    off = {key: found[key] - value for key, value in right.items() if found[key] != value}
    for key in [*off][:1]:
        if abs(off[key]) < 1e-12 * right[key]:
            return (
                f"{key!r} is off by {abs(off[key])}, by rounding: a float holds about 16 digits. "
                "Calculate with whole numbers alone."
            )
    return None


cells = exercise(
    "cells",
    cases=_length_cases,
    gradients=False,
    properties=(no_whole_number,),
    reasons=(_rounded, part_by_part(SLIPS)),
    see='chapter 03, "Batches of different lengths"',
)
