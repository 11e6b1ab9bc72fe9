"""Text for language models: the vocabulary, the split, the windows."""

import pytest

import minitorch as mt
from textbook.data import Vocabulary, split, windows


def test_vocabulary_puts_specials_first_then_frequent_tokens_then_the_alphabet():
    vocabulary = Vocabulary("b a c b a b".split(), specials=["<unk>", "<s>"])
    assert vocabulary.tokens == ["<unk>", "<s>", "b", "a", "c"]
    assert Vocabulary("z y x").tokens == [" ", "x", "y", "z"]


def test_vocabulary_reads_back_what_it_wrote():
    vocabulary = Vocabulary("to be or not to be")
    numbers = vocabulary.encode("note to be or tor")
    assert numbers.dtype == mt.int64
    assert "".join(vocabulary.decode(numbers)) == "note to be or tor"
    assert vocabulary.decode(vocabulary.encode("")) == []


def test_rare_and_unknown_tokens_become_unk():
    vocabulary = Vocabulary("aaab", specials=["<unk>"], min_count=2)
    assert vocabulary.encode("abc").tolist() == [1, 0, 0]
    assert "a" in vocabulary and "b" not in vocabulary and len(vocabulary) == 2


def test_unknown_token_without_unk_is_an_error_that_names_it():
    with pytest.raises(KeyError, match="'x' is not in the vocabulary"):
        Vocabulary("ab").encode("ax")


def test_a_special_that_occurs_in_the_text_has_one_number():
    assert Vocabulary(["<s>", "a", "<s>"], specials=["<s>"]).tokens == ["<s>", "a"]


def test_split_cuts_once_and_loses_nothing():
    training, validation = split(list(range(21)), validation=0.1)
    assert training + validation == list(range(21))
    assert len(validation) == 2
    with pytest.raises(ValueError, match="between 0 and 1; got 10"):
        split([1, 2], validation=10)


@pytest.mark.parametrize("total", [25, 26, 30, 31])
def test_windows_follow_each_other_and_targets_are_one_ahead(total):
    batches = list(windows(mt.arange(total), batch_size=3, length=4))
    assert all(inputs.shape == targets.shape == (4, 3) for inputs, targets in batches)
    assert all(mt.equal(targets, inputs + 1) for inputs, targets in batches)
    for (before, _), (after, _) in zip(batches[:-1], batches[1:], strict=True):
        assert mt.equal(after[0], before[-1] + 1)
    read = [n for inputs, _ in batches for n in inputs.flatten().tolist()]
    assert len(set(read)) == len(read) == 12 * ((total - 1) // 3 // 4)


def test_windows_start_each_stream_at_its_own_place():
    inputs, _ = next(windows(mt.arange(31), batch_size=3, length=4))
    assert inputs[0].tolist() == [0, 10, 20]


def test_too_short_a_text_is_an_error_that_says_what_to_do():
    with pytest.raises(ValueError, match="use fewer streams or shorter windows"):
        next(windows(mt.arange(10), batch_size=4, length=3))
