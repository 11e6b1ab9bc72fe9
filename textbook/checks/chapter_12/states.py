"""Linear attention within a window, step by step; decays in a matrix."""

import math

import minitorch as mt
from minitorch.autograd.modes import listening
from textbook.checks.exercise import Draw, exercise

# Linear attention within a window


def _window_cases(draw, hidden):
    """Queries and keys are positive features; n, d, d_v and the window differ."""
    sizes = [((), 3, 4, 2, 2), ((2,), 5, 4, 3, 3), ((2, 3), 6, 5, 4, 1), ((1,), 4, 6, 5, 9)]
    if hidden:
        sizes = [((3,), 7, 4, 5, 4), ((), 5, 6, 2, 2), ((2, 1, 2), 8, 5, 3, 5), ((2,), 3, 4, 6, 7)]
    for lead, n, d, d_v, width in sizes:
        query, key = (draw.normal(*lead, n, d).exp() for _ in range(2))
        yield query, key, draw.normal(*lead, n, d_v), width


def _token(x, t):
    return x[..., t, :]


def _outer(key, value):
    return key.unsqueeze(-1) * value.unsqueeze(-2)


def _by_total(mixed, query, total, places):
    return mixed / (query * total).sum(dim=-1, keepdim=True)


def _stepping(
    leaves=lambda t, width: t - width,
    written=lambda key, value: (_outer(key, value), key),
    erased=lambda key, value, new_value: (_outer(key, value), key),
    divide=_by_total,
    read_first=False,
):
    """The recurrence with one of its pieces exchanged."""

    def step_by_step(query, key, value, width):
        state = mt.zeros(*key.shape[:-2], key.shape[-1], value.shape[-1])
        total, outputs = mt.zeros(*key.shape[:-2], key.shape[-1]), []

        def read(t):
            asked = _token(query, t)
            mixed = (asked.unsqueeze(-2) @ state).squeeze(-2)
            outputs.append(divide(mixed, asked, total, min(t + 1, width)))

        for t in range(key.shape[-2]):
            if read_first:
                read(t)
            more = written(_token(key, t), _token(value, t))
            state, total = state + more[0], total + more[1]
            if (gone := leaves(t, width)) >= 0:
                less = erased(_token(key, gone), _token(value, gone), _token(value, t))
                state, total = state - less[0], total - less[1]
            if not read_first:
                read(t)
        return mt.stack(outputs, dim=-2)

    return step_by_step


def _work_is_the_same_for_any_window(answer, *case):
    """The numbers that all operations write, for two windows, and tables of n x n."""
    draw, n = Draw(0), 48
    inputs = draw.normal(n, 4).exp(), draw.normal(n, 4).exp(), draw.normal(n, 5)
    numbers = []
    for width in (3, 24):
        shapes = []
        with listening(lambda name, came, went, backward: shapes.extend(x.shape for x in went)):  # noqa: B023
            answer(*inputs, width)
        if any(tuple(shape).count(n) > 1 for shape in shapes):
            return (
                f"For n = {n} your answer makes a table of n x n numbers. The state alone says "
                "what a token must know of those before it."
            )
        numbers.append(sum(map(math.prod, shapes)))
    if numbers[1] > 1.5 * numbers[0]:
        return (
            f"For n = {n}, what your answer computes grows from {numbers[0]:,} numbers in all for "
            f"a window of 3 to {numbers[1]:,} for one of 24. Keep a state: at each step one token "
            "enters and at most one leaves, however long the window is."
        )
    return None


