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


def _corpora(draw, hidden):
    """Corpora, each made for one thing, and two drawn at random."""
    for corpus in (HIDDEN if hidden else NAMED).values():
        yield ({tuple(word.split()): count for word, count in corpus.items()},)
    for letters in "ab", "abcd":
        words = (
            tuple(draw.random.choice(list(letters), int(draw.random.integers(1, 8))).tolist())
            for _ in range(8)
        )
        yield ({word: int(draw.random.integers(1, 6)) for word in words},)


def _pairs_from_the_left(word):
    """The pairs of a word, each as often as it can be merged from the left."""
    counts, last = Counter(), {}
    for i, pair in enumerate(pairwise(word)):
        if last.get(pair) != i - 1:
            counts[pair] += 1
            last[pair] = i
    return counts


def _pairs_of_neighbours(word):
    return Counter(pairwise(word))


def _counted(corpus, pairs=_pairs_from_the_left, weight=lambda count: count):
    counts = Counter()
    for word, count in corpus.items():
        for pair, times in pairs(word).items():
            counts[pair] += times * weight(count)
    return counts


def _first_in_the_alphabet(counts):
    return min(counts, key=lambda pair: (-counts[pair], pair))


def _applied(word, pair):
    """The word with the pair merged, from the left."""
    pieces, i = [], 0
    while i < len(word):
        width = 2 if word[i : i + 2] == pair else 1
        pieces.append("".join(word[i : i + width]))
        i += width
    return tuple(pieces)


def _applied_from_the_right(word, pair):
    pieces = list(word)
    for i in reversed(range(len(pieces) - 1)):
        if (pieces[i], pieces[i + 1]) == pair:
            pieces[i : i + 2] = ["".join(pair)]
    return tuple(pieces)


def _applied_to_text(word, pair):
    return tuple(" ".join(word).replace(" ".join(pair), "".join(pair)).split())


def _applied_once(word, pair):
    for i in range(len(word) - 1):
        if word[i : i + 2] == pair:
            return (*word[:i], "".join(pair), *word[i + 2 :])
    return word


def _applied_everywhere(word, pair):
    """Each place where the pair stands gives a piece, also where two of them overlap."""
    pieces, i = [], 0
    while i < len(word):
        if word[i : i + 2] == pair:
            pieces.append("".join(pair))
            i += 1 if word[i + 1 : i + 3] == pair else 2
        else:
            pieces.append(word[i])
            i += 1
    return tuple(pieces)


def _added(merged):
    corpus = {}
    for word, count in merged:
        corpus[word] = corpus.get(word, 0) + count
    return corpus


def _merging(
    pairs=_pairs_from_the_left,
    weight=lambda count: count,
    choose=_first_in_the_alphabet,
    apply=_applied,
    joined=_added,
    say=lambda pair: pair,
    nothing=lambda corpus: (None, dict(corpus)),
):
    """The merge with one of its pieces exchanged."""

    def merge(corpus):
        counts = _counted(corpus, pairs, weight)
        if not counts:
            return nothing(corpus)
        pair = choose(counts)
        return say(pair), joined((apply(word, pair), count) for word, count in corpus.items())

    return merge


def _parts(answer, corpus):
    """The pair and the new corpus, compared one after the other."""
    found = answer(corpus)
    if not isinstance(found, (list, tuple)) or len(found) != 2:
        return {"what is returned": brief(found)}
    pair, merged = found
    return {
        "what is returned": "two results: the pair and the new corpus",
        "the pair": pair,
        "the new corpus": merged,
    }


@exercise(cases=_corpora, run=_parts, gradients=False, see='chapter 11, "Pieces of words"')
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


def _overwritten(merged):
    return dict(merged)


