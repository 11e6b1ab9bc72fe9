"""Data that is made: numbers in words, dates, small tasks."""

import datetime
import random
import re

import pytest
from num2words import num2words

import minitorch as mt
from textbook.data import (
    date_pairs,
    join_pieces,
    number_pair,
    number_pairs,
    number_pieces,
    number_words,
    tasks,
)
from textbook.data.dates import MONTHS, SHORT_MONTHS
from textbook.data.numerals import is_held_out

# Numbers


@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_numbers_are_spoken_as_num2words_does(language):
    rng = random.Random(0)
    large = [rng.randrange(10 ** rng.randint(5, 9)) for _ in range(500)]
    turns = [a * 10**6 + b * 1000 + c for a in (0, 1, 2) for b in (0, 1, 80, 101) for c in (0, 1)]
    for number in [*range(10_000), *large, *turns, 200 * 10**6, 80 * 10**6, 999_999_999]:
        # num2words says einhunderteinstausend; Duden has einhunderteintausend.
        expected = num2words(number, lang=language).replace("einstausend", "eintausend")
        assert number_words(number, language) == expected


def test_pieces():
    assert number_pieces(1234) == "one thousand two hundred and thirty four".split()
    assert number_pieces(234, "de") == ["zwei", "hundert", "vier", "und", "dreißig"]
    assert number_pieces(97, "fr") == ["quatre", "vingt", "dix", "sept"]
    assert join_pieces(["zwei", "Millionen", "ein", "und", "zwanzig"], "de") == (
        "zwei Millionen einundzwanzig"
    )
    assert join_pieces([], "en") == ""


@pytest.mark.parametrize("number, language", [(-1, "en"), (10**9, "de"), (3, "nl")])
def test_what_cannot_be_spoken_is_refused(number, language):
    with pytest.raises(ValueError, match="spoken"):
        number_words(number, language)


def aligned(number, source, target):
    """Each target piece with the source pieces that it is aligned to."""
    pair = number_pair(number, source, target)
    assert pair.number == number
    return [
        (piece, " ".join(pair.source[i] for i in places))
        for piece, places in zip(pair.target, pair.alignment, strict=True)
    ]


def test_alignment_by_hand():
    assert aligned(5_234_000, "en", "de") == [
        ("fünf", "five"),
        ("Millionen", "million"),
        ("zwei", "two"),
        ("hundert", "hundred"),
        ("vier", "four"),
        ("und", ""),
        ("dreißig", "thirty"),
        ("tausend", "thousand"),
    ]
    assert aligned(113, "en", "de") == [
        ("ein", "one"),
        ("hundert", "hundred"),
        ("drei", "thirteen"),
        ("zehn", "thirteen"),
    ]
    assert aligned(1100, "en", "fr") == [("mille", "one thousand"), ("cent", "one hundred")]
    assert aligned(91, "en", "fr") == [
        ("quatre", "ninety"),
        ("vingt", "ninety"),
        ("onze", "ninety one"),
    ]
    assert aligned(97, "fr", "en") == [("ninety", "quatre vingt dix"), ("seven", "sept")]
    assert aligned(0, "en", "de") == [("null", "zero")]


# What a piece may translate to, wherever it stands: a table made by hand, apart from the code.
SAME = {
    "ein eins eine": "one",
    "zwei": "two",
    "drei": "three thirteen",
    "vier": "four fourteen",
    "fünf": "five fifteen",
    "sechs": "six",
    "sieben": "seven",
    "acht": "eight eighteen",
    "neun": "nine nineteen",
    "zehn": "ten thirteen fourteen fifteen eighteen nineteen",
    "elf": "eleven",
    "zwölf": "twelve",
    "sechzehn": "sixteen",
    "siebzehn": "seventeen",
    "zwanzig": "twenty",
    "dreißig": "thirty",
    "vierzig": "forty",
    "fünfzig": "fifty",
    "sechzig": "sixty",
    "siebzig": "seventy",
    "achtzig": "eighty",
    "neunzig": "ninety",
    "hundert": "hundred",
    "tausend": "thousand",
    "Million Millionen": "million",
}
MEANING = {german: english.split() for many, english in SAME.items() for german in many.split()}