@exercise(
    cases=_window_cases,
    forbidden=("scaled_dot_product_attention", "softmax"),
    instead="sums of products of keys and values",
    properties=(_work_is_the_same_for_any_window,),
    see='chapter 12, "No softmax"',
)
def windowed_attention(query, key, value, width):
    """Query and key (..., n, d), value (..., n, d_v): linear attention to the last width tokens."""
    *lead, n, d = key.shape
    state, total = key.new_zeros(*lead, d, value.shape[-1]), key.new_zeros(*lead, d)
    outputs = []
    for t in range(n):
        state = state + key[..., t, :, None] * value[..., t, None, :]
        total = total + key[..., t, :]
        if t >= width:
            state = state - key[..., t - width, :, None] * value[..., t - width, None, :]
            total = total - key[..., t - width, :]
        asked = query[..., t, :]
        mixed = (asked.unsqueeze(-2) @ state).squeeze(-2)  # (..., d_v)
        outputs.append(mixed / (asked * total).sum(dim=-1, keepdim=True))
    return mt.stack(outputs, dim=-2)


NOTHING = -1  # no token leaves

windowed_attention.wrong(
    "right but for the window: nothing ever leaves the state",
    "At step t the token t - width leaves: subtract what it has added.",
)(_stepping(leaves=lambda t, width: NOTHING))
windowed_attention.wrong(
    "right but for the window, which holds one token too many",
    "The last `width` tokens with the newest one: at step t, token t - width is out.",
)(_stepping(leaves=lambda t, width: t - width - 1))
windowed_attention.wrong(
    "right but for the window, which holds one token too few",
    "The last `width` tokens with the newest one: at step t, token t - width + 1 is still in.",
)(_stepping(leaves=lambda t, width: t - width + 1))
windowed_attention.wrong(
    "right but for the divisor: a token that leaves stays in the sum of keys",
    "The sum of keys is the sum over the window, as the state is. Both lose the token.",
)(_stepping(erased=lambda key, value, new_value: (_outer(key, value), mt.zeros_like(key))))
windowed_attention.wrong(
    "right but for the state: a token leaves only the sum of keys",
    "What the token has added to the state, key times value, must be subtracted as well.",
)(_stepping(erased=lambda key, value, new_value: (mt.zeros_like(_outer(key, value)), key)))
windowed_attention.wrong(
    "right but for what leaves: the old key is taken out with the newest value",
    "Subtract what was added then: the old key with its own value.",
)(_stepping(erased=lambda key, value, new_value: (_outer(key, new_value), key)))
windowed_attention.wrong(
    "right but for the divisor, which is missing",
    "The weights of a query must add up to 1: divide by query . (sum of keys).",
)(_stepping(divide=lambda mixed, query, total, places: mixed))
windowed_attention.wrong(
    "right but for the divisor: it divides by the number of tokens in the window",
    "The weights are query . key and not all alike. Divide by their sum, query . (sum of keys).",
)(_stepping(divide=lambda mixed, query, total, places: mixed / places))
windowed_attention.wrong(
    "right, and then divided by the square root of d",
    "Here the weights are divided by their sum: a scale would cancel, and there is none.",
)(
    lambda query, key, value, width: (
        windowed_attention.reference(query, key, value, width) / math.sqrt(key.shape[-1])
    )
)
windowed_attention.wrong(
    "right but for the divisor: it divides by the sum of keys without the query",
    "The weight of a token is query . key: divide by query . (sum of keys).",
)(_stepping(divide=lambda mixed, query, total, places: mixed / total.sum(dim=-1, keepdim=True)))
windowed_attention.wrong(
    "right but for the newest token, which is read before it is written",
    "A token may look at itself: write first, then read.",
)(_stepping(read_first=True))


def _from_the_end(query, key, value, width):
    n = key.shape[-2]
    return _stepping(leaves=lambda t, width: (t - width) % n if width < n else NOTHING)(
        query, key, value, width
    )


windowed_attention.wrong(
    "right but for the first tokens: before the window is full, tokens of the text's end leave it",
    "key[t - width] counts from the end where t < width. Take a token out from t = width on.",
)(_from_the_end)


@windowed_attention.wrong(
    "linear attention in blocks: it begins anew every width tokens",
    "The window moves with the token: at each step one enters and one leaves.",
)
def _(query, key, value, width):
    blocks = [x.split(width, dim=-2) for x in (query, key, value)]
    whole = _stepping(leaves=lambda t, width: NOTHING)
    return mt.cat([whole(*block, width) for block in zip(*blocks, strict=True)], dim=-2)


