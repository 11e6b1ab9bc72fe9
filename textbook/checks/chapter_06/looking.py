"""Where heads look: the offset that each prefers, and two heads that are set by hand."""

from collections import Counter

import minitorch as mt
from textbook.checks.chapter_06.axes import scaled_scores
from textbook.checks.exercise import exercise

# Offsets


def _offsets(weights, head, axis=-1):
    """Of each query of each sequence, how far from itself the key with most weight lies."""
    strongest = weights[:, head].argmax(dim=axis).tolist()
    return [j - i for places in strongest for i, j in enumerate(places)]


def _has_one_favorite(weights, head):
    counts = Counter(_offsets(weights, head)).most_common(2)
    return len(counts) == 1 or counts[0][1] > counts[1][1]


def _map_cases(draw, hidden):
    """Each head prefers an offset of its own, and none prefers two offsets equally."""
    for batch, heads, n in [(4, 4, 7), (2, 1, 9)] if hidden else [(1, 2, 3), (2, 3, 4)]:
        while True:
            scores = draw.normal(batch, heads, n, n)
            for head in range(heads):
                offset = int(draw.random.integers(-2, 3))
                for i in range(max(0, -offset), min(n, n - offset)):
                    scores[:, head, i, i + offset] += 2
            weights = scores.softmax(dim=-1)
            if all(_has_one_favorite(weights, head) for head in range(heads)):
                break
        yield (weights,)


def _favorites(offsets=_offsets, share=lambda count, weights: count / weights[:, 0, :, 0].numel()):
    """The most frequent offset of each head, with one piece exchanged."""

    def favorites(weights):
        pairs = []
        for head in range(weights.shape[1]):
            [(offset, count)] = Counter(offsets(weights, head)).most_common(1)
            pairs.append((offset, share(count, weights)))
        return pairs

    return favorites


@exercise(cases=_map_cases, gradients=False, see='chapter 06, "What heads look at"')
def strongest_offsets(weights):
    """weights (B, heads, n, n) give a list of pairs (offset, share), one for each head."""
    n = weights.shape[-1]
    offsets = weights.argmax(dim=-1) - mt.arange(n)  # (B, heads, n)
    pairs = []
    for of_head in offsets.transpose(0, 1).flatten(1).tolist():
        [(offset, count)] = Counter(of_head).most_common(1)
        pairs.append((offset, count / len(of_head)))
    return pairs


strongest_offsets.wrong(
    "right but for the sign of the offsets",
    "The offset is j - i: a head that looks at the word before, j = i - 1, has -1.",
)(_favorites(offsets=lambda weights, head: [-offset for offset in _offsets(weights, head)]))
strongest_offsets.wrong(
    "a distance without a sign",
    "The word before and the word after are different places: -1 and 1.",
)(_favorites(offsets=lambda weights, head: [abs(offset) for offset in _offsets(weights, head)]))
strongest_offsets.wrong(
    "the same for all heads: their maps have been averaged",
    "The mean of a head that looks left and one that looks right looks nowhere in particular. "
    "Take each head by itself.",
)(_favorites(offsets=lambda weights, head: _offsets(weights.mean(dim=1, keepdim=True), 0)))
strongest_offsets.wrong(
    "about the mean of the maps of all sequences",
    "Take the key with most weight in each sequence by itself, and count over all of them.",
)(
    _favorites(
        offsets=lambda weights, head: _offsets(weights.mean(dim=0, keepdim=True), head),
        share=lambda count, weights: count / weights.shape[-1],
    )
)
strongest_offsets.wrong(
    "about the wrong axis: for each key, the query that looks there most",
    "Row i of a map belongs to query i; its largest weight lies along the last axis.",
)(_favorites(offsets=lambda weights, head: _offsets(weights, head, axis=-2)))
strongest_offsets.wrong(
    "the position that is looked at most often, not the offset",
    "Subtract the position of the query: j - i.",
)(
    _favorites(
        offsets=lambda weights, head: sum(weights[:, head].argmax(dim=-1).tolist(), []),
    )
)
strongest_offsets.wrong(
    "right but for the share, which is a number of queries",
    "Divide by the number of all queries, B n.",
)(_favorites(share=lambda count, weights: count))
strongest_offsets.wrong(
    "right but for the share: it is divided by n alone",
    "There are n queries in each of B sequences: divide by B n.",
)(_favorites(share=lambda count, weights: count / weights.shape[-1]))


@strongest_offsets.wrong(
    "right but for the share, which is taken of the queries that have a key at this offset",
    "All B n queries count, those at the edge too.",
)
def _(weights):
    batch, _, n, _ = weights.shape
    pairs = _favorites(share=lambda count, weights: count)(weights)
    return [(offset, count / (batch * (n - abs(offset)))) for offset, count in pairs]


@strongest_offsets.wrong(
    "the offset with the largest mean weight, not the most frequent one",
    "That is a good measure too, but another one. Here each query has one vote: the key with its "
    "largest weight.",
)
def _(weights):
    batch, heads, n, _ = weights.shape
    pairs = []
    for head in range(heads):
        total = weights[:, head].sum(dim=0)  # (n, n)
        means = {
            offset: float(mt.diagonal(total, offset).sum()) / (batch * n)
            for offset in range(1 - n, n)
        }
        pairs.append(max(means.items(), key=lambda item: item[1]))
    return pairs


@strongest_offsets.wrong(
    "the mean offset of each head",
    "The mean of -1 and 1 is 0, where nobody looks. Take the most frequent offset.",
)
def _(weights):
    found = [_offsets(weights, head) for head in range(weights.shape[1])]
    means = [sum(offsets) / len(offsets) for offsets in found]
    return [(mean, share) for mean, (_, share) in zip(means, _favorites()(weights), strict=True)]


