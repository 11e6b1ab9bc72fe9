"""What a pass over the training data costs, padding included."""

from textbook.checks.compare import number
from textbook.checks.exercise import exercise
from textbook.checks.reasons import part_that_differs


def _cost_cases(draw, hidden):
    """V, width, hidden, layers of encoder and decoder, pairs of lengths, batch."""
    sizes = [(17, 4, 9, 1, 2), (23, 6, 10, 3, 1)] if not hidden else [(31, 8, 11, 2, 3)]
    sizes += [(37_000, 512, 2048, 6, 6)] * hidden
    for vocabulary, width, middle, encoder, decoder in sizes:
        for count, batch in ((1, 1), (3, 3), (5, 2), (7, 4), (2, 5)):
            pairs = [
                (int(n), int(t))
                for n, t in zip(
                    draw.random.integers(3, 12, count),
                    draw.random.integers(3, 12, count),
                    strict=True,
                )
            ]
            yield vocabulary, width, middle, encoder, decoder, pairs, batch


def _costing(
    passes=3,
    flops=2,
    block=lambda d, m: 4 * d * d + 2 * d * m,
    own_source=lambda d, n: 2 * n * d,
    own_target=lambda d, t: 2 * t * d,
    across=lambda d, n: 2 * n * d,
    cross_source=lambda d: 2 * d * d,
    cross_target=lambda d: 2 * d * d,
    out=lambda d, V: d * V,
    embedding=lambda d, V: 0,
    layers=lambda encoder, decoder: (encoder, decoder),
    memory_layers=lambda encoder, decoder: decoder,
    longest=lambda part: (max(n for n, _ in part), max(t for _, t in part)),
    parts=lambda pairs, batch: [pairs[i : i + batch] for i in range(0, len(pairs), batch)],
    count=len,
    alone=lambda whole, single: single,
    of_weights=False,
):
    """The count with one of its pieces exchanged."""

    def costing(vocabulary, width, hidden, encoder_layers, decoder_layers, pairs, batch):
        encoder, decoder = layers(encoder_layers, decoder_layers)
        d, V, m = width, vocabulary, hidden

        def of_pair(n, t):
            source = encoder * (block(d, m) + own_source(d, n))
            source += memory_layers(encoder, decoder) * cross_source(d)
            target = decoder * (block(d, m) + own_target(d, t) + cross_target(d) + across(d, n))
            source, target = source + embedding(d, V), target + embedding(d, V) + out(d, V)
            if of_weights:
                source = target = source + target
            return passes * flops * (n * source + t * target)

        whole = sum(count(part) * of_pair(*longest(part)) for part in parts(pairs, batch))
        single = sum(of_pair(*pair) for pair in pairs)
        return {"FLOPs": whole, "without padding": alone(whole, single)}

    return costing


def _as_integers(answer, vocabulary, width, hidden, encoder_layers, decoder_layers, pairs, batch):
    """The dict, and whether its numbers are integers."""
    found = answer(vocabulary, width, hidden, encoder_layers, decoder_layers, pairs, batch)
    kinds = "a dict of integers"
    if isinstance(found, dict):
        wrong = [key for key, value in found.items() if isinstance(number(value), float)]
        kinds = f"floating-point numbers at {wrong}" if wrong else kinds
    return {"the dict": found, "the type of its numbers": kinds}


def _parts(case):
    """The products of one pair, forward and backward."""
    _, d, m, encoder, decoder, [(n, t)], _ = case
    return {
        "the projections of the encoder": 24 * encoder * n * d * d,
        "the network of the encoder": 12 * encoder * n * d * m,
        "scores and mixing of the encoder": 12 * encoder * n * n * d,
        "the projections of the decoder's attention to itself": 24 * decoder * t * d * d,
        "the network of the decoder": 12 * decoder * t * d * m,
        "scores and mixing of the decoder's attention to itself": 12 * decoder * t * t * d,
        "queries and outputs of the cross-attention": 12 * decoder * t * d * d,
        "keys and values of the cross-attention": 12 * decoder * n * d * d,
        "scores and mixing of the cross-attention": 12 * decoder * n * t * d,
        "the output layer": 6 * t * d * case[0],
    }


def _others(case):
    """Parts of parts, several of them, and what does not belong to the count."""
    V, d, *_, [(n, t)], _ = case
    parts = _parts(case)

    def all_with(words):
        return sum(count for phrase, count in parts.items() if words in phrase)

    return {
        "everything": sum(parts.values()),
        "the cross-attention": all_with("cross-attention"),
        "scores and mixing of all three attentions": all_with("scores and mixing"),
        "both networks": all_with("network"),
        "scores and mixing of later tokens in the decoder (a mask saves no product)": (
            6 * case[4] * t * (t - 1) * d
        ),
        "what is no part: an output layer for the source": 6 * n * d * V,
        "what is no part: a product for the embedding": 6 * (n + t) * d * V,
    }