def test_every_german_piece_is_aligned_to_its_english_one_in_order_of_the_groups():
    for pair in number_pairs(500, seed=3):
        for piece, places in zip(pair.target, pair.alignment, strict=True):
            if piece == "und":
                assert places == ()
                continue
            (place,) = places
            assert pair.source[place] in MEANING[piece], pair
        # Every English piece but "and" is used: teens twice, all others once.
        used = [i for places in pair.alignment for i in places]
        for i, piece in enumerate(pair.source):
            split = piece in "thirteen fourteen fifteen eighteen nineteen".split()
            assert used.count(i) == (0 if piece == "and" else 2 if split else 1), pair
        # Whole groups keep their order: only unit and ten change places.
        assert all(a < b + 2 for a, b in zip(used[:-1], used[1:], strict=True)), pair


def test_number_pairs_are_settled_by_the_seed_and_leave_the_default_generator_alone():
    mt.manual_seed(0)
    before = mt.rand(1).item()
    mt.manual_seed(0)
    assert number_pairs(50, seed=1) == number_pairs(50, seed=1) != number_pairs(50, seed=2)
    assert mt.rand(1).item() == before


def test_held_out_numbers_are_new_and_their_pieces_are_not():
    training, test = number_pairs(5000), number_pairs(500, held_out=True)
    assert not {pair.number for pair in training} & {pair.number for pair in test}
    for side in ("source", "target"):
        known = {piece for pair in training for piece in getattr(pair, side)}
        assert {piece for pair in test for piece in getattr(pair, side)} <= known
    for size in (3, 4, 5):
        share = sum(map(is_held_out, range(10 ** (size - 1), 10**size))) / (9 * 10 ** (size - 1))
        assert share == pytest.approx(0.1, abs=0.005)


def test_numbers_are_split_by_length():
    lengths = [len(str(pair.number)) for pair in number_pairs(600, digits=(2, 4))]
    assert all(150 < lengths.count(length) < 250 for length in (2, 3, 4))
    assert {len(str(pair.number)) for pair in number_pairs(50, digits=(7, 7))} == {7}
    for digits in [(0, 3), (4, 2), (1, 10)]:
        with pytest.raises(ValueError, match="from 1 to 9"):
            number_pairs(1, digits=digits)


# Dates


def test_dates_say_what_their_iso_form_says():
    languages = ("en", "de", "fr", "es", "it")
    pairs = date_pairs(300, languages=languages)
    assert (
        pairs
        == date_pairs(300, languages=languages)
        != date_pairs(300, languages=languages, seed=1)
    )
    months = {
        name.strip("."): month
        for language in languages
        for names in (MONTHS, SHORT_MONTHS)
        for month, name in enumerate(names[language].split(), 1)
    }
    for written, iso in pairs:
        date = datetime.date.fromisoformat(iso)
        assert 1900 <= date.year <= 2099
        assert sorted(map(int, re.findall(r"\d+", written))) == sorted([date.day, date.year])
        words = [word.strip(".,") for word in written.split()]
        (month,) = {months[word] for word in words if word in months}
        assert month == date.month


def test_held_out_dates_and_languages():
    training = {iso for _, iso in date_pairs(2000)}
    assert not training & {iso for _, iso in date_pairs(200, held_out=True)}
    german = [written for written, _ in date_pairs(20, languages=("de",))]
    assert all(re.search(r"\d\. \w+\.? \d{4}$", written) for written in german)
    written = {iso: said for said, iso in date_pairs(3000, languages=("de",), seed=2)}
    weekdays = [(said, iso) for iso, said in written.items() if said.startswith("Freitag, ")]
    assert weekdays and all(datetime.date.fromisoformat(iso).weekday() == 4 for _, iso in weekdays)
    with pytest.raises(ValueError, match="'xx'"):
        date_pairs(1, languages=("en", "xx"))


# Small tasks


