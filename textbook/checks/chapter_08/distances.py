"""What scores know of the places of words, and distances in a tree."""

import minitorch as mt
from textbook.checks.chapter_08.codes import sinusoidal_codes
from textbook.checks.chapter_08.rotary import rotate
from textbook.checks.exercise import Draw, exercise

# What a scheme knows


def _added(codes):
    """Scores of words with a code added for each place."""

    def scores(X, places):
        coded = X + codes(X.shape[-1])[places]
        return coded @ coded.mT

    return scores


def _biased(bias):
    """Scores to which a number is added that depends on the difference j - i."""
    return lambda X, places: X @ X.mT + bias(places - places.unsqueeze(-1))


def _turned(X, places):
    turned = rotate.reference(X, places)
    return turned @ turned.mT


def _with_index(X, places):
    index = places.unsqueeze(1) / 20
    return X @ X.mT + index @ index.mT


def _favors_late_keys(X, places):
    return X @ X.mT + places / 4


SCHEMES = {
    "no positions": _biased(lambda apart: 0.0),
    "an index appended": _with_index,
    "sinusoids added": _added(lambda d: sinusoidal_codes.reference(64, d)),
    "learned positions added": _added(lambda d: Draw(3).normal(64, d)),
    "a bonus for words before, clipped": _biased(lambda apart: -apart.clamp(-2, 2) / 2),
    "rotary positions": _turned,
    "ALiBi": _biased(lambda apart: -apart.abs() / 4),
}
MORE_SCHEMES = {
    "a bonus for a later key": _favors_late_keys,
    "learned scores of differences": _biased(lambda apart: Draw(4).normal(127)[apart + 63]),
    "no positions, scaled": lambda X, places: X @ X.mT / X.shape[-1] ** 0.5,
}


def _scheme_cases(draw, hidden):
    for scheme in {**SCHEMES, **MORE_SCHEMES} if hidden else SCHEMES:
        yield scheme, draw.normal(4, 4)


def _told(answer, scheme, X):
    return {f"the answer for {scheme}": answer({**SCHEMES, **MORE_SCHEMES}[scheme], X)}


def _knows(
    spread=lambda n: 2 * mt.arange(n),
    same=lambda a, b: mt.allclose(a, b, atol=1e-6),
    names=("nothing", "distance", "place"),
):
    """The answer with one of the questions exchanged."""

    def knows(scores, X):
        n = len(X)
        start = scores(X, mt.arange(n))
        if not same(start, scores(X, mt.arange(n) + 3)):
            return names[2]
        return names[0] if same(start, scores(X, spread(n))) else names[1]

    return knows


@exercise(cases=_scheme_cases, run=_told, gradients=False, see='chapter 08, "The index appended"')
def what_it_knows(scores, X):
    """A function of X (n, d) and places (n), and X give "nothing", "distance" or "place"."""
    places = mt.arange(len(X))
    start, moved, apart = (scores(X, each) for each in (places, places + 3, 2 * places))
    if not mt.allclose(start, moved, atol=1e-6):
        return "place"
    return "nothing" if mt.allclose(start, apart, atol=1e-6) else "distance"


what_it_knows.wrong(
    'right but for scores that know nothing: it calls them "distance"',
    "Scores that stay when all words move need not depend on places at all. Change the distances, "
    "too.",
)(_knows(names=("distance", "distance", "place")))
what_it_knows.wrong(
    'right but for scores that know distance: it calls them "nothing"',
    "That scores stay when all words move says that they do not know the place. Ask further: do "
    "they stay when words move apart?",
)(_knows(names=("nothing", "nothing", "place")))
what_it_knows.wrong(
    'right but for scores that know distance: it calls them "place"',
    "Move all words by the same number of places: if the scores stay, they know no more than "
    "distances.",
)(_knows(names=("nothing", "place", "place")))
what_it_knows.wrong(
    'right but for scores that do not tell before from after: it calls them "nothing"',
    "In the reverse order all distances are the same again, but for their signs. Move the words "
    "apart instead.",
)(_knows(spread=lambda n: mt.arange(n).flip(0)))
what_it_knows.wrong(
    "right but for rounding: it wants scores that are equal to the last digit",
    "Turned vectors give the same scores but for rounding errors: compare with mt.allclose(a, b, "
    "atol=1e-6).",
)(_knows(same=mt.equal))
what_it_knows.wrong(
    "made from the sum of the scores",
    "Where some scores grow and others shrink by as much, the sum stays. Compare all scores.",
)(_knows(same=lambda a, b: mt.allclose(a.sum(), b.sum(), atol=1e-6)))
what_it_knows.wrong(
    'right but for the words "place" and "distance", which are exchanged',
    '"place": the scores change when all words move. "distance": they do not, but they change when '
    "words move apart.",
)(_knows(names=("nothing", "place", "distance")))
what_it_knows.wrong(
    '"place" for all schemes',
    "Compare the scores of the same words, in the same order, at other places.",
)(lambda scores, X: "place")


# Distances in a tree


