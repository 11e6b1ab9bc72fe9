"""One merge of byte-pair encoding."""

from textbook.checks.compare import brief
from textbook.checks.released import exercise

NAMED = {  # corpora, words as strings with spaces between pieces
    "overlapping": {"a a a": 5, "a b": 6, "b a": 2},
    "longer": {"a a a a a": 3, "c a b": 4, "a b c": 1},
    "alphabetical": {"z y": 4, "b c": 4, "b a": 1, "c c": 4},
    "pieces": {"ab c": 3, "a bc": 3, "b c": 2, "a b": 1},
    "places": {"ab a": 2, "a c": 2, "b a": 1},
    "equal": {"ab c": 2, "a b c": 4, "a bc": 1, "a b d": 1},
    "boundaries": {"ba b": 2, "a b": 5, "a ba": 3, "b ab": 1, "bb a b b": 1},
    "twice": {"n a n a": 3, "n a": 1, "x y": 6, "y x": 2},
    "often": {"q r": 9, "s t u": 2, "s t v": 2, "s t w": 2, "s t x": 2},
    "nothing": {"abc": 3, "d": 1},
    "empty": {},
    "one": {"a b": 1, "c": 7},
}


def _corpora(draw, named=NAMED):
    """Corpora, each made for one thing, and two drawn at random."""
    for corpus in named.values():
        yield ({tuple(word.split()): count for word, count in corpus.items()},)
    for letters in "ab", "abcd":
        words = (
            tuple(draw.random.choice(list(letters), int(draw.random.integers(1, 8))).tolist())
            for _ in range(8)
        )
        yield ({word: int(draw.random.integers(1, 6)) for word in words},)


def _parts(answer, corpus):
    """The pair and the new corpus, compared one after the other."""
    found = answer(corpus)
    if not isinstance(found, (list, tuple)) or len(found) != 2:
        return {"what is returned": brief(found)}
    pair, merged = found
    if isinstance(pair, dict):
        return {"what is returned": "two results: the new corpus, and then the pair"}
    given = "the dict that was given" if merged is corpus else "a dict of its own"
    return {
        "what is returned": "two results: the pair and the new corpus",
        "the pair": pair,
        "the new corpus": merged,
        "what the new corpus is": given,
    }


merge_once = exercise(
    "merge_once",
    cases=_corpora,
    run=_parts,
    gradients=False,
    see='chapter 11, "Pieces of words"',
)
