"""Answers to the exercises of ``packing.py``."""

import numpy as np

from textbook.checks.chapter_03.packing import _length_cases, cells


@cells.answer(hidden_cases=lambda draw: _length_cases(draw, count=31, size=7))
def cells(lengths, size):
    """How many cells and steps it takes to read a corpus in batches, by name: a dict."""

    def padded(lengths):
        batches = [lengths[i : i + size] for i in range(0, len(lengths), size)]
        return sum(len(batch) * max(batch) for batch in batches)

    return {
        "padded": padded(lengths),
        "sorted": padded(sorted(lengths)),
        "packed": sum(lengths),
        "steps": sum(max(lengths[i : i + size]) for i in range(0, len(lengths), size)),
    }


# Right in another way


def cells_in_a_loop(lengths, size):
    found = {"padded": 0, "sorted": 0, "packed": 0, "steps": 0}
    for name, corpus in (("padded", list(lengths)), ("sorted", sorted(lengths))):
        while corpus:
            batch, corpus = corpus[:size], corpus[size:]
            found[name] += len(batch) * max(batch)
            if name == "padded":
                found["packed"] += sum(batch)
                found["steps"] += max(batch)
    return found


def cells_in_numpy(lengths, size):
    starts = np.arange(0, len(lengths), size)
    widths = np.diff([*starts, len(lengths)])
    largest = np.maximum.reduceat(np.array(lengths), starts)
    from_sorted = np.maximum.reduceat(np.sort(lengths), starts)
    return {
        "packed": np.sum(lengths),
        "steps": largest.sum(),
        "padded": (widths * largest).sum(),
        "sorted": (widths * from_sorted).sum(),
    }


right = {
    "cells": [cells_in_a_loop, cells_in_numpy],
}
