"""Ready-made decoders, some of them broken, and the test that shows which."""

import minitorch as mt
from textbook.checks.compare import Words, brief
from textbook.checks.exercise import Draw
from textbook.checks.precision import as_in_a_notebook
from textbook.checks.released import exercise

FAULTS = ["batch", "future", "padding", "source"]
HINTS = {
    "future": "change what comes after a place, for each place, in targets\n"
    "of five tokens or more; no score up to there may move",
    "padding": "change the memory where real is False, by much, with several sentences,\n"
    "of which the first is neither the longest nor the shortest; no score may move",
    "batch": "change tokens and memory of all sentences but one;\nits scores must stay",
    "source": "change one token of the memory at a time, with sources\n"
    "of several lengths, the first neither the longest nor the shortest; at each place\n"
    "of the sentence some score must move",
}
FALSE_ALARMS = {
    "future": "scores may move at the changed place\nand behind it; and rounding is no change",
    "padding": "change the memory where real is False alone,\nto large numbers and not to NaN",
    "batch": "compare the scores of a sentence\nof which nothing was changed",
    "source": "it is one where all scores of a place stay when\n"
    "a token changes, where real is True; the likeliest word alone may stay",
}
NO_NUMBER = "its scores may be minus infinity,\nand inf - inf is not a number"


# The decoders


def _mixed(queries, values, allowed):
    """What each query gets of the values; no weight of an allowed one is ever near 0."""
    scores = queries.tanh() @ values.tanh().mT / values.shape[-1]
    return scores.masked_fill(~allowed, -mt.inf).softmax(dim=-1) @ values


def _causal(n):
    return mt.ones(n, n, dtype=mt.bool).tril()


class _Decoder:
    """Target (B, T), memory (B, n, d), real (B, n) to scores (B, T, V), with pieces exchanged."""

    def __init__(self, vocabulary, width, own=None, cross=None, x=None, memory=None, end=None):
        draw = Draw(vocabulary)
        self.table, self.out = draw.normal(vocabulary, width), draw.normal(width, vocabulary)
        self.codes = draw.normal(50, width)
        self.own = own or (lambda y: _mixed(y, y, _causal(y.shape[1])))
        self.cross = cross or (lambda y, memory, real: _mixed(y, memory, real.unsqueeze(1)))
        self.x, self.memory = x or (lambda x: x), memory or (lambda memory, real: memory)
        self.end = end or (lambda scores: scores)

    def __call__(self, target, memory, real):
        if target.ndim != 2 or memory.ndim != 3 or real.shape != memory.shape[:2]:
            raise TypeError(
                "a decoder gets tokens (B, T), a memory (B, n, d) and real (B, n); got shapes "
                f"{tuple(target.shape)}, {tuple(memory.shape)} and {tuple(real.shape)}"
            )
        with mt.no_grad():
            x = self.x(self.table[target] + self.codes[: target.shape[1]])
            x = x + self.own(x)
            x = x + self.cross(x, self.memory(memory, real), real)
            return self.end(x @ self.out)

    def __repr__(self):
        return "<a decoder>"


def _by_growing(y):
    """One query after the other."""
    rows = [_mixed(y[:, t : t + 1], y[:, : t + 1], mt.tensor(True)) for t in range(y.shape[1])]
    return mt.cat(rows, dim=1)


def _less_what_follows(y):
    """Sums of all less sums of what comes later: rounding errors, and no leak."""
    total = y.sum(dim=1, keepdim=True)
    later = total - y.cumsum(dim=1)
    return (total - later) / 7


def _late(y, memory, real):
    scores = y.tanh() @ memory.tanh().mT / memory.shape[-1]
    return (scores.softmax(dim=-1) * real.unsqueeze(1)) @ memory.masked_fill(
        ~real.unsqueeze(-1), 0.0
    )


def _one_sentence_reads_padding(which):
    def cross(y, memory, real):
        mine = (mt.arange(len(real)) == which % len(real)) & (len(real) > 1)
        return _mixed(y, memory, (real | mine.unsqueeze(1)).unsqueeze(1))

    return cross


