"""Answers to the exercises of ``masks.py``."""

import minitorch as mt
from textbook.checks.chapter_10.masks import _mask_cases, three_masks


@three_masks.answer(hidden_cases=lambda draw: _mask_cases(draw, others=(6, 0)))
def three_masks(source, target, padding):
    """Source (B, n), target (B, T): masks (B, 1, 1, n), (B, 1, T, T) and (B, 1, 1, n)."""
    real = (source != padding).unsqueeze(1).unsqueeze(1)  # (B, 1, 1, n)
    said = (target != padding).unsqueeze(1).unsqueeze(1)  # (B, 1, 1, T)
    causal = mt.ones(target.shape[1], target.shape[1], dtype=mt.bool).tril()
    own = causal & said | mt.eye(target.shape[1]).bool()
    return real, own, real


# Right in another way


def masks_by_lists(source, target, padding):
    length = target.shape[1]
    own = [
        [
            [
                [
                    j == i or (j < i and row[i] != padding and row[j] != padding)
                    for j in range(length)
                ]
                for i in range(length)
            ]
        ]
        for row in target.tolist()
    ]
    encoder = mt.tensor([[[[token != padding for token in row]]] for row in source.tolist()])
    return [encoder, mt.tensor(own), encoder.clone()]


def masks_by_first_token(source, target, padding):
    """Padding stands at the front: all from the first token on."""

    def real(tokens):
        first = (tokens == padding).sum(dim=1).reshape(-1, 1, 1, 1)
        return mt.arange(tokens.shape[1]) >= first

    n = mt.arange(target.shape[1])
    own = mt.where(n == n.unsqueeze(1), mt.tensor(True), (n < n.unsqueeze(1)) & real(target))
    return real(source), own, real(source)


right = {
    "three_masks": [masks_by_lists, masks_by_first_token],
}
