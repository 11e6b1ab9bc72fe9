"""Answers to the exercises of ``without.py``."""

import minitorch as mt
from textbook.checks.chapter_06.without import _removal_cases, without_each_head


@without_each_head.answer(
    hidden_cases=lambda draw: _removal_cases(draw, more=[(4, 5, 3, 2, 7), (2, 1, 6, 4, 3)]),
    after_passing=(
        "Faster than h products with W_O: two of that size, whatever h is, if each head meets its "
        "own block of rows."
    ),
)
def without_each_head(Y, W_O):
    """Y (B, h, n, size) and W_O (h size, m) give the outputs without each head, (B, h, n, m)."""
    _, heads, _, size = Y.shape
    output = Y.transpose(1, 2).flatten(2) @ W_O  # (B, n, m)
    change = Y.mean(dim=(0, 2), keepdim=True) - Y  # (B, heads, n, size)
    return output.unsqueeze(1) + change @ W_O.reshape(heads, size, -1)


# Right in another way


def merge_by_concatenation(X):
    return mt.cat([X[:, head] for head in range(X.shape[1])], dim=-1)


def without_in_a_loop(Y, W_O):
    outputs = []
    for head in range(Y.shape[1]):
        others = Y.clone()
        others[:, head] = Y[:, head].mean((0, 1))
        outputs.append(merge_by_concatenation(others) @ W_O)
    return mt.stack(outputs, dim=1)


def without_as_a_sum(Y, W_O):
    """All terms but one, and the constant that stands in its place."""
    terms = mt.einsum("bhns,hsm->bhnm", Y, W_O.unflatten(0, (Y.shape[1], -1)))
    rest = terms.sum(dim=1, keepdim=True) - terms
    return rest + terms.mean(dim=(0, 2), keepdim=True)


def without_by_where(Y, W_O):
    heads = Y.shape[1]
    own = mt.eye(heads).bool()[:, None, :, None, None]  # (removed, 1, head, 1, 1)
    mean = Y.mean(2, keepdim=True).mean(0, keepdim=True)
    replaced = mt.where(own, mean, Y)  # (removed, B, head, n, size)
    return (replaced.transpose(2, 3).flatten(3) @ W_O).transpose(0, 1)


right = {
    "without_each_head": [without_in_a_loop, without_as_a_sum, without_by_where],
}