def _what_is_off(check, answer, *_):
    """The part of a pair's cost that is wrong; else what is wrong with several pairs."""
    single = [(17, 4, 9, 1, 2, [(3, 5)], 1), (23, 6, 10, 3, 1, [(4, 7)], 1)]
    single.append((11, 8, 5, 2, 3, [(6, 2)], 1))
    found = part_that_differs(lambda case: answer(*case)["FLOPs"], _parts, _others, single)
    if found or any(answer(*case) != check.reference(*case) for case in single):
        return found
    several = 17, 4, 9, 1, 2, [(3, 9), (8, 4), (5, 5)], 2
    found, right = answer(*several), check.reference(*several)
    if found["FLOPs"] != right["FLOPs"]:
        batches = [
            check.reference(*several[:5], part, 2)["FLOPs"]
            for part in (several[5][:2], several[5][2:])
        ]
        return (
            "A batch of one pair is right. For the pairs [(3, 9), (8, 4), (5, 5)] in batches of 2, "
            "two pairs padded to (8, 9) and one of (5, 5), your 'FLOPs' are "
            f"{found['FLOPs']:,}; {batches[0]:,} + {batches[1]:,} belong there."
        )
    if found["without padding"] != right["without padding"]:
        return (
            "'FLOPs' is right, and 'without padding' is for one pair alone: of several pairs it is "
            "the sum of what each costs by itself, with its own n and T in the scores."
        )
    return None


@exercise(
    cases=_cost_cases,
    run=_as_integers,
    reasons=(_what_is_off,),
    gradients=False,
    see='chapter 11, "What training costs"',
)
def pass_flops(vocabulary, width, hidden, encoder_layers, decoder_layers, pairs, batch):
    """FLOPs of the products of a training pass over pairs of lengths (n, T)."""
    block = 8 * width**2 + 4 * width * hidden

    def cost(n, T):
        source = encoder_layers * (block + 4 * n * width) + decoder_layers * 4 * width**2
        target = decoder_layers * (block + 4 * (T + n) * width + 4 * width**2)
        return 3 * (n * source + T * (target + 2 * width * vocabulary))

    whole = 0
    for first in range(0, len(pairs), batch):
        part = pairs[first : first + batch]
        whole += len(part) * cost(max(n for n, _ in part), max(T for _, T in part))
    return {"FLOPs": whole, "without padding": sum(cost(n, T) for n, T in pairs)}


def _sorted_parts(pairs, batch):
    pairs = sorted(pairs)
    return [pairs[i : i + batch] for i in range(0, len(pairs), batch)]


