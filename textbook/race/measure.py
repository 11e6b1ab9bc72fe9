"""What is measured in a race: nats a letter of text that the program has not seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

CONTEXT = 128  # letters of a window; windows lie side by side
AT_ONCE = 32  # windows
CLOSE = 1e-3  # what rounding may do to a log-probability

Predict = Callable[[np.ndarray], np.ndarray]


class RaceError(Exception):
    """What is wrong with a program; the message says what was expected and what came."""


@dataclass
class Parts:
    """A text cut for a race: nine tenths to learn from, two halves of the rest to measure on.

    ``open`` is the half to choose by; ``closed`` the one that is reported. ``letters`` are those of
    the whole text, in order: the letter ``letters[i]`` has the number i.
    """

    letters: str
    training: str
    open: str
    closed: str

    def numbers(self, text: str) -> np.ndarray:
        """A text as numbers (N)."""
        return as_numbers(text, self.letters)


def as_numbers(text: str, letters: str) -> np.ndarray:
    """The place of each letter of a text among ``letters`` (N)."""
    place = {letter: i for i, letter in enumerate(letters)}
    return np.array([place[letter] for letter in text])


def parts(text: str) -> Parts:
    """Cut a text for a race."""
    first, second = round(0.9 * len(text)), round(0.95 * len(text))
    letters = "".join(sorted(set(text)))
    return Parts(letters, text[:first], text[first:second], text[second:])


def nats_a_letter(predict: Predict, numbers: np.ndarray, letters: int) -> float:
    """The mean of -log p(next letter) over a text (N), read in windows of 128 side by side.

    ``predict(windows)`` gets letters (B, n) and gives, for each place, the log-probability of every
    letter to come next, from what stands up to there: (B, n, V). RaceError where that is no array
    of this shape, or no probabilities.
    """
    count = (len(numbers) - 1) // CONTEXT
    places = CONTEXT * np.arange(count)[:, None] + np.arange(CONTEXT + 1)
    total = 0.0
    for some in np.split(numbers[places], range(AT_ONCE, count, AT_ONCE)):
        found = _predicted(predict, some[:, :-1], letters)
        total -= np.take_along_axis(found, some[:, 1:, None], axis=-1).sum(dtype=np.float64)
    return total / (count * CONTEXT)


def refuse_unfair(predict: Predict, numbers: np.ndarray, letters: int) -> None:
    """RaceError if what is predicted at a place depends on more than the letters up to there.

    A few windows are read once more: in another order, in other company, with other letters behind
    a place. Up to that place the predictions must be what they were.
    """
    rng = np.random.default_rng()
    windows = numbers[: 8 * CONTEXT].reshape(8, CONTEXT)
    before = _predicted(predict, windows, letters)
    for place in (0, *rng.integers(1, CONTEXT - 1, 3)):
        others = windows[::-1].copy()
        others[:, place + 1 :] = rng.integers(0, letters, others[:, place + 1 :].shape)
        after = _predicted(predict, others, letters)[::-1]
        _expect_equal(
            after[:, : place + 1],
            before[:, : place + 1],
            f"the predictions for the letters up to number {place + 1} of a window change with the "
            "letters behind them, or with the other windows: each may depend on the letters up to "
            "its place alone",
        )
    _expect_equal(
        _predicted(predict, windows, letters),
        before,
        "the same windows, read again, are predicted otherwise: switch dropout off (model.eval()), "
        "and keep nothing of what was read",
    )


def _predicted(predict: Predict, windows: np.ndarray, letters: int) -> np.ndarray:
    found = np.asarray(predict(windows.copy()))
    shape = (*windows.shape, letters)
    if found.shape != shape or found.dtype.kind != "f":
        raise RaceError(
            f"predict(numbers) got letters of shape {windows.shape}: expected floating-point "
            f"log-probabilities of shape {shape}, got {found.dtype} of shape {found.shape}"
        )
    with np.errstate(all="ignore"):
        sums = np.exp(found.astype(np.float64)).sum(-1)
    worst = sums.flat[np.argmax(np.abs(sums - 1))]
    if not abs(worst - 1) < CLOSE:  # nan, too
        raise RaceError(
            "predict(numbers) must give log-probabilities: exp of them sums to 1 over the letters; "
            f"here a sum is {worst:.4g}. Scores become log-probabilities by log_softmax(-1)"
        )
    return found


def _expect_equal(one: np.ndarray, other: np.ndarray, trouble: str) -> None:
    difference = np.abs(np.exp(one) - np.exp(other)).max()
    if not difference < CLOSE:
        raise RaceError(f"{trouble}; here a probability changes by {difference:.2g}")
