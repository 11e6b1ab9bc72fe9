"""What a pass over the training data costs, padding included."""

from textbook.checks.compare import number
from textbook.checks.exercise import exercise
from textbook.checks.reasons import part_that_differs


def _cost_cases(draw, others=()):
    """V, width, hidden, layers of encoder and decoder, pairs of lengths, batch."""
    sizes = others or [(17, 4, 9, 1, 2), (23, 6, 10, 3, 1)]
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
    hidden_cases=lambda draw: _cost_cases(
        draw, others=[(31, 8, 11, 2, 3), (37_000, 512, 2048, 6, 6)]
    ),
    run=_as_integers,
    reasons=(_what_is_off,),
    gradients=False,
    after_passing="In practice: sort by length in large windows, or join short texts into "
    "full rows.",
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
