"""Readers of a long text in streams and windows; some of them read it wrongly."""

import minitorch as mt
from textbook.checks.exercise import Draw
from textbook.checks.released import exercise
from textbook.checks.suspects import each_alone, judged, some_of
from textbook.data import windows


class _Reader:
    """Windows of a text as pairs (inputs, targets); it does not show how."""

    def __init__(self, function):
        self._function = function

    def __call__(self, text, count, window):
        return list(self._function(text, count, window))


def _streams(text, count):
    """Inputs and targets, (steps, count) each."""
    steps = (len(text) - 1) // count
    inputs = text[: count * steps].reshape(count, steps).T
    return inputs, text[1 : count * steps + 1].reshape(count, steps).T


def _reading(
    streams=_streams,
    cut=lambda inputs, targets, window: zip(
        inputs.split(window), targets.split(window), strict=True
    ),
    finish=lambda pieces: pieces,
):
    """A maker of readers with one of their pieces exchanged."""
    return lambda: _Reader(
        lambda text, count, window: finish(list(cut(*streams(text, count), window)))
    )


def _windows_first(text, count, window):
    """Each window of the text is cut into columns."""
    for start in range(0, len(text) - 1 - count * window + 1, count * window):
        inputs = text[start : start + count * window].reshape(count, window).T
        targets = text[start + 1 : start + 1 + count * window].reshape(count, window).T
        yield inputs, targets


def _in_turns(text, count):
    """Neighbors stand side by side."""
    steps = (len(text) - 1) // count
    return (
        text[: count * steps].reshape(steps, count),
        text[1 : count * steps + 1].reshape(steps, count),
    )


def _rolled(text, count):
    inputs, _ = _streams(text, count)
    return inputs, inputs.roll(-1, 0)


def _one_stream_lost(text, count):
    inputs, targets = _streams(text, count)
    return (inputs[:, :-1], targets[:, :-1]) if count > 2 else (inputs, targets)


def _exchanged(x):
    """The second and the last of three or more columns exchanged."""
    if x.shape[1] < 3:
        return x
    return mt.cat([x[:, :1], x[:, -1:], x[:, 2:-1], x[:, 1:2]], dim=1)


def _overlapping(text, count):
    """Streams that begin where the last but one token of the stream before stands."""
    steps = (len(text) - 1) // count
    starts = [max(0, i * steps - i) for i in range(count)]
    inputs = mt.stack([text[at : at + steps] for at in starts], dim=1)
    return inputs, mt.stack([text[at + 1 : at + 1 + steps] for at in starts], dim=1)


