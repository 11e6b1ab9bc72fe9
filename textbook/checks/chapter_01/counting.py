"""What follows the last characters, by counts that back off to shorter runs."""

from textbook.checks.released import exercise


def _text_cases(draw, more=()):
    """Texts, what stands before the symbol, and the symbols; runs of any kind."""
    yield "abab", "b", "abc"
    yield "aaaaba", "aa", "ab"
    yield "abcabd", "", "abcde"
    yield "abcdeabcdf", "zabcd", "abcdefz"
    yield from more
    for symbols, length in (("abc", 30), ("abcd", 40)):
        text = "".join(symbols[int(k)] for k in draw.random.integers(len(symbols), size=length))
        yield text, text[5:9], symbols + "e"
        yield text, text[:6], symbols
        yield text, "e" + text[-4:], symbols + "e"


def _adds_up(check, answer, text, before, symbols):
    """Whether it is a distribution over the symbols."""
    found = answer(text, before, symbols)
    if set(found) != set(symbols):
        return "The dict has each of the symbols, seen or not, and nothing else."
    if abs((total := sum(found.values())) - 1) > 1e-9:
        return f"The probabilities add up to {total:.4g}: what is taken off has to be given away."
    if min(found.values()) <= 0:
        return "No symbol is impossible: what is freed goes to those that were not seen."
    return None


next_symbol = exercise(
    "next_symbol",
    cases=_text_cases,
    reasons=(_adds_up,),
    gradients=False,
    see='chapter 01, "A rival that counts"',
)