@pytest.mark.parametrize(
    "draw",
    [
        lambda g: tasks.copy(3, 5, 7, generator=g),
        lambda g: tasks.reverse(3, 5, 7, generator=g),
        lambda g: tasks.sort(3, 5, 7, generator=g),
        lambda g: tasks.first(3, 5, 7, generator=g),
        lambda g: tasks.back(3, 5, 7, 2, generator=g),
        lambda g: tasks.last_symbol(3, 5, 7, generator=g),
        lambda g: tasks.associative_recall(3, 4, 6, 5, 2, generator=g),
        lambda g: tasks.adding(3, 5, generator=g),
        lambda g: tasks.xor(3, 5, generator=g),
    ],
)
def test_tasks_are_settled_by_their_generator(draw):
    mt.manual_seed(0)
    before = mt.rand(1).item()
    mt.manual_seed(0)
    (x, y), (again, target), (other, _) = (
        draw(mt.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert mt.equal(x, again) and mt.equal(y, target) and not mt.equal(x, other)
    assert mt.rand(1).item() == before
    assert len(x) == len(y) == 3


def test_sequence_tasks():
    for x, y in zip(*(t.tolist() for t in tasks.copy(4, 6, 5)), strict=True):
        assert x == y
    for x, y in zip(*(t.tolist() for t in tasks.reverse(4, 6, 5)), strict=True):
        assert x[::-1] == y
    for x, y in zip(*(t.tolist() for t in tasks.sort(4, 6, 5)), strict=True):
        assert sorted(x) == y
    for x, y in zip(*(t.tolist() for t in tasks.first(4, 6, 5)), strict=True):
        assert x[0] == y and len(x) == 6
    tokens, _ = tasks.copy(50, 20, 5)
    assert set(tokens.flatten().tolist()) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("distance", [0, 1, 3, 6])
def test_back(distance):
    for x, y in zip(*(t.tolist() for t in tasks.back(4, 6, 5, distance)), strict=True):
        assert y == [x[t - distance] if t >= distance else -100 for t in range(6)]


def test_last_symbol():
    tokens, targets = tasks.last_symbol(40, 50, 3, blank=0.7)
    for x, y in zip(tokens.tolist(), targets.tolist(), strict=True):
        latest = -100
        for token, target in zip(x, y, strict=True):
            latest = token or latest
            assert target == latest
    assert set(tokens.flatten().tolist()) == {0, 1, 2, 3}
    assert (tokens == 0).float().mean().item() == pytest.approx(0.7, abs=0.05)


def test_associative_recall():
    tokens, targets = tasks.associative_recall(200, 4, 6, 5, queries=2)
    assert tokens.shape == (200, 10) and targets.shape == (200, 2)
    asked = set()
    for x, y in zip(tokens.tolist(), targets.tolist(), strict=True):
        keys, values, queries = x[0:8:2], x[1:8:2], x[8:]
        assert len(set(keys)) == 4 and len(set(queries)) == 2
        assert set(keys) <= set(range(6)) and set(values) <= set(range(6, 11))
        table = dict(zip(keys, values, strict=True))
        assert [table[query] for query in queries] == y
        asked.add(tuple(keys.index(query) for query in queries))
    assert len(asked) == 12  # every ordered pair of places
    with pytest.raises(ValueError, match="queries <= pairs <= keys"):
        tasks.associative_recall(1, 4, 3, 5)


@pytest.mark.parametrize("length", [2, 3, 10])
def test_adding(length):
    inputs, targets = tasks.adding(50, length)
    numbers, marks = inputs[..., 0], inputs[..., 1]
    assert mt.allclose((numbers * marks).sum(1), targets)
    assert (marks[:, : length // 2].sum(1) == 1).all() and (marks.sum(1) == 2).all()
    with pytest.raises(ValueError, match="at least 2"):
        tasks.adding(1, 1)


def test_xor():
    inputs, targets = tasks.xor(50, 4)
    for bits, answer in zip(inputs.flatten(0, 1).tolist(), targets.flatten().tolist(), strict=True):
        assert answer == (bits[0] + bits[1] == 1)
    assert inputs.dtype == mt.float32 and targets.dtype == mt.int64
