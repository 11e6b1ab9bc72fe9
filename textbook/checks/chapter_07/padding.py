"""Which of several encoders read the padding? Each sentence has to get what it gets alone."""

import minitorch as mt
from textbook.checks.chapter_07.attention import scaled
from textbook.checks.exercise import Draw
from textbook.checks.precision import as_in_a_notebook
from textbook.checks.released import exercise
from textbook.checks.suspects import in_parts, judged, shuffled, some_of

WIDTH, HEADS = 6, 3


class _Encoder:
    """A function of (B, n, 6) and lengths (B) that does not show what it does."""

    def __init__(self, function):
        self.function = function

    def __call__(self, x, lengths):
        if x.ndim != 3 or x.shape[-1] != WIDTH or tuple(lengths.shape) != (len(x),):
            raise ValueError(
                f"an encoder takes x (B, n, {WIDTH}) and lengths (B), got {tuple(x.shape)} and "
                f"{tuple(lengths.shape)}"
            )
        return self.function(x.double(), lengths)

    def __deepcopy__(self, memo):
        return self


def _real(lengths, n):
    return mt.arange(n) < lengths.unsqueeze(1)  # (B, n)


def _kinds():
    """Encoders that read the padding, and encoders that do not, by kind."""
    draw = Draw(7)
    Q, K, V = (draw.normal(WIDTH, WIDTH) for _ in range(3))
    codes = draw.normal(20, WIDTH)

    def filled(scores, allowed, number=-mt.inf):
        return scores.masked_fill(~allowed, number).softmax(-1)

    def encoder(
        mask=lambda lengths, n: _real(lengths, n)[:, None, None],
        weigh=filled,
        before=lambda x, lengths: x,
        after=lambda y, x, lengths: y,
    ):
        def run(x, lengths):
            entered = before(x, lengths)
            query, key, value = (
                (entered @ M).unflatten(-1, (HEADS, -1)).transpose(1, 2) for M in (Q, K, V)
            )
            weights = weigh(scaled(query, key), mask(lengths, x.shape[1]))
            return after((weights @ value).transpose(1, 2).flatten(2), x, lengths)

        return run

    def short(lengths, n):
        """One axis short: with as many sentences as heads, nobody complains."""
        real = _real(lengths, n)
        return real[:, None] if len(lengths) == HEADS else real[:, None, None]

    def none(lengths, n):
        return mt.ones(1, n, dtype=mt.bool)

    def of_lengths(change):
        return lambda lengths, n: _real(change(lengths), n)[:, None, None]

    def real_mean(x, lengths):
        real = _real(lengths, x.shape[1]).unsqueeze(-1)
        return mt.where(real, x, 0.0).sum(1, keepdim=True) / real.sum(1, keepdim=True)

    def batch_mean(x, lengths):
        real = _real(lengths, x.shape[1]).unsqueeze(-1)
        return mt.where(real, x, 0.0).sum((0, 1)) / real.sum()

    def garbage(y, x, lengths):
        return mt.where(_real(lengths, x.shape[1]).unsqueeze(-1), y, 1e6 * x.sum() + 7)

    def next_token(y, x, lengths):
        """All but the first hear a little of the token after them."""
        after = mt.cat([x[:, 1:], mt.zeros_like(x[:, :1])], dim=1)
        return y + 0.1 * after * (mt.arange(x.shape[1]) > 0).double().unsqueeze(1)

    def shifted(y, x, lengths):
        """What the padding says is added to the tokens with signs that add up to 0."""
        signs = codes[: x.shape[1], :1] - real_mean(codes[: x.shape[1], :1] + 0 * x, lengths)
        return y + 0.1 * x.sum(1, keepdim=True) * signs

    def first_everywhere(lengths, n):
        """The first of several tokens looks at all places, a single one at itself."""
        first = (mt.arange(n).unsqueeze(1) == 0) & (lengths > 1)[:, None, None]  # (B, n, 1)
        return (_real(lengths, n).unsqueeze(1) | first).unsqueeze(1)

    def reads_all(which):
        """One sentence of several looks at all places."""

        def mask(lengths, n):
            mine = mt.arange(len(lengths)) == which % len(lengths)
            return (_real(lengths, n) | (mine & (len(lengths) > 1)).unsqueeze(1))[:, None, None]

        return mask

    def causal(lengths, n):
        return _real(lengths, n)[:, None, None] & mt.ones(n, n, dtype=mt.bool).tril()

    reading = {
        "has no mask": encoder(none),
        "has a mask that is one axis short": encoder(short),
        "has a mask that is turned round": encoder(
            lambda lengths, n: ~_real(lengths, n)[:, None, None],
            weigh=lambda scores, allowed: filled(scores, allowed, -1e9),
        ),
        "sets weights to zero after the softmax": encoder(
            weigh=lambda scores, allowed: scores.softmax(-1) * allowed
        ),
        "fills scores with 0": encoder(weigh=lambda scores, allowed: filled(scores, allowed, 0.0)),
        "fills small scores with -8": encoder(
            weigh=lambda scores, allowed: filled(scores / 6, allowed, -8.0)
        ),
        "counts one padding as real": encoder(of_lengths(lambda lengths: lengths + 1)),
        "has no mask where no sentence fills all positions": encoder(
            lambda lengths, n: (_real(lengths, n) | (lengths.max() < n))[:, None, None]
        ),
        "takes the longest length for all": encoder(
            of_lengths(lambda lengths: lengths.max().expand(len(lengths)))
        ),
        "takes the first length for all": encoder(
            of_lengths(lambda lengths: lengths[:1].expand(len(lengths)))
        ),
        "sees no place beyond the first length": encoder(
            lambda lengths, n: (_real(lengths, n) & (mt.arange(n) < lengths[0]))[:, None, None]
        ),
        "takes the mean of all positions away": encoder(
            before=lambda x, lengths: x - x.mean(1, keepdim=True)
        ),
        "takes the mean of all real tokens of the batch away": encoder(
            before=lambda x, lengths: x - batch_mean(x, lengths)
        ),
        "adds a sum over all positions": encoder(
            after=lambda y, x, lengths: y + 0.1 * x.sum(1, keepdim=True)
        ),
        "divides by the number of positions": encoder(
            after=lambda y, x, lengths: y * 4 / x.shape[1]
        ),
        "counts places from the end of the batch": encoder(
            before=lambda x, lengths: x + codes[: x.shape[1]].flip(0)
        ),
        "hears of the next token from the second place on": encoder(after=next_token),
        "lets the first of several tokens look everywhere": encoder(first_everywhere),
        "lets the first sentence look everywhere": encoder(reads_all(0)),
        "lets the last sentence look everywhere": encoder(reads_all(-1)),
        "masks the queries of the padding, not its keys": encoder(
            lambda lengths, n: _real(lengths, n)[:, None, :, None] | (mt.arange(n) == 0)
        ),
        "takes the lengths of other sentences, if there are four": encoder(
            of_lengths(lambda lengths: lengths.flip(0) if len(lengths) == 4 else lengths)
        ),
        "takes the lengths of other sentences, if there are two": encoder(
            of_lengths(lambda lengths: lengths.flip(0) if len(lengths) == 2 else lengths)
        ),
        "masks no further than the sixth position": encoder(
            lambda lengths, n: (_real(lengths, n) | (mt.arange(n) >= 6))[:, None, None]
        ),
        "hears faintly of all positions": encoder(
            after=lambda y, x, lengths: y + 3e-5 * x.sum(1, keepdim=True)
        ),
        "fills the padding with infinity": encoder(
            before=lambda x, lengths: mt.where(_real(lengths, x.shape[1]).unsqueeze(-1), x, mt.inf)
        ),
        "adds to one coordinate what it takes from the next": encoder(
            after=lambda y, x, lengths: (
                y + 0.1 * x.sum(1, keepdim=True)[..., :1] * (-1) ** mt.arange(WIDTH)
            )
        ),
        "adds to one token what it takes from the others": encoder(after=shifted),
    }
    alone = {
        "is right": encoder(),
        "adds its input": encoder(after=lambda y, x, lengths: y + x),
        "has a causal mask as well": encoder(causal),
        "has a causal mask alone": encoder(lambda lengths, n: mt.ones(n, n, dtype=mt.bool).tril()),
        "leaves something in the padding": encoder(after=garbage),
        "counts places from the front": encoder(before=lambda x, lengths: x + codes[: x.shape[1]]),
        "takes the mean of the real tokens away": encoder(
            before=lambda x, lengths: x - real_mean(x, lengths)
        ),
        "divides by its own length": encoder(
            after=lambda y, x, lengths: y / lengths[:, None, None]
        ),
    }
    return reading, alone


