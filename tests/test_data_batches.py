"""Vocabularies, padding, batching by length, byte-pair encoding, scores."""

import json
import random
import sys
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch as mt
from minitorch.utils.data import DataLoader
from textbook.data import (
    BatchesByLength,
    BytePairEncoding,
    EncodedPairs,
    Vocabulary,
    bleu,
    bleu_of_draws,
    exact_match,
    first_edition,
    pad,
    padding_mask,
)

# Padding


def test_pad_fills_up_and_tells_where():
    rows = [mt.tensor([1, 2, 3]), mt.tensor([4]), mt.tensor([5, 6])]
    padded, mask = pad(rows, padding_value=9, batch_first=True)
    assert padded.tolist() == [[1, 2, 3], [4, 9, 9], [5, 6, 9]] and padded.dtype == mt.int64
    assert mask.tolist() == [[False] * 3, [False, True, True], [False, False, True]]
    by_time, same = pad(rows, padding_value=9)
    assert mt.equal(by_time, padded.T) and mt.equal(mask, same)


def test_pad_keeps_further_axes_and_types():
    rows = [mt.ones(2, 3, dtype=mt.float64), mt.ones(4, 3, dtype=mt.float64)]
    padded, mask = pad(rows)
    assert padded.shape == (4, 2, 3) and padded.dtype == mt.float64
    assert padded.sum(dim=(0, 2)).tolist() == [6.0, 12.0] and mask.shape == (2, 4)
    with pytest.raises(ValueError, match="empty"):
        pad([])


def test_padding_mask_of_lengths():
    assert padding_mask([2, 0], total=3).tolist() == [[False, False, True], [True, True, True]]
    assert padding_mask(mt.tensor([1, 2])).tolist() == [[False, True], [False, False]]


# Vocabulary in batches


def test_vocabulary_in_batches_and_back():
    vocabulary = Vocabulary("a b c".split(), specials=["<pad>", "<s>", "</s>", "<unk>"])
    sentences = ["a b c".split(), ["c"], []]
    numbers, mask = vocabulary.encode_batch(sentences, start=True, end=True)
    assert numbers.T.tolist() == [[1, 4, 5, 6, 2], [1, 6, 2, 0, 0], [1, 2, 0, 0, 0]]
    assert mask.sum(dim=1).tolist() == [0, 2, 3]
    assert vocabulary.decode_batch(numbers) == sentences
    numbers, _ = vocabulary.encode_batch(sentences[:2], batch_first=True)
    assert numbers.tolist() == [[4, 5, 6], [6, 0, 0]]
    assert vocabulary.decode_batch(numbers, batch_first=True) == sentences[:2]


def test_decoding_stops_at_the_end_and_keeps_unknown_words():
    vocabulary = Vocabulary("ab", specials=["<pad>", "<s>", "</s>", "<unk>"])
    row = mt.tensor([[1, 4, 3, 2, 5, 5, 0]])
    assert vocabulary.decode_batch(row, batch_first=True) == [["a", "<unk>"]]


def test_a_missing_special_is_named():
    with pytest.raises(ValueError, match="no '</s>'"):
        Vocabulary("ab", specials=["<pad>"]).encode_batch(["ab"], end=True)
    with pytest.raises(ValueError, match="nothing to encode: the list of sequences is empty"):
        Vocabulary("ab", specials=["<pad>"]).encode_batch([])


# Batches by length


def test_batches_by_length_visit_all_and_waste_little():
    rng = random.Random(0)
    lengths = [rng.randint(1, 50) for _ in range(205)]
    sampler = BatchesByLength(lengths, 10)
    batches = list(sampler)
    assert len(batches) == len(sampler) == 21
    assert sorted(i for batch in batches for i in batch) == list(range(205))
    assert sorted(map(len, batches)) == [5] + [10] * 20

    def padding(batches):
        tops = sum(max(lengths[i] for i in batch) * len(batch) for batch in batches)
        return tops / sum(lengths) - 1

    plain = [range(i, min(i + 10, 205)) for i in range(0, 205, 10)]
    assert padding(batches) < 0.06 < 0.5 < padding(plain)
    tops = [max(lengths[i] for i in batch) for batch in batches]
    assert tops != sorted(tops) and tops != sorted(tops, reverse=True)


def test_batches_by_length_are_settled_by_the_generator():
    def draw(seed):
        sampler = BatchesByLength([1, 2, 3] * 10, 4, mt.Generator().manual_seed(seed))
        return list(sampler), list(sampler)

    assert draw(1) == draw(1) != draw(2)
    assert draw(1)[0] != draw(1)[1]
    assert list(BatchesByLength([], 4)) == []
    with pytest.raises(ValueError, match="positive"):
        BatchesByLength([1], 0)


