"""What a budget of FLOPs buys."""

import math

from textbook.checks.exercise import exercise
from textbook.checks.reasons import part_that_differs


def _plan_cases(draw, hidden):
    """Budget, V, d, hidden, layers, n, batch, length of the text, share of blanks."""
    if hidden:
        yield 2e8, 23, 12, 40, 3, 9, 4, 777, 0.2
        yield 5e11, 98, 64, 200, 2, 64, 4, 300_000, 0.15
        yield 1e13, 3000, 256, 1024, 6, 128, 16, 20_000_000, 0.4
        yield 1e6, 11, 8, 24, 1, 5, 3, 40, 0.15
    else:
        yield 1e8, 17, 8, 20, 2, 7, 3, 500, 0.15
        yield 2e11, 98, 32, 128, 2, 64, 4, 5_900_000, 0.15
        yield 8e11, 50, 48, 100, 3, 40, 16, 100_000, 0.3
        yield 1e6, 13, 8, 20, 1, 6, 2, 30, 0.1


def _planned(
    passes=3,
    flops=2,
    attention=lambda n, width: 2 * n * width,
    projections=4,
    network=2,
    out=lambda width, vocabulary: width * vocabulary,
    layered=lambda block, out, layers: layers * block + out,
    whole=math.floor,
    of_a_step=lambda batch, n: batch * n,
    read=lambda steps, batch, n, budget, each: steps * batch * n,
    text=lambda text, n: text,
    passed=lambda passes: passes,
    blanks=lambda read, share: share * read,
):
    """The plan with one of its pieces exchanged."""

    def planned(budget, vocabulary, width, hidden, layers, n, batch, text_length, share):
        block = projections * width**2 + network * width * hidden + attention(n, width)
        each = passes * flops * layered(block, out(width, vocabulary), layers)
        steps = whole(budget / (each * of_a_step(batch, n)))
        tokens = read(steps, batch, n, budget, each)
        return {
            "FLOPs of a token": each,
            "steps": steps,
            "passes": passed(tokens / text(text_length, n)),
            "blanks": blanks(tokens, share),
        }

    return planned


def _parts(case):
    """The products of a token, forward and backward."""
    _, V, d, m, layers, n, *_ = case
    return {
        "the projections of attention": 24 * layers * d * d,
        "the network": 12 * layers * d * m,
        "scores and mixing": 12 * layers * n * d,
        "the output": 6 * d * V,
    }


def _others(case):
    _, V, d, _, layers, *_, share = case
    parts = _parts(case)
    return {
        "everything": sum(parts.values()),
        "all of the blocks": sum(parts.values()) - 6 * d * V,
        "the output at the places that are no blanks": (1 - share) * 6 * d * V,
    }


def _what_is_off(check, answer, *_):
    """The part of a token's cost that is wrong, or the first count that does not follow from it."""
    cases = [(1e8, 17, 8, 20, 2, 7, 3, 500, 0.15), (2e8, 23, 12, 40, 3, 9, 4, 777, 0.2)]
    cases.append((5e7, 11, 6, 10, 1, 12, 5, 90, 0.3))
    found = part_that_differs(
        lambda case: answer(*case)["FLOPs of a token"], _parts, _others, cases
    )
    if found:
        return f"In 'FLOPs of a token': {found[0].lower()}{found[1:]}"
    got, right = answer(*cases[0]), check.reference(*cases[0])
    of_a_step = right["FLOPs of a token"] * 21
    follows = {
        "steps": f"a step of 21 tokens costs {of_a_step:,}, and whole steps are paid from 1e8",
        "passes": f"{right['steps']} steps read 21 tokens each, from a text of 500",
        "blanks": f"{right['steps']} steps read 21 tokens each, and 0.15 of them are blanks",
    }
    for key, why in follows.items():
        if abs(got[key] - right[key]) > 1e-9 * right[key]:
            return f"In '{key}': with 3 sequences of 7 tokens a step, {why}."
    return None


