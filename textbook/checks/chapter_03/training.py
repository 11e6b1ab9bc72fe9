"""A step of a translator's training, and what it reaches."""

import copy
import math
from contextlib import redirect_stdout
from io import StringIO

import minitorch as mt
from minitorch import nn, optim
from textbook.checks.chapter_03.batches import teacher_batch
from textbook.checks.chapter_03.translator import Translator
from textbook.checks.compare import number
from textbook.checks.exercise import CheckFailed, Draw
from textbook.checks.modules import values
from textbook.checks.reasons import what_it_is
from textbook.checks.recorded import recorded
from textbook.checks.released import exercise
from textbook.data import Vocabulary, number_pairs
from textbook.lab.report import measured

# A step of training


class _Small(nn.Module):
    """Scores that depend on source and inputs, and look at no padding; its modes are noted."""

    def __init__(self, weights):
        super().__init__()
        self.modes = set()
        self.table, self.out = (nn.Parameter(x.clone()) for x in weights)

    def forward(self, source, padding, inputs):
        self.modes.add("train()" if self.training else "eval()")
        read = self.table[source].masked_fill(padding.unsqueeze(-1), 0.0).sum(dim=1, keepdim=True)
        return (self.table[inputs] + read).tanh() @ self.out


@recorded
def _batch(sentences, start, end, pad):
    return teacher_batch.reference(sentences, start, end, pad)


def _step_cases(draw, more=()):
    """Parts of different sizes and lengths; gradients that have to be clipped, and some not."""
    sizes = [([[2, 1]], 100.0), ([[2, 1], [4, 1, 3]], 100.0), ([[1], [3, 4, 2]], 0.2)]
    sizes += [([[3, 1], [1, 2], [5]], 0.1)]
    sizes += more
    for counts, clip in sizes:
        parts = []
        for lengths in counts:
            sentences = [draw.integers(6, n).tolist() for n in lengths]
            n = max(lengths) + 1
            source = draw.integers(9, len(lengths), n)
            padding = mt.arange(n) >= mt.tensor([max(1, k) for k in lengths]).unsqueeze(1)
            parts.append((source, padding, *_batch(sentences, 6, 7, 8)))
        yield [draw.normal(9, 4), 2 * draw.normal(4, 9)], parts, clip


def _stepped(answer, weights, parts, clip):
    """Two steps after another one of somebody else, whose gradients are still there."""
    model = _Small(weights)
    optimizer = optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
    for x in model.parameters():
        x.grad = mt.ones_like(x)
    found = {}
    losses = {}
    modes = {}
    for name, mode in (("first", "train()"), ("second", "eval()")):
        model.train(mode == "train()")
        model.modes.clear()
        said = answer(model, optimizer, parts, clip)
        model(*parts[0][:3])
        label = f"the mode of the model, which comes in {mode}, in the {name} step and behind it"
        modes[label] = " and ".join(sorted(model.modes))
        losses[f"the step is right; the loss that is returned for the {name} one"] = said
        for parameter, x in model.named_parameters():
            found[f"the model's parameter {parameter!r} after the {name} step"] = values(x).clone()
    return found | losses | modes


def _sum_of_losses(model, part):
    source, padding, inputs, targets, rest = part
    log_p = model(source, padding, inputs).log_softmax(dim=-1)
    return -log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1).masked_fill(rest, 0.0).sum()


def _tokens(part):
    return (~part[-1]).sum().item()


def _all_tokens(parts, part):
    return sum(map(_tokens, parts))


def _steps_made(check, answer, weights, parts, clip):
    """How often the optimizer makes its step, if that is not once."""
    model, made = _Small(weights), []
    optimizer = optim.SGD(model.parameters(), lr=0.5)
    step = optimizer.step
    optimizer.step = lambda: made.append(step())
    answer(model, optimizer, parts, clip)
    if len(made) < 2:
        return None
    return f"optimizer.step() runs {len(made)} times: all parts together make one step."


def _whose_loss(check, answer, weights, parts, clip):
    """Of which parts the loss is, where the mean is not that of all tokens."""
    model = _Small(weights)
    sums = [_sum_of_losses(model, part).item() for part in parts]
    means = [loss / _tokens(part) for loss, part in zip(sums, parts, strict=True)]
    said = number(answer(model, optim.SGD(model.parameters(), lr=0.5), parts, clip))
    if math.isclose(said, sum(sums) / _all_tokens(parts, None), rel_tol=1e-6):
        return None
    for words, loss in {
        "that of the first part alone": means[0],
        "that of the last part alone": means[-1],
        "the mean of the parts' means; every token counts the same": sum(means) / len(means),
        "the sum of the parts' means; it is one mean, over all tokens": sum(means),
    }.items():
        if math.isclose(said, loss, rel_tol=1e-6):
            return f"The loss that is returned is {words}."
    return None


