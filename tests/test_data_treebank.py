"""Sentences of the treebank: trees, agreement, wrong heads."""

import random

import pytest

from textbook.data import treebank


@pytest.fixture(params=range(5))
def sentence(request):
    return treebank.sentence(request.param, random.Random(request.param))


def test_a_sentence_is_a_tree_whose_root_is_its_last_word(sentence):
    n = len(sentence.words)
    assert len(sentence.heads) == len(sentence.plural) == n
    assert [i for i, head in enumerate(sentence.heads) if head is None] == [n - 1]
    assert all(n - 1 in treebank.ancestors(sentence.heads, place) for place in range(n))
    assert set(sentence.words) <= set(treebank.WORDS)


def test_each_verb_agrees_with_the_noun_that_hangs_on_it_and_stands_before_it(sentence):
    for verb, plural in enumerate(sentence.plural):
        assert (plural is None) == (sentence.words[verb] not in treebank.VERBS)
        if plural is not None:
            nouns = [
                word
                for word, head in zip(sentence.words, sentence.heads, strict=True)
                if head == verb and word in treebank.SINGULAR + treebank.PLURAL
            ]
            assert [noun in treebank.PLURAL for noun in nouns] == [plural]


def test_a_phrase_is_inserted_for_each_level():
    for levels in range(5):
        words = treebank.sentence(levels, random.Random(levels)).words
        assert words.count("near") + words.count("that") == levels


def test_wrong_heads_leave_a_tree_and_are_as_many_as_asked_for():
    rng, moved, count = random.Random(0), 0, 0
    for levels in (1, 2, 3) * 40:
        right = treebank.sentence(levels, rng).heads
        wrong = treebank.with_wrong_heads(right, 0.1, rng)
        root = right.index(None)
        assert all(root in treebank.ancestors(wrong, place) for place in range(len(wrong)))
        moved += sum(a != b for a, b in zip(right, wrong, strict=True))
        count += len(right) - 1
    assert 0.05 < moved / count < 0.13
    assert treebank.with_wrong_heads(right, 0.0, rng) == right
