"""Distance in the scores: a fixed slope, or learned vectors for keys and values."""

import minitorch as mt
from textbook.checks.exercise import exercise


def differences(n):
    """j - i: (n, n)."""
    return mt.arange(n) - mt.arange(n).unsqueeze(1)


# A bias for distance


def _bias_cases(draw, hidden):
    yield from [(3, 3, 2), (2, 4, 3), (1, 5, 8)]
    if hidden:
        yield from [(1, 1, 1), (6, 7, 3), (4, 9, 16), (5, 5, 6)]


def _slopes(heads):
    return 2.0 ** (-8 * mt.arange(1, heads + 1) / heads)


def _published(heads):
    """Those of the next lower power of 2, then every second one of twice as many heads."""
    below = 2 ** (heads.bit_length() - 1)
    return mt.cat([_slopes(below), _slopes(2 * below)[::2][: heads - below]])


def _apart(queries, keys):
    """i - j for the last places as queries: (queries, keys)."""
    return mt.arange(keys - queries, keys).unsqueeze(1) - mt.arange(keys)


def _bias(slopes=_slopes, apart=_apart, sign=-1, size=lambda apart: apart, hide=-mt.inf):
    """The bias with one of its pieces exchanged."""

    def bias(queries, keys, heads):
        distances = apart(queries, keys)
        result = sign * slopes(heads).reshape(-1, 1, 1) * size(distances)
        return result if hide is None else result.masked_fill(distances < 0, hide)

    return bias


@exercise(cases=_bias_cases, gradients=False, see='chapter 08, "A bias for distance"')
def alibi_bias(queries, keys, heads):
    """What is added to the scores of the last places: (heads, queries, keys)."""
    slopes = 2.0 ** (-8 * mt.arange(1, heads + 1) / heads)  # (heads)
    places = mt.arange(keys)
    apart = places[keys - queries :].unsqueeze(1) - places  # (queries, keys): i - j
    bias = -slopes.reshape(-1, 1, 1) * apart
    return bias.masked_fill(apart < 0, -mt.inf)