for name, hint, pieces in (
    (
        "right but for pairs that overlap, which it counts twice",
        "In a a a the pair a + a can be merged once, in a a a a twice: count from the left, and "
        "go on behind the pair.",
        {"pairs": _pairs_of_neighbours},
    ),
    (
        "right but for ties: of equally frequent pairs it takes the one that comes first in the "
        "corpus",
        "Of equally frequent pairs take the first in the alphabet: min(..., key=lambda pair: "
        "(-counts[pair], pair)).",
        {"choose": lambda counts: max(counts, key=counts.get)},
    ),
    (
        "right but for ties: of equally frequent pairs it takes the last in the alphabet",
        "max with (count, pair) prefers late pairs. Take the smallest (-count, pair).",
        {"choose": lambda counts: max(counts, key=lambda pair: (counts[pair], pair))},
    ),
    (
        "right but for ties: it compares the pieces that the pairs make, not the pairs",
        "A pair comes before another one as tuples do in Python: first by its first piece.",
        {"choose": lambda counts: min(counts, key=lambda pair: (-counts[pair], "".join(pair)))},
    ),
    (
        "the rarest pair",
        "The most frequent one.",
        {"choose": lambda counts: min(counts, key=lambda pair: (counts[pair], pair))},
    ),
    (
        "the longest pair",
        "The pair that occurs most often, however long.",
        {
            "choose": lambda counts: min(
                counts, key=lambda pair: (-len("".join(pair)), -counts[pair], pair)
            )
        },
    ),
    (
        "right for words that all occur once: how often a word occurs is not used",
        "A pair in a word counts as often as the word occurs: corpus[word].",
        {"weight": lambda count: 1},
    ),
    (
        "right but for pairs that a word has more than once, which it counts once",
        "Count every place of a word where the pair can be merged.",
        {"pairs": lambda word: Counter(set(pairwise(word)))},
    ),
    (
        "right but for overlaps, which it merges from the right",
        "From the left: a a a becomes aa a, not a aa.",
        {"apply": _applied_from_the_right},
    ),
    (
        "counted with overlaps and merged from the right, as chapter 11 does",
        "Here a a a holds the pair a + a once, and becomes aa a.",
        {
            "pairs": _pairs_of_neighbours,
            "apply": _applied_from_the_right,
            "choose": lambda counts: max(counts, key=counts.get),
        },
    ),
    (
        "right but for words that have the pair more than once: it merges the first place alone",
        "Merge all places of a word, from the left.",
        {"apply": _applied_once},
    ),
    (
        "right but for overlaps, of which it merges both: a letter is used twice",
        "A piece that has been merged is used up: go on behind it.",
        {"apply": _applied_everywhere},
    ),
    (
        "right but for pieces that end or begin like the pair: it replaces text",
        "In 'ba b' the text 'a b' occurs, and the pieces a and b do not stand together. Compare "
        "pieces.",
        {"apply": _applied_to_text},
    ),
    (
        "right but for words that become equal, of which the last one's count remains",
        "(ab, c) and (a, b, c) are both (ab, c) after a + b: their counts are added.",
        {"joined": _overwritten},
    ),
    (
        "right but for the pair, for which it returns the new piece",
        "Return the two pieces as a tuple: from 'abc' nobody can tell whether ab + c or a + bc.",
        {"say": "".join},
    ),
    (
        "right but for a corpus that holds no pair, at which it stops with an error",
        "Where every word is one piece nothing can be merged: return None and a copy.",
        {"nothing": lambda corpus: (min({}), corpus)},
    ),
    (
        "right but for a corpus that holds no pair, for which it returns None alone",
        "There are two results in any case: None for the pair, and a copy of the corpus.",
        {"nothing": lambda corpus: None},
    ),
    (
        "right but for a corpus that holds no pair, for which it returns an empty one",
        "Nothing is merged, and nothing is lost: return None and a copy of the corpus.",
        {"nothing": lambda corpus: (None, {})},
    ),
    (
        "right but for the new corpus, which is the old one",
        "Merge the pair in every word that has it.",
        {"apply": lambda word, pair: word},
    ),
    (
        "right but for words without the pair, which it leaves out",
        "They stay in the corpus as they are.",
        {
            "joined": lambda merged: _added(
                (word, count) for word, count in merged if any(len(piece) > 1 for piece in word)
            )
        },
    ),
):
    merge_once.wrong(name, hint)(_merging(**pieces))
