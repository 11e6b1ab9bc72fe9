"""How many nats leak? A text of which the best honest loss is known, and trained models."""

import math
from contextlib import redirect_stdout
from functools import wraps
from io import StringIO
from time import thread_time

import minitorch as mt
import minitorch.nn.functional as F
from textbook.checks.compare import brief, number
from textbook.checks.exercise import CheckFailed
from textbook.checks.key import key_of
from textbook.lab import measured

SYMBOLS, LENGTH, SECONDS, WINDOWS = 6, 8, 60, 2000
SEEDS = (10,)
SEE = 'See chapter 07, "Random tokens: nothing to predict (E2)".'


def chain(seed):
    """Transitions (6, 6), rows that add up to 1: from each symbol two or three are likely."""
    draw = mt.Generator().manual_seed(seed)
    return (2 * mt.randn(SYMBOLS, SYMBOLS, generator=draw)).softmax(-1)


def stationary(transitions):
    """How often each symbol occurs in a long text, (6)."""
    shares = mt.full((1, SYMBOLS), 1 / SYMBOLS)
    for _ in range(1000):
        shares = shares @ transitions
    return shares[0]


def windows(transitions, count):
    """Windows of a long text: inputs and targets (count, 8)."""
    tokens = [mt.multinomial(stationary(transitions), count, replacement=True)]
    for _ in range(LENGTH):
        tokens.append(mt.multinomial(transitions[tokens[-1]], 1)[:, 0])
    window = mt.stack(tokens, dim=1)
    return window[:, :-1], window[:, 1:]


def honest_loss(transitions):
    """What nobody can stay below who does not look ahead."""
    entropies = -(transitions * transitions.log()).sum(-1)
    return (stationary(transitions) * entropies).sum().item()


def _attention(query, key, value, allowed):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return scores.masked_fill(~allowed, -mt.inf).softmax(-1) @ value


def _masked(diagonal):
    def attend(query, key, value):
        n = query.shape[-2]
        return _attention(query, key, value, mt.ones(n, n).tril(diagonal).bool())

    return attend


def _late(query, key, value):
    weights = (query @ key.mT / math.sqrt(query.shape[-1])).softmax(-1)
    return weights.tril() @ value


ways = {
    "a causal mask": _masked(0),
    "a mask that is off by one": _masked(1),
    "weights set to zero after the softmax": _late,
    "no mask": F.scaled_dot_product_attention,
}
LEAKS = {  # shares of all that there is to leak: at least, at most
    "a causal mask": (-0.1, 0.04),
    "a mask that is off by one": (0.8, 1.05),
    "weights set to zero after the softmax": (0.3, 1.05),
}


def _likeness(way, found, transitions, most):
    """What the number that was found may be, in place of what leaks; or nothing."""
    entropies, pi = -(transitions * transitions.log()).sum(-1), stationary(transitions)
    honest = honest_loss(transitions)
    bounds = {
        "the mean of the entropies of the rows, each counted alike": entropies.mean().item(),
        "that of the rows, weighted by the means of the columns": (transitions.mean(0) * entropies)
        .sum()
        .item(),
        "the entropy of the single symbols, pi alone": -(pi * pi.log()).sum().item(),
        "log 6, as if nothing could be known": math.log(SYMBOLS),
        "given in bits, with logarithms to the base 2": honest / math.log(2),
    }
    fitting = [name for name, bound in bounds.items() if abs(found - bound + honest) < 0.03]
    if abs(found + honest) < 0.03 and way == "a causal mask":
        return " It looks like minus the loss: add H."
    if found < honest - math.log(SYMBOLS) + 0.1:
        return " Its loss is that of a model that knows nothing: has it been trained?"
    if way != "a causal mask" and abs(found - honest) < 0.01:
        return (
            " Its loss is 0, and at the last position nothing is to be seen: is it that of all "
            "positions?"
        )
    if way != "a causal mask" and abs(found - most / honest) < 0.03 < abs(found - most):
        return " It looks like a share of H: the loss is subtracted, not divided by."
    if way == "a causal mask" and len(fitting) == 1:
        return f" It looks as if H were {fitting[0]}."
    if way == "a causal mask" and abs(found - 1) < 0.03:
        return " It looks like H divided by the loss: subtract the loss."
    if way == "a causal mask":
        short = (
            " The model is worse than one that knows the token before: train it longer, and ask it "
            "for the targets."
        )
        return short if -0.8 * most < found < 0 else ""
    if 0.9 * most < found * math.log(2) < LEAKS[way][1] * most < found:
        return " It looks like bits: nats are logarithms to the base e."
    if -1.05 * most < found < -0.3 * most:
        return " It looks like the loss minus H."
    if abs(found) < 0.05 * most:
        return (
            " That is as if nothing leaked. Is the loss that of the last position alone, where "
            "nothing is left to be seen? Take all. Or does the model not attend in the way that is "
            "handed in?"
        )
    if 0.1 * most < found < LEAKS[way][0] * most:
        return " It has begun to look ahead: train it longer, or with a rate of 0.01."
    if 0.3 * most < found / LENGTH < 1.05 * most:
        return " It looks like the sum over the eight positions."
    return ""


