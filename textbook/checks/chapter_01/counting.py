"""What follows the last characters, by counts that back off to shorter runs."""

from collections import Counter

from textbook.checks.exercise import exercise


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


@exercise(
    cases=_text_cases,
    hidden_cases=lambda draw: _text_cases(
        draw, more=[("bbbabbba", "abbb", "abc"), ("xyzxyw", "qxy", "wxyzq")]
    ),
    reasons=(_adds_up,),
    gradients=False,
    after_passing=(
        "Faster for many questions: count all runs once, in a dict from a run to its Counter."
    ),
    see='chapter 01, "A rival that counts"',
)
def next_symbol(text, before, symbols):
    """The probability of each symbol behind ``before``, by what followed in the text: a dict."""
    found = dict.fromkeys(symbols, 1 / len(symbols))
    for n in range(min(len(before), 4) + 1):
        run = before[len(before) - n :]
        seen = Counter(text[i + n] for i in range(len(text) - n) if text.startswith(run, i))
        if not seen:
            break
        unseen = [x for x in symbols if x not in seen]
        off = 0.5 if unseen else 0.0
        freed, rest = off * len(seen) / seen.total(), sum(found[x] for x in unseen)
        found = {
            x: (seen[x] - off) / seen.total() if x in seen else freed * found[x] / rest
            for x in symbols
        }
    return found
