"""Which words become blanks, and what they show."""

import math

import minitorch as mt
from textbook.checks.compare import brief
from textbook.checks.released import exercise


def _layout(draw, batch, n, ordinary, longest):
    """Tokens (B, n) and their words: a beginning, words of 1 to `longest` tokens, an end, padding.

    Ordinary tokens are the rarer the later they stand in `ordinary`.
    """
    random = draw.random
    share = 1.0 / (1 + mt.arange(len(ordinary)).numpy())
    tokens = random.choice(ordinary.numpy(), size=(batch, n), p=share / share.sum())
    words = (random.random((batch, n)) < 2 / (1 + longest)).cumsum(axis=1)
    lengths = random.integers(max(n // 2, 3), n + 1, batch)
    place = mt.arange(n).numpy()
    end = lengths[:, None] - 1
    tokens[place > end], tokens[:, 0] = 0, 1
    tokens[place == end] = 2
    words = words - words[:, 1:2]
    words[(place == 0) | (place >= end)] = -1
    return mt.tensor(tokens), mt.tensor(words)


def _mask_cases(draw, others=()):
    """Tokens and words (B, n), the share of blanks, the mask, and the ordinary tokens."""
    ids = [9, 4, 11, 7], [5, 8, 6, 4, 12, 10, 14]
    ids, mask, lengths, share = others or (ids, 3, (26, 20), 0.15)
    first, second = map(mt.tensor, ids)
    yield *_layout(draw, 2, 6, first, 2), 1.0, mask, first
    yield *_layout(draw, 3, 5, second, 2), 0.0, mask, second
    yield *_layout(draw, 1, 9, second, 3), 0.5, mask, second
    yield *_layout(draw, 1600, lengths[0], first, 3), 0.5, mask, first
    yield *_layout(draw, 2600, lengths[1], second, 2), share, mask, second


TYPICAL = 0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8, 0.9, 1
SIGMAS = 5


def _share(count, total, expected):
    """The expected share, or a typical one, where chance explains the difference; else rounded."""
    for share in (expected, *TYPICAL):
        if abs(count - share * total) <= SIGMAS * math.sqrt(share * (1 - share) * total):
            return f"{share:.3g}"
    return f"{round(20 * count / total) / 20:.2f}"


def _asked(asked, words, share):
    """Which words become blanks, in words."""
    found = {}
    n, words, asked = words.shape[1], words.numpy(), asked.numpy()
    table = -mt.ones(len(words), n).numpy()  # of each word: -1 where there is none, 0 or 1
    whole = True
    for k in range(words.max() + 1):
        here = words == k
        count, blank = here.sum(axis=1), (here & asked).sum(axis=1)
        whole = whole and bool(((blank == 0) | (blank == count)).all())
        table[count > 0, k] = (blank > 0)[count > 0]
    found["the words that become blanks"] = "whole" if whole else "some of them in part"
    there = table >= 0
    ones = (table * there).sum()
    if not whole or there.sum() < 1000:
        return found
    found["the share of words that become blanks"] = _share(ones, there.sum(), share)
    column, counts = (table * there).sum(axis=0), there.sum(axis=0)
    deviation = (column - ones / there.sum() * counts) ** 2
    alike = bool((deviation > 40 * (counts * share * (1 - share) + 1)).any())
    found["the places of the blanks"] = (
        "the same in all sequences" if alike else "drawn for each sequence"
    )
    spread = ((table * there).sum(axis=1) - share * there.sum(axis=1)) ** 2
    chance = share * (1 - share) * there.sum(axis=1).mean()
    kinds = {
        "nearly the same in all sequences of a length": spread.mean() < 0.5 * chance,
        "steadier than chance: the words of a sequence are not drawn each by itself": (
            spread.mean() < 0.8 * chance
        ),
        "often none or all: the words of a sequence are drawn together": (
            spread.mean() > 1.5 * chance
        ),
    }
    found["the number of blanks"] = next((kind for kind in kinds if kinds[kind]), "left to chance")
    return found


def _shown(inputs, tokens, words, asked, mask, ordinary):
    """What blanks show, in words."""
    blanks = asked.sum().item()
    masked, kept = inputs == mask, inputs == tokens
    found = {
        "the share of blanks that show the mask": _share((asked & masked).sum().item(), blanks, 0.8)
    }
    rest = asked & ~masked
    count, others = rest.sum().item(), len(ordinary)
    found["of the other blanks, the share that keep their token"] = _share(
        (rest & kept).sum().item(), count, 0.5 + 0.5 / others
    )
    changed, even, never = rest & ~kept, True, []
    for token in ordinary.tolist():
        possible = (asked & (tokens != token)).sum().item()
        expected = 0.1 / others * possible
        drawn = (changed & (inputs == token)).sum().item()
        even = even and abs(drawn - expected) <= SIGMAS * math.sqrt(expected)
        never.append(drawn == 0)
    if changed.any():
        found["the random tokens"] = "all equally often" if even else "some more often than others"
        if not even and sum(never) == 1 and (never[0] or never[-1]):
            end = "first" if never[0] else "last"
            found["the random tokens"] = f"never the {end} one in `ordinary`"
    low = mt.where(changed, inputs, inputs.max()).amin(dim=1)
    high = mt.where(changed, inputs, 0).amax(dim=1)
    several = changed.sum(dim=1) > 1
    found["the random tokens of a sequence"] = (
        "one for all its blanks"
        if several.sum() > 20 and (low == high)[several].float().mean() > 0.8
        else "drawn for each blank"
    )
    pairs = asked[:, 1:] & asked[:, :-1] & (words[:, 1:] == words[:, :-1])
    both = (pairs & masked[:, 1:] & masked[:, :-1]).sum().item()
    found["the share of neighbours in a blank word that both show the mask"] = _share(
        both, pairs.sum().item(), 0.64
    )
    return found


def _masked(answer, tokens, words, share, mask, ordinary):
    """What holds of the result, in words: the numbers are drawn."""
    mt.manual_seed(0)
    result = answer(tokens, words, share, mask, ordinary)
    formed = (
        isinstance(result, (tuple, list))
        and len(result) == 2
        and all(isinstance(x, mt.Tensor) and x.shape == tokens.shape for x in result)
        and not result[0].is_floating_point()
        and result[1].dtype == mt.bool
    )
    found = {
        "the form of the result": "integers (B, n) and booleans (B, n)" if formed else brief(result)
    }
    if not formed:
        return found
    inputs, asked = result
    special = words < 0
    found["the special tokens"] = "some are blanks" if (asked & special).any() else "never blanks"
    found["the tokens that are no blanks"] = (
        "as they were" if (inputs == tokens)[~asked].all() else "changed"
    )
    allowed = mt.cat([ordinary, mt.tensor([mask])])
    known = (inputs.unsqueeze(-1) == allowed).any(dim=-1) | special
    found["the inputs"] = "the mask and ordinary tokens" if known.all() else "other tokens, too"
    found |= _asked(asked, words, share)
    if asked.sum() > 1000:
        found |= _shown(inputs, tokens, words, asked, mask, ordinary)
        again, _ = answer(tokens, words, share, mask, ordinary)
        found["a second call"] = "the same" if mt.equal(again, inputs) else "drawn anew"
    return found


def _those_that_differ(check, answer, *_):
    """Blanks are told by what they show."""
    tokens, *others = check.all_cases()[-1]
    mt.manual_seed(0)
    inputs, asked = answer(tokens, *others)
    if asked.any() and mt.equal(asked, inputs != tokens):
        return (
            "The blanks that you return are the tokens that show something else. A blank that "
            "shows itself is a blank, too: return those that were chosen."
        )
    return None


mask_words = exercise(
    "mask_words",
    cases=_mask_cases,
    run=_masked,
    reasons=(_those_that_differ,),
    gradients=False,
    see='chapter 13, "Which tokens are masked"',
)
