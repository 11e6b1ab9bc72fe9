"""A pretraining of the student's own, and what it is worth where labels are few."""

import copy
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from time import thread_time

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from textbook.chapter_10 import OneStack
from textbook.checks.chapter_13.comparisons import fair_study
from textbook.checks.chapter_13.small_language import Spy, Sure, fills, hiding, same_words
from textbook.checks.compare import number
from textbook.checks.exercise import CheckFailed
from textbook.checks.rates import largest, rates_noted
from textbook.checks.released import exercise
from textbook.data import Vocabulary, number_pairs
from textbook.lab.report import measured

PAD, MASK, START, END = 0, 1, 2, 3
SPECIAL = [PAD, MASK, START, END]


# Sentences, and the place of each word as a label


@cache
def _vocabulary():
    words = [word for pair in number_pairs(2000, digits=(1, 6), seed=0) for word in pair.source]
    return Vocabulary(words, specials=["<pad>", "<mask>", "<s>", "</s>"])


def _encoded(sentences):
    return _vocabulary().encode_batch(sentences, start=True, end=True, batch_first=True)[0]


def sentences(count, seed):
    """Numbers of one to six digits in words, between <s> and </s>: tokens (count, n)."""
    return _encoded([pair.source for pair in number_pairs(count, digits=(1, 6), seed=100 + seed)])


def encoder():
    """A fresh encoder for sentences."""
    return OneStack(len(_vocabulary()), 64, 4, 128, 2, causal=False)


def _places(words):
    """What each word counts: 0 units and tens, 1 hundreds, 2 and 3 the same in thousands.

    Words that are no digits are not asked for: -100.
    """
    labels, following, thousands = [], "", 0
    for word in reversed(words):
        if word in ("and", "hundred", "thousand"):
            labels.append(-100)
            thousands = 2 if word == "thousand" else thousands
        else:
            labels.append(thousands + (following == "hundred"))
        following = word
    return labels[::-1]


def _labelled(count, seed, held_out=False):
    """Tokens (count, n) and the place of each: -100 where nothing is asked."""
    digits = (3, 6) if held_out else (1, 6)
    pairs = number_pairs(count, digits=digits, held_out=held_out, seed=seed)
    spoken = [pair.source for pair in pairs]
    tokens = _encoded(spoken)
    labels = mt.full(tokens.shape, -100, dtype=mt.int64)
    for row, words in zip(labels, spoken, strict=True):
        row[1 : 1 + len(words)] = mt.tensor(_places(words))
    return tokens, labels


@mt.no_grad()
def _right(model, head, tokens, labels):
    """The share of right labels."""
    asked = labels >= 0
    found = head(model.states(tokens)).argmax(dim=-1)
    return (found == labels)[asked].float().mean().item()


