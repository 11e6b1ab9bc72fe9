"""BLEU with several references."""

import math
import statistics
from collections import Counter

from textbook.checks.exercise import exercise

WORDS = "the cat is on a mat".split()


def _corpus_cases(draw, hidden):
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
    if hidden:
        yield [["the", "cat"]], [[cat]], 4
        yield [[]], [[cat]], 1
    for count, size, max_n in [(2, 6, 2), (3, 8, 3)] + [(4, 11, 4)] * hidden:
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


def _grams(words, n):
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _most(counters):
    """The largest of the counts of each n-gram."""
    most = Counter()
    for counter in counters:
        most |= counter
    return most


def _clipped(said, right):
    return sum((said & right).values())


def _found(said, right):
    return sum(count for gram, count in said.items() if gram in right)


def _nearest(length, others):
    return min(others, key=lambda other: (abs(other - length), other))


def _brevity(c, r):
    return 1.0 if c >= r else math.exp(1 - r / c)


def _geometric(precisions):
    return math.exp(sum(map(math.log, precisions)) / len(precisions))


def _bleu(
    join=_most,
    matches=_clipped,
    grams=_grams,
    total=lambda said, right: sum(said.values()),
    orders=lambda max_n: range(1, max_n + 1),
    length=_nearest,
    mean=_geometric,
    penalty=_brevity,
    scale=100,
    smooth=0,
    smooth_words=0,
):
    """BLEU with one of its pieces exchanged."""

    def measure(hypotheses, references, max_n):
        precisions = []
        for n in orders(max_n):
            pairs = [
                (grams(said, n), join([grams(words, n) for words in right]))
                for said, right in zip(hypotheses, references, strict=True)
            ]
            more = smooth if n > 1 else smooth_words
            count = more + sum(total(said, right) for said, right in pairs)
            if not (matched := more + sum(matches(said, right) for said, right in pairs)):
                return 0.0
            precisions.append(matched / count)
        c = sum(map(len, hypotheses))
        r = sum(
            length(len(said), [len(words) for words in right])
            for said, right in zip(hypotheses, references, strict=True)
        )
        return scale * penalty(c, r) * mean(precisions)

    return measure


@exercise(cases=_corpus_cases, gradients=False, see='chapter 03, "Scores"')
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