def _weighed(weigh, allowed):
    def attention(query, key, value, width):
        n = key.shape[-2]
        back = mt.arange(n).unsqueeze(1) - mt.arange(n)
        weights = weigh(query @ key.mT, key.shape[-1]).masked_fill(~allowed(back, width), 0.0)
        return weights / weights.sum(dim=-1, keepdim=True) @ value

    return attention


def _linear(scores, d):
    return scores


windowed_attention.wrong(
    "softmax attention within the window",
    "The weights are query . key themselves, which are positive here, without exp.",
)(
    _weighed(
        lambda scores, d: (scores - scores.amax(dim=-1, keepdim=True)).exp(),
        lambda back, width: (back >= 0) & (back < width),
    )
)
windowed_attention.wrong(
    "right but for the direction: a token looks at itself and those after it",
    "Look back: the token and the width - 1 before it.",
)(_weighed(_linear, lambda back, width: (back <= 0) & (back > -width)))
windowed_attention.wrong(
    "right but for the future: a token looks ahead as far as it looks back",
    "Look back alone: the token and the width - 1 before it.",
)(_weighed(_linear, lambda back, width: back.abs() < width))

# Decays in a matrix


def _decay_cases(draw, hidden):
    """Logarithms of decays that add up to some thousands, and texts that begin anywhere."""
    sizes = [((), 3), ((2,), 4), ((2, 3), 5)] + [((3, 2), 7), ((), 24)] * hidden
    for lead, n in sizes:
        for scale in (0.3, 400.0):
            starts = draw.normal(*lead, n) > 0.8
            yield -scale * draw.normal(*lead, n).exp(), starts
            yield -scale * draw.normal(*lead, n).exp(), mt.zeros_like(starts)


def _same_text(starts):
    """(..., n, n): both tokens are of one text, the key not after the query."""
    text = starts.long().cumsum(dim=-1)
    return (text.unsqueeze(-1) == text.unsqueeze(-2)).tril()


def _difference(sums, logs):
    return sums.unsqueeze(-1) - sums.unsqueeze(-2)


def _before_exp(difference, seen):
    return difference.masked_fill(~seen, -mt.inf).exp()


def _decaying(
    sum_up=lambda logs: logs.cumsum(dim=-1),
    subtract=_difference,
    seen=_same_text,
    finish=_before_exp,
):
    """The matrix with one of its pieces exchanged."""

    def decaying(log_decay, starts):
        return finish(subtract(sum_up(log_decay), log_decay), seen(starts))

    return decaying


def _zero_means_zero(answer, log_decay, starts):
    """Asked with decays of 1, where nothing but the mask makes a number small.

    Strong decays in the case hide other mistakes, which have a name.
    """
    if log_decay.min() < -10:
        return None
    matrix = answer(mt.zeros_like(log_decay), starts)
    if bool((matrix.masked_fill(_same_text(starts), 0.0) != 0).any()):
        return (
            "Above the diagonal and across texts D must be 0 exactly. The check asked again with "
            "decays of 1, and there were other numbers."
        )
    return None


def _as_exact_as_its_numbers(answer, log_decay, starts):
    """No number that is huge stands in a sum beside those that count."""
    if not starts.any():
        return None
    found = answer(mt.full((6,), -1 / 3), mt.arange(6) == 2)[5, 3].item()
    if (off := abs(found - math.exp(-2 / 3))) < 1e-9:
        return None
    return (
        "With all decays exp(-1/3) and a text that begins at token 2, D[5, 3] is exp(-2/3), and "
        f"yours is off by {off:.1g}, more than rounding: a huge number in a sum leaves few digits "
        "to the others, and none in float32. Cut the texts apart by a mask."
    )


