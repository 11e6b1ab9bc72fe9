"""How good translations are: exact match by length, and BLEU."""

import math
from collections import Counter

import minitorch as mt
from textbook.checks.chapter_03.batches import draw_sentences
from textbook.checks.exercise import exercise

# Exact match by length

KINDS = (  # what a decoder may say in place of the words of the target
    lambda words, other: words,
    lambda words, other: [*words[:-1], other],
    lambda words, other: words,
    lambda words, other: words[:-1],
    lambda words, other: words[::-1],
    lambda words, other: [*words, other],
)


def _translation_cases(draw, hidden):
    """Rows that end, followed by anything, and rows that have no room for their end token."""
    end, pad = 1, 0
    for count, room in [(1, 1), (3, 0), (6, 2), (15, 0)] + [(25, 1)] * hidden:
        lengths = (1 + draw.integers(6, count)).tolist()
        targets = draw_sentences(draw, lengths, (end, pad))
        longest = max(lengths)
        width = longest + room
        predicted = []
        for target, kind in zip(targets, draw.integers(len(KINDS), count).tolist(), strict=True):
            other, *noise = draw.integers(7, width + 1).tolist()
            predicted.append([*KINDS[kind](target, other + 2), end, *noise][:width])
        padded = [[*target, end] + [pad] * (longest - len(target)) for target in targets]
        sources = (1 + draw.integers(9, count)).tolist()
        yield mt.tensor(predicted), mt.tensor(padded), sources, end


def _words(row, end):
    """The words of a row, and whether it has an end token."""
    ended = end in row
    return row[: row.index(end)] if ended else row, ended


def _same(predicted, target, end):
    words, ended = _words(predicted, end)
    return ended and words == _words(target, end)[0]


def _bin(length):
    low = 1 + (length - 1) // 3 * 3
    return low, low + 2


def _by_length(score=_same, bin_of=_bin, share=lambda scores, count: sum(scores) / len(scores)):
    """Exact match by length with one of its pieces exchanged."""

    def measure(predicted, targets, source_lengths, end):
        bins = {}
        rows = zip(predicted.tolist(), targets.tolist(), source_lengths, strict=True)
        for said, target, length in rows:
            bins.setdefault(bin_of(length), []).append(score(said, target, end))
        return {key: share(scores, len(targets)) for key, scores in bins.items()}

    return measure


@exercise(cases=_translation_cases, gradients=False, see='chapter 03, "Scores"')
def exact_match_by_length(predicted, targets, source_lengths, end):
    """{(1, 3): share of exact matches, (4, 6): ..., ...}, by the length of the source."""
    bins = {}
    rows = zip(predicted.tolist(), targets.tolist(), source_lengths, strict=True)
    for said, target, length in rows:
        target = target[: target.index(end) + 1]  # the end token has to be there too
        low = 1 + (length - 1) // 3 * 3
        bins.setdefault((low, low + 2), []).append(said[: len(target)] == target)
    return {key: sum(matches) / len(matches) for key, matches in bins.items()}


def _share_of_tokens(said, target, end):
    words = _words(target, end)[0]
    return sum(a == b for a, b in zip(said, words, strict=False)) / len(words)


def _same_as_far_as_both_go(said, target, end):
    pairs = zip(_words(said, end)[0], _words(target, end)[0], strict=False)
    return all(a == b for a, b in pairs)


def _begins_with_the_target(said, target, end):
    words = _words(target, end)[0]
    return said[: len(words)] == words


def _same_words(said, target, end):
    words, ended = _words(said, end)
    return ended and sorted(words) == sorted(_words(target, end)[0])