def _tree_cases(draw, hidden):
    """Random trees, with the root anywhere: lists of heads."""
    for n in [1, 6, 12] if hidden else [2, 4, 5, 7]:
        heads = [None] * n
        order = draw.random.permutation(n).tolist()
        for i in range(1, n):
            heads[order[i]] = order[draw.random.integers(max(0, i - 3), i)]
        yield (heads,)


def path(heads, place):
    """A word, its head, the head of that, up to the root."""
    places = [place]
    while heads[places[-1]] is not None:
        places.append(heads[places[-1]])
    return places


def _tree(distance):
    """A matrix of ``distance(path of i, path of j)``."""

    def distances(heads):
        paths = [path(heads, place) for place in range(len(heads))]
        return mt.tensor([[distance(up, other) for other in paths] for up in paths])

    return distances


def _edges(up, other):
    return len({*up} ^ {*other})


def _top(up, other):
    """The first word that both paths have."""
    return next(place for place in up if place in other)


def _is_symmetric(answer, heads):
    distances = answer(heads)
    if distances.ndim == 2 and not mt.equal(distances, distances.mT):
        return "The way from i to j is as long as that from j to i."
    return None


@exercise(
    cases=_tree_cases,
    properties=(_is_symmetric,),
    gradients=False,
    see='chapter 08, "Positions from syntax"',
)
def tree_distances(heads):
    """A list of n heads gives the distances in the tree, (n, n)."""
    paths = []  # of each word, the words from there to the root
    for place in range(len(heads)):
        path = set()
        while place is not None:
            path.add(place)
            place = heads[place]
        paths.append(path)
    # An edge of the way lies above each word that is on one of the two paths alone.
    return mt.tensor([[len(path ^ other) for other in paths] for path in paths])


tree_distances.wrong(
    "the distance in words",
    "Count the edges from i to j in the tree, wherever the words stand.",
)(_tree(lambda up, other: abs(up[0] - other[0])))
tree_distances.wrong(
    "the difference of the depths",
    "Two words of the same depth can be far apart: the way goes up to where both paths to the root "
    "meet, and down again.",
)(_tree(lambda up, other: abs(len(up) - len(other))))
tree_distances.wrong(
    "the way over the root, even where the paths meet before",
    "Go up to the first word that is on both paths, and no further.",
)(_tree(lambda up, other: (len(up) + len(other) - 2) * (up[0] != other[0])))
tree_distances.wrong(
    "the sum of the depths",
    "Both paths to the root end with the same words. Edges above the first word they share do not "
    "count: a word has the distance 0 from itself.",
)(_tree(lambda up, other: len(up) + len(other) - 2))
tree_distances.wrong(
    "1 for words that are joined by an edge and 0 for all others",
    "Go on from there: words that are joined over another one have the distance 2, and so on.",
)(_tree(lambda up, other: int(_edges(up, other) == 1)))
tree_distances.wrong(
    "right for at most two edges, but 0 for words that are further apart",
    "Go on until every pair of words has a distance: as many rounds as the tree is deep, twice.",
)(_tree(lambda up, other: _edges(up, other) * (_edges(up, other) <= 2)))
tree_distances.wrong(
    "right between a word and those above or below it, but 0 between different branches",
    "From one branch to the other the way leads up to where the paths meet, and down again.",
)(_tree(lambda up, other: _edges(up, other) * (_top(up, other) in (up[0], other[0]))))
tree_distances.wrong(
    "right between a word and those above it, but 0 between all others",
    "Edges can be gone in both directions, up to where the paths to the root meet, and down again.",
)(_tree(lambda up, other: _edges(up, other) * (other[0] in up)))
tree_distances.wrong(
    "only the way up: from i to where the paths meet",
    "Then it goes down again, to j.",
)(_tree(lambda up, other: up.index(_top(up, other))))
tree_distances.wrong(
    "only the way down: from where the paths meet to j",
    "Before, it goes up, from i.",
)(_tree(lambda up, other: other.index(_top(up, other))))
tree_distances.wrong(
    "the number of words on the way, with both ends",
    "Count edges: between neighbors in the tree there is one, from a word to itself none.",
)(_tree(lambda up, other: _edges(up, other) + 1))
tree_distances.wrong(
    "the number of words between the two",
    "Count edges: between neighbors in the tree there is one.",
)(_tree(lambda up, other: max(_edges(up, other) - 1, 0)))
tree_distances.wrong(
    "the number of words that are on one of the two paths or on both",
    "The words that both paths have are above the place where they meet. Count those that only one "
    "path has: there is an edge above each.",
)(_tree(lambda up, other: len({*up} | {*other})))
tree_distances.wrong(
    "right but for the signs: it is negative where word j is nearer to the root",
    "The chapter's distances have signs, these are plain numbers of edges.",
)(_tree(lambda up, other: _edges(up, other) * (1 if len(other) >= len(up) else -1)))


@tree_distances.wrong(
    "right but for words below word 0, which it takes for a root",
    "In Python, 0 counts as False: the head of a word can be word 0. Ask 'is not None'.",
)
def _(heads):
    return tree_distances.reference([head or None for head in heads])


tree_distances.wrong(
    "a list of lists, not a tensor",
    "Make a tensor of it: mt.tensor(...).",
)(lambda heads: _tree(_edges)(heads).tolist())
