"""A claim tried again at ten times its budget; and three readers for which it is tried."""

from string import ascii_uppercase

import minitorch as mt
from minitorch import nn
from textbook.chapter_03 import StoryReader, mean_of_states, stories_right, train_reader
from textbook.checks.compare import Words, brief
from textbook.checks.released import exercise

# Made-up learners: for each rate the shares with the seeds 0 to 5, after the budget and after ten
# times as many steps.
LOW, HIGH = [0.31, 0.4, 0.42, 0.38, 0.41, 0.37], [0.97, 0.95, 0.96, 0.94, 0.98, 0.95]
LEARNERS = {
    "learns": ([LOW, HIGH], [LOW, HIGH]),
    "learns late": ([[0.3] * 6, LOW], [LOW, HIGH]),
    "never learns": ([[0.2] * 6, LOW], [[0.31, 0.5, 0.5, 0.5, 0.5, 0.5], [0.52] * 6]),
    "exactly 0.9": ([LOW, [0.97, 0.9, 0.9, 0.92, 0.91, 0.9]], [LOW, HIGH]),
    "seed 5 fails": ([LOW, [0.97] * 5 + [0.6]], [LOW, [0.98] * 5 + [0.7]]),
    "seed 1 fails": ([LOW, [0.97, 0.6] + [0.97] * 4], [LOW, [0.98, 0.7] + [0.98] * 4]),
    "three of five fail": ([LOW, [0.97] * 3 + [0.6] * 3], [LOW, [0.97, 0.98, 0.98] + [0.7] * 3]),
    "seed 0 is the worst": ([[0.2] * 6, [0.8] + HIGH[1:]], [[0.2] * 6, [0.8] + HIGH[1:]]),
    "seed 0 likes the worse rate": ([[0.7, *LOW[1:]], [0.6, *HIGH[1:]]],) * 2,
    "each seed likes a rate of its own": (
        [[0.7, 0.95, 0.5, 0.95, 0.5, 0.95], [0.6, 0.5, 0.95, 0.5, 0.95, 0.5]],
    )
    * 2,
    "learns later with the other rate": (
        [[0.6, *LOW[1:]], [0.5, *LOW[1:]]],
        [[0.7, *LOW[1:]], HIGH],
    ),
    "learns at once with the other rate": (
        [HIGH, [0.8, *LOW[1:]]],
        [[0.8, *LOW[1:]], [0.82, *LOW[1:]]],
    ),
    "unlearns": ([LOW, HIGH], [LOW, [0.6, *LOW[1:]]]),
    "wants the small rate": ([HIGH, LOW], [HIGH, LOW]),
}


def _cases(draw, steps=60, more=()):
    """Each learner by itself, one that wants another rate than the first, and all of them."""
    kinds = [*LEARNERS]
    for chosen in (*([kind] for kind in kinds), ["learns", "wants the small rate"], kinds, *more):
        yield dict(zip(ascii_uppercase, chosen, strict=False)), [0.01, 0.03], steps


class _Learner:
    """``learn`` of the text, without any training."""

    def __init__(self, learners, rates, steps):
        self.learners, self.rates, self.steps = learners, rates, steps

    def __call__(self, name, steps, rate, seed):
        if name not in self.learners or rate not in self.rates:
            raise ValueError(
                f"learn takes a name of {[*self.learners]}, steps, a rate of {self.rates} and a "
                f"seed, got {name!r}, {steps!r}, {rate!r}, {seed!r}"
            )
        shares = LEARNERS[self.learners[name]][steps >= 10 * self.steps][self.rates.index(rate)]
        return shares[seed] if 0 <= seed < len(shares) else 0.0


def _found(answer, learners, rates, steps):
    found = answer(_Learner(learners, rates, steps), [*learners], list(rates), steps)
    if not isinstance(found, dict) or found.keys() != learners.keys():
        keys = [*found] if isinstance(found, dict) else found
        return {"the form of the result": keys if keys is None else Words(brief(keys))}
    return {"the form of the result": Words(brief([*learners])), "the result": found}


ten_times = exercise(
    "ten_times",
    cases=_cases,
    run=_found,
    gradients=False,
    see='chapter 04, "Pooling by a query"',
)


# The claim


class _Words(nn.Module):
    """In place of a recurrent network: each state has read its own word alone."""

    def __init__(self, width, hidden, batch_first):
        super().__init__()
        self.linear = nn.Linear(width, hidden)

    def forward(self, inputs):
        return self.linear(inputs).tanh(), None


class _Query(nn.Module):
    """The weighted mean of the states that one learned query wants."""

    def __init__(self, hidden):
        super().__init__()
        self.query = nn.Parameter(mt.zeros(hidden))

    def forward(self, states, padding):
        """States (B, n, H) and padding (B, n) to (B, H)."""
        weights = (states @ self.query).masked_fill(padding, -mt.inf).softmax(dim=1)
        return (weights.unsqueeze(1) @ states).squeeze(1)


READERS = {
    "a query": lambda: StoryReader(nn.RNN, _Query(32)),
    "mean of the states": lambda: StoryReader(nn.RNN, mean_of_states),
    "mean of the words": lambda: StoryReader(_Words, mean_of_states),
}


def came_last(name, steps, rate, seed):
    """The share of new stories, of 3 to 6 words, whose last animal is found after training."""
    mt.manual_seed(seed)
    model = READERS[name]()
    train_reader(model, 6, 3, rate, steps)
    return stories_right(model, 6, 3)
