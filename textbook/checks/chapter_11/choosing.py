"""Which tokens may come next, and how likely."""

import minitorch as mt
from textbook.checks.exercise import exercise


def _choice_cases(draw, hidden):
    """Scores (B, V), a share for each row (B), a temperature."""
    sizes = [(4, 6), (3, 9), (5, 4)] if not hidden else [(3, 7), (6, 5), (4, 12)]
    for i, (batch, size) in enumerate(sizes):
        for temperature in (1.0, 0.5, 2.5)[: 3 if i == 0 else 2]:
            scores = 2 * draw.normal(batch, size)
            share = mt.tensor(draw.random.uniform(0.3, 0.97, batch))
            yield scores, share, temperature
    scores = 2 * draw.normal(4, 7)
    scores[:, 2] = scores[:, 5] = scores.max() + 1  # two that are equally likely, far ahead
    scores[2] = 0.0  # all are
    yield scores, mt.tensor([0.2, 0.45, 0.5, 0.97], dtype=mt.float64), 1.3
    scores = 2 * draw.normal(3, 6)
    scores[:, 1], scores[1:, 4] = -mt.inf, -mt.inf
    yield scores, mt.tensor([0.999, 1.0, 0.6], dtype=mt.float64), 0.7
    equal = mt.tensor([0.5, 0.25], dtype=mt.float64)  # reached by 2 and by 1 of them, exactly
    yield mt.zeros(2, 4, dtype=mt.float64), equal, 2.0 if hidden else 1.0
    yield 900 * draw.normal(3, 5), mt.tensor([0.9, 0.5, 1.0], dtype=mt.float64), 0.8
    yield draw.normal(3, 5), mt.tensor([1.0, 0.0, 0.7], dtype=mt.float64), 1.5


def _softmax(scores):
    return scores.softmax(dim=-1)


def _stay(p, share):
    """Where the tokens of the smallest set stand: (B, V)."""
    order = (-p).argsort(dim=-1, stable=True)
    ordered = p.gather(1, order)
    before = ordered.cumsum(dim=-1) - ordered
    stays = before < share.unsqueeze(1)
    stays[:, 0] = True
    return mt.zeros_like(stays).scatter(1, order, stays)


def _by_order(rule, descending=True, back=True):
    """A set by a rule (ordered, cumsum, share) on probabilities in order."""

    def stay(p, share):
        order = (-p if descending else p).argsort(dim=-1, stable=True)
        ordered = p.gather(1, order)
        stays = rule(ordered, ordered.cumsum(dim=-1), share.unsqueeze(1))
        stays[:, 0] |= ~stays.any(dim=-1)
        return mt.zeros_like(stays).scatter(1, order, stays) if back else stays

    return stay


def _none_at_0(p, share):
    return _stay(p, share) & (share > 0).unsqueeze(1)


def _put_back_by_gather(p, share):
    """The probabilities that stay, in the wrong places."""
    order = (-p).argsort(dim=-1, stable=True)
    kept = p.masked_fill(~_stay(p, share), 0.0)
    return kept.gather(1, order).gather(1, order)


def _mask_put_back_by_gather(p, share):
    order = (-p).argsort(dim=-1, stable=True)
    return _stay(p, share).gather(1, order).gather(1, order)


def _all_that_are_as_likely(p, share):
    smallest = p.masked_fill(~_stay(p, share), mt.inf).amin(dim=-1, keepdim=True)
    return p >= smallest


def _choosing(
    heat=lambda scores, temperature: scores / temperature,
    weigh=_softmax,
    stay=_stay,
    finish=lambda p, stays: p.masked_fill(~stays, 0.0),
    divide=lambda kept, p: kept / kept.sum(dim=-1, keepdim=True),
    shares=lambda share: share,
    end=lambda p, temperature: p,
):
    """The probabilities with one of their pieces exchanged."""

    def choose(scores, share, temperature):
        p = weigh(heat(scores, temperature))
        return end(divide(finish(p, stay(p, shares(share))), p), temperature)

    return choose


def _example(check, answer, *_):
    """Which tokens stay in an example that can be done by hand."""
    p = mt.tensor([[0.1, 0.4, 0.3, 0.2]], dtype=mt.float64)
    found = answer(p.log(), mt.tensor([0.6], dtype=mt.float64), 1.0)
    stay = [v for v, x in enumerate(found.flatten().tolist()) if x > 0]
    if stay == [1, 2]:
        return None
    one = answer(p.log(), mt.tensor([0.3], dtype=mt.float64), 1.0) > 0
    if stay == [0, 3] and one.tolist() == [[False, False, False, True]]:
        return (
            "It looks as if what stays were put back by gather with the same order: that permutes "
            "once more. scatter puts back."
        )
    return (
        f"Of the probabilities [0.1, 0.4, 0.3, 0.2] and the share 0.6 your answer keeps the tokens "
        f"{stay}; the smallest set of the likeliest is [1, 2]."
    )


@exercise(
    cases=_choice_cases,
    reasons=(_example,),
    gradients=False,
    see='chapter 11, "Which piece comes next?"',
)
def likely_tokens(scores, share, temperature):
    """scores (B, V), share (B): the probabilities (B, V) of the likeliest tokens alone."""
    p = (scores / temperature).softmax(dim=-1)
    order = (-p).argsort(dim=-1, stable=True)  # of equals the smaller number comes first
    ordered = p.gather(1, order)
    stays = ordered.cumsum(dim=-1) - ordered < share.unsqueeze(1)
    stays[:, 0] = True
    kept = mt.zeros_like(p).scatter(1, order, ordered.masked_fill(~stays, 0.0))
    return kept / kept.sum(dim=-1, keepdim=True)


def _level(p, temperature):
    return (p > 0) / (p > 0).sum(dim=-1, keepdim=True)


