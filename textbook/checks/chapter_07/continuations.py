"""Continuations of a batch of prompts by a model that looks where it is told."""

import minitorch as mt
from textbook.checks.recorded import recorded
from textbook.checks.released import exercise

WORDS = 7


class _Reader:
    """A model without a mask of its own: tokens (B, n), allowed (B, 1, n, n) -> scores (B, n, V).

    Each token sees what it may look at, in its order, twice; absolute places do not count.
    """

    def __init__(self, draw):
        self.embedding, self.output = 2 * draw.normal(WORDS, 6), draw.normal(6, WORDS)
        self.calls = 0

    def __call__(self, tokens, allowed):
        self.calls += 1
        batch, n = tokens.shape
        if allowed.dtype != mt.bool or tuple(allowed.shape) not in {(batch, 1, n, n), (1, 1, n, n)}:
            raise ValueError(
                f"the model wants a boolean mask of shape {(batch, 1, n, n)}, got {allowed.dtype} "
                f"of shape {tuple(allowed.shape)}"
            )
        seen, x = allowed[:, 0].double(), self.embedding[tokens]
        for _ in range(2):
            x = (x + seen * (1 + seen.cumsum(dim=-1) / 2) @ x).sin()  # order counts, places do not
        return x @ self.output

    def __repr__(self):
        return f"<a model of {WORDS} tokens>"

    def __deepcopy__(self, memo):
        return self


@recorded
def _lengths(model, prompts, end, count):
    """Of the right continuations."""
    return [len(row) for row in continue_prompts.reference(model, prompts, end, count)]


def _prompt_cases(draw, more=()):
    """Some continuations end early, others do not; token 0 occurs, and so does end in prompts."""
    sizes = [((2, 4), 4), ((3, 1, 5), 5), ((3,), 3)]
    for lengths, count in [*sizes, *more]:
        while True:
            model = _Reader(draw)
            prompts = [draw.random.integers(WORDS, size=n).tolist() for n in lengths]
            end = int(draw.random.integers(WORDS))
            prompts[0][-1], prompts[-1][0] = end, 0
            early = sum(n < count for n in _lengths(model, prompts, end, count))
            if len(lengths) == 1 or count == 1 or 0 < early < len(lengths):
                break
        yield model, prompts, end, count


def _run(answer, model, prompts, end, count):
    return {"the list of continuations": answer(model, prompts, end, count)}


def _go_together(answer, model, prompts, end, count):
    model.calls = 0
    answer(model, prompts, end, count)
    if model.calls > count:
        return (
            "All prompts go through the model together: at most one call for each new token, and "
            f"there were {model.calls} for {count}."
        )
    return None


class _Places:
    """A model that says at each place the number of this place, and keeps what it was shown."""

    def __init__(self):
        self.calls = []

    def __call__(self, tokens, allowed):
        (batch, n), self.rows = tokens.shape, tokens.tolist()
        self.calls.append(self.rows)
        self.allowed = allowed[:, 0].expand(batch, n, n).tolist()
        return mt.eye(n, WORDS).expand(batch, n, WORDS)


def _first_step(check, answer, *_):
    """Which place the first new token is read at, and what a token of the prompt may look at."""
    model, prompts = _Places(), [[5, 6], [0, 1, 4, 3]]
    found = answer(model, prompts, 2, 1)
    for prompt, row, sees, [read] in zip(prompts, model.rows, model.allowed, found, strict=True):
        n, length = len(row), len(prompt)
        [first] = [i for i in range(n - length + 1) if row[i : i + length] == prompt]
        last, told = first + length - 1, f"The prompt {prompt} stands in the row {row}"
        for i in range(first, last + 1):
            for j in range(n):
                if sees[i][j] != (first <= j <= i):
                    may = "may look" if sees[i][j] else "may not look"
                    token = "a token of the prompt" if j <= i else "a later token"
                    what = token if first <= j <= last else "padding"
                    return f"{told}: place {i} {may} at place {j}, {what}."
        if read != last:
            return f"{told}: the new token is read at place {read}, and its last one is at {last}."
    return None


def _second_step(check, answer, *_):
    """Whether the second call is shown a whole prompt and its new token, in this order."""
    model, prompts = _Places(), [[5, 6], [0, 1, 4, 3]]
    found = answer(model, prompts, 2, 2)
    for prompt, row, [first, _] in zip(prompts, model.calls[1], found, strict=True):
        left = iter(row)
        if not all(token in left for token in [*prompt, first]):
            return (
                f"The second call has to read the prompt {prompt} and its new token {first}, and "
                f"gets the row {row}: the prompt stays, and the row grows by each new token."
            )
    return None


continue_prompts = exercise(
    "continue_prompts",
    cases=_prompt_cases,
    run=_run,
    properties=(_go_together,),
    reasons=(_first_step, _second_step),
    gradients=False,
    see='chapter 07, "Rows with nothing to look at"',
)
