"""Which words become blanks, and what they show."""

import math

import minitorch as mt
from textbook.checks.compare import brief
from textbook.checks.exercise import exercise


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


def _mask_cases(draw, hidden):
    """Tokens and words (B, n), the share of blanks, the mask, and the ordinary tokens."""
    ids = {
        False: ([9, 4, 11, 7], [5, 8, 6, 4, 12, 10, 14]),
        True: ([8, 13, 5, 6, 9], [30, 7, 21, 16]),
    }[hidden]
    mask = 17 if hidden else 3
    first, second = map(mt.tensor, ids)
    yield *_layout(draw, 2, 6, first, 2), 1.0, mask, first
    yield *_layout(draw, 3, 5, second, 2), 0.0, mask, second
    yield *_layout(draw, 1, 9, second, 3), 0.5, mask, second
    yield *_layout(draw, 1600, 26 + 5 * hidden, first, 3), 0.5, mask, first
    yield *_layout(draw, 2600, 20 + 3 * hidden, second, 2), 0.2 if hidden else 0.15, mask, second


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
    steady = spread.mean() < 0.5 * share * (1 - share) * there.sum(axis=1).mean()
    found["the number of blanks"] = (
        "nearly the same in all sequences of a length" if steady else "left to chance"
    )
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


@exercise(
    cases=_mask_cases,
    run=_masked,
    reasons=(_those_that_differ,),
    gradients=False,
    see='chapter 13, "Which tokens are masked"',
)
def mask_words(tokens, words, share, mask, ordinary):
    """Tokens and words (B, n) give inputs (B, n) and blanks (B, n), whole words."""
    inside = words >= 0
    chosen = mt.rand(tokens.shape) < share  # of word k of a sequence: column k
    blanks = mt.gather(chosen, 1, words.clamp(min=0)) & inside
    how = mt.rand(tokens.shape)
    drawn = ordinary[mt.randint(len(ordinary), tokens.shape)]
    shown = mt.where(how < 0.8, mask, mt.where(how < 0.9, drawn, tokens))
    return mt.where(blanks, shown, tokens), blanks


def _by_word(words, share):
    chosen = mt.rand(words.shape) < share
    return mt.gather(chosen, 1, words.clamp(min=0)) & (words >= 0)


def _masking(
    choose=_by_word,
    draw=lambda tokens, ordinary: ordinary[mt.randint(len(ordinary), tokens.shape)],
    how=lambda tokens, words: mt.rand(tokens.shape),
    cases=(0.8, 0.9),
    told=lambda blanks, tokens, inputs, mask: blanks,
):
    """The masking with one of its pieces exchanged."""

    def masking(tokens, words, share, mask, ordinary):
        blanks, number = choose(words, share), how(tokens, words)
        shown = mt.where(number < cases[1], draw(tokens, ordinary), tokens)
        shown = mt.where(number < cases[0], mask, shown)
        inputs = mt.where(blanks, shown, tokens)
        return inputs, told(blanks, tokens, inputs, mask)

    return masking


mask_words.wrong(
    "right but for the words: it chooses token by token",
    "A word is asked for as a whole, or its other tokens give it away. Draw once for each word.",
)(_masking(choose=lambda words, share: (mt.rand(words.shape) < share) & (words >= 0)))
mask_words.wrong(
    "a choice that takes special tokens, too",
    "Where words is -1 nothing is asked: not padding, not the beginning, not the end.",
)(
    _masking(
        choose=lambda words, share: mt.gather(mt.rand(words.shape) < share, 1, words.clamp(min=0))
    )
)
mask_words.wrong(
    "a choice token by token that takes special tokens, too",
    "Draw once for each word, and for none where words is -1.",
)(_masking(choose=lambda words, share: mt.rand(words.shape) < share))
mask_words.wrong(
    "right but for the choice, which is drawn once for all sequences",
    "Word 3 of one sequence has nothing to do with word 3 of another: draw (B, n) numbers.",
)(
    _masking(
        choose=lambda words, share: (
            (mt.rand(words.shape[1]) < share)[words.clamp(min=0)] & (words >= 0)
        )
    )
)


def _exactly(words, share):
    numbers = mt.rand(words.shape).masked_fill(
        mt.arange(words.shape[1]) > words.amax(dim=1, keepdim=True), mt.inf
    )
    count = (share * (words.amax(dim=1, keepdim=True) + 1) + 0.5).long()
    chosen = numbers.argsort(dim=1).argsort(dim=1) < count
    return mt.gather(chosen, 1, words.clamp(min=0)) & (words >= 0)