def _first_place_reads_padding(y, memory, real):
    first = (mt.arange(y.shape[1]) == 0).unsqueeze(1)
    return _mixed(y, memory, real.unsqueeze(1) | first)


def _nearly_hidden(y, memory, real):
    scores = y.tanh() @ memory.tanh().mT / memory.shape[-1]
    return (scores - 6.0 * ~real.unsqueeze(1)).softmax(dim=-1) @ memory.tanh()


def _next_to_first(y):
    """The first place alone sees the second."""
    allowed = _causal(y.shape[1])
    allowed[0, :2] = True
    return _mixed(y, y, allowed)


def _next_to_middle(y):
    """One place in the middle sees the one behind it."""
    n = y.shape[1]
    allowed = _causal(n)
    allowed[n // 2, : n // 2 + 2] = True
    return _mixed(y, y, allowed)


def _with_the_one_before(memory, real):
    tokens = memory.masked_fill(~real.unsqueeze(-1), 0.0)
    return memory + 0.3 * tokens.roll(1, 0)


def _last_looks_at_the_one_before(x):
    last = (mt.arange(len(x)) == len(x) - 1) & (len(x) > 1)
    return x + 0.1 * x.roll(1, 0) * last.view(-1, 1, 1)


def _first_reads_one(y, memory, real):
    n = mt.arange(memory.shape[1])
    allowed = (n == 0) | (mt.arange(y.shape[1]) > 0).unsqueeze(1)
    return _mixed(y, memory, allowed & real.unsqueeze(1))


def _last_real_dropped(y, memory, real):
    shorter = real & (mt.arange(real.shape[1]) < real.sum(dim=1, keepdim=True) - 1)
    return _mixed(y, memory, (shorter | (mt.arange(real.shape[1]) == 0)).unsqueeze(1))


def _first_dropped(y, memory, real):
    later = real & (mt.arange(real.shape[1]) > 0)
    return _mixed(y, memory, mt.where(later.any(dim=1, keepdim=True), later, real).unsqueeze(1))


def _as_far_as_written(y, memory, real):
    """Place t sees the source up to t + 1; longer sources are never read to their end."""
    n = mt.arange(real.shape[1])
    allowed = (n <= mt.arange(y.shape[1]).unsqueeze(1)) & real.unsqueeze(1)
    return _mixed(y, memory, allowed)


def _faint(y):
    """A little of the last place goes to the first."""
    mixed = _mixed(y, y, _causal(y.shape[1]))
    return mt.cat([mixed[:, :1] + 1e-5 * y[:, -1:].tanh(), mixed[:, 1:]], dim=1)


def _never_said(scores):
    scores = scores.clone()
    scores[..., 0] = -mt.inf
    return scores


SILENT = "right, and never says the token 0"
KINDS = {  # name: the pieces, and what is wrong
    "right": ({}, ""),
    "right, token after token": ({"own": _by_growing}, ""),
    "right, by sums that are taken off again": ({"own": _less_what_follows}, ""),
    SILENT: ({"end": _never_said}, ""),
    "right, with a window of two tokens": (
        {"own": lambda y: _mixed(y, y, _causal(y.shape[1]) & ~_causal(y.shape[1]).tril(-2))},
        "",
    ),
    "no causal mask": ({"own": lambda y: _mixed(y, y, mt.tensor(True))}, "future"),
    "causal mask transposed": ({"own": lambda y: _mixed(y, y, _causal(y.shape[1]).T)}, "future"),
    "the mean over all places taken off": (
        {"x": lambda x: x - x.mean(dim=1, keepdim=True)},
        "future",
    ),
    "the first place sees the second": ({"own": _next_to_first}, "future"),
    "a place in the middle sees the next one": ({"own": _next_to_middle}, "future"),
    "the last place is faintly seen by the first": ({"own": _faint}, "future"),
    "a causal mask one place too wide": (
        {"own": lambda y: _mixed(y, y, mt.ones(y.shape[1], y.shape[1]).tril(1).bool())},
        "future",
    ),
    "no mask of the source": (
        {"cross": lambda y, memory, real: _mixed(y, memory, mt.tensor(True))},
        "padding",
    ),
    "the mask after the softmax": ({"cross": _late}, "padding"),
    "padding with a score that is 6 less": ({"cross": _nearly_hidden}, "padding"),
    "the padding read by the first sentence alone": (
        {"cross": _one_sentence_reads_padding(0)},
        "padding",
    ),
    "the padding read by the last sentence alone": (
        {"cross": _one_sentence_reads_padding(-1)},
        "padding",
    ),
    "the padding read from the first place alone": (
        {"cross": _first_place_reads_padding},
        "padding",
    ),
    "half of the memory's mean over all places taken off": (
        {"memory": lambda memory, real: memory - 0.5 * memory.mean(dim=1, keepdim=True)},
        "padding",
    ),
    "the mask of the first sentence for all": (
        {"cross": lambda y, memory, real: _mixed(y, memory, real[:1].unsqueeze(1))},
        "padding, source",
    ),
    "sentences that read the memory of the one before": (
        {"memory": _with_the_one_before},
        "batch",
    ),
    "half of the mean over the batch taken off": (
        {"end": lambda scores: scores - 0.5 * scores.mean(dim=0, keepdim=True)},
        "batch",
    ),
    "sentences that look at the one before": (
        {"x": lambda x: x + 0.1 * x.roll(1, 0)},
        "batch",
    ),
    "the last sentence looks at the one before": ({"x": _last_looks_at_the_one_before}, "batch"),
    "the source not read": ({"cross": lambda y, memory, real: mt.zeros_like(y)}, "source"),
    "the last token of the source not read": ({"cross": _last_real_dropped}, "source"),
    "the first token of a longer source not read": ({"cross": _first_dropped}, "source"),
    "the source read as far as the target is written": ({"cross": _as_far_as_written}, "source"),
    "the first place reads the first token of the source alone": (
        {"cross": _first_reads_one},
        "source",
    ),
    "no mask at all": (
        {
            "own": lambda y: _mixed(y, y, mt.tensor(True)),
            "cross": lambda y, memory, real: _mixed(y, memory, mt.tensor(True)),
        },
        "future, padding",
    ),
}


def suspects():
    """Six decoders for 9 tokens and the width 5; the order says nothing."""
    names = Draw(5).random.permutation([*KINDS][5:])[:4].tolist() + ["right", "no mask at all"]
    return [_Decoder(9, 5, **KINDS[name][0]) for name in Draw(6).random.permutation(names)]


# The test


def _decoder_cases(draw, sizes=(9, 5)):
    """Each decoder by its name, with the sizes."""
    for name in KINDS:
        yield name, *sizes


def _found(answer, decoder, vocabulary, width):
    """The names that the answer gives, in order."""
    mt.manual_seed(0)
    with as_in_a_notebook():
        found = answer(_Decoder(vocabulary, width, **KINDS[decoder][0]), vocabulary, width)
    if not isinstance(found, (list, tuple, set)) or not {*map(str, found)} <= {*FAULTS}:
        return {"the form of the result": brief(found), "the list of faults": None}
    names, wrong = {*map(str, found)}, {*filter(None, KINDS[decoder][1].split(", "))}
    listed = ", ".join(sorted(names)) or "none"
    for fault in sorted(wrong - names)[:1]:
        listed += f"\n{fault!r} is missing: {HINTS[fault]}"
    for fault in sorted(names - wrong)[:1]:
        why = NO_NUMBER if decoder == SILENT else FALSE_ALARMS[fault]
        listed += f"\n{fault!r} is no fault of it: {why}"
    return {"the form of the result": "a list of names", "the list of faults": Words(listed)}


faults = exercise(
    "faults",
    cases=_decoder_cases,
    run=_found,
    gradients=False,
    see='chapter 10, "Three masks"',
)
