"""Answers to the exercises of ``costs.py``."""

import math

import numpy as np

from textbook.checks.chapter_11.costs import _cost_cases, pass_flops


@pass_flops.answer(
    hidden_cases=lambda draw: _cost_cases(
        draw, others=[(31, 8, 11, 2, 3), (37_000, 512, 2048, 6, 6)]
    ),
    after_passing="In practice: sort by length in large windows, or join short texts into "
    "full rows.",
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


# Right in another way


def flops_by_matrices(vocabulary, width, hidden, encoder_layers, decoder_layers, pairs, batch):
    """Each product by its three sizes."""

    def products(n, t):
        square, network = (width, width), [(width, hidden), (hidden, width)]
        for _ in range(encoder_layers):
            yield from ((n, *size) for size in [square] * 4 + network)
            yield from ((n, width, n), (n, n, width))
        for _ in range(decoder_layers):
            yield from ((t, *size) for size in [square] * 6 + network)
            yield from ((n, *square), (n, *square))
            yield from ((t, width, t), (t, t, width), (t, width, n), (t, n, width))
        yield t, width, vocabulary

    def cost(pairs):
        n, t = map(max, zip(*pairs, strict=True))
        return len(pairs) * sum(6 * math.prod(sizes) for sizes in products(n, t))

    parts = [pairs[i : i + batch] for i in range(0, len(pairs), batch)]
    return {"without padding": sum(cost([p]) for p in pairs), "FLOPs": sum(map(cost, parts))}


def flops_in_numpy(vocabulary, width, hidden, encoder_layers, decoder_layers, pairs, batch):
    lengths, d = np.array(pairs, dtype=np.int64), np.int64(width)

    def cost(n, t):
        both = encoder_layers * n * (4 * d * d + 2 * d * hidden + 2 * n * d)
        both += decoder_layers * (
            t * (6 * d * d + 2 * d * hidden + 2 * (n + t) * d) + 2 * n * d * d
        )
        return 6 * (both + t * d * vocabulary)

    whole = 0
    for i in range(math.ceil(len(pairs) / batch)):
        part = lengths[i * batch : (i + 1) * batch]
        whole += len(part) * cost(*part.max(axis=0))
    return {"FLOPs": whole, "without padding": cost(*lengths.T).sum()}


right = {
    "pass_flops": [flops_by_matrices, flops_in_numpy],
}
