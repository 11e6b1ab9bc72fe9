"""One merge of byte-pair encoding."""

from collections import Counter
from itertools import pairwise

from textbook.checks.compare import brief
from textbook.checks.exercise import exercise

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
HIDDEN = {
    "overlapping": {"o o o o o": 3, "o x": 8, "x o o": 1, "x y": 2},
    "longer": {"v v v v v": 5, "v w": 1},
    "alphabetical": {"t s": 3, "s t": 3, "u a": 3, "s u": 2},
    "pieces": {"xy z": 2, "x yz": 2, "x y": 1, "y z": 1},
    "places": {"xy x": 3, "x z": 3, "y x": 2},
    "equal": {"xy z": 5, "x y z": 7, "x y": 2, "x yz": 1},
    "boundaries": {"yx y": 4, "x y": 6, "x yx": 4, "x x y y": 2},
    "twice": {"l a l a l a": 2, "l a": 1, "b c": 6, "a l a": 2},
    "often": {"g h": 7, "i j k": 2, "i j l": 2, "i j m": 2, "i j n": 2},
    "nothing": {"xyz": 1},
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
    given = "the dict that was given" if merged is corpus else "a dict of its own"
    return {
        "what is returned": "two results: the pair and the new corpus",
        "the pair": pair,
        "the new corpus": merged,
        "what the new corpus is": given,
    }


@exercise(
    cases=_corpora,
    hidden_cases=lambda draw: _corpora(draw, named=HIDDEN),
    run=_parts,
    gradients=False,
    after_passing="Faster: real tokenizers keep the counts, and change those beside a merge alone.",
    see='chapter 11, "Pieces of words"',
)
def merge_once(corpus):
    """A corpus, words as tuples of pieces and how often they occur: the pair, the new corpus."""

    def joined(word, pair):
        pieces, i = [], 0
        while i < len(word):
            width = 2 if word[i : i + 2] == pair else 1
            pieces.append("".join(word[i : i + width]))
            i += width
        return tuple(pieces)

    counts = Counter()
    for word, count in corpus.items():
        for pair in set(pairwise(word)):
            counts[pair] += count * (len(word) - len(joined(word, pair)))
    if not counts:
        return None, dict(corpus)
    best = min(counts, key=lambda pair: (-counts[pair], pair))
    merged = Counter()
    for word, count in corpus.items():
        merged[joined(word, best)] += count
    return best, dict(merged)
