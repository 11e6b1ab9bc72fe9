"""Answers to the exercises of ``written.py``."""

import itertools

import numpy as np

import minitorch as mt
from textbook.checks.chapter_07.written import counterexamples, written, wrong_with


@counterexamples.answer()
def counterexamples():
    """For each program None, if its mask is right, or a pair (lengths, n) for which it is not."""
    return {
        "A": None,
        "B": ([1], 2),
        "C": None,
        "D": ([1, 2], 2),
        "E": None,
        "F": ([1], 2),
    }


# Right in another way


def examples_from_longer_sentences():
    broken = {"B": [[3, 5], 6], "D": [(2, 7, 4), 7], "F": [[4, 1], 8]}
    return {name: broken.get(name) for name in "FEDCBA"}


def examples_by_trying():
    """The first pair of lengths that shows something."""
    found = dict.fromkeys(written)
    for n in (1, 2, 3):
        for lengths in itertools.product(range(1, n + 1), repeat=2):
            for name, program in written.items():
                given = mt.tensor(lengths)
                if found[name] is None and wrong_with(program(given, n), given, n):
                    found[name] = np.array(lengths).tolist(), np.int64(n)
    return found


right = {
    "counterexamples": [examples_from_longer_sentences, examples_by_trying],
}