for name, hint, pieces in (
    (
        "right for one reference: it looks at the first alone",
        "A word is right if any reference has it.",
        dict(join=lambda counters: counters[0], length=lambda length, others: others[0]),
    ),
    (
        "right but for the clipping, which adds up the counts of all references",
        "At most as often as in that reference that has it most often.",
        dict(join=lambda counters: sum(counters, Counter())),
    ),
    (
        "right but for the matches, which it counts in one reference, that with the most of them",
        "One n-gram may be in this reference, another one in that: clip each by itself.",
        dict(join=list, matches=lambda said, right: max(_clipped(said, most) for most in right)),
    ),
    (
        "right but for the clipping, which asks for what all references have",
        "One reference that has the n-gram is enough: the largest count, not the smallest.",
        dict(join=lambda counters: Counter({g: min(c[g] for c in counters) for g in counters[0]})),
    ),
    (
        "right but for the clipping, which is missing",
        "An n-gram counts at most as often as a reference has it: else 'the the the the' is a good "
        "translation of anything.",
        dict(matches=_found),
    ),
    (
        "right but for n-grams that occur twice, which count once",
        "Count each n-gram as often as it stands there, up to its count in a reference: a Counter, "
        "not a set.",
        dict(grams=lambda words, n: Counter(set(_grams(words, n)))),
    ),
    (
        "right but for its n-grams, whose words are glued together",
        "'ab c' and 'a bc' are different words: take tuples.",
        dict(grams=lambda words, n: Counter("".join(gram) for gram in _grams(words, n).elements())),
    ),
    (
        "right but for n-grams, of which each sentence loses its last",
        "A sentence of m words has m - n + 1 runs of n words.",
        dict(
            grams=lambda words, n: Counter(tuple(words[i : i + n]) for i in range(len(words) - n))
        ),
    ),
    (
        "right but for r, which takes the shortest reference of each sentence",
        "The reference whose length is nearest to that of the translation.",
        dict(length=lambda length, others: min(others)),
    ),
    (
        "right but for r, which takes the longest reference of each sentence",
        "The reference whose length is nearest to that of the translation.",
        dict(length=lambda length, others: max(others)),
    ),
    (
        "right but for r, which takes the mean of the references' lengths",
        "The reference whose length is nearest to that of the translation.",
        dict(length=lambda length, others: statistics.mean(others)),
    ),
    (
        "right but for r, which takes the first reference of each sentence",
        "The reference whose length is nearest to that of the translation.",
        dict(length=lambda length, others: others[0]),
    ),
    (
        "right but for r, which takes the longer one of two that are as near",
        "Of two that are as near the shorter.",
        dict(length=lambda length, others: min(others, key=lambda x: (abs(x - length), -x))),
    ),
    (
        "right but for r, which takes the first of two that are as near",
        "Of two that are as near the shorter, in whatever order they stand.",
        dict(length=lambda length, others: min(others, key=lambda x: abs(x - length))),
    ),
    (
        "right but for the brevity penalty, which is missing",
        "Precision alone favours translations that leave out what is hard.",
        dict(penalty=lambda c, r: 1.0),
    ),
    (
        "right but for the brevity penalty, which punishes long translations",
        "Those are punished by their precision. The penalty is below 1 where c < r.",
        dict(penalty=lambda c, r: _brevity(r, c)),
    ),
    (
        "right but for the brevity penalty, which is c / r",
        "It is exp(1 - r / c) where c < r.",
        dict(penalty=lambda c, r: min(1.0, c / r)),
    ),
    (
        "right but for the brevity penalty: exp(1 - r / c) where c is above r too",
        "A translation that is longer than its reference gets no reward: the factor is then 1.",
        dict(penalty=lambda c, r: math.exp(1 - r / c)),
    ),
    (
        "right but for the mean, which is the arithmetic one",
        "BLEU takes the geometric mean of the precisions: exp of the mean of their logarithms.",
        dict(mean=lambda precisions: sum(precisions) / len(precisions)),
    ),
    (
        "right but for the mean: it is the product of the precisions",
        "The geometric mean is the max_n-th root of the product.",
        dict(mean=math.prod),
    ),
    (
        "right for single words alone",
        "The runs of 1, 2, ..., max_n words all count.",
        dict(orders=lambda max_n: [1]),
    ),
    (
        "right for runs of max_n words alone",
        "The runs of 1, 2, ..., max_n words all count.",
        dict(orders=lambda max_n: [max_n]),
    ),
    (
        "right for max_n = 4, which it takes in any case",
        "The runs of 1, 2, ..., max_n words.",
        dict(orders=lambda max_n: range(1, 5)),
    ),
    (
        "right up to runs of max_n - 1 words",
        "max_n counts, too: range(1, max_n + 1).",
        dict(orders=lambda max_n: range(1, max_n) or [1]),
    ),
    (
        "a recall: matches are divided by the n-grams of the references",
        "A precision asks which share of what was said is right: divide by the n-grams of the "
        "hypotheses.",
        dict(total=lambda said, right: sum(right.values())),
    ),
    (
        "right but for smoothing: it adds 1 to matches and n-grams of two words and more",
        "Count what is there. If there is no match for some n, BLEU is 0.",
        dict(smooth=1),
    ),
    (
        "right but for smoothing: it adds 1 to all matches and n-grams",
        "Count what is there. If there is no match for some n, BLEU is 0.",
        dict(smooth=1, smooth_words=1),
    ),
    (
        "right but for r, which adds up all references of each sentence",
        "One reference of each sentence: that whose length is nearest.",
        dict(length=lambda length, others: sum(others)),
    ),
    (
        "right but for the mean, which is the harmonic one",
        "BLEU takes the geometric mean of the precisions: exp of the mean of their logarithms.",
        dict(mean=statistics.harmonic_mean),
    ),
    ("BLEU on a scale from 0 to 1", "Multiply by 100.", dict(scale=1)),
):
    bleu.wrong(name, hint)(_bleu(**pieces))


@bleu.wrong(
    "the mean of the sentences' own BLEU",
    "BLEU belongs to a corpus: add up matches, n-grams and lengths over all sentences first, then "
    "divide.",
)
def _(hypotheses, references, max_n):
    pairs = zip(hypotheses, references, strict=True)
    scores = [bleu.reference([said], [right], max_n) for said, right in pairs]
    return sum(scores) / len(scores)


@bleu.wrong(
    "right but for sentences whose runs nobody matches: it leaves these lengths n out",
    "If there is no match for some n, BLEU is 0.",
)
def _(hypotheses, references, max_n):
    whole = _bleu(orders=lambda n: [n])
    orders = [n for n in range(1, max_n + 1) if whole(hypotheses, references, n)]
    return _bleu(orders=lambda _: orders)(hypotheses, references, max_n) if orders else 0.0


@bleu.wrong(
    "right if each translation kept to one reference: the best of all for it",
    "One n-gram may be in this reference, another one in that.",
)
def _(hypotheses, references, max_n):
    chosen = [
        [max(right, key=lambda words, said=said: _bleu()([said], [[words]], max_n))]
        for said, right in zip(hypotheses, references, strict=True)
    ]
    return _bleu()(hypotheses, chosen, max_n)
