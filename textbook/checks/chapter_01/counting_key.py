"""Answers to the exercises of ``counting.py``."""

from collections import Counter

import numpy as np

from textbook.checks.chapter_01.counting import _text_cases, next_symbol


@next_symbol.answer(
    hidden_cases=lambda draw: _text_cases(
        draw, more=[("bbbabbba", "abbb", "abc"), ("xyzxyw", "qxy", "wxyzq")]
    ),
    after_passing=(
        "Faster for many questions: count all runs once, in a dict from a run to its Counter."
    ),
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


# Right in another way


def symbol_by_recursion(text, before, symbols):
    run = before[-4:]
    follow = [text[i] for i in range(len(run), len(text)) if text[i - len(run) : i] == run]
    shorter = (
        symbol_by_recursion(text, run[1:], symbols)
        if run
        else {x: 1 / len(symbols) for x in symbols}
    )
    if not follow:
        return shorter
    counts = {x: follow.count(x) for x in symbols}
    never = sum(shorter[x] for x in symbols if not counts[x])
    if not never:
        return {x: count / len(follow) for x, count in counts.items()}
    freed = 0.5 * sum(count > 0 for count in counts.values())
    return {
        x: (count - 0.5 if count else freed * shorter[x] / never) / len(follow)
        for x, count in counts.items()
    }


def symbol_with_numpy(text, before, symbols):
    places = {x: k for k, x in enumerate(symbols)}
    p = np.full(len(symbols), 1 / len(symbols))
    for n in range(5):
        if n > len(before):
            break
        counts = np.zeros(len(symbols))
        for i in range(n, len(text)):
            if text[i - n : i] == before[len(before) - n :]:
                counts[places[text[i]]] += 1
        if counts.sum() == 0:
            continue
        new = counts == 0
        if new.any():
            freed = 0.5 * (~new).sum()
            counts = np.where(new, freed * p / p[new].sum(), counts - 0.5)
        p = counts / counts.sum()
    return {x: p[k] for x, k in places.items()}


right = {
    "next_symbol": [symbol_by_recursion, symbol_with_numpy],
}