for name, hint, pieces in (
    (
        "a count of the forward passes: training goes back, too",
        "The backward pass costs twice the forward pass: for each product a gradient of both "
        "factors.",
        {"passes": 1},
    ),
    (
        "right but for the backward pass, which it counts like a forward pass",
        "Each product has two factors, and the backward pass makes a product for each.",
        {"passes": 2},
    ),
    (
        "a count of multiplications: half of the FLOPs",
        "A multiplication with its addition counts as 2.",
        {"flops": 1},
    ),
    (
        "right but for padding, whose products it leaves out of 'FLOPs'",
        "What is computed for padding costs as much as for words: a batch is as wide as its "
        "longest sentence.",
        {"longest": lambda part: part[0], "parts": lambda pairs, batch: [[p] for p in pairs]},
    ),
    (
        "right but for the padding: all batches are as wide as the longest sentence of all",
        "Each batch is padded to its own longest sentences.",
        {"parts": lambda pairs, batch: [pairs]},
    ),
    (
        "right but for the padding: sources and targets are padded to the same length",
        "Sources are padded to the longest source of the batch, targets to the longest target.",
        {"longest": lambda part: (max(map(max, part)),) * 2},
    ),
    (
        "right but for the padding: a batch is as wide as its first pair",
        "It is padded to its longest source and its longest target.",
        {"longest": lambda part: part[0]},
    ),
    (
        "right but for the padding: the longest pair is one with the longest source",
        "Longest source and longest target need not be of one pair.",
        {"longest": max},
    ),
    (
        "right but for the order: it sorts the pairs by length before it makes batches",
        "That would save padding. Here the batches are made of the pairs as they come.",
        {"parts": _sorted_parts},
    ),
    (
        "right but for the last batch, which may be smaller: it is left out",
        "The last batch has what is left of the pairs.",
        {
            "parts": lambda pairs, batch: [
                pairs[i : i + batch] for i in range(0, len(pairs) - batch + 1, batch)
            ]
        },
    ),
    (
        "right but for the last batch, which may be smaller: it counts as a full one",
        "The last batch has what is left of the pairs, and costs no more than those.",
        {
            "parts": lambda pairs, batch: [
                (pairs[i : i + batch] + batch * [(0, 0)])[:batch]
                for i in range(0, len(pairs), batch)
            ]
        },
    ),
    (
        "the cost of one pair for each batch: the number of its pairs is not used",
        "A batch has as many padded pairs as it has rows.",
        {"count": lambda part: 1},
    ),
    (
        "right but for scores and mixing in the encoder's and the decoder's attention to itself",
        "A token scores all tokens of its sequence and mixes as many values: 4 n d FLOPs a layer.",
        {"own_source": lambda d, n: 0, "own_target": lambda d, t: 0},
    ),
    (
        "right but for scores and mixing, of which it counts half",
        "Scores are one product, mixing the values is another one.",
        {
            "own_source": lambda d, n: n * d,
            "own_target": lambda d, t: t * d,
            "across": lambda d, n: n * d,
        },
    ),
    (
        "right but for the causal mask: of the scores in the decoder it counts half",
        "All pairs are computed, and then masked.",
        {"own_target": lambda d, t: t * d},
    ),
    (
        "right but for scores and mixing across, which are missing",
        "A target token also scores the n source tokens and mixes as many values.",
        {"across": lambda d, n: 0},
    ),
    (
        "right but for the keys and values of the cross-attention, which are missing",
        "In each layer of the decoder the memory goes through two d x d matrices.",
        {"cross_source": lambda d: 0},
    ),
    (
        "right where both stacks have as many layers: else it has keys and values of the memory in "
        "each layer of the encoder",
        "They are made in each layer of the decoder, by its own matrices.",
        {"memory_layers": lambda encoder, decoder: encoder},
    ),
    (
        "right but for the queries and the output of the cross-attention, which are missing",
        "In each layer of the decoder the target goes through two more d x d matrices.",
        {"cross_target": lambda d: 0},
    ),
    (
        "right but for the cross-attention: all four of its matrices meet the target",
        "Keys and values are made of the memory: two matrices meet n tokens, two meet T.",
        {"cross_source": lambda d: 0, "cross_target": lambda d: 4 * d * d},
    ),
    (
        "right but for the network, of which it counts one matrix",
        "Up to `hidden`, and back.",
        {"block": lambda d, m: 4 * d * d + d * m},
    ),
    (
        "right for a network of the hidden size 4 d",
        "The hidden size is `hidden`.",
        {"block": lambda d, m: 12 * d * d},
    ),
    (
        "right but for the projections of attention, of which it counts three",
        "Queries, keys, values, and the way back: four d x d matrices.",
        {"block": lambda d, m: 3 * d * d + 2 * d * m},
    ),
    (
        "right but for the output layer, which is missing",
        "Each target token ends in V scores, a product with a d x V matrix.",
        {"out": lambda d, V: 0},
    ),
    (
        "right but for the embedding, which it counts as a product",
        "A row of a table is looked up: no product.",
        {"embedding": lambda d, V: d * V},
    ),
    (
        "a count by 6 times all weights times all tokens, without the products of attention",
        "The encoder's weights never meet the target, nor the output layer the source; and "
        "attention's own products have no weights.",
        {
            "own_source": lambda d, n: 0,
            "own_target": lambda d, t: 0,
            "across": lambda d, n: 0,
            "of_weights": True,
        },
    ),
    (
        "right but for the layers: those of encoder and decoder are exchanged",
        "encoder_layers meet the source, decoder_layers the target.",
        {"layers": lambda encoder, decoder: (decoder, encoder)},
    ),
    (
        "right but for the layers: the decoder has as many as the encoder",
        "The decoder has decoder_layers.",
        {"layers": lambda encoder, decoder: (encoder, encoder)},
    ),
    (
        "right but for 'without padding', which says what padding costs",
        "It is the cost of all pairs, each by itself.",
        {"alone": lambda whole, single: whole - single},
    ),
    (
        "right but for 'without padding', which says a share",
        "It is a number of FLOPs: the cost of all pairs, each by itself.",
        {"alone": lambda whole, single: single / whole},
    ),
):
    pass_flops.wrong(name, hint)(_costing(**pieces))
