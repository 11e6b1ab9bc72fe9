"""Answers to the exercises of ``evaluation.py``."""

import math
from collections import Counter
from decimal import Decimal

import numpy as np

from textbook.checks.chapter_03.evaluation import _corpus_cases, bleu


@bleu.answer(
    hidden_cases=lambda draw: _corpus_cases(
        draw, short=[([["the", "cat"]], 4), ([[]], 1)], more=[(4, 11, 4)]
    )
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


# Right in another way


def bleu_with_lists(hypotheses, references, max_n):
    product = 1.0
    for n in range(1, max_n + 1):
        matches, total = 0, 0
        for said, others in zip(hypotheses, references, strict=True):
            runs = [said[i : i + n] for i in range(len(said) - n + 1)]
            total += len(runs)
            rights = [[o[i : i + n] for i in range(len(o) - n + 1)] for o in others]
            seen = []
            for run in runs:
                seen.append(run)
                matches += any(right.count(run) >= seen.count(run) for right in rights)
        product *= matches / total if total else 0
    c, r = sum(map(len, hypotheses)), 0
    for said, others in zip(hypotheses, references, strict=True):
        r += min((abs(len(o) - len(said)), len(o)) for o in others)[1]
    penalty = 1 if c > r or c == 0 else math.exp(1 - r / c)
    return 100 * penalty * product ** (1 / max_n)


def bleu_as_a_decimal(hypotheses, references, max_n):
    return Decimal(bleu_with_lists(hypotheses, references, max_n))


def bleu_with_strings(hypotheses, references, max_n):
    def count(words, n):
        return Counter(" ".join(words[i : i + n]) for i in range(max(len(words) - n + 1, 0)))

    logs = []
    for n in range(1, max_n + 1):
        hits = asked = 0
        for said, others in zip(hypotheses, references, strict=True):
            counts = count(said, n)
            asked += sum(counts.values())
            for gram, times in counts.items():
                hits += min(times, max(count(other, n)[gram] for other in others))
        if not hits:
            return 0
        logs.append(math.log(hits) - math.log(asked))
    c = sum(map(len, hypotheses))
    r = sum(
        sorted(map(len, others), key=lambda n: 2 * abs(n - len(said)) + (n > len(said)))[0]
        for said, others in zip(hypotheses, references, strict=True)
    )
    return np.float64(100 * math.exp(min(0, 1 - r / c) + sum(logs) / max_n))


right = {
    "bleu": [bleu_with_lists, bleu_with_strings, bleu_as_a_decimal],
}
