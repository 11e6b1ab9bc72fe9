"""The student's mixer trained on associative recall, by the student's measurement."""

from contextlib import redirect_stdout
from io import StringIO
from itertools import pairwise
from time import thread_time

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from textbook.checks.chapter_12.measuring import measure
from textbook.checks.chapter_12.mixers import OwnMixer, numbers_of
from textbook.checks.compare import brief, number
from textbook.checks.exercise import CheckFailed
from textbook.checks.key import key_of
from textbook.data import tasks
from textbook.lab.report import measured

KEYS, VALUES, PAIRS, WIDTH = 32, 8, (4, 8, 16), 32
STEPS, SECONDS, ENOUGH = 120, 40, 0.6
SEEDS = [0, 1, 2]


class _Reader(nn.Module):
    """One layer of the mixer between an embedding and the scores of the values."""

    def __init__(self, mixer):
        super().__init__()
        self.embedding, self.mixer = nn.Embedding(KEYS + VALUES, WIDTH), mixer(WIDTH)
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in range(3)])
        self.network = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH)
        )
        self.scores = nn.Linear(WIDTH, VALUES)

    def forward(self, tokens):
        x = self.embedding(tokens)
        x = x + self.mixer(self.norms[0](x))
        x = x + self.network(self.norms[1](x))
        return self.scores(self.norms[2](x))


def _recall(pairs, size):
    """Tokens (B, 3 pairs), every key asked for once, and which value belongs to it."""
    tokens, targets = tasks.associative_recall(size, pairs, KEYS, VALUES, queries=pairs)
    return tokens, targets - KEYS


def train(mixer, rate, seed):
    """The share of right answers after 16 pairs, of a model that was trained on 4, 8 and 16."""
    mt.manual_seed(seed)
    model, began = _Reader(mixer), thread_time()
    optimizer = optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = rate * min(1.0, (step + 1) / 30)
        tokens, targets = _recall(PAIRS[step % len(PAIRS)], 32)
        scores = model(tokens)[:, -targets.shape[1] :]
        optimizer.zero_grad()
        F.cross_entropy(scores.flatten(0, 1), targets.flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if thread_time() - began > SECONDS:
            raise CheckFailed(
                f"OwnMixer: after {SECONDS} seconds it has made {step + 1} of {STEPS} steps of "
                "training.\nLet forward compute all tokens at once, without a loop over them."
            )
    tokens, targets = _recall(PAIRS[-1], 256)
    with mt.no_grad():
        return (model(tokens)[:, -PAIRS[-1] :].argmax(dim=-1) == targets).float().mean().item()


def counting():
    """What a model reaches that names the commonest of the values, whatever is asked for."""
    _, targets = _recall(PAIRS[-1], 256)
    return F.one_hot(targets, VALUES).sum(dim=1).amax(dim=-1).float().mean().item() / PAIRS[-1]


def _list_of(rates):
    """The rates that the answer gives, if they can be tried."""
    try:
        found = rates()
    except NotImplementedError:
        raise CheckFailed("rates: not solved yet.\nGive at least three learning rates.") from None
    if not isinstance(found, (list, tuple)):
        raise CheckFailed(f"rates: expected a list of three to six rates, got {brief(found)}")
    given = [number(rate) for rate in found]
    if None in given or not 3 <= len(set(given)) <= 6 or min(given) <= 0:
        raise CheckFailed(f"rates: expected three to six different rates above 0, got {given}")
    for low, high in pairwise(sorted(set(given))):
        if high < 2.99 * low:  # 0.003 / 0.001 is a little less than 3
            raise CheckFailed(
                f"rates: expected a factor of 3 or more between neighbours, and {low:g} and "
                f"{high:g} are closer.\nCover a wide range with few of them."
            )
    return given


def recalled(mixer, measuring, rates, hidden=False):
    """Raise ``CheckFailed`` unless the mixer has learned recall and is measured as it should be."""
    for check, answer in ((OwnMixer, mixer), (measure, measuring)):
        with redirect_stdout(StringIO()):
            check(answer)
    given, reporting = _list_of(rates), key_of(__name__).SEEDS if hidden else SEEDS
    found = measuring(lambda rate, seed: train(mixer, rate, seed), given, [10], reporting)
    state = f"a state of {numbers_of(mixer(WIDTH).start(1)):,} numbers"
    mt.manual_seed(0)
    reached = (
        f"{number(found['mean']):.2f} of the answers after 16 pairs are right, the mean of 3 seeds "
        f"(standard deviation {number(found['spread']):.2f}); counting values reaches "
        f"{counting():.2f}"
    )
    edge = (
        f"the chosen rate, {found['rate']:g}, is the smallest or the largest of yours.\nA better "
        "one may lie beyond: add a rate on that side, and keep at least a factor of 3 between "
        "neighbours."
    )
    if number(found["mean"]) < ENOUGH and found["at the edge"]:
        raise CheckFailed(f"rates: {reached}, and {ENOUGH} is expected; {edge}")
    if number(found["mean"]) < ENOUGH:
        raise CheckFailed(
            f"OwnMixer: {reached}, and {ENOUGH} is expected.\nA key and its value are neighbours: "
            f"can one token of your mixer see both? And is there room for 16 pairs in {state}?\n"
            'See chapter 12, "What a state can hold".'
        )
    if found["at the edge"]:
        raise CheckFailed(f"rates: {reached}, but {edge}")
    measured(f"{reached}; {state}, rate {found['rate']:g}")
    print(f"recall: at least {ENOUGH} of the answers after 16 pairs are right")