def test_batches_by_length_in_a_loader():
    rows = [mt.full((n,), n) for n in (3, 1, 2, 3, 1, 2)]
    loader = DataLoader(rows, batch_sampler=BatchesByLength([3, 1, 2] * 2, 2), collate_fn=pad)
    assert sorted(batch.tolist() for batch, _ in loader) == [[[n, n]] * n for n in (1, 2, 3)]


# Byte-pair encoding

SPECIALS = ["<pad>", "<s>"]


@pytest.fixture(scope="module")
def text():
    return first_edition()[:60_000] + "\nGrüße aus dem Süden, zweiunddreißig Füße"


@pytest.fixture(scope="module")
def bpe(text):
    return BytePairEncoding.learn(text, 200, specials=SPECIALS)


def slow_merges(words, count):
    """The algorithm of the paper, in its plainest form: recount all pairs before each merge."""
    words = {tuple(bytes([b]) for b in word.encode()): n for word, n in words.items()}
    merges = []
    order = {bytes([b]): b for b in range(256)}
    for _ in range(count):
        pairs = Counter()
        for word, n in words.items():
            for pair in pairwise(word):
                pairs[pair] += n
        best = max(pairs, key=lambda pair: (pairs[pair], -order[pair[0]], -order[pair[1]]))
        merges.append(best[0] + best[1])
        order.setdefault(best[0] + best[1], len(order))
        merged = Counter()
        for word, n in words.items():
            new, i = [], 0
            while i < len(word):
                step = 2 if word[i : i + 2] == best else 1
                new.append(b"".join(word[i : i + step]))
                i += step
            merged[tuple(new)] += n
        words = merged
    return merges


def test_the_example_of_the_paper():
    words = {" low": 5, " lower": 2, " newest": 6, " widest": 3}
    text = "".join(word * count for word, count in words.items())
    bpe = BytePairEncoding.learn(text, 10)
    assert bpe.tokens[256:] == slow_merges(words, 10)
    assert bpe.tokens[256:261] == [b"es", b"est", b" l", b"ow", b" low"]
    assert bpe.pieces(" lowest") == [" low", "est"]


def test_learning_equals_the_plain_algorithm():
    text = "".join(f" {word}" for word in first_edition()[:4000].split() if word.isalpha())
    bpe = BytePairEncoding.learn(text, 60)
    assert bpe.tokens[256:] == slow_merges(Counter(" " + word for word in text.split()), 60)


def test_equally_frequent_pairs_merge_in_the_order_of_their_numbers():
    bpe = BytePairEncoding.learn("cd cd ab ab", 10)
    assert bpe.tokens[256:] == [b" a", b"cd", b" ab"]
    assert BytePairEncoding.learn("xyz", 10).merges == []  # nothing occurs twice


def test_numbers_begin_with_specials_and_bytes(bpe):
    assert len(bpe) == 2 + 256 + 200 and bpe["<s>"] == 1
    assert bpe.encode("<s>").tolist() != [1]  # text is never a special
    assert bpe.decode([1, 2 + ord("a"), 0]) == "a"
    assert bpe.encode("").tolist() == [] and bpe.encode("").dtype == mt.int64
    with pytest.raises(KeyError, match="'</s>'"):
        bpe["</s>"]


def test_text_shrinks_and_comes_back(bpe, text):
    numbers = bpe.encode(text)
    assert bpe.decode(numbers) == text
    assert len(numbers) < 0.55 * len(text)
    assert "".join(bpe.pieces("the value of the expression")) == "the value of the expression"
    assert bpe.decode([2 + 0xC3]) == "\ufffd"
    assert bpe.pieces("π") == ["\\xcf", "\\x80"]


@settings(max_examples=150, deadline=None)
@given(st.text())
def test_any_text_comes_back(bpe, any_text):
    assert bpe.decode(bpe.encode(any_text)) == any_text


@pytest.mark.parametrize(
    "tricky", ["a  b\t\n\r\n c ", "日本語 text", "👩‍👩‍👧 e\u0301", "\x00\x85\u2028", "_x_1"]
)
def test_tricky_text_comes_back(bpe, tricky):
    assert bpe.decode(bpe.encode(tricky)) == tricky


