"""Continuations of a batch of prompts by a model that looks where it is told."""

import minitorch as mt
from textbook.checks.exercise import exercise
from textbook.checks.recorded import recorded

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
    return [len(row) for row in _continuing()(model, prompts, end, count)]


def _prompt_cases(draw, hidden):
    """Some continuations end early, others do not; token 0 occurs, and so does end in prompts."""
    sizes = [((2, 4), 4), ((1, 3, 5), 5), ((3,), 3)]
    for lengths, count in sizes + [((6, 2, 4, 1), 6), ((4, 4), 1), ((2, 7), 9)] * hidden:
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

    def __call__(self, tokens, allowed):
        (batch, n), self.rows = tokens.shape, tokens.tolist()
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


def _front(row, n):
    return [0] * (n - len(row)) + row


def _causal(n):
    return mt.ones(n, n, dtype=mt.bool).tril()


def _both(real, tokens):
    return _causal(real.shape[1]) & real[:, None, None]


def _continuing(
    pad=_front,
    mask=_both,
    read=lambda row: row,
    place=lambda length, n: n - 1,
    choose=lambda scores: scores.argmax(dim=-1),
    stops=lambda new, end: bool(new) and new[-1] == end,
    all_stop=False,
    steps=lambda count: count,
    finish=lambda new, prompt, end: new,
):
    """Continuations with one piece exchanged."""

    def continued(model, prompts, end, count):
        new = [[] for _ in prompts]
        for _ in range(steps(count)):
            rows = [read(prompt + more) for prompt, more in zip(prompts, new, strict=True)]
            n = max(map(len, rows))
            tokens = mt.tensor([pad(row, n) for row in rows])
            real = mt.tensor([pad([1] * len(row), n) for row in rows]) == 1
            scores = model(tokens, mask(real, tokens).expand(len(rows), 1, n, n))
            stopped = [stops(more, end) for more in new]
            if all_stop and any(stopped):
                break
            for b, row in enumerate(rows):
                if not stopped[b]:
                    new[b].append(int(choose(scores[b, place(len(row), n)])))
        return [finish(*each, end) for each in zip(new, prompts, strict=True)]

    return continued


@exercise(
    cases=_prompt_cases,
    run=_run,
    properties=(_go_together,),
    reasons=(_first_step,),
    gradients=False,
    see='chapter 07, "Rows with nothing to look at"',
)
def continue_prompts(model, prompts, end, count):
    """Prompts, lists of tokens, give a list of new tokens for each, up to count or to end."""
    new = [[] for _ in prompts]
    for _ in range(count):
        rows = [prompt + more for prompt, more in zip(prompts, new, strict=True)]
        n = max(len(row) for row in rows)
        tokens = mt.tensor([[0] * (n - len(row)) + row for row in rows])
        lengths = mt.tensor([len(row) for row in rows])
        real = mt.arange(n) >= n - lengths.unsqueeze(1)  # (B, n): padding stands in front
        causal = mt.ones(n, n, dtype=mt.bool).tril()
        scores = model(tokens, causal & real[:, None, None])  # (B, n, V)
        for more, token in zip(new, scores[:, -1].argmax(dim=-1).tolist(), strict=True):
            if not more or more[-1] != end:
                more.append(token)
    return new


def _back(row, n):
    return row + [0] * (n - len(row))