def _counting(attend, counts):
    """The same way, which notes how many windows it reads, and takes off those it learns from."""

    @wraps(attend)
    def counted(query, key, value):
        mixed = attend(query, key, value)
        counts.append(len(query))
        if mixed.requires_grad:
            mixed.register_hook(lambda grad: counts.append(-len(query)))
        return mixed

    return counted


def _said(answer, way, transitions, seed):
    """What the answer says of a way to attend, and the windows that it measures, if it does."""
    mt.manual_seed(seed)
    counts = []
    began = thread_time()
    with redirect_stdout(StringIO()):
        try:
            said = answer(_counting(ways[way], counts), transitions)
        except NotImplementedError:
            raise CheckFailed(
                "nats_leaked: not solved yet.\nReplace 'raise NotImplementedError' by your answer, "
                "run that cell, then run this one again."
            ) from None
    seconds = thread_time() - began
    if type(number(said)) not in (int, float) or not math.isfinite(number(said)):
        raise CheckFailed(f"nats_leaked: expected a number of nats, got {brief(said)}")
    if seconds > SECONDS:
        raise CheckFailed(
            f"nats_leaked: one training took {seconds:.0f} seconds, {SECONDS} are there.\nTake "
            "fewer steps, or 64 windows in each."
        )
    return float(number(said)), sum(counts) if counts else None


def nats_leaked(answer, hidden=False):
    """Raise ``CheckFailed`` unless it finds what leaks where something does, and nothing else."""
    if not callable(answer):
        raise CheckFailed(f"nats_leaked: expected your function, got {brief(answer)}")
    for seed in key_of(__name__).SEEDS if hidden else SEEDS:
        transitions = chain(seed)
        honest = honest_loss(transitions)
        most = honest * (LENGTH - 1) / LENGTH
        for way, (low, high) in LEAKS.items():
            found, count = _said(answer, way, transitions, seed)
            text = (
                f"nats_leaked: with {way} it says {found:.3f}; the best honest loss of this text "
                f"is {honest:.3f}, and {most:.3f} nats a token are all that can leak"
            )
            likely = _likeness(way, found, transitions, most)
            if likely and not most * low <= found <= most * high:
                raise CheckFailed(f"{text}.{likely}\n{SEE}")
            if found > most * high:
                raise CheckFailed(
                    f"{text}.\nThat is too much. Is the best honest loss that of somebody who "
                    "knows the token before, each weighted by how often it occurs? Is the loss "
                    "measured on new windows, and many of them? Nats are logs to the base e.\n"
                    f"{SEE}"
                )
            if found < most * low:
                raise CheckFailed(
                    f"{text}.\nThat is too little. Is it H minus the loss, in this order? Has the "
                    "training come to its end? Try more steps and a rate of 0.01; the loss is that "
                    "of all positions, in one pass.\n"
                    f"{SEE}"
                )
            if count is None:
                raise CheckFailed(
                    f"nats_leaked: with {way} the model never calls attend: hand it to "
                    f"AttentionModel.\n{SEE}"
                )
            if count < WINDOWS:
                raise CheckFailed(
                    f"nats_leaked: with {way} it measures the loss on {count} windows beside those "
                    f"that it learns from; {WINDOWS} are asked for.\nThe losses of the training "
                    "are those of a model that is still learning: measure when it has ended, on "
                    f"new windows.\n{SEE}"
                )
            measured(f"{way}: {found:.3f} of {most:.3f} nats")
    print(f"nats_leaked: all {'hidden' if hidden else 'public'} checks passed")
