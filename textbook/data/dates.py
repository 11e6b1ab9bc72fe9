"""Dates as people write them, and their ISO form."""

import datetime

import numpy as np

from textbook.data.numerals import is_held_out

# Ways to write a date, by its parts {weekday}, {day}, {month}, {short} (month) and {year}. The year
# has four digits and the month a name, so that each has one reading.
FORMS = {
    "en": (
        "{month} {day}, {year}",
        "{day} {month} {year}",
        "{weekday}, {month} {day}, {year}",
        "{short} {day}, {year}",
    ),
    "de": ("{day}. {month} {year}", "{weekday}, {day}. {month} {year}", "{day}. {short} {year}"),
    "fr": ("{day} {month} {year}", "{weekday} {day} {month} {year}", "{day} {short} {year}"),
    "es": (
        "{day} de {month} de {year}",
        "{weekday}, {day} de {month} de {year}",
        "{day} {short} {year}",
    ),
    "it": ("{day} {month} {year}", "{weekday} {day} {month} {year}", "{day} {short} {year}"),
}
MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre "
    "diciembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre "
    "dicembre",
}
SHORT_MONTHS = {
    "en": "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec",
    "de": "Jan. Feb. März Apr. Mai Juni Juli Aug. Sept. Okt. Nov. Dez.",
    "fr": "janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc.",
    "es": "ene feb mar abr may jun jul ago sept oct nov dic",
    "it": "gen feb mar apr mag giu lug ago set ott nov dic",
}
WEEKDAYS = {
    "en": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "de": "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
    "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "es": "lunes martes miércoles jueves viernes sábado domingo",
    "it": "lunedì martedì mercoledì giovedì venerdì sabato domenica",
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
    and "it". The days of ``held_out=True`` are a fixed tenth of all, and never occur without it.
    """
    if unknown := set(languages) - set(FORMS):
        raise ValueError(f"dates are written in {', '.join(FORMS)}; got {sorted(unknown)}")
    rng = np.random.default_rng(seed)
    pairs = []
    while len(pairs) < count:
        ordinal = int(rng.integers(FIRST.toordinal(), LAST.toordinal() + 1))
        language = languages[rng.integers(len(languages))]
        form = FORMS[language][rng.integers(len(FORMS[language]))]
        if is_held_out(ordinal) == held_out:
            date = datetime.date.fromordinal(ordinal)
            pairs.append((_written(date, form, language), date.isoformat()))
    return pairs


def _written(date: datetime.date, form: str, language: str) -> str:
    return form.format(
        weekday=WEEKDAYS[language].split()[date.weekday()],
        day=date.day,
        month=MONTHS[language].split()[date.month - 1],
        short=SHORT_MONTHS[language].split()[date.month - 1],
        year=date.year,
    )
