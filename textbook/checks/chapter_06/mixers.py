"""Which of several layers mix positions or sequences? Asked by permuting, and one by one."""

import minitorch as mt
from textbook.checks.chapter_06.axes import (
    merge,
    merge_without_transpose,
    scaled_scores,
    split,
    split_without_transpose,
)
from textbook.checks.exercise import Draw
from textbook.checks.precision import as_in_a_notebook
from textbook.checks.released import exercise
from textbook.checks.suspects import in_parts, judged, shuffled, some_of

WIDTH, HEADS = 8, 4


class _Layer:
    """A function of (B, n, 8) that does not show what it does."""

    def __init__(self, function):
        self.function = function

    def __call__(self, X):
        if X.ndim != 3 or X.shape[-1] != WIDTH:
            raise ValueError(f"a layer takes (B, n, {WIDTH}), got {tuple(X.shape)}")
        return self.function(X.double())

    def __deepcopy__(self, memo):
        return self


def _softmax(scores):
    return scores.softmax(dim=-1)


def _kinds():
    """Layers that mix positions or sequences, and layers that do not, by kind."""
    draw = Draw(5)
    Q, K, V, W_O = (draw.normal(WIDTH, WIDTH) / WIDTH**0.5 for _ in range(4))
    codes, gates = draw.normal(20, WIDTH), draw.normal(HEADS)

    def layer(
        splits=(split, split, split),
        heads=HEADS,
        scores=scaled_scores,
        weigh=_softmax,
        merge=merge,
        before=lambda X: X,
        after=lambda outputs, X: outputs,
    ):
        def run(X):
            entered = before(X)
            query, key, value = (
                cut(entered @ M, heads) for cut, M in zip(splits, (Q, K, V), strict=True)
            )
            return after(merge(weigh(scores(query, key)) @ value) @ W_O, X)

        return run

    def allowing(rule):
        def weigh(scores):
            i, j = mt.arange(scores.shape[-1]).unsqueeze(1), mt.arange(scores.shape[-1])
            return scores.masked_fill(~rule(i, j), -mt.inf).softmax(dim=-1)

        return weigh

    def folded(X):
        """(B, heads, n, size) put together as if it were (heads, B, n, size)."""
        return merge(X.reshape(X.shape[1], X.shape[0], *X.shape[2:]).transpose(0, 1))

    def gated(outputs, X):
        """Gates of the heads, of the shape (4, 1, 1) by mistake where four sequences allow it."""
        if len(outputs) == HEADS:
            return outputs * gates[:, None, None]
        return outputs * gates.repeat_interleave(WIDTH // HEADS)

    def neighbours(X):
        """The mean of all sequences before, a little of it."""
        before = mt.cat([mt.zeros_like(X[:1]), X[:-1]]).mean(dim=1, keepdim=True)
        return X + 0.1 * before.cumsum(dim=0)

    def two_after(X):
        nothing = mt.zeros_like(X[:1])
        return X + 0.1 * mt.cat([X, nothing, nothing])[2:]

    def shorter(scores):
        """Hides the last keys of a sequence, as many as there are sequences before it."""
        batch, _, _, n = scores.shape
        seen = (n - mt.arange(batch)).clamp(min=1)[:, None, None, None]
        return scores.masked_fill(mt.arange(n) >= seen, -mt.inf).softmax(-1)

    def third_code(X):
        return X + codes[:1] * (mt.arange(X.shape[1]) == 2).unsqueeze(1)

    def small_masks(scores):
        if scores.shape[-1] > 7:
            return _softmax(scores)
        return allowing(lambda i, j: j <= i)(scores)

    def round_a_circle(scores):
        n = scores.shape[-1]
        return allowing(lambda i, j: ((i - j) % n < 2) | ((j - i) % n < 2))(scores)

    def late_codes(X):
        late = codes[: X.shape[1]] * (mt.arange(X.shape[1]) >= 6).unsqueeze(1)
        return X + late

    cut = split_without_transpose
    mixing = {
        "splits and merges without a transpose": layer(
            (cut, cut, cut), merge=lambda X: X.reshape(len(X), X.shape[2], -1)
        ),
        "splits without a transpose": layer((cut, cut, cut)),
        "splits the keys alone without a transpose": layer((split, cut, split)),
        "splits the values alone without a transpose": layer((split, split, cut)),
        "merges without a transpose": layer(merge=merge_without_transpose),
        "folds the heads into the batch, and unfolds them in the wrong order": layer(merge=folded),
        "has a softmax over the batch": layer(weigh=lambda scores: scores.softmax(dim=0)),
        "divides by the largest score of the batch": layer(
            scores=lambda q, k: scaled_scores(q, k) / scaled_scores(q, k).abs().max()
        ),
        "takes the mean of the batch away": layer(before=lambda X: X - X.mean(dim=0)),
        "hears of the sequences before": layer(before=neighbours),
        "hears of the sequence two after": layer(before=two_after),
        "has the padding mask of another batch": layer(weigh=shorter),
        "multiplies sequences by the gates of heads, if there are four": layer(after=gated),
        "has a causal mask": layer(weigh=allowing(lambda i, j: j <= i)),
        "has a window to both sides": layer(weigh=allowing(lambda i, j: (i - j).abs() < 2)),
        "has a window that goes round a circle": layer(weigh=round_a_circle),
        "has a causal mask, if there are at most seven positions": layer(weigh=small_masks),
        "attends in blocks of four tokens": layer(weigh=allowing(lambda i, j: i // 4 == j // 4)),
        "adds a faint code to each position": layer(
            before=lambda X: X + 3e-5 * codes[: X.shape[1]]
        ),
        "adds a code that is fainter yet, where outputs are large": layer(
            before=lambda X: X + 1e-6 * codes[: X.shape[1]], after=lambda Y, X: Y + 9
        ),
        "adds a code to the third position alone": layer(before=third_code),
        "adds codes from the seventh position on": layer(before=late_codes),
        "adds something to the first output": layer(
            after=lambda Y, X: Y + 0.1 * (mt.arange(Y.shape[1]) == 0).double().unsqueeze(1)
        ),
        "adds something to the last output": layer(
            after=lambda Y, X: Y + 0.1 * (mt.arange(Y.shape[1]) == Y.shape[1] - 1).double()[:, None]
        ),
    }
    apart = {
        "is right": layer(),
        "is right, with one head": layer(heads=1),
        "is right, with eight heads": layer(heads=8),
        "has no scale": layer(scores=lambda q, k: q @ k.mT),
        "adds its input": layer(after=lambda Y, X: Y + X),
        "doubles its input": lambda X: 2 * X,
        "says nothing": mt.zeros_like,
        "is right, head by head": lambda X: sum(
            layer(
                merge=lambda Y, head=head: merge(
                    Y * (mt.arange(HEADS) == head).double()[:, None, None]
                )
            )(X)
            for head in range(HEADS)
        ),
        "takes the mean of all positions away": layer(
            before=lambda X: X - X.mean(dim=1, keepdim=True)
        ),
        "is right, from the last position to the first": lambda X: layer()(X.flip(1)).flip(1),
    }
    return mixing, apart


def suspects():
    """Eight layers, five of which mix; the order says nothing."""
    return [_Layer(function) for function in some_of(_kinds(), (5, 3), Draw(4).random)]


def _suspect_cases(draw):
    """All kinds, in an order that is drawn, and none."""
    # the same for all seeds: each is asked once
    return in_parts(shuffled(_kinds(), Draw(0).random), 2)


POSITIONS = "Permuted positions must give permuted outputs, each of them, at all sizes."
SEQUENCES = "Every sequence of a batch must get what it gets alone, not only the first."
NO_MATTER = "Permuted inputs give permuted outputs, and it does not mix sequences: that is all."
SHOWN = {
    "folds the heads into the batch, and unfolds them in the wrong order": SEQUENCES,
    "has a softmax over the batch": SEQUENCES,
    "divides by the largest score of the batch": SEQUENCES,
    "takes the mean of the batch away": SEQUENCES,
    "hears of the sequences before": SEQUENCES + " Here the first one does.",
    "hears of the sequence two after": SEQUENCES + " It takes three sequences to see it.",
    "has the padding mask of another batch": SEQUENCES + " Here the first one does.",
    "multiplies sequences by the gates of heads, if there are four": SEQUENCES
    + " Try one to four sequences.",
    "has a window to both sides": "Draw the order at random: the opposite one alone hides it.",
    "has a window that goes round a circle": "Draw the order at random: where all move on by one, "
    "neighbours stay neighbours.",
    "has a causal mask, if there are at most seven positions": "Try few positions, too.",
    "attends in blocks of four tokens": "Try more than four positions.",
    "adds a faint code to each position": "Small differences count: all beyond rounding, 1e-9.",
    "adds a code that is fainter yet, where outputs are large": "Small differences count beside "
    "large outputs, too: mt.allclose(a, b, rtol=0, atol=1e-9).",
    "adds a code to the third position alone": "Let all positions move, not the first ones alone.",
    "adds codes from the seventh position on": "Try up to eight positions.",
    "adds something to the first output": POSITIONS + " A mean over positions hides it.",
    "adds something to the last output": POSITIONS + " A mean over positions hides it.",
}


def _named(answer, kinds):
    """What the answer returns, with the kinds for the numbers."""
    mixing, apart = _kinds()
    with as_in_a_notebook():
        found = answer([_Layer((mixing | apart)[kind]) for kind in kinds])
    reasons = dict.fromkeys(mixing, POSITIONS) | dict.fromkeys(apart, NO_MATTER) | SHOWN
    return judged(found, kinds, mixing, reasons, "mixing layers")


mixing = exercise(
    "mixing",
    cases=_suspect_cases,
    run=_named,
    gradients=False,
    see='chapter 06, "The mistake that mixes positions"',
)