def _learn(model, rate, counts, seed, labels, sets):
    """Train all weights on `labels` sentences; the share right on the sets after each count."""
    mt.manual_seed(seed)
    head = nn.Linear(64, 4)
    tokens, truth = _labelled(labels, 1000 + seed)
    optimizer = optim.Adam([*model.parameters(), *head.parameters()], betas=(0.9, 0.98))
    found = {}
    for step in range(max(counts)):
        optimizer.param_groups[0]["lr"] = rate * min(1.0, (step + 1) / 10)
        loss = F.cross_entropy(head(model.states(tokens)).flatten(0, 1), truth.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_([*model.parameters(), *head.parameters()], 1.0)
        optimizer.step()
        if step + 1 in counts:
            found[step + 1] = {name: _right(model, head, *data) for name, data in sets.items()}
    return found


def _pretrain_cases(draw):
    """How many words, sentences and steps, the longest sentence, and the mask."""
    yield 6, 66, 100, 8, 1


def _pretrained(answer, words, count, steps, longest, mask):
    """What holds of the training, in words."""
    sentences, special = same_words(words, count, longest), sorted({0, 2, 4, mask})
    given = sentences.clone()
    vocabulary = words + 5
    mt.manual_seed(0)
    sure = Sure(vocabulary, mask)
    before = [p.detach().clone() for p in sure.parameters()]
    losses = answer(sure, sentences, special, mask, 20, 0.0)
    formed = isinstance(losses, (list, tuple)) and all(
        isinstance(number(loss), (int, float)) and not isinstance(loss, mt.Tensor)
        for loss in losses
    )
    found = {
        "the result": f"a list of {len(losses)} plain numbers"
        if formed
        else "something else, as a list of tensors"
    }
    if not formed or len(losses) != 20:
        return found
    found["of the blanks, those that show the mask"] = sure.shows()
    level = sum(map(float, losses)) / len(losses)
    kinds = (0.3, "of tokens that can be seen"), (1.4, "of blanks and of others")
    if sure.asks_blanks():
        kinds = ((1.4, "of the blanks, divided by a larger number than theirs"),)
    found["the loss"] = next((text for limit, text in kinds if level <= limit), "of the blanks")
    found["a step at the rate 0"] = (
        "changes nothing"
        if all(mt.equal(p.detach(), x) for p, x in zip(sure.parameters(), before, strict=True))
        else "changes the weights"
    )
    kept = sure.level.grad
    summed = kept is not None and kept.abs().sum() > 2.5  # that of one step is at most 2
    found["the gradients"] = "added up from step to step" if summed else "those of the step"
    mt.manual_seed(1)
    model = Spy(vocabulary).double()
    weights = {name: x.detach().clone() for name, x in model.named_parameters()}
    with rates_noted() as rates:
        answer(model, sentences, special, mask, steps, 0.01)
    found["the largest learning rate"] = largest(rates, 0.01)
    found["the sentences that were given"] = (
        "as they were" if mt.equal(given, sentences) else "changed in place"
    )
    found["the model that was given"] = "is trained" if model.read else "is not asked: a copy is"
    if not model.read:
        return found
    found |= hiding(model.read, sentences, mask)
    found["the weights that do not change"] = [
        name for name, x in model.named_parameters() if mt.equal(x.detach(), weights[name])
    ]
    found["the hidden words of these simple sentences"] = fills(model.eval(), sentences, mask)
    return found


pretrain = exercise(
    "pretrain",
    cases=_pretrain_cases,
    run=_pretrained,
    gradients=False,
    see='chapter 13, "A masked language model"',
)


# What it is worth

METHODS, LABELS, SECONDS, GAIN = ["pretrained", "from scratch"], 20, 60, 0.1
MOST, MOST_TAUGHT = 1500, 400  # steps
KEYS = ["pretraining rate", "pretraining steps", "rates", "steps"]


def _numbers(values, low, high):
    """The values, if they are so many different numbers above 0; else None."""
    given = [number(x) for x in values] if isinstance(values, (list, tuple)) else []
    if None in given or not low <= len(set(given)) <= high or min(given) <= 0:
        return None
    return given


def _read_plan(plan):
    """The plan, if it can be carried out."""
    try:
        given = plan()
    except NotImplementedError:
        raise CheckFailed(
            "plan: not solved yet.\nReturn a dict of rates and steps, as the text says."
        ) from None
    if not isinstance(given, dict) or sorted(given) != KEYS:
        raise CheckFailed(f"plan: expected a dict with the keys {KEYS}, got {given}")
    given = dict(given)
    given["rates"], given["steps"] = _numbers(given["rates"], 3, 6), _numbers(given["steps"], 3, 5)
    if not given["rates"]:
        raise CheckFailed("plan: expected three to six different rates above 0 as 'rates'")
    if not given["steps"] or max(given["steps"]) > MOST_TAUGHT:
        raise CheckFailed(
            f"plan: expected three to five different numbers up to {MOST_TAUGHT} as 'steps'"
        )
    if not 0 < given["pretraining steps"] <= MOST or given["pretraining rate"] <= 0:
        raise CheckFailed(f"plan: expected 1 to {MOST} steps of pretraining, at a rate above 0")
    return given


def _accuracies(pretrained, plan):
    """accuracy(method, rate, steps, seed, data): each training runs once."""
    sets = {"validation": _labelled(100, 7), "test": _labelled(200, 8, held_out=True)}

    @cache
    def curve(method, rate, seed):
        mt.manual_seed(seed)
        model = copy.deepcopy(pretrained) if method == "pretrained" else encoder()
        return _learn(model, rate, plan["steps"], seed, LABELS, sets)

    return lambda method, rate, steps, seed, data: curve(method, rate, seed)[steps][data]


def _beyond(method, rate, steps, plan):
    """Which way a better choice may lie than one that stands at the edge."""
    ways = []
    if rate in (min(plan["rates"]), max(plan["rates"])):
        ways.append(f"add a {'smaller' if rate == min(plan['rates']) else 'larger'} rate")
    if steps == MOST_TAUGHT:
        ways.append(
            f"more than {MOST_TAUGHT} steps are not allowed, so see to it that fewer are enough, "
            f"by larger rates{' or another pretraining' * (method == 'pretrained')}"
        )
    elif steps == max(plan["steps"]):
        ways.append("add a larger number of steps")
    return "; ".join(ways)


def _weak(pretraining):
    """What makes a pretraining weak: how much it hides, or how long it goes on."""
    model = Spy(len(_vocabulary()))
    pretraining(model, sentences(500, 0), SPECIAL, MASK, 20, 0.0)
    read = mt.cat(model.read)
    share = (read == MASK).sum().item() / ((read == MASK) | (read > END)).sum().item()
    if share < 0.08:
        return (
            f"It may be `pretrain`, not the plan: it shows the mask at {share:.0%} of the words. "
            "With more of them, a tenth to a quarter, every sentence asks more."
        )
    return "Is the loss of the blanks still falling at the end of pretraining?"


def reached(pretraining, plan):
    """Raise ``CheckFailed`` unless pretraining has helped, measured as it should be."""
    with redirect_stdout(StringIO()):
        pretrain(pretraining)
    given, seeds = _read_plan(plan), [0, 1, 2]
    mt.manual_seed(seeds[0])
    model, began = encoder(), thread_time()
    pretraining(
        model,
        sentences(5000, 0),
        SPECIAL,
        MASK,
        given["pretraining steps"],
        given["pretraining rate"],
    )
    seconds = thread_time() - began
    if seconds > SECONDS:
        raise CheckFailed(
            f"pretrain: it took {seconds:.0f} seconds, {SECONDS} are there.\nTake fewer steps, or "
            "batches of 32 sentences."
        )
    accuracy = _accuracies(model, given)
    found = fair_study(METHODS, accuracy, given["rates"], given["steps"], [10], seeds)
    values = {method: found[method]["values"] for method in METHODS}
    shown = {method: f"{min(x):.2f} to {max(x):.2f}" for method, x in values.items()}
    said = (
        f"of the places {shown['pretrained']} are right after pretraining, "
        f"{shown['from scratch']} from scratch, with {LABELS} labelled sentences, 3 seeds"
    )
    gains = [a - b for a, b in zip(*(values[method] for method in METHODS), strict=True)]
    if max(gains) < 0:
        raise CheckFailed(
            f"plan: {said}.\nPretraining has made it worse with each seed. Where its loss does not "
            "fall, a smaller pretraining rate helps."
        )
    for method in METHODS:
        rate, steps = found[method]["choice"]
        if found[method]["at the edge"]:
            raise CheckFailed(
                f"plan: {said}; but the choice for '{method}', the rate {rate:g} with {steps} "
                "steps, stands at the edge of yours.\nA better one may lie beyond: "
                f"{_beyond(method, rate, steps, given)}."
            )
    if min(gains) < GAIN:
        raise CheckFailed(
            f"pretrain: {said}.\nThe gain is expected to be at least {GAIN} with each seed. "
            f"{_weak(pretraining)}\n"
            'See chapter 13, "Fine-tuned, frozen, from scratch".'
        )
    choices = ", ".join("rate {:g} with {} steps".format(*found[m]["choice"]) for m in METHODS)
    measured(f"{said}; chosen: {choices}")
    print(f"pretraining: it gains at least {GAIN} with each seed")
