"""Numbers in words: translation between languages, endless, exactly scored, with known alignment.

English counts "two hundred and thirty-four", German "zweihundertvierunddreißig" (the unit before
the ten), French "quatre-vingt-dix-sept" for 97 (four twenties and seventeen). A number is spoken in
pieces, and each piece knows which digits it speaks for; so we know which pieces of two languages
belong together.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

EN = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
EN_TENS = "_ ten twenty thirty forty fifty sixty seventy eighty ninety".split()
DE = (
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn "
    "sechzehn siebzehn achtzehn neunzehn"
).split()
DE_TENS = "_ zehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
FR = (
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize "
    "dix-sept dix-huit dix-neuf"
).split()
FR_TENS = "_ dix vingt trente quarante cinquante soixante".split()

# What a piece may speak for in a group of three digits, as bits: the digit of the hundreds, the
# word hundred, the tens, the units, and the word thousand or million after the group.
HUNDREDS, HUNDRED, TENS, UNITS, SCALE = 1, 2, 4, 8, 16
Piece = tuple[str, int]


def _digits(number: int) -> int:
    """What a single word for a number below 20 speaks for."""
    return UNITS if number < 10 else TENS if number == 10 else TENS | UNITS


def _english(group: int, level: int, follows: bool) -> Iterator[Piece]:
    hundreds, rest = divmod(group, 100)
    if hundreds:
        yield EN[hundreds], HUNDREDS
        yield "hundred", HUNDRED
    if rest and (hundreds or follows and level == 0):
        yield "and", 0
    if rest >= 20:
        yield EN_TENS[rest // 10], TENS
        rest %= 10
    if rest:
        yield EN[rest], _digits(rest)
    if level:
        yield ("thousand", "million")[level - 1], SCALE


def _german(group: int, level: int, follows: bool) -> Iterator[Piece]:
    hundreds, rest = divmod(group, 100)
    if hundreds:
        yield DE[hundreds], HUNDREDS
        yield "hundert", HUNDRED
    tens, unit = divmod(rest, 10)
    if rest == 1:
        yield "eine" if level == 2 and group == 1 else "ein" if level == 1 else "eins", UNITS
    elif rest in (11, 12, 16, 17):
        yield DE[rest], TENS | UNITS
    else:
        if unit:
            yield DE[unit], UNITS
        if unit and tens > 1:
            yield "und", 0
        if tens:
            yield DE_TENS[tens], TENS
    if level:
        yield ("tausend", "Million" if group == 1 else "Millionen")[level - 1], SCALE


def _french(group: int, level: int, follows: bool) -> Iterator[Piece]:
    hundreds, rest = divmod(group, 100)
    final = "" if rest or level == 1 else "s"  # the s of cents and vingts, lost before a numeral
    if hundreds == 1:
        yield "cent", HUNDREDS | HUNDRED
    elif hundreds:
        yield FR[hundreds], HUNDREDS
        yield "cent" + final, HUNDRED
    if rest >= 80:
        yield "quatre", TENS
        yield "vingts" if rest == 80 and level != 1 else "vingt", TENS
        rest -= 80
    elif rest >= 20:
        tens = min(rest // 10, 6)
        yield FR_TENS[tens], TENS
        rest -= 10 * tens
        if rest in (1, 11):
            yield "et", 0
    if rest > 16:
        yield "dix", TENS
        rest -= 10
    if level == 1 and group == 1:
        yield "mille", UNITS | SCALE
        return
    if rest:
        yield FR[rest], _digits(rest)
    if level:
        yield ("mille", "million" if group == 1 else "millions")[level - 1], SCALE


def _english_joint(before: str, after: str) -> str:
    if before in ("thousand", "million") and after != "and":
        return ", "
    return "-" if before in EN_TENS[2:] and after in EN[1:10] else " "


def _german_joint(before: str, after: str) -> str:
    return " " if before.startswith("Million") or after.startswith("Million") else ""


def _french_joint(before: str, after: str) -> str:
    hyphen = (
        (before in FR_TENS[2:] and after in FR[1:17])
        or (before == "quatre" and after in ("vingt", "vingts"))
        or (before == "dix" and after in FR[7:10])
    )
    return "-" if hyphen else " "


LANGUAGES = {
    "en": (EN[0], _english, _english_joint),
    "de": (DE[0], _german, _german_joint),
    "fr": (FR[0], _french, _french_joint),
}


def _language(name: str) -> tuple:
    if name not in LANGUAGES:
        raise ValueError(f"numbers are spoken in {', '.join(LANGUAGES)}; got language {name!r}")
    return LANGUAGES[name]


def _spoken(number: int, language: str) -> list[Piece]:
    zero, speak, _ = _language(language)
    if not 0 <= number < 10**9:
        raise ValueError(f"numbers of up to nine digits can be spoken, got {number}")
    if number == 0:
        return [(zero, UNITS)]
    groups = ((2, number // 10**6), (1, number // 1000 % 1000), (0, number % 1000))
    return [
        (word, digits << 5 * level)
        for level, group in groups
        if group
        for word, digits in speak(group, level, number >= 1000)
    ]


def number_pieces(number: int, language: str = "en") -> list[str]:
    """The pieces of a number in words, "en", "de" or "fr"; ValueError beyond nine digits.

    ``number_pieces(234, "de")`` is ``["zwei", "hundert", "vier", "und", "dreißig"]``.
    """
    return [word for word, _ in _spoken(number, language)]


def join_pieces(pieces: Sequence[str], language: str = "en") -> str:
    """Pieces written as the language writes them: "zweihundertvierunddreißig"."""
    joint = _language(language)[2]
    return "".join(pieces[:1]) + "".join(joint(a, b) + b for a, b in pairwise(pieces))


def number_words(number: int, language: str = "en") -> str:
    """A number in words: ``number_words(97, "fr")`` is ``"quatre-vingt-dix-sept"``."""
    return join_pieces(number_pieces(number, language), language)


class NumberPair(NamedTuple):
    """A number in two languages.

    ``alignment[j]`` names the source pieces that target piece j translates: usually one, several
    where the source says in two pieces what the target says in one, none for words like "and".
    """

    number: int
    source: list[str]
    target: list[str]
    alignment: list[tuple[int, ...]]


def number_pair(number: int, source: str = "en", target: str = "de") -> NumberPair:
    """One number in two languages, with its alignment.

    ``number_pair(34)`` is ``(34, ["thirty", "four"], ["vier", "und", "dreißig"],
    [(1,), (), (0,)])``.
    """
    asked, given = _spoken(number, source), _spoken(number, target)
    alignment = [
        tuple(i for i, (_, theirs) in enumerate(asked) if theirs & ours) for _, ours in given
    ]
    return NumberPair(number, [word for word, _ in asked], [word for word, _ in given], alignment)


def is_held_out(number: int) -> bool:
    """Whether a number belongs to the fixed tenth, scattered evenly, that no model trains on.

    That is, whether the fraction of number * (sqrt(5) - 1) / 2 is below 1/10, in integers.
    """
    return number * 2654435769 % 2**32 < 2**32 // 10


def number_pairs(
    count: int,
    *,
    digits: tuple[int, int] = (1, 9),
    held_out: bool = False,
    source: str = "en",
    target: str = "de",
    seed: int = 0,
) -> list[NumberPair]:
    """``count`` numbers in two languages, the same ones for the same seed.

    The number of digits is drawn evenly from ``digits`` (both ends included), then the number among
    those that are held out, or are not (see ``is_held_out``); short ones occur several times. So a
    model is tested on new numbers by ``held_out=True``, and on new lengths by other ``digits``.
    """
    low, high = digits
    if not 1 <= low <= high <= 9:
        raise ValueError(f"digits are the least and the most, from 1 to 9; got {digits}")
    rng = np.random.default_rng(seed)
    pairs = []
    while len(pairs) < count:
        length = int(rng.integers(low, high + 1))
        number = int(rng.integers(10 ** (length - 1), 10**length))
        if is_held_out(number) == held_out:
            pairs.append(number_pair(number, source, target))
    return pairs