alibi_bias.wrong(
    "right but for the slopes: ell divides in the exponent, -8/ell",
    "The exponent is -8 ell / h: it grows with ell and has the number of heads below.",
)(_bias(slopes=lambda heads: 2.0 ** (-8 / mt.arange(1, heads + 1))))
alibi_bias.wrong(
    "right where h divides 8: else 8/h is cut off to a whole number",
    "-8 ell / h with the division /, not //.",
)(_bias(slopes=lambda heads: 2.0 ** (-(8 // heads) * mt.arange(1, heads + 1))))
alibi_bias.wrong(
    "right where h is a power of 2: else it has the slopes of the published program",
    "Here they are 2 to the power of -8 ell / h for any h.",
)(_bias(slopes=_published))
alibi_bias.wrong(
    "right for the last query alone: all others have its distances",
    "Query i stands at its own place: the distance is i - j, row by row.",
)(
    lambda queries, keys, heads: (
        -_slopes(heads).reshape(-1, 1, 1) * _apart(1, keys).expand(queries, keys)
    ).masked_fill(_apart(queries, keys) < 0, -mt.inf)
)
alibi_bias.wrong(
    "right but for the sign: it rewards distance",
    "The bias is added to the scores and makes far keys less likely: it is negative.",
)(_bias(sign=1))
alibi_bias.wrong(
    "right but for later keys, which are not masked",
    "A key behind the query is not to be seen: minus infinity.",
)(_bias(size=lambda apart: apart.abs(), hide=None))
alibi_bias.wrong(
    "right but for later keys, which are rewarded for their distance and not masked",
    "A key behind the query is not to be seen: minus infinity.",
)(_bias(hide=None))
alibi_bias.wrong(
    "right but for later keys, which have a bias of 0",
    "0 leaves a score as it is. A key behind the query is not to be seen: minus infinity.",
)(_bias(hide=0.0))
alibi_bias.wrong(
    "right but for later keys, which have a large negative number in place of minus infinity",
    "Scores may be large as well: minus infinity, so that the weight is exactly 0.",
)(_bias(hide=-1e9))
alibi_bias.wrong(
    "right but for later keys, which have -10000 in place of minus infinity",
    "Scores may be large as well: minus infinity, so that the weight is exactly 0.",
)(_bias(hide=-1e4))
alibi_bias.wrong(
    "right but for later keys, which have the lowest number that there is",
    "Minus infinity: -mt.inf.",
)(_bias(hide=-3.4028234663852886e38))
alibi_bias.wrong(
    "masked the wrong way round: earlier keys are hidden",
    "Query i sees keys j up to i.",
)(
    lambda queries, keys, heads: _bias(hide=None)(queries, keys, heads).masked_fill(
        _apart(queries, keys) > 0, -mt.inf
    )
)
alibi_bias.wrong(
    "right but for a query's own place, which is masked, too",
    "Query i sees keys j up to i, its own included, where the bias is 0.",
)(
    lambda queries, keys, heads: _bias()(queries, keys, heads).masked_fill(
        _apart(queries, keys) == 0, -mt.inf
    )
)
alibi_bias.wrong(
    "right for as many queries as keys: else it takes the queries for the first places",
    "The queries are the last of the places: with 5 keys and 2 queries, they stand at 3 and 4.",
)(_bias(apart=lambda queries, keys: mt.arange(queries).unsqueeze(1) - mt.arange(keys)))
alibi_bias.wrong(
    "right but for the queries' places, which are one too far on",
    "The last query has the place of the last key.",
)(_bias(apart=lambda queries, keys: _apart(queries, keys) + 1))
alibi_bias.wrong(
    "a square of keys and keys",
    "A row for each query, a column for each key: (h, T, n).",
)(lambda queries, keys, heads: _bias()(keys, keys, heads))
alibi_bias.wrong(
    "right but for the rows, of which the last query comes first",
    "Row 0 belongs to the earliest query.",
)(lambda queries, keys, heads: _bias()(queries, keys, heads).flip(1))
alibi_bias.wrong(
    "right but for the axes: keys stand in rows, queries in columns",
    "Row i for the query, column j for the key: (h, T, n).",
)(lambda queries, keys, heads: _bias()(queries, keys, heads).mT)
alibi_bias.wrong(
    "right but for the slopes: the heads are counted from 0",
    "The first head has ell = 1 and the slope 2 to the power of -8/h, the last one 2 to the power "
    "of -8.",
)(_bias(slopes=lambda heads: 2.0 ** (-8 * mt.arange(heads) / heads)))
alibi_bias.wrong(
    "right but for the order of the slopes: the flattest head comes first",
    "Head ell = 1 has the steepest slope, 2 to the power of -8/h.",
)(_bias(slopes=lambda heads: _slopes(heads).flip(0)))
alibi_bias.wrong(
    "right for eight heads alone: its slopes are 1/2, 1/4, 1/8, ...",
    "The exponent is -8 ell/h: it depends on the number of heads, so that the last slope is always "
    "2 to the power of -8.",
)(_bias(slopes=lambda heads: 0.5 ** mt.arange(1.0, heads + 1)))
alibi_bias.wrong(
    "right but for the slopes, which are all the same",
    "Each head has a slope of its own: 2 to the power of -8 ell/h for head ell.",
)(_bias(slopes=lambda heads: _slopes(heads)[:1].expand(heads)))
alibi_bias.wrong(
    "right but for the slopes, which are missing",
    "Multiply the distances by the slope of the head, 2 to the power of -8 ell/h.",
)(_bias(slopes=mt.ones))
alibi_bias.wrong(
    "right but for the slopes: they grow with ell",
    "The exponent is negative: -8 ell/h.",
)(_bias(slopes=lambda heads: 1 / _slopes(heads)))
alibi_bias.wrong(
    "right but for the slopes: ell/h has slipped out of the exponent",
    "The slope of head ell is 2 to the power of (-8 ell/h). In Python, 2 ** -8 * ell / h is "
    "(2 ** -8) * ell / h: set parentheses.",
)(_bias(slopes=lambda heads: 2.0**-8 * mt.arange(1, heads + 1) / heads))
alibi_bias.wrong(
    "right but for the slopes, in which e stands for 2",
    "The slopes are powers of 2, not of e.",
)(_bias(slopes=lambda heads: (-8 * mt.arange(1, heads + 1) / heads).exp()))
alibi_bias.wrong(
    "right but for the distance, which is squared",
    "Distance enters as it is: the bias falls along a line.",
)(_bias(size=lambda apart: apart**2))
alibi_bias.wrong(
    "right but for the order of the axes: the heads come last",
    "Heads come first, as in scores (B, h, T, n): (h, T, n).",
)(lambda queries, keys, heads: _bias()(queries, keys, heads).permute(1, 2, 0))
alibi_bias.wrong(
    "a bonus for the index of the key, which does not depend on the query",
    "The softmax makes the same of both. But here the bias itself is asked for: minus the slope "
    "times i - j.",
)(
    lambda queries, keys, heads: (
        _slopes(heads).reshape(-1, 1, 1) * mt.arange(keys).expand(queries, keys)
    ).masked_fill(_apart(queries, keys) < 0, -mt.inf)
)


# A vector for each difference


def _masks(draw, mask, batch, heads, n):
    """None, or where to look: every query may look at itself."""
    if mask is None:
        return None
    if mask == "causal":
        return mt.ones(n, n).tril().bool()
    shape = {"heads": (batch, heads, n, n), "sequences": (batch, 1, n, n), "pairs": (n, n)}[mask]
    return (draw.integers(3, *shape) > 0) | mt.eye(n).bool()


def _relative_cases(draw, hidden):
    """Sizes (B, h, n, d, size of a value) and c, differences within c and beyond, and masks."""
    sizes = [(1, 1, 3, 2, 3, 1, None), (2, 3, 4, 3, 2, 1, "causal"), (2, 2, 3, 4, 5, 4, "heads")]
    if hidden:
        sizes = [
            (1, 2, 5, 4, 3, 1, None),
            (3, 2, 4, 6, 5, 2, "sequences"),
            (2, 1, 6, 3, 4, 3, "pairs"),
            (1, 2, 1, 4, 2, 2, None),
            (2, 4, 3, 2, 6, 1, "heads"),
        ]
    for i, (batch, heads, n, d, size, c, mask) in enumerate(sizes):
        query, key = draw.normal(batch, heads, n, d), draw.normal(batch, heads, n, d)
        scale = 3000.0 if i == 1 else 1.0  # scores in the thousands
        yield (
            scale * query,
            key,
            draw.normal(batch, heads, n, size),
            draw.normal(2 * c + 1, d),
            draw.normal(2 * c + 1, size),
            _masks(draw, mask, batch, heads, n),
        )


def _clipped_rows(apart, c):
    return apart.clamp(-c, c) + c


def _of_keys(query, vectors):
    """q_i . a_ij: (B, h, n, d), (n, n, d) -> (B, h, n, n)."""
    return mt.einsum("bhid,ijd->bhij", query, vectors)


def _of_values(weights, vectors):
    """The weighted sum of b_ij: (B, h, n, n), (n, n, e) -> (B, h, n, e)."""
    return mt.einsum("bhij,ije->bhie", weights, vectors)


def _hidden(scores, allowed):
    return scores if allowed is None else scores.masked_fill(~allowed, -mt.inf)


def _relative(
    rows=_clipped_rows,
    rows_of_values=None,
    content=lambda query, key: query @ key.mT,
    place=_of_keys,
    scale=lambda content, place, d: (content + place) / d**0.5,
    hide=_hidden,
    mixed=lambda weights, value: weights @ value,
    place_mixed=_of_values,
    softmax=lambda scores: scores.softmax(dim=-1),
):
    """Attention with relative keys and values, with one of its pieces exchanged."""

    def attention(query, key, value, keys_of, values_of, allowed):
        apart, c = differences(query.shape[-2]), len(keys_of) // 2
        vectors = keys_of[rows(apart, c)]  # (n, n, d)
        scores = scale(content(query, key), place(query, vectors), query.shape[-1])
        weights = softmax(hide(scores, allowed))
        vectors = values_of[(rows_of_values or rows)(apart, c)]  # (n, n, e)
        return mixed(weights, value) + place_mixed(weights, vectors)

    return attention


@exercise(cases=_relative_cases, gradients=False, see='chapter 08, "Relative positions"')
def relative_attention(query, key, value, keys_of, values_of, allowed=None):
    """Attention with a vector for each difference, in keys and in values: (B, h, n, e)."""
    n, d = query.shape[-2:]
    c = len(keys_of) // 2
    places = mt.arange(n)
    rows = (places - places.unsqueeze(1)).clamp(-c, c) + c  # (n, n)
    by_place = (query.unsqueeze(-2) @ keys_of[rows].mT).squeeze(-2)  # (B, h, n, n)
    scores = (query @ key.mT + by_place) / d**0.5
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -mt.inf)
    weights = scores.softmax(dim=-1)
    return weights @ value + (weights.unsqueeze(-2) @ values_of[rows]).squeeze(-2)


SIGN = (
    "The difference is that of key j from query i, j - i: a word to the left has -1.",
    "Row 0 belongs to the difference -c, so difference r has row r + c. A negative index does not "
    "stop: it counts from the end.",
    "Beyond c all share one vector: clamp the differences to -c, ..., c before you add c.",
)
relative_attention.wrong(
    "right but for the sign of the difference: it takes i - j",
    SIGN[0],
)(_relative(rows=lambda apart, c: _clipped_rows(-apart, c)))
relative_attention.wrong(
    "right but for the vectors of the values, where it takes i - j",
    SIGN[0],
)(_relative(rows_of_values=lambda apart, c: _clipped_rows(-apart, c)))
relative_attention.wrong(
    "right but for the distance, which has lost its sign",
    "The word before and the word after have different vectors: j - i keeps its sign.",
)(_relative(rows=lambda apart, c: _clipped_rows(apart.abs(), c)))
relative_attention.wrong(
    "right but for the rows of the tables: c is not added to the difference",
    SIGN[1],
)(_relative(rows=lambda apart, c: apart.clamp(-c, c)))
relative_attention.wrong(
    "right but for the clipping, which is missing: differences beyond c wrap around",
    SIGN[2],
)(_relative(rows=lambda apart, c: (apart + c) % (2 * c + 1)))
relative_attention.wrong(
    "right but for the clipping, which is missing",
    SIGN[2],
)(_relative(rows=lambda apart, c: apart + c))
relative_attention.wrong(
    "right but for the clipping, which comes after c is added",
    "Clamp the differences to -c, ..., c first, then add c. Or add first, and clamp to 0, ..., 2c.",
)(_relative(rows=lambda apart, c: (apart + c).clamp(-c, c)))
relative_attention.wrong(
    "right but for the clipping: it leaves out negative differences",
    "Differences go from -c to c: clamp them on both sides.",
)(_relative(rows=lambda apart, c: apart.clamp(0, c) + c))
relative_attention.wrong(
    "right but for the clipping, which is one step too tight",
    "Differences -c and c have rows of their own: a table has 2c + 1 of them.",
)(_relative(rows=lambda apart, c: _clipped_rows(apart.clamp(1 - c, c - 1), c)))
relative_attention.wrong(
    "right but for the scale, which is missing",
    "Divide the scores by the square root of d.",
)(_relative(scale=lambda content, place, d: content + place))
relative_attention.wrong(
    "right but for the scale, which the vectors of the differences do not get",
    "The whole product of the query with key plus vector is divided by the square root of d.",
)(_relative(scale=lambda content, place, d: content / d**0.5 + place))
relative_attention.wrong(
    "right but for the scale: it divides by d itself",
    "Divide the scores by the square root of d.",
)(_relative(scale=lambda content, place, d: (content + place) / d))
relative_attention.wrong(
    "right but for the keys, which get no vector",
    "Add to key j, for query i, row clip(j - i) + c of keys_of.",
)(_relative(place=lambda query, vectors: 0.0))
relative_attention.wrong(
    "right but for the values, which get no vector",
    "Add to value j, for query i, row clip(j - i) + c of values_of.",
)(_relative(place_mixed=lambda weights, vectors: 0.0))
relative_attention.wrong(
    "plain attention: neither table is used",
    "Add to key j and to value j, for query i, the rows clip(j - i) + c of the tables.",
)(_relative(place=lambda query, vectors: 0.0, place_mixed=lambda weights, vectors: 0.0))
relative_attention.wrong(
    "right but for the values themselves, of which only the vectors are left",
    "The weights multiply value plus vector.",
)(_relative(mixed=lambda weights, value: 0.0))
relative_attention.wrong(
    "made of the differences alone: the product of query and key is missing",
    "The score is the product of the query with the key plus the vector of the difference.",
)(_relative(content=lambda query, key: 0.0))
relative_attention.wrong(
    "right but for the vectors of the keys, which are summed up without the query",
    "A vector is added to the key, so the query is multiplied by it, too.",
)(_relative(place=lambda query, vectors: vectors.sum(dim=-1)))
relative_attention.wrong(
    "right but for the vectors of the values, which are added without the weights",
    "A vector is added to the value, so it is weighted, too.",
)(_relative(place_mixed=lambda weights, vectors: vectors.sum(dim=1)))
relative_attention.wrong(
    "right but for the vectors of the keys, which meet query j in place of query i",
    "Row i belongs to query i: q_i times the vector of j - i.",
)(_relative(place=lambda query, vectors: mt.einsum("bhjd,ijd->bhij", query, vectors)))
relative_attention.wrong(
    "right but for the mask, which is not used",
    "Where allowed is False, the score is minus infinity.",
)(_relative(hide=lambda scores, allowed: scores))
relative_attention.wrong(
    "right but for the mask, which says the opposite",
    "allowed is True where a query may look.",
)(_relative(hide=lambda scores, allowed: _hidden(scores, None if allowed is None else ~allowed)))
relative_attention.wrong(
    "right but for the mask, which is transposed",
    "Row i of allowed belongs to query i.",
)(_relative(hide=lambda scores, allowed: _hidden(scores, None if allowed is None else allowed.mT)))
relative_attention.wrong(
    "right but for the mask, which sets scores to 0",
    "e to the power of 0 is 1: minus infinity, before the softmax.",
)(
    _relative(
        hide=lambda scores, allowed: (
            scores if allowed is None else scores.masked_fill(~allowed, 0.0)
        )
    )
)
for number in (-100.0, -1000.0):
    relative_attention.wrong(
        f"right but for the mask, whose {number:.0f} is not low enough",
        "Scores may be in the thousands: minus infinity.",
    )(
        _relative(
            hide=lambda scores, allowed, number=number: (
                scores if allowed is None else scores.masked_fill(~allowed, number)
            )
        )
    )
relative_attention.wrong(
    "right but for the clipping, which is made at c alone: far to the left the rows wrap around",
    SIGN[2],
)(_relative(rows=lambda apart, c: (apart + c).clamp(max=2 * c)))
relative_attention.wrong(
    "right but for the vectors of the keys, which meet the keys in place of the queries",
    "The query asks: its product is with the key plus the vector of the difference.",
)(
    lambda query, key, *others: _relative(
        place=lambda _, vectors: mt.einsum("bhjd,ijd->bhij", key, vectors)
    )(query, key, *others)
)
relative_attention.wrong(
    "right for small scores; e to the power of a large one is infinite",
    "Subtract the largest score of each row first, or call softmax, which does.",
)(
    _relative(
        softmax=lambda scores: scores.exp() / scores.exp().sum(dim=-1, keepdim=True),
    )
)
relative_attention.wrong(
    "right but for the softmax, which goes over the queries",
    "The weights of each query add up to one: the last axis.",
)(_relative(softmax=lambda scores: scores.softmax(dim=-2)))


@relative_attention.wrong(
    "right but for the mask, which comes after the softmax",
    "What is left does not add up to one. Minus infinity in the scores, before the softmax.",
)
def _(query, key, value, keys_of, values_of, allowed):
    def seen(weights):
        return weights if allowed is None else weights.masked_fill(~allowed, 0.0)

    return _relative(
        hide=lambda scores, allowed: scores,
        softmax=lambda scores: seen(scores.softmax(dim=-1)),
    )(query, key, value, keys_of, values_of, allowed)
