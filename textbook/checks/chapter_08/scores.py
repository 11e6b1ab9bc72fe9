"""Distance in the scores: a learned vector for each, or a fixed slope."""

import minitorch as mt
from textbook.checks.exercise import exercise


def differences(n):
    """j - i: (n, n)."""
    return mt.arange(n) - mt.arange(n).unsqueeze(1)


# A bias for distance


def _bias_cases(draw, hidden):
    yield from [(2, 1), (3, 2), (4, 4), (2, 6)] + [(1, 8), (7, 3), (5, 16)] * hidden


def _slopes(heads):
    return 2.0 ** (-8 * mt.arange(1, heads + 1) / heads)


def _bias(slopes=_slopes, distances=lambda n: differences(n).abs(), sign=-1):
    """The bias with one of its pieces exchanged."""

    def bias(n, heads):
        return sign * slopes(heads).reshape(-1, 1, 1) * distances(n)

    return bias


@exercise(cases=_bias_cases, gradients=False, see='chapter 08, "A bias for distance"')
def alibi_bias(n, heads):
    """What is added to the scores: (heads, n, n)."""
    slopes = 2.0 ** (-8 * mt.arange(1, heads + 1) / heads)  # (heads)
    places = mt.arange(n)
    return -slopes.reshape(-1, 1, 1) * (places - places.unsqueeze(1)).abs()


alibi_bias.wrong(
    "right but for the sign: it rewards distance",
    "The bias is added to the scores and makes far keys less likely: it is negative.",
)(_bias(sign=1))
alibi_bias.wrong(
    "right for keys before the query; later ones are rewarded for their distance",
    "The distance is |j - i|, which is never negative.",
)(_bias(distances=lambda n: -differences(n)))
alibi_bias.wrong(
    "right for keys after the query; earlier ones are rewarded for their distance",
    "The distance is |j - i|, which is never negative.",
)(_bias(distances=differences))
alibi_bias.wrong(
    "right for keys before the query, but 0 for later ones",
    "The bias is that of |j - i| on both sides. A causal mask comes on top where one is needed.",
)(_bias(distances=lambda n: (-differences(n)).clamp(min=0)))
alibi_bias.wrong(
    "right for keys before the query, but masked for later ones",
    "The bias is that of |j - i| on both sides. A causal mask comes on top where one is needed.",
)(lambda n, heads: _bias()(n, heads).masked_fill(differences(n) > 0, -mt.inf))
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
)(_bias(distances=lambda n: differences(n) ** 2))
alibi_bias.wrong(
    "right but for the order of the axes: the heads come last",
    "Heads come first, as in scores (B, h, n, n): (h, n, n).",
)(lambda n, heads: _bias()(n, heads).permute(1, 2, 0))
alibi_bias.wrong(
    "a bonus for the index of the key, which does not depend on the query",
    "Under a causal mask the softmax makes the same of both. But here the bias itself is asked "
    "for: minus the slope times |j - i|.",
)(lambda n, heads: _slopes(heads).reshape(-1, 1, 1) * mt.arange(n).expand(n, n))


# A vector for each difference


def _relative_cases(draw, hidden):
    """Sizes (B, n, d) and c: differences within c, and beyond."""
    sizes = [(1, 2, 2, 1), (2, 4, 3, 1), (2, 3, 4, 4)]
    if hidden:
        sizes = [(1, 1, 4, 2), (2, 4, 5, 1), (1, 5, 2, 3)]
    for batch, n, d, c in sizes:
        yield draw.normal(batch, n, d), draw.normal(batch, n, d), draw.normal(2 * c + 1, d)


def _clipped_rows(apart, c):
    return apart.clamp(-c, c) + c


def _looked_up(query, vectors):
    """q_i . a_ij: (B, n, d), (n, n, d) -> (B, n, n)."""
    return mt.einsum("bid,ijd->bij", query, vectors)


