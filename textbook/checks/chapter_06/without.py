"""The output of the layer without each head."""

import minitorch as mt
from textbook.checks.chapter_06.axes import merge
from textbook.checks.exercise import exercise


def _removal_cases(draw, hidden):
    """B, h, n, size and m; positions and sequences differ much."""
    sizes = [(1, 2, 3, 2, 4), (2, 3, 4, 2, 6), (3, 2, 3, 4, 5)]
    for batch, heads, n, size, out in sizes + [(4, 5, 3, 2, 7), (2, 1, 6, 4, 3)] * hidden:
        shift = 3 * draw.normal(batch, heads, n, 1)
        yield draw.normal(batch, heads, n, size) + shift, draw.normal(heads * size, out)


def _blocks(W_O, heads):
    """(h size, m) -> (h, size, m)."""
    return W_O.reshape(heads, -1, W_O.shape[-1])


def _mean(Y):
    """Of each head over all positions of all sequences."""
    return Y.mean(dim=(0, 2), keepdim=True).expand(*Y.shape)


def _without(mean=_mean, blocks=_blocks, join=merge):
    """The outputs without each head with one of the pieces exchanged."""

    def without(Y, W_O):
        term = (mean(Y) - Y) @ blocks(W_O, Y.shape[1])  # (B, h, n, m)
        return (join(Y) @ W_O).unsqueeze(1) + term

    return without


@exercise(cases=_removal_cases, see='chapter 06, "Removing heads (E3)"')
def without_each_head(Y, W_O):
    """Y (B, h, n, size) and W_O (h size, m) give the outputs without each head, (B, h, n, m)."""
    _, heads, _, size = Y.shape
    output = Y.transpose(1, 2).flatten(2) @ W_O  # (B, n, m)
    change = Y.mean(dim=(0, 2), keepdim=True) - Y  # (B, heads, n, size)
    return output.unsqueeze(1) + change @ W_O.reshape(heads, size, -1)


without_each_head.wrong(
    "right but for what stands in the place of a head: zeros, not its mean",
    "The mean of a head may be far from 0, and the rest of the model has learned to expect it.",
)(_without(mean=mt.zeros_like))
without_each_head.wrong(
    "what the mean of the removed head gives, alone: the other heads are missing",
    "One head is exchanged for its mean, and all of them meet W_O.",
)(lambda Y, W_O: _mean(Y) @ _blocks(W_O, Y.shape[1]))
without_each_head.wrong(
    "right but for the mean, which is taken in each sequence by itself",
    "Such a mean still tells sequences apart. Take it over all positions of all sequences.",
)(_without(mean=lambda Y: Y.mean(dim=2, keepdim=True).expand(*Y.shape)))
without_each_head.wrong(
    "right but for the mean, which is taken at each position by itself",
    "Such a mean still tells positions apart. Take it over all positions of all sequences.",
)(_without(mean=lambda Y: Y.mean(dim=0, keepdim=True).expand(*Y.shape)))
without_each_head.wrong(
    "right but for the mean, which is that of all heads",
    "In the place of head l stands the mean of head l.",
)(_without(mean=lambda Y: Y.mean(dim=1, keepdim=True).expand(*Y.shape)))
without_each_head.wrong(
    "right but for the mean, which is one number for each head",
    "The mean of a head is a vector, as long as its outputs.",
)(_without(mean=lambda Y: Y.mean(dim=(0, 2, 3), keepdim=True).expand(*Y.shape)))
without_each_head.wrong(
    "right but for the mean, which is that of all heads at all positions",
    "In the place of head l stands the mean of head l.",
)(_without(mean=lambda Y: Y.mean(dim=(0, 1, 2), keepdim=True).expand(*Y.shape)))
without_each_head.wrong(
    "right in its values, but the mean is taken out of the gradient",
    "The mean depends on Y, too: away from detach() and numbers.",
)(_without(mean=lambda Y: _mean(Y).detach()))
without_each_head.wrong(
    "what each head adds to the output",
    "What is wanted is what is left without the head, with its mean in its place.",
)(lambda Y, W_O: Y @ _blocks(W_O, Y.shape[1]))
without_each_head.wrong(
    "the output of each head alone, with the means of all others",
    "Only head l is replaced by its mean; all others stay.",
)(lambda Y, W_O: (merge(_mean(Y)) @ W_O).unsqueeze(1) + (Y - _mean(Y)) @ _blocks(W_O, Y.shape[1]))
without_each_head.wrong(
    "the whole output, once for each head",
    "Put the mean of head l in its place before W_O.",
)(lambda Y, W_O: (merge(Y) @ W_O).unsqueeze(1).expand(-1, Y.shape[1], -1, -1))
without_each_head.wrong(
    "right for the first head alone: for the others, the heads before stay removed",
    "Begin with the whole Y for each head: work on a fresh copy.",
)(
    lambda Y, W_O: (
        (merge(Y) @ W_O).unsqueeze(1) + ((_mean(Y) - Y) @ _blocks(W_O, Y.shape[1])).cumsum(dim=1)
    )
)
without_each_head.wrong(
    "right but for the rows of W_O, which are dealt out in turn",
    "A head has a block of columns side by side, so it meets a block of rows side by side.",
)(
    _without(
        blocks=lambda W_O, heads: W_O.reshape(-1, heads, W_O.shape[-1]).transpose(0, 1),
        join=lambda Y: Y.permute(0, 2, 3, 1).flatten(2),
    )
)
without_each_head.wrong(
    "right but for joining the heads, which mixes positions",
    "Bring heads and size together first, (B, n, h, size), then join the two.",
)(_without(join=lambda Y: Y.reshape(len(Y), Y.shape[2], -1)))
without_each_head.wrong(
    "right but for the order of the axes: it is (B, n, h, m)",
    "The heads keep their place: (B, h, n, m).",
)(lambda Y, W_O: _without()(Y, W_O).transpose(1, 2))
without_each_head.wrong(
    "right but for the order of the axes: it is (h, B, n, m)",
    "The batch stays in front: stack the outputs along axis 1.",
)(lambda Y, W_O: _without()(Y, W_O).transpose(0, 1))
without_each_head.wrong(
    "right but for the mean, which is taken over the numbers of a vector",
    "Take the mean over positions and sequences: a vector as long as the outputs of the head.",
)(_without(mean=lambda Y: Y.mean(dim=3, keepdim=True).expand(*Y.shape)))
without_each_head.wrong(
    "right but for joining what is left of the heads, which mixes positions",
    "Bring heads and size together first, (B, n, h, size), then join the two.",
)(
    lambda Y, W_O: mt.stack(
        [
            mt.where(mt.arange(Y.shape[1])[:, None, None] == head, _mean(Y), Y).reshape(
                len(Y), Y.shape[2], -1
            )
            @ W_O
            for head in range(Y.shape[1])
        ],
        dim=1,
    )
)