@exercise(cases=_plan_cases, reasons=(_what_is_off,), see='chapter 13, "Scaling"')
def training_plan(budget, vocabulary, width, hidden, layers, n, batch, text, share):
    """FLOPs of a token, steps, passes over the text, and blanks, for a budget of FLOPs."""
    block = 4 * width**2 + 2 * width * hidden + 2 * n * width
    each = 3 * 2 * (layers * block + width * vocabulary)
    steps = int(budget // (each * batch * n))
    tokens = steps * batch * n
    return {
        "FLOPs of a token": each,
        "steps": steps,
        "passes": tokens / text,
        "blanks": share * tokens,
    }


training_plan.wrong(
    "the plan of a forward pass: a step of training goes back, too",
    "The backward pass costs twice the forward pass: for each product a gradient of both factors.",
)(_planned(passes=1))
training_plan.wrong(
    "right but for the backward pass, which it counts like a forward pass",
    "Each product has two factors, and the backward pass makes a product for each.",
)(_planned(passes=2))
training_plan.wrong(
    "a plan in multiplications: half of the FLOPs",
    "A multiplication with its addition counts as 2.",
)(_planned(flops=1))
training_plan.wrong(
    "right but for the products of attention itself",
    "A token scores n keys and mixes n values, in each layer: 2 n d multiplications.",
)(_planned(attention=lambda n, width: 0))
training_plan.wrong(
    "right but for the products of attention, of which it counts half",
    "Scores are one product with n, mixing the values is another one.",
)(_planned(attention=lambda n, width: n * width))
training_plan.wrong(
    "right but for the products of attention, which it counts for all n tokens at once",
    "Of one token: it scores n keys. All n tokens of a window score n^2 pairs.",
)(_planned(attention=lambda n, width: 2 * n * n * width))
training_plan.wrong(
    "right but for the projections of attention, of which it counts three",
    "Queries, keys, values, and the way back: four d x d matrices.",
)(_planned(projections=3))
training_plan.wrong(
    "right but for the network, of which it counts one matrix",
    "Up to `hidden`, and back.",
)(_planned(network=1))
training_plan.wrong(
    "right but for the output: the scores of the vocabulary are missing",
    "Each token ends in V scores, a product with a d x V matrix.",
)(_planned(out=lambda width, vocabulary: 0))
training_plan.wrong(
    "right but for the embedding, which it counts as a product",
    "A row of a table is looked up: no product. The scores at the end are one.",
)(_planned(out=lambda width, vocabulary: 2 * width * vocabulary))
training_plan.wrong(
    "a plan by 6 N, with all weights and without the products of attention",
    "The embedding is looked up and makes no product; attention's products have no weights.",
)(
    _planned(
        attention=lambda n, width: 0,
        out=lambda width, vocabulary: 2 * width * vocabulary,
    )
)
training_plan.wrong(
    "right for a network of the hidden size 4 d",
    "The hidden size is `hidden`.",
)(_planned(projections=12, network=0))
training_plan.wrong(
    "right but for the output, which it counts once a layer",
    "The blocks come `layers` times, the scores of the vocabulary once.",
)(_planned(layered=lambda block, out, layers: layers * (block + out)))
training_plan.wrong(
    "right but for the layers: it counts one block",
    "There are `layers` blocks.",
)(_planned(layered=lambda block, out, layers: block + out))
training_plan.wrong(
    "right but for the steps, of which it makes parts",
    "A step is made or not: round down to a whole number.",
)(_planned(whole=lambda steps: steps))
training_plan.wrong(
    "right but for the steps, which it rounds up: the last one is not paid for",
    "Round down.",
)(_planned(whole=math.ceil))
training_plan.wrong(
    "right but for the steps: it pays for one sequence a step",
    "A step reads `batch` sequences of n tokens.",
)(_planned(of_a_step=lambda batch, n: n))
training_plan.wrong(
    "right but for the steps: it pays for `batch` tokens a step",
    "A step reads `batch` sequences of n tokens each.",
)(_planned(of_a_step=lambda batch, n: batch))
training_plan.wrong(
    "right but for what is read: it takes the budget for it, not the whole steps",
    "What is left over buys no step, and so reads nothing.",
)(_planned(read=lambda steps, batch, n, budget, each: budget / each))
training_plan.wrong(
    "right but for the passes, which it counts in sequences of the batch and tokens of the text",
    "Tokens read divided by the tokens of the text.",
)(
    _planned(
        read=lambda steps, batch, n, budget, each: steps * batch,
        blanks=lambda read, share: share * read,
    )
)
training_plan.wrong(
    "right but for the passes: it takes `text` for a number of sequences",
    "text is a number of tokens.",
)(_planned(text=lambda text, n: text * n))
training_plan.wrong(
    "right but for the passes, which it rounds down",
    "A text may be read two and a half times.",
)(_planned(passed=math.floor))
training_plan.wrong(
    "right but for the blanks: it counts every token that is read",
    "A masked language model is asked about its blanks alone.",
)(_planned(blanks=lambda read, share: read))
training_plan.wrong(
    "right but for the blanks: it counts those alone that show the mask",
    "Blanks that show a random token, or their own, are predicted as well.",
)(_planned(blanks=lambda read, share: 0.8 * share * read))
