"""BLEU with several references."""

from textbook.checks.released import exercise

WORDS = "the cat is on a mat".split()


def _corpus_cases(draw, short=(), more=()):
    cat, mat = "the cat is on the mat".split(), "there is a cat on the mat".split()
    yield [["the"] * 7], [[cat]], 1
    yield [["the"] * 7], [[cat, mat, ["the", "the", "the"]]], 2
    yield [cat[:5]], [[cat, mat]], 4
    yield [cat], [[mat, cat[:5]]], 3  # two references are nearest: of 7 words and of 5
    yield [cat], [[cat[:5], mat]], 3
    yield ["the cat is on a mat".split(), ["cat"]], [[cat], ["a cat".split(), ["cat"] * 4]], 2
    yield [[], cat], [["the mat".split()], [cat, mat]], 2
    yield [["cat", "the"]], [[cat]], 2
    yield [["the"], ["cat"]], [[cat], [cat]], 2  # no run of two words
    yield [["ab", "c", "d"]], [[["a", "bc", "d"]]], 1
    yield [["ab", "c", "d"]], [[["a", "bc", "d", "ab"], ["a", "d"]]], 2
    for candidates, max_n in short:
        yield candidates, [[cat]], max_n
    for count, size, max_n in [(2, 6, 2), (3, 8, 3), *more]:
        right = [_words_of(draw, 4 + int(draw.integers(size, 1))) for _ in range(count)]
        references = [
            [words, *(_changed(draw, words) for _ in range(i % 3))] for i, words in enumerate(right)
        ]
        yield [_changed(draw, words) for words in right], references, max_n


def _words_of(draw, length):
    return [WORDS[i] for i in draw.integers(len(WORDS), length).tolist()]


def _changed(draw, words):
    """One word exchanged, and a few dropped at the end or repeated at the beginning."""
    words = list(words)
    words[int(draw.integers(len(words), 1))] = "dog"
    few = int(draw.integers(6, 1)) - 3
    return words[:1] * few + words if few > 0 else words[: len(words) + few]


bleu = exercise(
    "bleu",
    cases=_corpus_cases,
    gradients=False,
    see='chapter 03, "Scores"',
)
