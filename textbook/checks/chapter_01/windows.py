"""Training in windows of a long text, and what it reaches."""

from contextlib import redirect_stdout
from functools import partial
from io import StringIO

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from textbook.checks.compare import difference, number
from textbook.checks.exercise import CheckFailed, Draw
from textbook.checks.reasons import what_it_is
from textbook.checks.released import exercise
from textbook.lab.report import measured

# Truncated backpropagation through time


class _Model(nn.Module):
    """(T, B, d), state -> (T, B, 1), new state."""

    def __init__(self, inputs, hidden=3):
        super().__init__()
        self.rnn = nn.RNN(inputs, hidden)
        self.output = nn.Linear(hidden, 1)

    def forward(self, x, h=None):
        states, h = self.rnn(x, h)
        return self.output(states), h


def _trained(answer, x, y, begins, window):
    model, draw = _Model(x.shape[-1]).double(), Draw(0)
    for parameter in model.parameters():
        parameter.data = 0.5 * draw.normal(*parameter.shape)
    losses = answer(model, F.mse_loss, optim.SGD(model.parameters(), lr=0.1), x, y, begins, window)
    kinds = {"a tensor" if isinstance(x, mt.Tensor) else "a number" for x in _listed(losses)}
    return {
        "the type of each loss": " or ".join(sorted(kinds)),
        "the list of losses": losses,
        "the list of parameters": list(model.parameters()),
    }


def _listed(losses):
    return losses if isinstance(losses, (list, tuple)) else [0.0]


def _told_where(check, answer, x, y, begins, window):
    """What is wrong: the type of the losses, their number, or the first that is wrong."""
    case = x, y, begins, window
    got, right = (_trained(each, *case) for each in (answer, check.reference))
    if got["the type of each loss"] != "a number":
        return "Return numbers: loss.item(). A loss that is kept may keep the graph of its window."
    losses, expected = _listed(got["the list of losses"]), right["the list of losses"]
    if len(losses) != len(expected):
        return f"{len(x)} steps are {len(expected)} windows of {window} steps: a loss for each."
    for i, (one, other) in enumerate(zip(losses, expected, strict=True)):
        if not difference(one, other, "[]"):
            continue
        if i == 0:
            return "The first loss is wrong already: that of x[:window], before any update."
        return (
            f"The first {i} of the losses are right, the next one is not: look at the update "
            "before it, at the state that it starts from, and at its steps."
        )
    if difference(got["the list of parameters"], right["the list of parameters"], "[]"):
        return "The losses are right, but not the last update of the parameters."
    return None


def _window_cases(draw, more=()):
    sizes = [(1, 4, 1, 2), (2, 6, 2, 3), (2, 7, 1, 3), (3, 5, 2, 1), (2, 3, 2, 4)]
    for batch, steps, inputs, window in [*sizes, *more]:
        begins = mt.zeros(steps, batch, dtype=mt.bool)
        begins[0] = True
        places = range(window, steps, window)
        if batch > 1 and places:
            begins[places[0], 1] = True
            begins[places[-1], 0] = True
        yield draw.normal(steps, batch, inputs), draw.normal(steps, batch, 1), begins, window


truncated_bptt = exercise(
    "truncated_bptt",
    cases=_window_cases,
    run=_trained,
    gradients=False,
    reasons=(_told_where,),
    see='chapter 01, "Truncated backpropagation through time"',
)


# What was reached

DELAY, SYMBOLS, TOKENS, LONGEST, ENOUGH = 5, 4, 3000, 64, 0.9
SEEDS = 11, 12, 13
GOOD = {"window": 15, "rate": 0.004}
PARTS = {"window": "the window", "rate": "the rate"}


class Recaller(nn.Module):
    """Tokens (T, B) to scores (T, B, symbols), and the state."""

    def __init__(self, hidden=48):
        super().__init__()
        self.rnn = nn.RNN(SYMBOLS, hidden)
        self.out = nn.Linear(hidden, SYMBOLS)

    def forward(self, tokens, h=None):
        states, h = self.rnn(F.one_hot(tokens, SYMBOLS).float(), h)
        return self.out(states), h


def _symbols(steps, batch):
    """Random tokens (T, B), and those of five steps before."""
    tokens = mt.randint(0, SYMBOLS, (steps + DELAY, batch))
    return tokens[DELAY:], tokens[:-DELAY]


def trained(loop, window, rate, seed):
    """A model that has read 3,000 steps of 32 streams, in windows, by your loop."""
    mt.manual_seed(seed)
    model = Recaller()
    tokens, targets = _symbols(TOKENS, 32)
    begins = mt.zeros(TOKENS, 32, dtype=mt.bool)
    begins[0] = True

    def loss_function(scores, targets):
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())

    optimizer = optim.Adam(model.parameters(), lr=rate)
    loop(model, loss_function, optimizer, tokens, targets, begins, window)
    return model


def right(model):
    """The share of symbols that a model recalls, in new streams."""
    tokens, targets = _symbols(200, 100)
    with mt.no_grad():
        found = model(tokens)[0].argmax(dim=-1)
    return (found == targets)[DELAY:].float().mean().item()


def _read(plan):
    """The plan, if it can be carried out."""
    try:
        given = plan()
    except NotImplementedError:
        raise CheckFailed(
            "chosen_window: not solved yet.\nReturn a dict, as the text says."
        ) from None
    if not isinstance(given, dict) or sorted(given) != ["rate", "window"]:
        raise CheckFailed(
            f"chosen_window: expected a dict with the keys 'rate' and 'window', got {given}"
        )
    rate, window = (number(given[key]) for key in ("rate", "window"))
    if type(window) is not int or not 0 < window <= LONGEST:
        raise CheckFailed(
            f"chosen_window: expected 1 to {LONGEST} as 'window', got {given['window']}"
        )
    if rate is None or not 0 < rate < 1:
        raise CheckFailed(f"chosen_window: expected a rate between 0 and 1, got {given['rate']}")
    return window, rate


def _shares(loop, plan):
    """What is recalled with each seed."""
    for seed in SEEDS:
        yield right(trained(loop, *plan.values(), seed))


def reached(loop, plan):
    """Raise ``CheckFailed`` unless the plan makes a model recall with each of three seeds."""
    with redirect_stdout(StringIO()):
        truncated_bptt(loop)
    given = dict(zip(["window", "rate"], _read(plan), strict=True))
    shares = list(_shares(loop, given))
    for seed, share in zip(SEEDS, shares, strict=True):
        measured(f"seed {seed}: {share:.1%} of the symbols recalled")
    if min(shares) < ENOUGH:
        why = what_it_is(given, GOOD, PARTS, partial(_shares, loop), ENOUGH)
        if given["window"] <= DELAY:
            why += (
                f"\nWith windows of at most {DELAY} steps no gradient ever says what should have "
                "been kept."
            )
        raise CheckFailed(
            f"chosen_window: at least {ENOUGH:.0%} of the symbols have to be recalled with each of "
            f"three seeds; with one it is {min(shares):.0%}.\n{why}"
        )
    print("chosen_window: it is recalled")