continue_prompts.wrong(
    "right for the longest prompt alone: the padding in front is in sight",
    "What stands in front of a prompt is no future: the causal mask does not hide it. Hide the "
    "padding, too: (B, 1, 1, n).",
)(_continuing(mask=lambda real, tokens: _causal(real.shape[1])[None, None]))
continue_prompts.wrong(
    "a continuation without a causal mask: earlier tokens look at later ones",
    "The model was trained with a causal mask, and what a token has seen counts for those that "
    "look at it: join both masks.",
)(_continuing(mask=lambda real, tokens: real[:, None, None]))
continue_prompts.wrong(
    "a continuation without any mask",
    "The model looks where allowed is True: not at the padding, and at no later token.",
)(_continuing(mask=lambda real, tokens: mt.ones(1, 1, *2 * tokens.shape[1:], dtype=mt.bool)))
continue_prompts.wrong(
    "masked the wrong way round",
    "True means: may look.",
)(_continuing(mask=lambda real, tokens: ~_both(real, tokens)))
continue_prompts.wrong(
    "right but for the token 0, which it takes for padding",
    "All numbers are tokens. Where the padding stands is known from the lengths.",
)(_continuing(mask=lambda real, tokens: _both(tokens != 0, tokens)))
continue_prompts.wrong(
    "right but for the padding, which is masked along the queries",
    "What must not be looked at is a key, and keys are columns: real as (B, 1, 1, n).",
)(
    _continuing(
        mask=lambda real, tokens: _causal(real.shape[1]) & real[:, None, :, None],
    )
)
continue_prompts.wrong(
    "right for the longest prompt alone: it reads the scores behind the padding",
    "With padding at the end the scores for the next token stand at the last real one.",
)(_continuing(pad=_back))
continue_prompts.wrong(
    "off by one: it reads the scores one position too early",
    "Position i has read the tokens up to i and predicts the one at i + 1.",
)(_continuing(place=lambda length, n: max(n - 2, 0)))
continue_prompts.wrong(
    "right but for the end, at which it does not stop",
    "A prompt that has got its end is finished: nothing comes after it.",
)(_continuing(stops=lambda new, end: False))
continue_prompts.wrong(
    "stopped for all prompts as soon as one is finished",
    "The others go on, up to their own end or to count tokens.",
)(_continuing(all_stop=True))
continue_prompts.wrong(
    "right but for the end, which is left out",
    "The end is a new token like others: the last one of its list.",
)(_continuing(finish=lambda new, prompt, end: new[:-1] if new and new[-1] == end else new))
continue_prompts.wrong(
    "right but for the length: finished continuations are filled up",
    "Return the new tokens of each prompt, up to its end: lists of different lengths.",
)(
    lambda model, prompts, end, count: [
        (new + [end] * count)[:count] for new in _continuing()(model, prompts, end, count)
    ]
)
continue_prompts.wrong(
    "right but for prompts that hold the end themselves, which it does not continue",
    "An end in the prompt is part of what is to be continued. A prompt is finished when a NEW "
    "token is the end.",
)(
    lambda model, prompts, end, count: [
        [] if prompt[-1] == end else new
        for prompt, new in zip(prompts, _continuing()(model, prompts, end, count), strict=True)
    ]
)
continue_prompts.wrong(
    "right but for prompts with an end anywhere in them, which it does not continue",
    "An end inside the prompt means nothing.",
)(
    lambda model, prompts, end, count: [
        [] if end in prompt else new
        for prompt, new in zip(prompts, _continuing()(model, prompts, end, count), strict=True)
    ]
)
continue_prompts.wrong(
    "right for the shortest prompt: the others have lost their beginnings",
    "All prompts are read as they are: pad the shorter ones.",
)(
    lambda model, prompts, end, count: _continuing()(
        model, [prompt[-min(map(len, prompts)) :] for prompt in prompts], end, count
    )
)
continue_prompts.wrong(
    "right but for the prompts, which are returned, too",
    "Return the new tokens alone.",
)(_continuing(finish=lambda new, prompt, end: prompt + new))
continue_prompts.wrong(
    "one token short",
    "Up to count new tokens.",
)(_continuing(steps=lambda count: count - 1))
continue_prompts.wrong(
    "one token too long",
    "At most count new tokens.",
)(_continuing(steps=lambda count: count + 1))
continue_prompts.wrong(
    "one and the same step, count times: what has been picked is never read",
    "Each new token is read before the next one is picked.",
)(
    lambda model, prompts, end, count: [
        (one * count)[: 1 if one[0] == end else count]
        for one in _continuing()(model, prompts, end, 1)
    ]
)
continue_prompts.wrong(
    "written without a context: the model is shown the last token alone",
    "A recurrent network keeps a state; this model knows only what it is shown. Give it the whole "
    "sequence.",
)(_continuing(read=lambda row: row[-1:]))
continue_prompts.wrong(
    "the least likely token at each step",
    "The largest score is that of the likeliest token.",
)(_continuing(choose=lambda scores: scores.argmin(dim=-1)))