def _by_the_scores(kept, p):
    """A softmax once more, over probabilities."""
    return kept.masked_fill(kept == 0, -mt.inf).softmax(dim=-1)


for name, hint, pieces in (
    (
        "right but for equally likely tokens, which all stay or all go",
        "The smallest set has no more tokens than it needs: of equals the smaller number first, by "
        "a stable order.",
        {"stay": _all_that_are_as_likely},
    ),
    (
        "right but for equally likely tokens, of which it takes the larger number first",
        "Of equals the smaller number first: (-p).argsort(stable=True).",
        {"stay": lambda p, share: _stay(p.flip(1), share).flip(1)},
    ),
    (
        "right but for the last token of the set, which is missing: it stays below the share",
        "The set has at least the share: the token that reaches it belongs to it. It stays where "
        "what is before it is less than the share.",
        {"stay": _by_order(lambda ordered, total, share: total <= share)},
    ),
    (
        "right but for a sum that is exactly the share, at which it takes a token too many",
        "As soon as the share is reached, the set is complete: what is before a token must be less "
        "than the share, not equal to it.",
        {"stay": _by_order(lambda ordered, total, share: total - ordered <= share)},
    ),
    (
        "right but for a share of 0, for which no token stays",
        "At least one token stays: the likeliest, whatever the share.",
        {"stay": _none_at_0},
    ),
    (
        "right but for the order: they are put back by gather with the same order",
        "gather takes from those places: that permutes once more. scatter puts back to them.",
        {"stay": _put_back_by_gather, "finish": lambda p, stays: stays},
    ),
    (
        "right but for what stays, which is put back by gather with the same order",
        "gather takes from those places: that permutes once more. scatter puts back to them.",
        {"stay": _mask_put_back_by_gather},
    ),
    (
        "right but for a token too many",
        "As soon as the share is reached, the set is complete.",
        {
            "stay": _by_order(
                lambda ordered, total, share: mt.cat(
                    [mt.ones_like(share) > 0, (total - ordered < share)[:, :-1]], dim=1
                )
            )
        },
    ),
    (
        "right but for the sum: the probabilities that stay do not add up to 1",
        "Divide them by their sum: somebody draws by them.",
        {"divide": lambda kept, p: kept},
    ),
    (
        "right but for the sum: it takes a softmax of the probabilities",
        "What stays keeps its ratios: divide by the sum.",
        {"divide": _by_the_scores},
    ),
    (
        "the set with level probabilities: each token of it is equally likely",
        "What stays keeps its ratios: divide by the sum.",
        {"end": _level},
    ),
    (
        "right but for the order: the probabilities stand from the largest to the smallest",
        "Column v belongs to token v: put them back to where they came from, with scatter.",
        {"end": lambda p, temperature: p.sort(descending=True).values},
    ),
    (
        "right but for the order: what stays is told for the ordered tokens and used for the "
        "others",
        "Column v belongs to token v: put `stays` back to where it came from, with scatter.",
        {"stay": _by_order(lambda ordered, total, share: total - ordered < share, back=False)},
    ),
    (
        "the least likely tokens: they are taken from the wrong end",
        "Order them from the largest probability to the smallest.",
        {"stay": _by_order(lambda ordered, total, share: total - ordered < share, False)},
    ),
    (
        "right but for the temperature, which is not used",
        "Divide the scores by it, before the softmax.",
        {"heat": lambda scores, temperature: scores},
    ),
    (
        "right but for the temperature, by which the scores are multiplied",
        "Divide the scores by it: a small one makes the likely likelier.",
        {"heat": lambda scores, temperature: scores * temperature},
    ),
    (
        "right but for the temperature, which comes after the cut",
        "The scores are divided first: the share is one of the probabilities that are drawn by.",
        {
            "heat": lambda scores, temperature: scores,
            "end": lambda p, temperature: (
                p ** (1 / temperature) / (p ** (1 / temperature)).sum(dim=-1, keepdim=True)
            ),
        },
    ),
    (
        "right but for the shares: all rows get that of the first",
        "Each row has its own: share.unsqueeze(1) stands beside (B, V).",
        {"shares": lambda share: share[:1].expand(len(share))},
    ),
    (
        "right but for the shares: all rows get their mean",
        "Each row has its own: share.unsqueeze(1) stands beside (B, V).",
        {"shares": lambda share: share.mean().expand(len(share))},
    ),
    (
        "right for 1 less the share: it takes the share for what is cut off",
        "The share is what the set has together.",
        {"shares": lambda share: 1 - share},
    ),
    (
        "the tokens whose own probability reaches the share",
        "The share is what the set has together: add up from the likeliest on.",
        {"stay": _by_order(lambda ordered, total, share: ordered >= share)},
    ),
    (
        "the tokens whose probability reaches that share of the largest",
        "That is called min-p. Here the share is what the set has together.",
        {"stay": _by_order(lambda ordered, total, share: ordered >= share * ordered[:, :1])},
    ),
    (
        "all tokens: nothing is cut off",
        "Only the likeliest tokens stay, until they have the share together.",
        {"stay": lambda p, share: p >= 0},
    ),
    (
        "the likeliest token alone",
        "Tokens stay until they have the share together.",
        {"stay": _by_order(lambda ordered, total, share: total < 0)},
    ),
    (
        "right but for large scores, where exp overflows",
        "softmax takes the largest score off first.",
        {"weigh": lambda scores: scores.exp() / scores.exp().sum(dim=-1, keepdim=True)},
    ),
    (
        "right but for the softmax, which goes over the rows",
        "The softmax goes over the vocabulary, the last axis.",
        {"weigh": lambda scores: scores.softmax(dim=0)},
    ),
):
    likely_tokens.wrong(name, hint)(_choosing(**pieces))