exact_match_by_length.wrong(
    "an accuracy by tokens",
    "A translation counts 1 if all of it is right, and else 0.",
)(_by_length(score=_share_of_tokens))
exact_match_by_length.wrong(
    "right but for what follows the end token, which is compared too",
    "A row is what stands before its first end token; the rest does not count.",
)(_by_length(score=lambda said, target, end: said == target))
exact_match_by_length.wrong(
    "right but for rows without an end token, which may count as exact",
    "A row without an end token has not ended: it matches nothing.",
)(_by_length(score=lambda said, target, end: _words(said, end)[0] == _words(target, end)[0]))
exact_match_by_length.wrong(
    "a comparison as far as both rows go",
    "zip stops at the shorter one. The lengths must agree too.",
)(_by_length(score=_same_as_far_as_both_go))
exact_match_by_length.wrong(
    "a comparison that stops at the end of the target",
    "A row that goes on with more words is wrong: its end token must stand where the target's "
    "does.",
)(_by_length(score=_begins_with_the_target))
exact_match_by_length.wrong(
    "a comparison that ignores the order of the words",
    "Exact match compares position by position.",
)(_by_length(score=_same_words))
exact_match_by_length.wrong(
    "right but for the edges: lengths that 3 divides are one bin too far",
    "The first bin is 1 to 3, with 3: it begins at 1 + (length - 1) // 3 * 3.",
)(_by_length(bin_of=lambda length: _bin(length + 1)))
exact_match_by_length.wrong(
    "right but for the bins, which begin at 0, 3, 6",
    "The bins are (1, 3), (4, 6), (7, 9), ...",
)(_by_length(bin_of=lambda length: (length // 3 * 3, length // 3 * 3 + 2)))
exact_match_by_length.wrong(
    "right but for the bins, which go by single lengths",
    "Three lengths share a bin: (1, 3), (4, 6), (7, 9), ...",
)(_by_length(bin_of=lambda length: (length, length)))
exact_match_by_length.wrong(
    "the number of exact matches, not their share",
    "Divide by the number of sentences in the bin.",
)(_by_length(share=lambda scores, count: sum(scores)))
exact_match_by_length.wrong(
    "divided by the number of all sentences",
    "Divide by the number of sentences in the bin.",
)(_by_length(share=lambda scores, count: sum(scores) / count))
exact_match_by_length.wrong(
    "the share in percent",
    "Give the share as a number from 0 to 1.",
)(_by_length(share=lambda scores, count: 100 * sum(scores) / len(scores)))


@exact_match_by_length.wrong(
    "binned by the target's length",
    "The question is how much the encoder can take in: the bins go by the source's length.",
)
def _(predicted, targets, source_lengths, end):
    lengths = [row.index(end) for row in targets.tolist()]
    return exact_match_by_length.reference(predicted, targets, lengths, end)


# BLEU

WORDS = "the cat is on a mat".split()


def _corpus_cases(draw, hidden):
    cat = "the cat is on the mat".split()
    yield [["the"] * 7], [cat], 1
    yield [cat[:5]], [cat], 4
    yield ["the cat is on a mat".split(), ["cat"]], [cat, "a cat".split()], 2
    yield [[], cat], ["the mat".split(), cat], 2
    yield [["cat", "the"]], [cat], 2
    if hidden:
        yield [["the", "cat"]], [cat], 4
        yield [[]], [cat], 1
    for count, size, max_n in [(2, 6, 2), (3, 8, 3)] + [(4, 11, 4)] * hidden:
        references = [_words_of(draw, 4 + int(draw.integers(size, 1))) for _ in range(count)]
        yield [_changed(draw, words) for words in references], references, max_n


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


def _clipped(said, right):
    return sum((said & right).values())


def _found(said, right):
    return sum(count for gram, count in said.items() if gram in right)


def _brevity(c, r):
    return 1.0 if c >= r else math.exp(1 - r / c)


def _geometric(precisions):
    return math.exp(sum(map(math.log, precisions)) / len(precisions))


def _bleu(
    matches=_clipped,
    grams=_grams,
    total=lambda said, right: sum(said.values()),
    orders=lambda max_n: range(1, max_n + 1),
    mean=_geometric,
    penalty=_brevity,
    scale=100,
):
    """BLEU with one of its pieces exchanged."""

    def measure(hypotheses, references, max_n):
        precisions = []
        for n in orders(max_n):
            pairs = [
                (grams(said, n), grams(right, n))
                for said, right in zip(hypotheses, references, strict=True)
            ]
            count = sum(total(said, right) for said, right in pairs)
            if not (matched := sum(matches(said, right) for said, right in pairs)):
                return 0.0
            precisions.append(matched / count)
        c, r = sum(map(len, hypotheses)), sum(map(len, references))
        return scale * penalty(c, r) * mean(precisions)

    return measure


@exercise(cases=_corpus_cases, gradients=False, see='chapter 03, "Scores"')
def bleu(hypotheses, references, max_n):
    """BLEU of a corpus, from 0 to 100."""
    log_precisions = []
    for n in range(1, max_n + 1):
        matches = total = 0
        for pair in zip(hypotheses, references, strict=True):
            said, right = (
                Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
                for words in pair
            )
            matches += (said & right).total()  # & takes the smaller of two counts
            total += said.total()
        if matches == 0:
            return 0.0
        log_precisions.append(math.log(matches / total))
    c, r = sum(map(len, hypotheses)), sum(map(len, references))
    return 100 * min(1, math.exp(1 - r / c)) * math.exp(sum(log_precisions) / max_n)


bleu.wrong(
    "right but for the clipping, which is missing",
    "An n-gram counts at most as often as the reference has it: else 'the the the the' is a good "
    "translation of anything.",
)(_bleu(matches=_found))
bleu.wrong(
    "right but for n-grams that occur twice, which count once",
    "Count each n-gram as often as it stands there, up to its count in the reference: a Counter, "
    "not a set.",
)(_bleu(grams=lambda words, n: Counter(set(_grams(words, n)))))
bleu.wrong(
    "right but for the brevity penalty, which is missing",
    "Precision alone favours translations that leave out what is hard.",
)(_bleu(penalty=lambda c, r: 1.0))
bleu.wrong(
    "right but for the brevity penalty, which punishes long translations",
    "Those are punished by their precision. The penalty is below 1 where c < r.",
)(_bleu(penalty=lambda c, r: _brevity(r, c)))
bleu.wrong(
    "right but for the brevity penalty, which is c / r",
    "It is exp(1 - r / c) where c < r.",
)(_bleu(penalty=lambda c, r: min(1.0, c / r)))
bleu.wrong(
    "right but for the brevity penalty: exp(1 - r / c) where c is above r too",
    "A translation that is longer than its reference gets no reward: the factor is then 1.",
)(_bleu(penalty=lambda c, r: math.exp(1 - r / c)))
bleu.wrong(
    "right but for the mean, which is the arithmetic one",
    "BLEU takes the geometric mean of the precisions: exp of the mean of their logarithms.",
)(_bleu(mean=lambda precisions: sum(precisions) / len(precisions)))
bleu.wrong(
    "right but for the mean: it is the product of the precisions",
    "The geometric mean is the max_n-th root of the product.",
)(_bleu(mean=math.prod))
bleu.wrong(
    "right for single words alone",
    "The runs of 1, 2, ..., max_n words all count.",
)(_bleu(orders=lambda max_n: [1]))
bleu.wrong(
    "right for runs of max_n words alone",
    "The runs of 1, 2, ..., max_n words all count.",
)(_bleu(orders=lambda max_n: [max_n]))
bleu.wrong(
    "a recall: matches are divided by the n-grams of the reference",
    "A precision asks which share of what was said is right: divide by the n-grams of the "
    "hypotheses.",
)(_bleu(total=lambda said, right: sum(right.values())))
bleu.wrong(
    "BLEU on a scale from 0 to 1",
    "Multiply by 100.",
)(_bleu(scale=1))


@bleu.wrong(
    "the mean of the sentences' own BLEU",
    "BLEU belongs to a corpus: add up matches, n-grams and lengths over all sentences first, then "
    "divide.",
)
def _(hypotheses, references, max_n):
    pairs = zip(hypotheses, references, strict=True)
    scores = [bleu.reference([said], [right], max_n) for said, right in pairs]
    return sum(scores) / len(scores)
