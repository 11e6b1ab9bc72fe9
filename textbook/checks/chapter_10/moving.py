"""Which scores move when a vector of source or target is changed."""

from textbook.checks.compare import Words, brief, number
from textbook.checks.released import exercise

FORGOTTEN = [
    (),
    ("encoder",),
    ("causal",),
    ("cross",),
    ("causal", "cross"),
    ("encoder", "causal"),
    ("encoder", "cross"),
]


def _moving_cases(draw, others=(), last=()):
    """Which places of the source are tokens, T, the place that changes, the masks forgotten."""
    real, steps = others or ([True, True, False, False], 5)
    for forgotten in FORGOTTEN:
        for i in (0, 1, 3):
            yield real, steps, ("source", i), forgotten
        for i in (0, 3, steps - 1):
            yield real, steps, ("target", i), forgotten
    yield [True, True], 3, ("source", 1), ()
    yield [False, False, True], 4, ("source", 1), last


def _in_words(answer, real, T, place, forgotten):
    """The places as text; any other result as it is."""
    found = answer(real, T, place, forgotten)
    places = found if isinstance(found, (list, tuple)) else [None]
    if all(type(number(t)) is int for t in places):
        found = ", ".join(str(number(t)) for t in places) or "none"
    return {
        "the list of places that move": Words(found if isinstance(found, str) else brief(found))
    }


def _says_why(check, answer, real, T, place, forgotten):
    """The first place that wrongly moves or stays, with the rule."""
    where, i = place
    if not isinstance(answer(real, T, place, forgotten), (list, tuple)):
        return "A list is asked for."
    found = [number(t) for t in answer(real, T, place, forgotten)]
    if not all(type(t) is int for t in found):
        return None
    right = check.reference(real, T, place, forgotten)
    for t in range(T):
        if (t in found) == (t in right):
            continue
        does = f"Place {t} of the target {'moves' if t in right else 'stays'}"
        if where == "source":
            if real[i]:
                return f"{does}: it looks at every token of the source, and {i} is one."
            if "cross" in forgotten:
                return f"{does}: it looks at the padding {i}, without the mask across."
            if "encoder" in forgotten:
                return f"{does}: tokens of the source have looked at the padding {i}."
            return f"{does}: nobody looks at the padding {i} of the source, both masks hide it."
        if t == i:
            return f"{does}: it is the place that was changed, and its scores are made of it."
        if "causal" in forgotten:
            return f"{does}: without the causal mask it looks at all places, {i} too."
        return f"{does}: the causal mask lets a place look at itself and those before it."
    return None


moved = exercise(
    "moved",
    cases=_moving_cases,
    run=_in_words,
    reasons=(_says_why,),
    see='chapter 10, "Three masks"',
)
