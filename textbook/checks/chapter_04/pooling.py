"""Pooling by learned queries that know what is late, and what it reaches."""

from contextlib import redirect_stdout
from functools import partial
from io import StringIO

import minitorch as mt
from minitorch import nn
from textbook.chapter_03 import (
    ANIMALS,
    PAD,
    stories_right,
    story_words,
    train_reader,
)
from textbook.checks.compare import number
from textbook.checks.exercise import CheckFailed
from textbook.checks.modules import drawn, made, results_of, values
from textbook.checks.reasons import what_it_is
from textbook.checks.released import exercise
from textbook.lab.report import measured


def _pooling_cases(draw, others=()):
    """Sizes (H, queries), then a batch; padding that is large, or no number."""
    sizes, counts = others or ((4, 2), [2, 4, 3])
    for extra, filler in ((1, 1e6), (0, mt.nan)):
        n = max(counts) + extra
        padding = mt.arange(n) >= mt.tensor(counts).unsqueeze(1)
        states = draw.normal(len(counts), n, sizes[0])
        yield sizes, states.masked_fill(padding.unsqueeze(-1), filler), padding
        counts = counts[1:]


def _run(answer, sizes, states, padding):
    return results_of(
        answer(*sizes),
        drawn(Queries.reference, *sizes),
        {"states": states},
        lambda pool: {"the tensor of pooled states": pool(states, padding)},
    )


def _nothing_is_shared(answer, sizes, states, padding):
    pool, other = (made(Queries.reference, answer, sizes) for _ in range(2))
    before = values(pool(states, padding))
    with mt.no_grad():
        for x in other.parameters():
            x *= 1.5
    values(other(states, padding))
    if not mt.equal(values(pool(states, padding)), before):
        return "After another module has run, this one gives another result: they share something."
    return None


Queries = exercise(
    "Queries",
    cases=_pooling_cases,
    run=_run,
    properties=(_nothing_is_shared,),
    gradients=False,
    see='chapter 04, "Pooling by a query"',
)


# What was reached

MOST, ENOUGH, LONGEST = 400, 0.85, 40
QUESTIONS = {"anywhere": 1, "which came last": 5}
RUNS = [(question, seed) for question in QUESTIONS for seed in (11, 12, 13)]
KEYS = ["queries", "rate", "steps"]
GOOD = {"queries": 4, "rate": 0.01, "steps": MOST}
PARTS = {"steps": "the number of steps", "queries": "the number of queries", "rate": "the rate"}


class Reader(nn.Module):
    """Stories (B, n) to scores of the animals (B, 8), with a plain RNN and pooling by queries."""

    def __init__(self, pool, queries, width=16, hidden=32):
        super().__init__()
        self.embedding = nn.Embedding(len(story_words), width)
        self.recurrent = nn.RNN(width, hidden, batch_first=True)
        self.pool = pool(hidden, queries)
        self.out = nn.Linear(queries * hidden, len(ANIMALS))

    def forward(self, tokens):
        states, _ = self.recurrent(self.embedding(tokens))  # (B, n, H)
        return self.out(self.pool(states, tokens == PAD))


def _read(plan):
    """The plan, if it can be carried out."""
    try:
        given = plan()
    except NotImplementedError:
        raise CheckFailed(
            "reading_plan: not solved yet.\nReturn a dict, as the text says."
        ) from None
    if not isinstance(given, dict) or sorted(given) != KEYS:
        raise CheckFailed(f"reading_plan: expected a dict with the keys {KEYS}, got {given}")
    queries, steps, rate = (number(given[key]) for key in ("queries", "steps", "rate"))
    for name, value, most in (("queries", queries, 8), ("steps", steps, MOST)):
        if type(value) is not int or not 1 <= value <= most:
            raise CheckFailed(f"reading_plan: expected 1 to {most} as {name!r}, got {given[name]}")
    if rate is None or not 0 < rate < 1:
        raise CheckFailed(f"reading_plan: expected a rate between 0 and 1, got {given['rate']}")
    return queries, rate, steps


def trained(pool, queries, rate, steps, question, seed):
    """A reader that has learned to answer one question about stories."""
    mt.manual_seed(seed)
    model = Reader(pool, queries)
    train_reader(model, LONGEST, QUESTIONS[question], rate, steps)
    return model


def share_right(model, question):
    """The share of 500 new stories that are answered right."""
    return stories_right(model, LONGEST, QUESTIONS[question])


def _shares(pool, plan):
    """What each run of this plan reaches."""
    for question, seed in RUNS:
        yield share_right(trained(pool, *plan.values(), question, seed), question)


def reached(pool, plan):
    """Raise ``CheckFailed`` unless readers of this plan answer both questions."""
    with redirect_stdout(StringIO()):
        Queries(pool)
    given = dict(zip(GOOD, _read(plan), strict=True))
    shares = list(_shares(pool, given))
    for (question, seed), share in zip(RUNS, shares, strict=True):
        measured(f"{question}, seed {seed}: {share:.1%} right")
    if min(shares) < ENOUGH:
        raise CheckFailed(
            f"reading_plan: at least {ENOUGH:.0%} have to be right for both questions and each "
            f"of three seeds; it was {min(shares):.0%}.\nThe module is right. "
            + what_it_is(given, GOOD, PARTS, partial(_shares, pool), ENOUGH)
        )
    print("reading_plan: both questions are answered")
