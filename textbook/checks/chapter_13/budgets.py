"""What a budget of FLOPs buys."""

from textbook.checks.reasons import part_that_differs
from textbook.checks.released import exercise


def _plan_cases(draw):
    """Budget, V, d, hidden, layers, n, batch, length of the text, share of blanks."""
    yield 1e8, 17, 8, 20, 2, 7, 3, 500, 0.15
    yield 2e11, 98, 32, 128, 2, 64, 4, 5_900_000, 0.15
    yield 8e11, 50, 48, 100, 3, 40, 16, 100_000, 0.3
    yield 1e6, 13, 8, 20, 1, 6, 2, 30, 0.1


def _parts(case):
    """The products of a token, forward and backward."""
    _, V, d, m, layers, n, *_ = case
    return {
        "the projections of attention": 24 * layers * d * d,
        "the network": 12 * layers * d * m,
        "scores and mixing": 12 * layers * n * d,
        "the output": 6 * d * V,
    }


def _others(case):
    _, V, d, _, layers, *_, share = case
    parts = _parts(case)
    return {
        "everything": sum(parts.values()),
        "all of the blocks": sum(parts.values()) - 6 * d * V,
        "the output at the places that are no blanks": (1 - share) * 6 * d * V,
    }


def _what_is_off(check, answer, *_):
    """The part of a token's cost that is wrong, or the first count that does not follow from it."""
    cases = [(1e8, 17, 8, 20, 2, 7, 3, 500, 0.15), (2e8, 23, 12, 40, 3, 9, 4, 777, 0.2)]
    cases.append((5e7, 11, 6, 10, 1, 12, 5, 90, 0.3))
    found = part_that_differs(
        lambda case: answer(*case)["FLOPs of a token"], _parts, _others, cases
    )
    if found:
        return f"In 'FLOPs of a token': {found[0].lower()}{found[1:]}"
    got, right = answer(*cases[0]), check.reference(*cases[0])
    of_a_step = right["FLOPs of a token"] * 21
    follows = {
        "steps": f"a step of 21 tokens costs {of_a_step:,}, and whole steps are paid from 1e8",
        "passes": f"{right['steps']} steps read 21 tokens each, from a text of 500",
        "blanks": f"{right['steps']} steps read 21 tokens each, and 0.15 of them are blanks",
    }
    for key, why in follows.items():
        if abs(got[key] - right[key]) > 1e-9 * right[key]:
            return f"In '{key}': with 3 sequences of 7 tokens a step, {why}."
    return None


training_plan = exercise(
    "training_plan",
    cases=_plan_cases,
    reasons=(_what_is_off,),
    see='chapter 13, "Scaling"',
)
