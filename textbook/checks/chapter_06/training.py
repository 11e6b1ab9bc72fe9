"""Training in which heads learn to stand in for each other, and what it has reached."""

from contextlib import redirect_stdout
from io import StringIO
from time import thread_time

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.chapter_06 import merge_heads, split_heads
from textbook.checks.compare import brief, number
from textbook.checks.exercise import CheckFailed
from textbook.lab import measured

LETTERS, PAIRS, VALUES = 16, 8, 8
SEEDS = {False: (0, 1), True: (10, 11)}
ALL, WITHOUT, AGREE, SECONDS = 0.98, 0.97, 0.03, 60
KEYS = ["all heads", "without the worst"]


def draw(count):
    """New tables: letters and values (count, 8), the two letters asked for, and the answers."""
    letters = mt.rand(count, LETTERS).argsort(dim=1)[:, :PAIRS]
    values = mt.randint(0, VALUES, (count, PAIRS))
    places = mt.rand(count, PAIRS).argsort(dim=1)[:, :2]
    return letters, values, letters.gather(1, places), values.gather(1, places)


class LookUp(nn.Module):
    """Chapter 06's model for two letters, with a gate for each head."""

    def __init__(self, heads=4, width=32):
        super().__init__()
        self.heads = heads
        self.letter = nn.Embedding(LETTERS, width)
        self.value = nn.Embedding(VALUES, width)
        self.question = nn.Embedding(2 * LETTERS, width)
        self.project = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(3))
        self.out = nn.Linear(width, width, bias=False)
        self.read = nn.Linear(width, 2 * VALUES)

    def forward(self, letters, values, asked, gates):
        """Scores (B, 2, 8); gates (B, heads) or (1, heads) multiply what the heads say."""
        x = self.question(asked + LETTERS * mt.arange(2)).sum(1, keepdim=True)  # (B, 1, d)
        memory = self.letter(letters) + self.value(values)  # (B, 8, d)
        query, key, value = (
            split_heads(linear(each), self.heads)
            for linear, each in zip(self.project, (x, memory, memory), strict=True)
        )
        heads = F.scaled_dot_product_attention(query, key, value)  # (B, heads, 1, d/heads)
        return self.read(self.out(merge_heads(heads * gates[..., None, None]))).view(-1, 2, VALUES)


def look_up(seed):
    """A fresh model, with four heads."""
    mt.manual_seed(seed)
    return LookUp()


@mt.no_grad()
def right_with(model, gates, tables):
    """The share of tables with both answers right."""
    *inputs, answers = tables
    return (model(*inputs, gates).argmax(-1) == answers).all(1).double().mean().item()


def shares(model, count=2000):
    """Both answers right: with all heads, and without the head whose loss is the worst."""
    tables, ones = draw(count), mt.ones(1, model.heads)
    without = [right_with(model, ones - gate, tables) for gate in mt.eye(model.heads).unsqueeze(1)]
    return right_with(model, ones, tables), min(without)


def _trained(answer, seed):
    """A model, what the answer says of it, and the seconds that it took."""
    model, began = look_up(seed), thread_time()
    before = {name: x.clone() for name, x in model.state_dict().items()}
    with redirect_stdout(StringIO()):
        try:
            said = answer(model, draw)
        except NotImplementedError:
            raise CheckFailed(
                "spare_heads: not solved yet.\nReplace 'raise NotImplementedError' by your answer, "
                "run that cell, then run this one again."
            ) from None
    seconds = thread_time() - began
    if not isinstance(said, dict) or sorted(said) != KEYS or None in map(number, said.values()):
        raise CheckFailed(
            f"spare_heads: expected a dict of two numbers with the keys {KEYS}, got {brief(said)}"
        )
    if all(mt.equal(x, before[name]) for name, x in model.state_dict().items()):
        raise CheckFailed(
            "spare_heads: the weights of the model have not changed.\nTrain the model that your "
            "function is given, in place: an optimizer of model.parameters(), backward(), step()."
        )
    return model, [float(number(said[key])) for key in KEYS], seconds


def spare_heads(answer, hidden=False):
    """Raise ``CheckFailed`` unless each head can be spared, and what is said of it is true."""
    if not callable(answer):
        raise CheckFailed(f"spare_heads: expected your function, got {brief(answer)}")
    for seed in SEEDS[hidden]:
        model, said, seconds = _trained(answer, seed)
        if seconds > SECONDS:
            raise CheckFailed(
                f"spare_heads: one training took {seconds:.0f} seconds, {SECONDS} are there.\nTake "
                "fewer steps, or 128 tables in each."
            )
        mt.manual_seed(1000 + seed)
        reached = shares(model)
        shown = ", ".join(f"{key} {x:.3f}" for key, x in zip(KEYS, reached, strict=True))
        for key, mine, yours in zip(KEYS, reached, said, strict=True):
            if abs(mine - yours) > AGREE:
                raise CheckFailed(
                    f"spare_heads: for '{key}' your function says {yours:.3f}, and on 2,000 other "
                    f"tables it is {mine:.3f}.\nMeasure the trained model, without gates drawn at "
                    "random, on at least 1,000 new tables: both answers must be right. For each "
                    "head set its gate alone to 0, and take the smallest share."
                )
        if reached[0] < ALL:
            raise CheckFailed(
                f"spare_heads: not reached yet: {shown}.\nWith all heads at least {ALL} are "
                "expected. Is the loss still falling at the end? More steps, or another rate "
                '(0.01 is a good one).\nSee chapter 06, "One head and two (C14)".'
            )
        if reached[1] < WITHOUT:
            raise CheckFailed(
                f"spare_heads: not reached yet: {shown}.\nWithout any one head at least {WITHOUT} "
                "are expected. What has the training done so that no answer hangs on one head? "
                'The gates are yours in training, too.\nSee chapter 06, "Removing heads (E3)".'
            )
        measured(f"seed {seed}: {shown}, {seconds:.0f} s")
    print(f"spare_heads: all {'hidden' if hidden else 'public'} checks passed")