def test_save_and_load(bpe, tmp_path, text):
    bpe.save(tmp_path / "bpe.json")
    loaded = BytePairEncoding.load(tmp_path / "bpe.json")
    assert loaded.tokens == bpe.tokens and loaded.specials == SPECIALS
    assert loaded.encode(text[:500]).tolist() == bpe.encode(text[:500]).tolist()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1, 2]",
        "{}",
        '{"merges": [[1, 2, 3]], "specials": []}',
        '{"merges": [[1, 256]], "specials": []}',
        '{"merges": [[-1, 2]], "specials": []}',
        '{"merges": [[0, 5]], "specials": ["<pad>"]}',
        '{"merges": [["a", "b"]], "specials": []}',
        '{"merges": 3, "specials": []}',
        json.dumps({"merges": [[97, 97]] + [[n, n] for n in range(256, 400)], "specials": []}),
    ],
)
def test_a_file_that_holds_something_else_is_refused(tmp_path, content):
    (tmp_path / "bpe.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match="does not hold a byte-pair encoding"):
        BytePairEncoding.load(tmp_path / "bpe.json")


# Scores


def test_bleu_is_that_of_sacrebleu():
    sacrebleu = pytest.importorskip("sacrebleu")
    said = ["the cat sat on the mat today", "It isn't so, he said."]
    meant = ["the cat sat on the mat", "It isn't so, she said."]
    assert bleu(said, meant) == sacrebleu.corpus_bleu(said, [meant]).score
    assert bleu(meant, meant) == pytest.approx(100)
    # By hand: precisions 6/7, 5/6, 4/5, 3/4 and no brevity penalty.
    by_hand = 100 * (6 / 7 * 5 / 6 * 4 / 5 * 3 / 4) ** 0.25
    assert bleu(said[:1], meant[:1]) == pytest.approx(by_hand)


def test_bleu_takes_tokens_as_they_are():
    pytest.importorskip("sacrebleu")
    tokens = "ein und zwanzig tausend .".split()
    assert bleu([tokens], [tokens]) == pytest.approx(100)
    # One token "u.s.a." is one word here, where a string would be cut into several.
    precisions = 4 / 5 * 3 / 4 * 2 / 3 * 1 / 2
    score = bleu([["a", "b", "c", "d", "u.s."]], [["a", "b", "c", "d", "u.k."]])
    assert score == pytest.approx(100 * precisions**0.25)
    assert bleu([["a", "b"]], [["a", "b"]]) == 0
    with pytest.raises(ValueError, match="hold no spaces"):
        bleu([["a b"]], [["a"]])


def test_bleu_of_draws_lies_around_bleu_and_takes_the_same_draws_for_all():
    pytest.importorskip("sacrebleu")
    meant = [f"the number {i} is written in words number {i % 7}" for i in range(60)]
    said = [text.replace("written", "said") if i % 3 else text for i, text in enumerate(meant)]
    draws = bleu_of_draws(said, meant, draws=200)
    assert len(draws) == 200 and len(set(draws)) > 10
    assert sum(draws) / 200 == pytest.approx(bleu(said, meant), abs=1)
    assert bleu_of_draws(meant, meant, draws=3) == [100, 100, 100]
    better = [text if i % 5 else meant[i] for i, text in enumerate(said)]
    assert all(b >= a for a, b in zip(draws, bleu_of_draws(better, meant, 200), strict=True))


def test_exact_match():
    assert exact_match(["a", "b"], ["a", "c"]) == 0.5
    assert exact_match([["a", "b"], ("c",)], [("a", "b"), ["c"]]) == 1.0
    assert exact_match([["a", "b"]], [["b", "a"]]) == 0.0


@pytest.mark.parametrize("score", [bleu, exact_match])
def test_lists_that_cannot_be_compared_are_refused(score):
    with pytest.raises(ValueError, match="2 hypotheses .* 1 references"):
        score(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="empty"):
        score([], [])
    with pytest.raises(TypeError, match="one entry a sentence"):
        score("a", ["a"])


def test_strings_and_tokens_are_not_mixed():
    with pytest.raises(TypeError, match="all strings or all lists"):
        bleu(["a b"], [["a", "b"]])


def test_without_sacrebleu_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ModuleNotFoundError, match="BLEU needs .*: pip install sacrebleu"):
        bleu(["a"], ["a"])


# Pairs of sentences


@pytest.fixture(scope="module")
def encoded():
    pairs = [("a" * (1 + i * 7 % 13), "b" * (1 + i % 5)) for i in range(40)]
    bpe = BytePairEncoding.learn("aaaa bbbb", 0, ["<pad>", "<s>", "</s>"])
    return EncodedPairs(pairs, bpe), bpe


def test_a_batch_of_pairs_starts_ends_and_is_filled_up(encoded):
    data, bpe = encoded
    source, target = data.batch([0, 1])  # ("a", "b") and eight times a, twice b
    assert (source != bpe["<pad>"]).sum(1).tolist() == [1, 8]
    a, b = bpe.encode("a").item(), bpe.encode("b").item()
    assert source[1].tolist() == [a] * 8
    assert target.tolist() == [
        [bpe["<s>"], b, bpe["</s>"], bpe["<pad>"]],
        [bpe["<s>"], b, b, bpe["</s>"]],
    ]


def test_pairs_come_in_batches_without_end_and_once_by_length(encoded):
    data, _ = encoded
    mt.manual_seed(0)
    batches = data.batches(8)
    seen = [len(next(batches)[0]) for _ in range(15)]
    assert seen == [8] * 15
    order = [i for numbers in data.by_length(16) for i in numbers]
    assert sorted(order) == list(range(40)) == list(range(len(data)))
    lengths = [len(data.pairs[i][0]) for i in order]
    assert lengths == sorted(lengths)