training_step = exercise(
    "training_step",
    cases=_step_cases,
    run=_stepped,
    reasons=(_steps_made, _whose_loss),
    gradients=False,
    see='chapter 03, "The model and its training"',
)


# What was reached

MOST, ENOUGH = 250, 0.75
KEYS = ["hidden", "rate", "steps", "width"]
GOOD = {"width": 64, "hidden": 96, "rate": 0.01, "steps": MOST}
SEEDS = 11, 12
PARTS = {"steps": "the number of steps", "width hidden": "the size", "rate": "the rate"}


def _read(plan):
    """The plan, if it can be carried out."""
    try:
        given = plan()
    except NotImplementedError:
        raise CheckFailed(
            "training_plan: not solved yet.\nReturn a dict, as the text says."
        ) from None
    if not isinstance(given, dict) or sorted(given) != KEYS:
        raise CheckFailed(f"training_plan: expected a dict with the keys {KEYS}, got {given}")
    width, hidden, steps = (number(given[key]) for key in ("width", "hidden", "steps"))
    for name, value, most in (("width", width, 64), ("hidden", hidden, 96), ("steps", steps, MOST)):
        if type(value) is not int or not 1 <= value <= most:
            raise CheckFailed(f"training_plan: expected 1 to {most} as {name!r}, got {given[name]}")
    rate = number(given["rate"])
    if rate is None or not 0 < rate < 1:
        raise CheckFailed(f"training_plan: expected a rate between 0 and 1, got {given['rate']}")
    return width, hidden, rate, steps


class Numbers:
    """English numbers of one to four digits and their German names, as batches."""

    def __init__(self):
        self.pairs = number_pairs(4000, digits=(1, 4), seed=0)
        self.english = Vocabulary((w for pair in self.pairs for w in pair.source), ["<pad>"])
        self.german = Vocabulary(
            (w for pair in self.pairs for w in pair.target), ["<pad>", "<s>", "</s>"]
        )

    def held_out(self, seed):
        """Pairs of numbers that are in no training."""
        return number_pairs(200, digits=(2, 4), held_out=True, seed=seed)

    def batch(self, pairs):
        """Source, its padding, inputs, targets and their padding."""
        words = [self.english.encode(pair.source).tolist() for pair in pairs]
        n = max(map(len, words))
        source = mt.tensor([row + [0] * (n - len(row)) for row in words])
        padding = mt.tensor([[j >= len(row) for j in range(n)] for row in words])
        said = [pair.target for pair in pairs]
        said, _ = self.german.encode_batch(said, start=True, end=True, batch_first=True)
        inputs, targets = said[:, :-1], said[:, 1:]
        return source, padding, inputs.masked_fill(inputs == 2, 0), targets, targets == 0


def share_right(model, batch):
    """The share of sentences of which each token is the likeliest after the true ones."""
    source, padding, inputs, targets, rest = batch
    with mt.no_grad():
        said = model(source, padding, inputs).argmax(dim=-1)
    return ((said == targets) | rest).all(dim=1).double().mean().item()


def trained(model_class, step, plan, seed):
    """A translator of numbers, trained by ``step`` on two parts of 32 pairs each time."""
    width, hidden, rate, steps = plan
    numbers, draw = Numbers(), Draw(seed).random
    mt.manual_seed(seed)
    model = model_class(len(numbers.english), len(numbers.german), width, hidden)
    optimizer = optim.Adam(model.parameters())
    by_length = sorted(numbers.pairs, key=lambda pair: len(pair.source))
    for i in range(steps):
        optimizer.param_groups[0]["lr"] = rate * (1 - i / steps)
        starts = draw.integers(len(by_length) - 32, size=2)
        parts = [numbers.batch(by_length[at : at + 32]) for at in starts]
        step(model, optimizer, parts, 1.0)
    return model


def reached(model_class, step, plan):
    """Raise ``CheckFailed`` unless model, step and plan translate numbers never seen."""
    with redirect_stdout(StringIO()):
        Translator(model_class)
        training_step(step)
    given = dict(zip(GOOD, _read(plan), strict=True))

    def shares_of(plan):
        for seed in SEEDS:
            model, numbers = trained(model_class, step, [*plan.values()], seed), Numbers()
            yield share_right(model, copy.deepcopy(numbers.batch(numbers.held_out(seed))))

    shares = list(shares_of(given))
    for seed, share in zip(SEEDS, shares, strict=True):
        measured(f"seed {seed}: {share:.1%} of new numbers fully right")
    if min(shares) < ENOUGH:
        raise CheckFailed(
            f"training_plan: at least {ENOUGH:.0%} of new numbers have to be fully right with "
            f"each of two seeds; it was {min(shares):.0%}.\nModel and step are right. "
            + what_it_is(given, GOOD, PARTS, shares_of, ENOUGH)
        )
    print("training_plan: new numbers are translated")
