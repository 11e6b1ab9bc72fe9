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
from textbook.checks.key import key_of
from textbook.lab import measured

LETTERS, PAIRS, VALUES = 16, 8, 8
SEEDS = 2, 1  # the last model cannot be helped
ALL, WITHOUT, AGREE, SECONDS = 0.98, 0.95, 0.05, 60  # by chance 0.016: two times 2,000 tables
NOTHING = 0.1  # by chance a table in 64 is right
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
        self.heads, self.open = heads, 0  # the most heads that a training had together
        self.missed = set()  # the heads that were missing in some step
        self.letter = nn.Embedding(LETTERS, width)
        self.value = nn.Embedding(VALUES, width)
        self.question = nn.Embedding(2 * LETTERS, width)
        self.project = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(3))
        self.out = nn.Linear(width, width, bias=False)
        self.read = nn.Linear(width, 2 * VALUES)

    def forward(self, letters, values, asked, gates):
        """Scores (B, 2, 8); gates (B, heads) or (1, heads) multiply what the heads say."""
        if mt.is_grad_enabled():
            self.open = max(self.open, (gates != 0).sum(dim=1).max().item())
            self.missed |= set((gates == 0).any(dim=0).nonzero().flatten().tolist())
        x = self.question(asked + LETTERS * mt.arange(2)).sum(1, keepdim=True)  # (B, 1, d)
        memory = self.letter(letters) + self.value(values)  # (B, 8, d)
        query, key, value = (
            split_heads(linear(each), self.heads)
            for linear, each in zip(self.project, (x, memory, memory), strict=True)
        )
        heads = F.scaled_dot_product_attention(query, key, value)  # (B, heads, 1, d/heads)
        return self.read(self.out(merge_heads(heads * gates[..., None, None]))).view(-1, 2, VALUES)


class Hanging(LookUp):
    """A model that cannot be helped: in half of the tables its second answer needs head 0."""

    def forward(self, letters, values, asked, gates):
        scores = super().forward(letters, values, asked, gates)
        lost = (asked[:, 0] < LETTERS // 2) & (gates[:, 0] == 0)  # (B,)
        return mt.where(lost[:, None, None] & (mt.arange(2) == 1)[:, None], 0.0, scores)


def look_up(seed):
    """A fresh model, with four heads."""
    mt.manual_seed(seed)
    return LookUp()


@mt.no_grad()
def each_share(model, count=2000):
    """With all heads and without each: the shares of tables with both answers right; of answers."""
    *inputs, answers = draw(count)
    ones = mt.ones(1, model.heads)
    right = [
        model(*inputs, gates).argmax(-1) == answers
        for gates in (ones, *(ones - mt.eye(model.heads).unsqueeze(1)))
    ]
    return [[r.double().mean().item() for r in each] for each in ([r.all(1) for r in right], right)]


def shares(model, count=2000):
    """Both answers right: with all heads, and without the head whose loss is the worst."""
    both, _ = each_share(model, count)
    return both[0], min(both[1:])


def _taken_for(key, said, both, single):
    """What the number that is said may be, where it is not what is asked for."""
    if said > 1:
        return "A share lies between 0 and 1."
    several = key == KEYS[1]
    others = {
        "the share of right answers, not of tables": min(single[1:]) if several else single[0]
    }
    if several:
        others |= {
            "the share with all heads": both[0],
            "the mean over the heads removed, not the smallest share": sum(both[1:]) / 4,
            "the largest of the shares, not the smallest": max(both[1:]),
        }
    fitting = [name for name, value in others.items() if abs(value - said) < AGREE / 2]
    return f"It looks like {' or '.join(fitting)}." if 0 < len(fitting) <= 2 else ""


def _never_missed(model):
    """Why the model hangs on a head, as far as its training tells."""
    never = ", ".join(str(head) for head in range(model.heads) if head not in model.missed)
    if not model.missed:
        return (
            "What has the training done so that no answer hangs on one head? The gates are yours "
            "in training, too."
        )
    if never:
        return f"Your training has removed heads, but never head {never}: each has to be missing."
    return (
        "Your training has removed each head. Was each there often enough to learn, and missing "
        "often enough to be spared? Remove it from a fifth of the tables, or take more steps."
    )


def _trained(answer, model):
    """What the answer says of the model, the seconds that it took, and how often it has drawn."""
    counts, began = [], thread_time()

    def counted(count):
        counts.append(count)
        return draw(count)

    before = {name: x.clone() for name, x in model.state_dict().items()}
    with redirect_stdout(StringIO()):
        try:
            said = answer(model, counted)
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
    return [float(number(said[key])) for key in KEYS], seconds, len(counts)


def spare_heads(answer, hidden=False):
    """Raise ``CheckFailed`` unless each head can be spared, and what is said of it is true."""
    if not callable(answer):
        raise CheckFailed(f"spare_heads: expected your function, got {brief(answer)}")
    seeds = key_of(__name__).SEEDS if hidden else SEEDS
    for seed in seeds:
        model = look_up(seed)
        helpless = seed == seeds[-1]
        if helpless:
            model = Hanging()
        said, seconds, draws = _trained(answer, model)
        if seconds > SECONDS:
            raise CheckFailed(
                f"spare_heads: one training took {seconds:.0f} seconds, {SECONDS} are there.\nTake "
                "fewer steps, or 128 tables in each."
            )
        mt.manual_seed(1000 + seed)
        both, single = each_share(model)
        reached = both[0], min(both[1:])
        shown = ", ".join(f"{key} {x:.3f}" for key, x in zip(KEYS, reached, strict=True))
        for key, mine, yours in zip(KEYS, reached, said, strict=True):
            if abs(mine - yours) > AGREE:
                looks = _taken_for(key, yours, both, single)
                raise CheckFailed(
                    f"spare_heads: for '{key}' your function says {yours:.3f}, and on 2,000 other "
                    f"tables it is {mine:.3f}. {looks}\nMeasure the trained model, without "
                    "gates drawn at random, on at least 2,000 new tables: both answers must be "
                    "right. For each head set its gate alone to 0, and take the smallest share."
                )
        if reached[0] < ALL:
            reason = "Is the loss still falling at the end? More steps, or another rate (0.01)."
            if draws < 50:
                reason = (
                    f"{draws} draws are {draws} steps at most. More steps, each with new tables."
                )
            elif model.open < model.heads - 1:
                reason = (
                    f"No step of your training has more than {model.open} of the {model.heads} "
                    "heads: it should have them all, or all but one."
                )
            elif reached[0] < NOTHING:
                reason = (
                    "That is hardly more than by chance: does every step begin with zero_grad(), "
                    "and is the rate near 0.01?"
                )
            raise CheckFailed(
                f"spare_heads: not reached yet: {shown}.\nWith all heads at least {ALL} are "
                f'expected. {reason}\nSee chapter 06, "One head and two (C14)".'
            )
        if reached[1] < WITHOUT and not helpless:
            each = ", ".join(f"{x:.2f}" for x in both[1:])
            raise CheckFailed(
                f"spare_heads: not reached yet: {shown}.\nWithout any one head at least {WITHOUT} "
                f"are expected; without head 0, 1, 2, 3 it is {each}. {_never_missed(model)}\n"
                'See chapter 06, "Removing heads (E3)".'
            )
        measured(f"seed {seed}: {shown}, {seconds:.0f} s")
    print(f"spare_heads: all {'hidden' if hidden else 'public'} checks passed")
    if not hidden:
        print(
            "Random gates in training are dropout of whole heads, without its factor 1 / (1 - p)."
        )
