"""BLEU with several references."""

import math
from collections import Counter

from textbook.checks.exercise import exercise

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


@exercise(
    cases=_corpus_cases,
    hidden_cases=lambda draw: _corpus_cases(
        draw, short=[([["the", "cat"]], 4), ([[]], 1)], more=[(4, 11, 4)]
    ),
    gradients=False,
    see='chapter 03, "Scores"',
)
def bleu(hypotheses, references, max_n):
    """BLEU of a corpus, from 0 to 100; references is a list of lists of sentences."""

    def grams(words, n):
        return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))

    log_precisions = []
    for n in range(1, max_n + 1):
        matches = total = 0
        for words, right in zip(hypotheses, references, strict=True):
            said, most = grams(words, n), Counter()
            for reference in right:
                most |= grams(reference, n)  # | takes the larger of two counts
            matches += (said & most).total()  # & takes the smaller
            total += said.total()
        if matches == 0:
            return 0.0
        log_precisions.append(math.log(matches / total))
    c, r = sum(map(len, hypotheses)), 0
    for words, right in zip(hypotheses, references, strict=True):
        lengths = [len(reference) for reference in right]
        r += min(lengths, key=lambda length: (abs(length - len(words)), length))
    return 100 * min(1, math.exp(1 - r / c)) * math.exp(sum(log_precisions) / max_n)


def _mean_of_the_sentences(hypotheses, references, max_n):
    pairs = zip(hypotheses, references, strict=True)
    scores = [bleu.reference([said], [right], max_n) for said, right in pairs]
    return sum(scores) / len(scores)


def _with_one_reference_each(hypotheses, references, max_n):
    chosen = [
        [max(right, key=lambda words, said=said: bleu.reference([said], [[words]], max_n))]
        for said, right in zip(hypotheses, references, strict=True)
    ]
    return bleu.reference(hypotheses, chosen, max_n)