def suspects():
    """Eight encoders, five of which read the padding; the order says nothing."""
    return [_Encoder(function) for function in some_of(_kinds(), (5, 3), Draw(6).random)]


def _suspect_cases(draw):
    """Each kind once, in an order that is drawn; and none."""
    # the same for all seeds: each is asked once
    return in_parts(shuffled(_kinds(), Draw(0).random), 2)


BATCH = "In a batch with shorter sentences, compare each real position with the sentence alone."
COUNTS = "Cut the padding off the sentence alone: it uses how many positions there are."
SIZES = "Try one to four sentences of all lengths."
EACH = "Compare each number of each real position, not a sum or mean of them."
SHOWN = {
    "has a mask that is one axis short": SIZES,
    "takes the lengths of other sentences, if there are four": SIZES,
    "takes the lengths of other sentences, if there are two": SIZES,
    "has no mask where no sentence fills all positions": "Try n above the longest length.",
    "divides by the number of positions": COUNTS,
    "counts places from the end of the batch": COUNTS,
    "fills small scores with -8": "Small differences count: all beyond rounding, 1e-9.",
    "hears faintly of all positions": "Small differences count: all beyond rounding, 1e-9.",
    "sees no place beyond the first length": "Try sentences of which the first is not the longest.",
    "masks no further than the sixth position": "Try up to eight positions.",
    "fills the padding with infinity": "In a batch it gives NaN, and NaN > 1e-9 is False: ask "
    "whether the two agree, as mt.allclose does.",
    "adds to one coordinate what it takes from the next": EACH,
    "adds to one token what it takes from the others": EACH,
    "leaves something in the padding": "What stands at the padding is no matter.",
}
SOUND = "Each real position gets what it gets alone, up to rounding: that is all."


def _named(answer, kinds):
    """What the answer returns, with the kinds for the numbers."""
    reading, alone = _kinds()
    with as_in_a_notebook():
        found = answer([_Encoder((reading | alone)[kind]) for kind in kinds])
    reasons = dict.fromkeys(reading, BATCH) | dict.fromkeys(alone, SOUND) | SHOWN
    return judged(found, kinds, reading, reasons, "encoders that read padding")


reading_padding = exercise(
    "reading_padding",
    cases=_suspect_cases,
    run=_named,
    gradients=False,
    see='chapter 07, "One axis short"',
)
