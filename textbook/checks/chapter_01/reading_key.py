"""Answers to the exercises of ``reading.py``."""

import numpy as np

import minitorch as mt
from textbook.checks.chapter_01.reading import _kinds, broken_readers
from textbook.checks.suspects import all_together


@broken_readers.answer(hidden_cases=lambda draw: all_together(_kinds(), draw.random))
def broken_readers(readers):
    """The numbers of the readers that break a rule."""

    def follows_the_rules(reader, length, count, window):
        pieces = reader(mt.arange(length), count, window)  # a token is its place
        sizes = [len(inputs) for inputs, _ in pieces]
        if not sizes or any(size != window for size in sizes[:-1]) or not 0 < sizes[-1] <= window:
            return False
        if any(x.shape != y.shape or x.shape[1] != count for x, y in pieces):
            return False
        inputs = mt.cat([x for x, _ in pieces])  # (steps, count)
        targets = mt.cat([y for _, y in pieces])
        asked = targets.flatten().tolist()
        return (
            mt.equal(targets, inputs + 1)
            and mt.equal(inputs[1:], inputs[:-1] + 1)  # goes on where it stopped
            and len({*asked}) == len(asked)
            and length - 1 - len(asked) < count * window
        )

    trials = [(25, 4, 3), (29, 4, 3), (26, 3, 4), (12, 1, 4), (13, 4, 3)]
    return [
        i
        for i, reader in enumerate(readers)
        if not all(follows_the_rules(reader, *trial) for trial in trials)
    ]


TRIALS = ((25, 4, 3), (29, 4, 3), (26, 3, 4), (12, 1, 4), (13, 4, 3))


def _follows(reader, length, count, window, drop=()):
    """Whether a reader keeps all rules but those that are dropped."""
    pieces = reader(mt.arange(length), count, window)
    sizes = [len(inputs) for inputs, _ in pieces]
    shapes = bool(sizes) and all(x.shape == y.shape and x.shape[1] == count for x, y in pieces)
    whole = bool(sizes) and all(n == window for n in sizes[:-1]) and 0 < sizes[-1] <= window
    if not (shapes and whole) and "sizes" not in drop:
        return False
    if not pieces or any(
        x.shape != y.shape or x.shape[1] != pieces[0][0].shape[1] for x, y in pieces
    ):
        return True
    inputs, targets = (mt.cat([piece[i] for piece in pieces]) for i in (0, 1))
    asked = targets.flatten().tolist()
    ends = [sum(sizes[: i + 1]) - 1 for i in range(len(sizes) - 1)]
    inside = [t for t in range(len(inputs) - 1) if t not in ends]
    kept = {
        "targets": mt.equal(targets, inputs + 1),
        "seams": all(mt.equal(inputs[t + 1], inputs[t] + 1) for t in ends),
        "inside": all(mt.equal(inputs[t + 1], inputs[t] + 1) for t in inside),
        "once": len({*asked}) == len(asked),
        "all": length - 1 - len(asked) < count * window,
    }
    return all(holds for rule, holds in kept.items() if rule not in drop)


def _testing(trials=TRIALS, drop=(), say=lambda i, broken: i if broken else None):
    """The test with one of its pieces exchanged."""

    def test(readers):
        found = [
            say(i, not all(_follows(reader, *trial, drop=drop) for trial in trials))
            for i, reader in enumerate(readers)
        ]
        return [each for each in found if each is not None]

    return test


# Right in another way


def broken_by_places(readers):
    """Where each input and each target came from, as lists."""
    found = []
    for i, reader in enumerate(readers):
        trials = [(40, 5, 4), (41, 5, 4), (21, 5, 4), (23, 2, 9), (23, 3, 3), (9, 1, 2)]
        for length, count, window in trials:
            pieces = [(x.tolist(), y.tolist()) for x, y in reader(mt.arange(length), count, window)]
            columns = [[] for _ in range(count)]
            wrong = not pieces
            for number, (x, y) in enumerate(pieces):
                last = number == len(pieces) - 1
                wrong |= len(x) != len(y) or not (
                    len(x) == window or (last and 0 < len(x) < window)
                )
                for row, after in zip(x, y, strict=False):
                    wrong |= len(row) != count or after != [place + 1 for place in row]
                    for column, place in zip(columns, row, strict=False):
                        column.append(place)
            for column in columns:
                wrong |= column != list(range(column[0], column[0] + len(column))) if column else 0
            places = [place for column in columns for place in column]
            wrong |= len(set(places)) < len(places) or length - 1 - len(places) >= count * window
            if wrong:
                found.append(i)
                break
    return found


def broken_by_shuffled_text(readers):
    """A text in which each token stands once, in random order."""
    random, found = np.random.default_rng(0), set()
    for i, reader in enumerate(readers):
        for length, count, window in [(33, 4, 3), (31, 3, 4), (20, 3, 5), (11, 1, 4), (16, 5, 3)]:
            text = random.permutation(length)
            place = np.argsort(text)
            last, asked = None, []
            for x, y in reader(mt.tensor(text), count, window):
                good = x.shape == y.shape and x.shape[1] == count and 0 < len(x) <= window
                good = good and (last is None or len(last) == window)
                if not good:
                    found.add(i)
                    break
                here, after = place[x.numpy()], place[y.numpy()]
                if (after != here + 1).any() or (np.diff(here, axis=0) != 1).any():
                    found.add(i)
                if last is not None and (here[0] != last[-1] + 1).any():
                    found.add(i)
                last = here
                asked += after.ravel().tolist()
            if len(asked) != len(set(asked)) or length - 1 - len(asked) >= count * window:
                found.add(i)
    return sorted(found)


right = {
    "broken_readers": [broken_by_places, broken_by_shuffled_text, _testing()],
}