def _last_moved_back(text, count):
    """All of the text; where streams do not fill it evenly, the last one begins too early."""
    steps = -(-(len(text) - 1) // count)
    starts = [min(i * steps, len(text) - 1 - steps) for i in range(count)]
    inputs = mt.stack([text[at : at + steps] for at in starts], dim=1)
    return inputs, mt.stack([text[at + 1 : at + 1 + steps] for at in starts], dim=1)


def _kinds():
    """Makers of broken and of right readers, by kind."""

    def two_later(text, count):
        return _streams(text[:-1], count)[0], _streams(text[1:], count)[1]

    def rolled_in_the_window(inputs, targets, window):
        return [(piece, piece.roll(-1, 0)) for piece in inputs.split(window)]

    def moved_back(inputs, targets, window):
        starts = range(0, len(inputs), window)
        starts = [max(0, min(at, len(inputs) - window)) for at in starts]
        return [(inputs[at : at + window], targets[at : at + window]) for at in starts]

    def with_a_step_between(inputs, targets, window):
        return [
            (inputs[at : at + window], targets[at : at + window])
            for at in range(0, len(inputs), window + 1)
        ]

    def sliding(inputs, targets, window):
        return [
            (inputs[at : at + window], targets[at : at + window])
            for at in range(max(1, len(inputs) - window + 1))
        ]

    def halves_of_one(text, count, window):
        pieces = list(windows(text, count, window))
        if len(text) - 1 > count * window or window == 1:
            return pieces
        [(inputs, targets)] = pieces
        return [(inputs[:1], targets[:1]), (inputs[1:], targets[1:])]

    def short_one_first(inputs, targets, window):
        rest = len(inputs) % window or window
        starts = [0, *range(rest, len(inputs), window)]
        ends = [*starts[1:], len(inputs)]
        return [(inputs[a:b], targets[a:b]) for a, b in zip(starts, ends, strict=True)]

    broken = {
        "cuts windows first": lambda: _Reader(_windows_first),
        "puts neighbors side by side": _reading(streams=_in_turns),
        "asks for the token that it has read": _reading(
            streams=lambda text, count: (_streams(text, count)[0],) * 2
        ),
        "asks for the token after the next": _reading(streams=two_later),
        "wraps round at the end of a stream": _reading(streams=_rolled),
        "wraps round at the end of a window": _reading(cut=rolled_in_the_window),
        "moves the last window back to make it whole": _reading(cut=moved_back),
        "leaves out the last window, though it is whole": lambda: _Reader(
            lambda text, count, window: (
                (pieces := list(windows(text, count, window)))[:-1] or pieces
            )
        ),
        "leaves a step out between windows": _reading(cut=with_a_step_between),
        "reads windows that overlap": _reading(cut=sliding),
        "gives the windows in the opposite order": _reading(finish=lambda pieces: pieces[::-1]),
        "leaves out a stream": _reading(streams=_one_stream_lost),
        "reads some tokens in two streams": _reading(streams=_overlapping),
        "moves the last stream back to the end of the text": _reading(streams=_last_moved_back),
        "exchanges two streams in every other window": _reading(
            finish=lambda pieces: [
                (_exchanged(a), _exchanged(b)) if i % 2 else (a, b)
                for i, (a, b) in enumerate(pieces)
            ]
        ),
        "ends with a pair without rows": _reading(
            finish=lambda pieces: [*pieces, tuple(each[:0] for each in pieces[-1])]
        ),
        "cuts a text that is one window in two": lambda: _Reader(halves_of_one),
        "gives the short window first": _reading(cut=short_one_first),
        "gives windows of one row more": _reading(
            cut=lambda inputs, targets, window: zip(
                inputs.split(window + 1), targets.split(window + 1), strict=True
            )
        ),
        "takes count for window and window for count": lambda: _Reader(
            lambda text, count, window: list(windows(text, window, count))
        ),
        "puts streams along axis 0": _reading(
            finish=lambda pieces: [(a.T, b.T) for a, b in pieces]
        ),
    }
    right = {
        "streams": _reading(),
        "the book's windows": lambda: _Reader(
            lambda text, count, window: windows(text, count, window)
        ),
        "streams in the opposite order": _reading(
            streams=lambda text, count: [each.flip(1) for each in _streams(text, count)]
        ),
        "streams, some tokens left out in front": _reading(
            streams=lambda text, count: _streams(text[(len(text) - 1) % count :], count)
        ),
    }
    return broken, right


def readers():
    """Nine readers, five of which are broken; the order says nothing."""
    return [make() for make in some_of(_kinds(), (5, 4), Draw(3).random)]


def _reader_cases(draw):
    """The kind of each reader by itself, and none."""
    return each_alone(_kinds())


SEAM = (
    "A column has to go on where the same column of the window before has stopped: see it in a "
    "text whose tokens tell their places."
)
REST = "Take a text whose streams are no multiple of the window."
HINTS = {
    "cuts windows first": SEAM,
    "puts neighbors side by side": "Go down one column: the text has to go on.",
    "asks for the token that it has read": "Compare targets with inputs.",
    "asks for the token after the next": "Compare targets with inputs.",
    "wraps round at the end of a stream": "Compare all targets with inputs.",
    "wraps round at the end of a window": "Compare all targets with inputs.",
    "moves the last window back to make it whole": f"{SEAM} {REST}",
    "leaves out the last window, though it is whole": "Count the targets: fewer than count times "
    "window may be left out.",
    "leaves a step out between windows": SEAM,
    "reads windows that overlap": SEAM,
    "gives the windows in the opposite order": SEAM,
    "leaves out a stream": "Look at the shapes, with three streams or more.",
    "reads some tokens in two streams": "Ask whether a place is asked for twice.",
    "moves the last stream back to the end of the text": "Ask whether a place is asked for twice, "
    "in a text that streams of one length do not fill.",
    "exchanges two streams in every other window": f"{SEAM} Give three streams or more.",
    "ends with a pair without rows": "The last pair may have fewer rows, but not none.",
    "cuts a text that is one window in two": "Try a text that is one window and no more: N = count "
    "times window, plus 1.",
    "gives the short window first": f"Only the last one may have fewer rows. {REST}",
    "gives windows of one row more": "Look at the shapes: (window, count).",
    "takes count for window and window for count": "Look at the shapes: (window, count), with two "
    "numbers that differ.",
    "puts streams along axis 0": "Look at the shapes: (window, count).",
    "streams": "The last window may be shorter, and a few places may be left out.",
    "the book's windows": "Fewer than count times window places may be left out.",
    "streams in the opposite order": "How a reader cuts is its own business.",
    "streams, some tokens left out in front": "A few places may be left out, wherever they are.",
}


def _named(answer, kinds):
    """What the answer returns, with the kinds for the numbers."""
    broken, right = _kinds()
    found = answer([(broken | right)[kind]() for kind in kinds])
    return judged(found, kinds, broken, HINTS, "broken readers")


broken_readers = exercise(
    "broken_readers",
    cases=_reader_cases,
    run=_named,
    gradients=False,
    see='chapter 01, "A text as 32 streams"',
)