# Two heads by hand


def _pair_cases(draw, hidden):
    """Sizes k and c, then x (T, 2k), pairs of different keys, and memory (n, k + c)."""
    sizes = [(2, 1, 2, 2), (4, 2, 3, 3), (16, 3, 4, 8)]
    if hidden:
        sizes = [(9, 1, 5, 9), (25, 8, 6, 20)]
    for k, c, steps, n in sizes:
        present = draw.random.permutation(k)[:n]
        pairs = mt.tensor([draw.random.permutation(present)[:2].tolist() for _ in range(steps)])
        eye = mt.eye(k, dtype=mt.float64)
        memory = mt.cat([eye[mt.tensor(present)], draw.integers(2, n, c).double()], dim=-1)
        yield k, c, eye[pairs].flatten(1), memory


def _run(answer, k, c, x, memory):
    """The shapes of the matrices and, if they fit, what the heads find, to two decimals."""
    Q, K, V = answer(k, c)
    results = {}
    for name, matrices in (("Q", Q), ("K", K), ("V", V)):
        results[f"the number of matrices in {name}"] = len(matrices)
        for head, matrix in enumerate(matrices):
            results[f"the shape of {name}[{head}]"] = tuple(matrix.shape)
    found = None
    if list(results.values()) == [2, *[(2 * k, k)] * 2, 2, *[(k + c, k)] * 2, 2, *[(k + c, c)] * 2]:
        heads = [_found(x, memory, *(W[head].double() for W in (Q, K, V))) for head in (0, 1)]
        found = (mt.cat(heads, dim=-1) * 100).round() / 100
    return {**results, "the tensor of what the two heads find": found}


def _found(x, memory, query, key, value):
    return scaled_scores(x @ query, memory @ key).softmax(dim=-1) @ memory @ value


def _selecting(rows, first, columns, scale=1.0):
    """(rows, columns) that picks the columns of its input from ``first`` on."""
    matrix = mt.zeros(rows, columns)
    matrix[first : first + columns] = mt.eye(columns) * scale
    return matrix


def _two(sharpness=lambda k: 20 * k**0.5, asks=lambda k: (0, k), reads=lambda k: k):
    """Two heads that pick the columns of x from ``asks(k)`` on, of memory from ``reads(k)`` on."""

    def matrices(k, c):
        return (
            [_selecting(2 * k, first, k, sharpness(k)) for first in asks(k)],
            [_selecting(k + c, 0, k)] * 2,
            [_selecting(k + c, reads(k), c)] * 2,
        )

    return matrices


@exercise(
    cases=_pair_cases,
    run=_run,
    gradients=False,
    see='chapter 06, "A task for two heads"',
)
def two_heads(k, c):
    """Q[l] (2k, k), K[l] (k + c, k) and V[l] (k + c, c) of two heads."""
    # The score of the key that is asked for is sharp / sqrt(k) = 20, all others are 0.
    sharp = 20 * k**0.5
    first = mt.cat([sharp * mt.eye(k), mt.zeros(k, k)])
    second = mt.cat([mt.zeros(k, k), sharp * mt.eye(k)])
    key = mt.cat([mt.eye(k), mt.zeros(c, k)])
    value = mt.cat([mt.zeros(k, c), mt.eye(c)])
    return [first, second], [key, key], [value, value]


two_heads.wrong(
    "two heads that are not sharp: their matrices are all zeros and ones",
    "A score of 1 / sqrt(k) beside scores of 0 moves the softmax little. Multiply Q (or K) by a "
    "large number.",
)(_two(sharpness=lambda k: 1.0))
two_heads.wrong(
    "two heads that are not sharp enough: their scale is 10",
    "The scores are divided by the square root of k = 16, too, and then 2.5 against 0 is not "
    "enough. Multiply Q by a larger number.",
)(_two(sharpness=lambda k: 10.0))
two_heads.wrong(
    "two flat heads: each finds the mean of the values",
    "The query of each head must fit the one key that it looks for better than the others.",
)(_two(sharpness=lambda k: 0.0))
two_heads.wrong(
    "right but for the order: head 0 looks for the second key",
    "Head 0 looks for the key in the first k columns of x, head 1 for that in the last k.",
)(_two(asks=lambda k: (k, 0)))
two_heads.wrong(
    "two heads that both look for the first key",
    "Q[1] has to pick the last k columns of x.",
)(_two(asks=lambda k: (0, 0)))
two_heads.wrong(
    "two heads that both look for the second key",
    "Q[0] has to pick the first k columns of x.",
)(_two(asks=lambda k: (k, k)))
two_heads.wrong(
    "two heads that look away from their key",
    "The larger weight needs the larger score: change the sign of Q or of K.",
)(_two(sharpness=lambda k: -20 * k**0.5))
two_heads.wrong(
    "two heads that find keys: V picks the first c columns of the memory",
    "The value stands in the last c columns, after the k of the key.",
)(_two(reads=lambda k: 0))


@two_heads.wrong(
    "two heads that each look for both keys, and find the mean of the two values",
    "That is the best that one softmax can do, and it does not tell which value belongs to which "
    "key. Give each head one of the two.",
)
def _(k, c):
    _, K, V = two_heads.reference(k, c)
    both = mt.cat([mt.eye(k), mt.eye(k)]) * 20 * k**0.5
    return [both, both], K, V


@two_heads.wrong(
    "two sharp heads whose values are cut off: V is all zeros",
    "V has to pick the last c columns of the memory.",
)
def _(k, c):
    Q, K, _ = two_heads.reference(k, c)
    return Q, K, [mt.zeros(k + c, c)] * 2
