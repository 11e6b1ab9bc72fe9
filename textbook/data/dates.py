"""Dates as people write them, and their ISO form."""

import datetime

import numpy as np

from textbook.data.numerals import is_held_out
from textbook.data.optional import needs

# Ways to write a date, in the pattern language of Unicode (UTS 35). The year has four digits and
# the month a name, so that each has one reading.
PATTERNS = {
    "en": ("MMMM d, y", "d MMMM y", "EEEE, MMMM d, y", "MMM d, y"),
    "de": ("d. MMMM y", "EEEE, d. MMMM y", "d. MMM y"),
    "fr": ("d MMMM y", "EEEE d MMMM y", "d MMM y"),
    "es": ("d 'de' MMMM 'de' y", "EEEE, d 'de' MMMM 'de' y", "d MMM y"),
    "it": ("d MMMM y", "EEEE d MMMM y", "d MMM y"),
}
FIRST, LAST = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)


def date_pairs(
    count: int,
    *,
    languages: tuple[str, ...] = ("en", "de", "fr"),
    held_out: bool = False,
    seed: int = 0,
) -> list[tuple[str, str]]:
    """``count`` dates of 1900 to 2099 in a written form and in ISO form, by the seed.

    For example ``("Freitag, 3. März 1978", "1978-03-03")``. Languages are "en", "de", "fr", "es"
    and "it"; the names of months and days are babel's. The days of ``held_out=True`` are a fixed
    tenth of all, and never occur without it.
    """
    if unknown := set(languages) - set(PATTERNS):
        raise ValueError(f"dates are written in {', '.join(PATTERNS)}; got {sorted(unknown)}")
    with needs("babel", "date_pairs"):
        from babel.dates import format_date
    rng = np.random.default_rng(seed)
    pairs = []
    while len(pairs) < count:
        ordinal = int(rng.integers(FIRST.toordinal(), LAST.toordinal() + 1))
        language = languages[rng.integers(len(languages))]
        pattern = PATTERNS[language][rng.integers(len(PATTERNS[language]))]
        if is_held_out(ordinal) == held_out:
            date = datetime.date.fromordinal(ordinal)
            pairs.append((format_date(date, pattern, locale=language), date.isoformat()))
    return pairs