def _relative(
    rows=_clipped_rows,
    content=lambda query, key: query @ key.mT,
    place=lambda query, key, vectors: _looked_up(query, vectors),
    scale=lambda content, place, d: (content + place) / d**0.5,
):
    """Scores with relative keys, with one of their pieces exchanged."""

    def scores(query, key, table):
        vectors = table[rows(differences(query.shape[1]), len(table) // 2)]  # (n, n, d)
        return scale(content(query, key), place(query, key, vectors), query.shape[-1])

    return scores


@exercise(cases=_relative_cases, gradients=False, see='chapter 08, "Relative positions"')
def relative_scores(query, key, table):
    """query and key (B, n, d) and a table (2c + 1, d) give scores (B, n, n)."""
    n, d = query.shape[1:]
    c = len(table) // 2
    places = mt.arange(n)
    apart = (places - places.unsqueeze(1)).clamp(-c, c)  # (n, n)
    keys = key.unsqueeze(1) + table[apart + c]  # (B, n, n, d): for query i, key j
    return (query.unsqueeze(2) * keys).sum(dim=-1) / d**0.5


relative_scores.wrong(
    "right but for the sign of the difference: it takes i - j",
    "The difference is that of key j from query i, j - i: a word to the left has -1.",
)(_relative(rows=lambda apart, c: _clipped_rows(-apart, c)))
relative_scores.wrong(
    "right but for the distance, which has lost its sign",
    "The word before and the word after have different vectors: j - i keeps its sign.",
)(_relative(rows=lambda apart, c: _clipped_rows(apart.abs(), c)))
relative_scores.wrong(
    "right but for the rows of the table: c is not added to the difference",
    "Row 0 belongs to the difference -c, so difference r has row r + c. A negative index does not "
    "stop: it counts from the end.",
)(_relative(rows=lambda apart, c: apart.clamp(-c, c)))
relative_scores.wrong(
    "right but for the clipping, which is missing: differences beyond c wrap around",
    "Beyond c all share one vector: clamp the differences to -c, ..., c before you add c.",
)(_relative(rows=lambda apart, c: (apart + c) % (2 * c + 1)))
relative_scores.wrong(
    "right but for the clipping, which is missing",
    "Beyond c all share one vector: clamp the differences to -c, ..., c before you add c.",
)(_relative(rows=lambda apart, c: apart + c))
relative_scores.wrong(
    "right but for the clipping, which comes after c is added",
    "Clamp the differences to -c, ..., c first, then add c. Or add first, and clamp to 0, ..., 2c.",
)(_relative(rows=lambda apart, c: (apart + c).clamp(-c, c)))
relative_scores.wrong(
    "right but for the clipping: it leaves out negative differences",
    "Differences go from -c to c: clamp them on both sides.",
)(_relative(rows=lambda apart, c: apart.clamp(0, c) + c))
relative_scores.wrong(
    "right but for the clipping, which is one step too tight",
    "Differences -c and c have rows of their own: the table has 2c + 1 of them.",
)(_relative(rows=lambda apart, c: _clipped_rows(apart.clamp(1 - c, c - 1), c)))
relative_scores.wrong(
    "right but for the scale, which is missing",
    "Divide the scores by the square root of d.",
)(_relative(scale=lambda content, place, d: content + place))
relative_scores.wrong(
    "right but for the scale, which the vectors of the differences do not get",
    "The whole product of the query with key plus vector is divided by the square root of d.",
)(_relative(scale=lambda content, place, d: content / d**0.5 + place))
relative_scores.wrong(
    "right but for the scale: it divides by d itself",
    "Divide the scores by the square root of d.",
)(_relative(scale=lambda content, place, d: (content + place) / d))
relative_scores.wrong(
    "right but for the vectors, which are added to the query and not to the key",
    "The score is the product of the query with the key plus the vector of the difference.",
)(_relative(place=lambda query, key, vectors: mt.einsum("bjd,ijd->bij", key, vectors)))
relative_scores.wrong(
    "right but for the vectors, which are summed up without the query",
    "A vector is added to the key, so the query is multiplied by it, too.",
)(_relative(place=lambda query, key, vectors: vectors.sum(dim=-1)))
relative_scores.wrong(
    "made of the differences alone: the product of query and key is missing",
    "The score is the product of the query with the key plus the vector of the difference.",
)(_relative(content=lambda query, key: 0.0))
relative_scores.wrong(
    "the plain attention score: the table is not used",
    "Add to each key the vector of the difference, row clip(j - i) + c of the table.",
)(_relative(place=lambda query, key, vectors: 0.0))
relative_scores.wrong(
    "transposed: row j, column i",
    "Row i belongs to query i: (B, n, n) with keys along the last axis.",
)(lambda query, key, table: _relative()(query, key, table).mT)
relative_scores.wrong(
    "right but for query and key, which are exchanged: query j meets key i",
    "Row i belongs to query i and column j to key j: query (B, n, 1, d), key (B, 1, n, d).",
)(
    _relative(
        content=lambda query, key: key @ query.mT,
        place=lambda query, key, vectors: mt.einsum("bjd,ijd->bij", query, vectors),
    )
)
relative_scores.wrong(
    "right but for a softmax, which is too much",
    "The scores themselves are asked for.",
)(lambda query, key, table: _relative()(query, key, table).softmax(dim=-1))