@exercise(
    cases=_decay_cases,
    properties=(_zero_means_zero, _as_exact_as_its_numbers),
    see='chapter 12, "Recurrence comes back"',
)
def decay_matrix(log_decay, starts):
    """(..., n) and (..., n) boolean give D (..., n, n), 0 above the diagonal and across texts."""
    sums, text = log_decay.cumsum(dim=-1), starts.long().cumsum(dim=-1)
    difference = sums.unsqueeze(-1) - sums.unsqueeze(-2)
    seen = (text.unsqueeze(-1) == text.unsqueeze(-2)).tril()
    return difference.masked_fill(~seen, -mt.inf).exp()


decay_matrix.wrong(
    "right for small sums: exp(L_t) exp(-L_s) is 0 times infinity where they are large",
    "Take the difference first and one exp of it: it lies between 0 and 1.",
)(
    _decaying(
        subtract=lambda sums, logs: sums.exp().unsqueeze(-1) * (-sums).exp().unsqueeze(-2),
        finish=lambda products, seen: products.masked_fill(~seen, 0.0),
    )
)
decay_matrix.wrong(
    "right for small sums: the quotient of two cumulative products is 0 / 0 where they are large",
    "Products of many decays become 0. Work with the logarithms, and take one exp of a difference.",
)(
    _decaying(
        sum_up=lambda logs: logs.exp().cumprod(dim=-1),
        subtract=lambda products, logs: products.unsqueeze(-1) / products.unsqueeze(-2),
        finish=lambda quotients, seen: quotients.masked_fill(~seen, 0.0),
    )
)
decay_matrix.wrong(
    "masked by a product after exp: above the diagonal exp is infinite, and infinite * 0 is NaN",
    "Mask the differences, before exp.",
)(_decaying(finish=lambda difference, seen: difference.exp() * seen))
decay_matrix.wrong(
    "right in its values, but the gradient is not a number: it masks after exp, which is infinite",
    "On the way back 0 meets infinity, and gives NaN. Mask the differences, before exp.",
)(_decaying(finish=lambda difference, seen: difference.exp().masked_fill(~seen, 0.0)))
decay_matrix.wrong(
    "one decay too many: the decay of the key itself is in the product",
    "What token s writes has not decayed yet. The first factor is that of token s + 1.",
)(_decaying(subtract=lambda sums, logs: sums.unsqueeze(-1) - (sums - logs).unsqueeze(-2)))
decay_matrix.wrong(
    "one decay too few: that of the query's own token is missing",
    "At step t the state decays first: the last factor is that of token t.",
)(_decaying(subtract=lambda sums, logs: (sums - logs).unsqueeze(-1) - sums.unsqueeze(-2)))
decay_matrix.wrong(
    "one place late: the factors are those of the tokens s to t - 1",
    "What token s writes meets the decays of the tokens s + 1 to t.",
)(_decaying(subtract=lambda sums, logs: _difference(sums - logs, logs)))
decay_matrix.wrong(
    "without a sum: the difference of two tokens' own logarithms",
    "From s to t all decays between them multiply: take differences of cumulative sums.",
)(_decaying(sum_up=lambda logs: logs))
decay_matrix.wrong(
    "right for one text: starts is not used",
    "A new text must not hear of the one before: 0 wherever the two tokens are not of one text.",
)(_decaying(seen=lambda starts: mt.ones_like(starts.unsqueeze(-1) & starts.unsqueeze(-2)).tril()))
decay_matrix.wrong(
    "right but for the starts: the first token of a text still belongs to the text before it",
    "starts is True at the first token of the new text: what was before it ends just there.",
)(
    _decaying(
        seen=lambda starts: _same_text(
            mt.cat([mt.zeros_like(starts[..., :1]), starts[..., :-1]], dim=-1)
        )
    )
)
decay_matrix.wrong(
    "right but for the starts: it begins anew one token too early",
    "starts is True at the first token of the new text, not at the last one of the old.",
)(
    _decaying(
        seen=lambda starts: _same_text(
            mt.cat([starts[..., 1:], mt.zeros_like(starts[..., :1])], dim=-1)
        )
    )
)
decay_matrix.wrong(
    "right but for the starts: only rows of tokens that begin a text are cut",
    "All tokens of the new text are cut off from the old one: count the starts before each token.",
)(
    _decaying(
        seen=lambda starts: (~starts.unsqueeze(-1) | mt.eye(starts.shape[-1], dtype=mt.bool)).tril()
    )
)
decay_matrix.wrong(
    "right but for the starts: it hides the first token of each text from all",
    "The first token of a text is seen by its own text. Compare the texts of the two tokens.",
)(
    _decaying(
        seen=lambda starts: (~starts.unsqueeze(-2) & mt.ones_like(starts).unsqueeze(-1)).tril()
    )
)
decay_matrix.wrong(
    "not a number from the first start on: it is given a decay of 0, whose logarithm is -inf",
    "-inf - -inf is NaN. Cut the texts apart by a mask, not by a sum.",
)(
    lambda log_decay, starts: _decaying(
        seen=lambda starts: mt.ones_like(_same_text(starts)).tril()
    )(log_decay.masked_fill(starts, -mt.inf), starts)
)
decay_matrix.wrong(
    "right on and below the diagonal: above it differences were set to 0, whose exp is 1",
    "Set the differences to minus infinity, or what exp makes of them to 0 once more.",
)(
    lambda log_decay, starts: (
        decay_matrix.reference(log_decay, starts)
        + _same_text(starts).new_ones(starts.shape[-1], starts.shape[-1]).triu(1)
    )
)
decay_matrix.wrong(
    "right within one text: above the diagonal differences were set to 0, whose exp is 1",
    "Set the differences to minus infinity, or what exp makes of them to 0 once more.",
)(
    lambda log_decay, starts: (
        _difference(log_decay.cumsum(dim=-1), log_decay).tril().exp()
        * (starts.long().cumsum(dim=-1).unsqueeze(-1) == starts.long().cumsum(dim=-1).unsqueeze(-2))
    )
)
decay_matrix.wrong(
    "right but for the diagonal, which is 0",
    "A token sees what it has written itself, not decayed: 1 on the diagonal.",
)(_decaying(seen=lambda starts: _same_text(starts).tril(-1)))
decay_matrix.wrong(
    "the difference of the sums: exp is missing",
    "Sums of logarithms are the logarithm of a product. Take exp of their difference.",
)(_decaying(finish=lambda difference, seen: difference.masked_fill(~seen, 0.0)))
decay_matrix.wrong(
    "right but for what stands before the first start, for which D is 0",
    "What stands before the first True is the rest of a text, too: it sees itself.",
)(
    _decaying(
        seen=lambda starts: _same_text(starts) & (starts.long().cumsum(dim=-1) > 0).unsqueeze(-2)
    )
)
decay_matrix.wrong(
    "right without a batch: it adds up along the first axis",
    "The tokens stand on the last axis: cumsum(dim=-1).",
)(_decaying(sum_up=lambda logs: logs.cumsum(dim=0)))
decay_matrix.wrong(
    "right without a batch: all sequences have the texts of the first",
    "Each sequence has starts of its own: cumsum(dim=-1) keeps the axes before it.",
)(
    lambda log_decay, starts: decay_matrix.reference(
        log_decay, starts.reshape(-1, starts.shape[-1])[0].expand(starts.shape)
    )
)
decay_matrix.wrong(
    "transposed",
    "Row t belongs to the token that reads, column s to the one that has written.",
)(lambda log_decay, starts: decay_matrix.reference(log_decay, starts).mT)
decay_matrix.wrong(
    "the logarithm of what is asked",
    "One exp is missing at the end.",
)(_decaying(finish=lambda difference, seen: difference.masked_fill(~seen, -mt.inf)))
decay_matrix.wrong(
    "not masked: above the diagonal something grows",
    "What comes after a token has no part in its state: 0 there, and 0 across texts.",
)(_decaying(finish=lambda difference, seen: difference.exp()))