mask_words.wrong(
    "right but for the number of blanks, which is the same share of each sequence",
    "Each word becomes a blank by itself: a sequence may have none, or many.",
)(_masking(choose=_exactly))
mask_words.wrong(
    "right but for the first word of each sequence, which is never a blank",
    "Words are counted from 0; special tokens have -1.",
)(_masking(choose=lambda words, share: _by_word(words, share) & (words > 0)))
mask_words.wrong(
    "right but for the share: it becomes that of words that stay",
    "share is the probability of a blank.",
)(_masking(choose=lambda words, share: _by_word(words, 1 - share)))
mask_words.wrong(
    "right but for what blanks show: the mask, all of them",
    "Of 10 blanks 8 show the mask, one a random token, one its own.",
)(_masking(cases=(1.0, 1.0)))
mask_words.wrong(
    "right but for what blanks show: none keeps its token",
    "Of 10 blanks 8 show the mask, one a random token, one its own.",
)(_masking(cases=(0.8, 1.0)))
mask_words.wrong(
    "right but for what blanks show: none shows a random token",
    "Of 10 blanks 8 show the mask, one a random token, one its own.",
)(_masking(cases=(0.8, 0.8)))
mask_words.wrong(
    "right but for what blanks show: of those without the mask too many are random",
    "Both of the other cases are a tenth of the blanks. Who draws a second number for those that "
    "are left asks it for one half, not for one tenth.",
)(_masking(cases=(0.8, 0.98)))
mask_words.wrong(
    "right but for what blanks show: of those without the mask too many keep their token",
    "Both of the other cases are a tenth of the blanks. Who draws a second number for those that "
    "are left asks it for one half, not for one tenth.",
)(_masking(cases=(0.8, 0.82)))
mask_words.wrong(
    "right but for what blanks show: the mask in one of ten",
    "Of 10 blanks 8 show the mask, one a random token, one its own.",
)(_masking(cases=(0.1, 0.2)))
mask_words.wrong(
    "right but for the three cases, which are drawn once for a word",
    "Which word is chosen is drawn for the word, what is shown for each of its tokens.",
)(_masking(how=lambda tokens, words: mt.gather(mt.rand(tokens.shape), 1, words.clamp(min=0))))
mask_words.wrong(
    "right but for the three cases, which are drawn once for a column",
    "What is shown is drawn for each token of each sequence: (B, n) numbers.",
)(_masking(how=lambda tokens, words: mt.rand(tokens.shape[1]).expand(*tokens.shape)))
mask_words.wrong(
    "right but for the random tokens, of which it draws one for the whole batch",
    "One for each place: (B, n) of them.",
)(
    _masking(
        draw=lambda tokens, ordinary: ordinary[mt.randint(len(ordinary), (1,)).item()].expand(
            *tokens.shape
        )
    )
)
mask_words.wrong(
    "right but for the random tokens, of which the last one in `ordinary` is never drawn",
    "The upper end of randint is not included: mt.randint(len(ordinary), ...).",
)(
    _masking(
        draw=lambda tokens, ordinary: ordinary[mt.randint(max(len(ordinary) - 1, 1), tokens.shape)]
    )
)
mask_words.wrong(
    "right but for the random tokens, of which the first one in `ordinary` is never drawn",
    "Places are counted from 0: mt.randint(len(ordinary), ...).",
)(_masking(draw=lambda tokens, ordinary: ordinary[mt.randint(1, len(ordinary), tokens.shape)]))
mask_words.wrong(
    "right but for the random tokens: it draws numbers from 0 on, not from `ordinary`",
    "Numbers from 0 on are places in `ordinary`: ordinary[...] are the tokens.",
)(_masking(draw=lambda tokens, ordinary: mt.randint(len(ordinary), tokens.shape)))
mask_words.wrong(
    "right but for the random tokens, among which special ones and others are",
    "Draw from `ordinary`, which has gaps: ordinary[numbers].",
)(_masking(draw=lambda tokens, ordinary: mt.randint(int(ordinary.max()) + 1, tokens.shape)))


def _never_its_own(tokens, ordinary):
    places = (tokens.unsqueeze(-1) == ordinary).long().argmax(dim=-1)
    return ordinary[(places + mt.randint(1, len(ordinary), tokens.shape)) % len(ordinary)]


mask_words.wrong(
    "right but for the random tokens, which are never the old one",
    "Drawn from all ordinary tokens alike, the old one among them.",
)(_masking(draw=_never_its_own))
mask_words.wrong(
    "right but for the random tokens, which are other tokens of the batch",
    "Frequent tokens are drawn more often so. Draw from `ordinary`, all alike.",
)(
    _masking(
        draw=lambda tokens, ordinary: tokens.flatten()[
            mt.tensor(_ordinary_places(tokens, ordinary))
        ][mt.randint(len(_ordinary_places(tokens, ordinary)), tokens.shape)]
    )
)


def _ordinary_places(tokens, ordinary):
    inside = (tokens.unsqueeze(-1) == ordinary).any(dim=-1).flatten().tolist()
    return [i for i, ok in enumerate(inside) if ok]


mask_words.wrong(
    "right but for the blanks that it returns: those alone that show the mask",
    "All blanks are asked for, whatever they show.",
)(_masking(told=lambda blanks, tokens, inputs, mask: blanks & (inputs == mask)))
mask_words.wrong(
    "right but for the blanks that it returns: those alone that look different",
    "A blank that keeps its token is asked for as well: that is what it is for.",
)(_masking(told=lambda blanks, tokens, inputs, mask: inputs != tokens))
mask_words.wrong(
    "a pair with targets in place of the blanks",
    "The second result is boolean: True where a token is asked for.",
)(_masking(told=lambda blanks, tokens, inputs, mask: mt.where(blanks, tokens, -100)))


@mask_words.wrong(
    "a masking that is the same in every call",
    "A text is read several times, and each time with other blanks: set no seed inside.",
)
def _(tokens, words, share, mask, ordinary):
    mt.manual_seed(5)
    return mask_words.reference(tokens, words, share, mask, ordinary)


@mask_words.wrong(
    "right but for the order: the blanks come first",
    "Return inputs, blanks.",
)
def _(tokens, words, share, mask, ordinary):
    return mask_words.reference(tokens, words, share, mask, ordinary)[::-1]
