"""Which scores move when a vector of source or target is changed."""

from textbook.checks.compare import Words, brief, number
from textbook.checks.exercise import exercise

FORGOTTEN = [
    (),
    ("encoder",),
    ("causal",),
    ("cross",),
    ("causal", "cross"),
    ("encoder", "causal"),
    ("encoder", "cross"),
]


def _moving_cases(draw, hidden):
    """Which places of the source are tokens, T, the place that changes, the masks forgotten."""
    real, steps = ([True, True, False, False], 5) if not hidden else ([True] * 3 + [False], 6)
    for forgotten in FORGOTTEN:
        for i in (0, 1, 3):
            yield real, steps, ("source", i), forgotten
        for i in (0, 3, steps - 1):
            yield real, steps, ("target", i), forgotten
    yield [True, True], 3, ("source", 1), ()
    yield [False, False, True], 4, ("source", 1), ("cross",) if hidden else ()


def _moving(
    of_target=lambda i, steps, forgotten: range(0 if "causal" in forgotten else i, steps),
    reads=lambda real, i, forgotten: real[i] or "encoder" in forgotten or "cross" in forgotten,
    of_source=lambda i, steps: range(steps),
    say=list,
):
    """The prediction with one of its pieces exchanged."""

    def moved(real, T, place, forgotten):
        where, i = place
        if where == "target":
            return say(of_target(i, T, forgotten))
        return say(of_source(i, T)) if reads(real, i, forgotten) else say([])

    return moved


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
    found = [number(t) for t in answer(real, T, place, forgotten)]
    if not all(type(t) is int for t in found):
        return None
    right = _moving()(real, T, place, forgotten)
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


@exercise(
    cases=_moving_cases,
    run=_in_words,
    reasons=(_says_why,),
    see='chapter 10, "Three masks"',
)
def moved(real, T, place, forgotten):
    """The places of the target, counted from 0, whose scores move: a list."""
    where, i = place
    if where == "target":
        return list(range(0 if "causal" in forgotten else i, T))
    read = real[i] or "encoder" in forgotten or "cross" in forgotten
    return list(range(T)) if read else []


def _later_alone(i, steps, forgotten):
    """Places that come after, without the place itself."""
    return [t for t in range(steps) if t > i or "causal" in forgotten]


for name, hint, pieces in (
    (
        "right but for the place itself, which it leaves out",
        "The scores at place t are made of the vector at place t: what it reads there counts.",
        {"of_target": _later_alone},
    ),
    (
        "right but for the target, where it takes the earlier places for the later ones",
        "A query looks back: what is changed at place j is seen from j on.",
        {"of_target": lambda i, steps, forgotten: range(steps if "causal" in forgotten else i + 1)},
    ),
    (
        "right but for the target, of which only the place itself moves",
        "All later places look at it.",
        {"of_target": lambda i, steps, forgotten: range(steps) if "causal" in forgotten else [i]},
    ),
    (
        "right but for the causal mask, on whose absence it does not look",
        "Without it all places look at all others.",
        {"of_target": lambda i, steps, forgotten: range(i, steps)},
    ),
    (
        "right but for the target: it takes the causal mask for missing always",
        "With the mask, earlier places do not see what is changed.",
        {"of_target": lambda i, steps, forgotten: range(steps)},
    ),
    (
        "right but for padding, which it takes for a token",
        "Masks hide it, unless one is forgotten.",
        {"reads": lambda real, i, forgotten: True},
    ),
    (
        "right but for padding, which it takes for hidden always",
        "Where a mask is forgotten, it is read.",
        {"reads": lambda real, i, forgotten: real[i]},
    ),
    (
        "right but for the encoder's mask, on whose absence it does not look",
        "Then real tokens of the source look at padding, and carry it into their memory.",
        {"reads": lambda real, i, forgotten: real[i] or "cross" in forgotten},
    ),
    (
        "right but for the mask across, on whose absence it does not look",
        "Then the decoder looks at the memory of padding itself.",
        {"reads": lambda real, i, forgotten: real[i] or "encoder" in forgotten},
    ),
    (
        "right but for padding, which it takes for read only if both masks are forgotten",
        "One way is enough: through the encoder, or across.",
        {"reads": lambda real, i, forgotten: real[i] or {"encoder", "cross"} <= {*forgotten}},
    ),
    (
        "right but for padding, which it takes for read if any mask is forgotten",
        "The causal mask hides no padding of the source.",
        {"reads": lambda real, i, forgotten: real[i] or len(forgotten) > 0},
    ),
    (
        "right but for the source: of the target it moves the same place alone",
        "Every place of the target looks at all of the source.",
        {"of_source": lambda i, steps: [i] if i < steps else []},
    ),
    (
        "right but for the source, which later places alone look at",
        "The source is there as a whole before the first word is written.",
        {"of_source": lambda i, steps: range(i, steps)},
    ),
    (
        "counted from 1",
        "Places are counted from 0.",
        {"say": lambda places: [t + 1 for t in places]},
    ),
    (
        "the number of places that move",
        "Return the places, as a list.",
        {"say": lambda places: len([*places])},
    ),
):
    moved.wrong(name, hint)(_moving(**pieces))
