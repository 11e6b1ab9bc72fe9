"""Masks that somebody wrote, to be read: for which sentences are they wrong?"""

from itertools import product

import minitorch as mt
from textbook.checks.compare import Words, brief, number
from textbook.checks.released import exercise

LONGEST = 8
TRUE = "what is true"


def program_a(lengths, n):
    """Lengths (B) and n give a mask (B, n, n)."""
    places = mt.arange(n)
    real = places < lengths.unsqueeze(1)
    return real.unsqueeze(1) & (places <= places.unsqueeze(1))


def program_b(lengths, n):
    """Lengths (B) and n give a mask (B, n, n)."""
    real = mt.arange(n) < lengths.unsqueeze(1)
    return real.unsqueeze(2) & mt.ones(n, n).tril().bool()


def program_c(lengths, n):
    """Lengths (B) and n give a mask (B, n, n)."""
    before = mt.arange(n) <= mt.arange(n).unsqueeze(1)
    return before.expand(len(lengths), n, n)


def program_d(lengths, n):
    """Lengths (B) and n give a mask (B, n, n)."""
    mask = mt.ones(len(lengths), n, n).tril().bool()
    mask[:, :, lengths.min().item() :] = False
    return mask


def program_e(lengths, n):
    """Lengths (B) and n give a mask (B, n, n)."""
    places = mt.arange(n)
    padding = places > lengths.unsqueeze(1)
    return (places <= places.unsqueeze(1)) & ~padding.unsqueeze(1)


def program_f(lengths, n):
    """Lengths (B) and n give a mask (B, n, n)."""
    places = mt.arange(lengths.max().item())
    real = places < lengths.unsqueeze(1)
    return real.unsqueeze(1) & (places <= places.unsqueeze(1))


written = {
    "A": program_a,
    "B": program_b,
    "C": program_c,
    "D": program_d,
    "E": program_e,
    "F": program_f,
}


def wrong_with(mask, lengths, n):
    """What is wrong with a mask for sentences of these lengths, or None."""
    if tuple(mask.shape) != (len(lengths), n, n):
        return "another shape"
    if not bool(mask.any(dim=-1).all()):
        return "an empty row"
    for row, length in zip(mask, lengths.tolist(), strict=True):
        right = mt.ones(length, n).tril().bool()
        if not mt.equal(row[:length], right):
            return "a token that sees too much or too little"
    return None


def _one_case(draw):
    yield ()


def _read(answer):
    """What each pair shows of its program, in words."""
    found = answer()
    whole = "the dict from each letter, A to F, to a pair or None"
    if not isinstance(found, dict) or set(found) != set(written):
        missing = [name for name in written if isinstance(found, dict) and name not in found]
        return {whole: f"one without {', '.join(missing)}" if missing else brief(found)}
    said = {whole: "as it should be"}
    for name, program in written.items():
        said[f"what is said of program {name}"] = Words(_verdict(program, found[name]))
    return said


def _is_right(program):
    """Whether no two sentences of up to three places show anything."""
    sizes = [(lengths, n) for n in (1, 2, 3) for lengths in product(range(1, n + 1), repeat=2)]
    return not any(wrong_with(program(mt.tensor(x), n), mt.tensor(x), n) for x, n in sizes)


def _verdict(program, pair):
    if pair is None:
        return TRUE if _is_right(program) else "that its mask is always right, which it is not"
    lengths, n = pair if isinstance(pair, (tuple, list)) and len(pair) == 2 else (None, None)
    n, lengths = number(n), mt.tensor(lengths).tolist() if lengths is not None else [0]
    fits = type(n) is int and n <= LONGEST and all(type(x) is int and 0 < x <= n for x in lengths)
    if not fits or not lengths:
        return f"{brief(pair)}, no pair of lengths from 1 to n and n, {LONGEST} at most"
    if wrong_with(program(mt.tensor(lengths), n), mt.tensor(lengths), n):
        return TRUE
    return f"that it is wrong for lengths {lengths} and n = {n}, where it is right"


counterexamples = exercise(
    "counterexamples",
    cases=_one_case,
    run=_read,
    gradients=False,
    see='chapter 07, "Padding"',
)
