"""Answers to the exercises of ``padded.py``."""

import itertools

import numpy as np

import minitorch as mt
from textbook.checks.chapter_03.padded import V, _kinds, _reading, broken_encoders
from textbook.checks.exercise import Draw
from textbook.checks.suspects import all_together


@broken_encoders.answer(hidden_cases=lambda draw: all_together(_kinds(), Draw(0).random))
def broken_encoders(encoders):
    """The numbers of the encoders that break a rule."""
    mt.manual_seed(0)
    tokens = mt.randint(0, 12, (4, 14))
    lengths = mt.tensor([5, 12, 1, 9])  # the longest is not the first
    padding = mt.arange(14) >= lengths.unsqueeze(1)

    def follows_the_rules(encode):
        given, mask = tokens.clone(), padding.clone()
        found = encode(given, mask)
        if not (mt.equal(given, tokens) and mt.equal(mask, padding)):
            return False
        for b, n in enumerate(lengths.tolist()):
            sentence, others = tokens[b, :n], []
            for j in range(n):
                for other in range(12):
                    changed = sentence.clone()
                    changed[j] = other
                    others.append(changed)
                turned = sentence.clone()
                turned[[j - 1, j]] = sentence[[j, j - 1]]
                others.append(turned)
            for other in others:
                alone = encode(other.unsqueeze(0), mt.zeros(1, n, dtype=mt.bool))[0]
                if mt.allclose(alone, found[b]) != mt.equal(other, sentence):
                    return False
        return True

    return [i for i, encode in enumerate(encoders) if not follows_the_rules(encode)]


def _differs(x, y):
    return not mt.allclose(x, y)


def _rules(drop=(), lengths=(5, 12, 1, 9), changes=(1, 5, 7), first=0, differs=_differs):
    """Whether an encoder breaks a rule; without the rules to be dropped."""
    tokens = Draw(1).integers(V, len(lengths), max(lengths) + 2)
    tokens[0, :5] = mt.tensor([0, 2, 5, 9, 0])
    padding = mt.arange(tokens.shape[1]) >= mt.tensor(lengths).unsqueeze(1)

    def broken(encode):
        given, mask = tokens.clone(), padding.clone()
        found = encode(given, mask)
        if "argument" not in drop and not mt.equal(given, tokens):
            return True
        if "mask" not in drop and not mt.equal(mask, padding):
            return True
        filled = encode(tokens.masked_fill(padding, 7), padding.clone())
        if differs(filled, found):
            return True
        for b, n in enumerate(lengths):

            def alone(row):
                row = mt.tensor(row).unsqueeze(0)
                return encode(row, mt.zeros(*row.shape, dtype=mt.bool))[0]

            sentence = tokens[b, :n].tolist()
            before = alone(sentence)
            if "alone" not in drop and differs(before, found[b]):
                return True
            for j in range(first, n):
                here = sentence[j]
                for change in changes:
                    other = [*sentence[:j], (here + change) % V, *sentence[j + 1 :]]
                    if "word" not in drop and not differs(alone(other), before):
                        return True
                if "order" not in drop and j and here != sentence[j - 1]:
                    turned = [*sentence[: j - 1], here, sentence[j - 1], *sentence[j + 1 :]]
                    if not differs(alone(turned), before):
                        return True
        return False

    return broken


def _testing(say=lambda i, broken: i if broken else None, **pieces):
    """The test with one of its pieces exchanged."""

    def test(encoders):
        broken = _rules(**pieces)
        found = [say(i, broken(encode)) for i, encode in enumerate(encoders)]
        return [each for each in found if each is not None]

    return test


def _comparison_with_one_encoder(encoders):
    tokens = Draw(1).integers(V, 3, 9)
    padding = mt.arange(9) >= mt.tensor([4, 9, 6]).unsqueeze(1)
    right = _reading()(tokens, padding)
    return [
        i
        for i, encode in enumerate(encoders)
        if encode(tokens.clone(), padding).shape != right.shape
        or not mt.allclose(encode(tokens.clone(), padding), right)
    ]


# Right in another way


def broken_by_batches(encoders):
    """All variants of a sentence are the rows of one batch."""
    found = []
    generator = np.random.default_rng(1)
    sentences = [[*range(12)], [3], [7, 7, 2, 9, 0], [*generator.integers(12, size=11)]]
    rows = mt.tensor([[*s, *[5] * (13 - len(s))] for s in sentences])
    padding = mt.tensor([[j >= len(s) for j in range(13)] for s in sentences])
    for i, encode in enumerate(encoders):
        before, mask = rows.clone(), padding.clone()
        vectors = encode(before, mask)
        broken = not (mt.equal(before, rows) and mt.equal(mask, padding))
        for sentence, vector in zip(sentences, vectors, strict=True):
            variants = [sentence]
            for j in range(len(sentence)):
                variants += [[*sentence[:j], w, *sentence[j + 1 :]] for w in range(12)]
                if j:
                    a, b = sentence[j - 1 : j + 1]
                    variants.append([*sentence[: j - 1], b, a, *sentence[j + 1 :]])
            nothing = mt.zeros(1, len(sentence)).bool()
            for variant in variants:
                same = mt.allclose(encode(mt.tensor([variant]), nothing)[0], vector)
                broken |= same != (list(variant) == list(sentence))
        if broken:
            found.append(np.int64(i))
    return found


def broken_rule_by_rule(encoders):
    mt.manual_seed(4)
    tokens = mt.randint(0, 12, (6, 12))
    lengths = mt.tensor([7, 12, 2, 10, 1, 12])
    padding = mt.arange(12) >= lengths.unsqueeze(1)

    def vector(encode, sentence):
        return encode(mt.tensor([sentence]), mt.zeros(1, len(sentence), dtype=mt.bool))[0]

    def in_batch(encode):
        given, mask = tokens.clone(), padding.clone()
        found = encode(given, mask)
        sentences = [row[:n].tolist() for row, n in zip(tokens, lengths.tolist(), strict=True)]
        alone = mt.stack([vector(encode, sentence) for sentence in sentences])
        kept = mt.equal(given, tokens) and mt.equal(mask, padding)
        return kept and mt.allclose(found, alone)

    def words(encode):
        for sentence in ([*range(12)], [*range(11, -1, -1)], [0], [4, 4]):
            here = vector(encode, sentence)
            for j, other in itertools.product(range(len(sentence)), range(12)):
                if other != sentence[j]:
                    changed = [*sentence[:j], other, *sentence[j + 1 :]]
                    if mt.allclose(vector(encode, changed), here):
                        return False
        return True

    def order(encode):
        for j in range(1, 12):
            sentence = [*range(12)]
            turned = [*sentence]
            turned[j - 1], turned[j] = j, j - 1
            if mt.allclose(vector(encode, turned), vector(encode, sentence)):
                return False
        return True

    rules = in_batch, words, order
    return tuple(i for i, e in enumerate(encoders) if not all(rule(e) for rule in rules))


right = {
    "broken_encoders": [broken_by_batches, broken_rule_by_rule, _testing()],
}
