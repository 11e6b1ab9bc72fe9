"""The tables inside a layer that gets one-hot vectors beside its words."""

import minitorch as mt
from textbook.checks.exercise import Draw, exercise


def _layer_cases(draw, others=()):
    """A layer of m outputs for width d, N positions and S segments, all different."""
    public = [(1, 3, 4, 2), (3, 4, 2, 5), (4, 2, 5, 3)]
    for m, d, longest, segments in others or public:
        yield draw.normal(m, d + longest + segments), draw.normal(m), longest, segments


def _same_as_the_layer(answer, weight, bias, longest, segments):
    matrix, table = answer(weight, bias, longest, segments)
    X = Draw(0).normal(segments, longest, weight.shape[1] - longest - segments)
    place = mt.eye(longest).expand(segments, longest, longest)
    segment = mt.eye(segments).unsqueeze(1).expand(segments, longest, segments)
    layer = mt.cat([X, place, segment], dim=-1) @ weight.T + bias
    if not mt.allclose(X @ matrix + table, layer):
        return "X @ matrix + table must be what the layer makes of words and one-hot vectors."
    return None


def _other_width(check, answer, weight, bias, longest, segments):
    matrix, _ = answer(weight, bias, longest, segments)
    d = weight.shape[1] - longest - segments
    if matrix.ndim == 2 and matrix.shape[0] not in (d, weight.shape[0]):
        return (
            f"The matrix has {matrix.shape[0]} rows: it belongs to the words alone, which have "
            f"d = weight.shape[1] - longest - segments = {d} columns of the weight."
        )
    return None


@exercise(
    cases=_layer_cases,
    hidden_cases=lambda draw: _layer_cases(draw, others=[(5, 4, 7, 2), (4, 1, 3, 6)]),
    forbidden=("matmul", "linear"),
    instead="slices of the weight, .T and +: a one-hot vector picks a column, there is nothing "
    "to multiply",
    properties=(_same_as_the_layer,),
    reasons=(_other_width,),
    gradients=False,
    after_passing="Shorter: an nn.Embedding is such a layer; its one-hot vectors are never made.",
    see='chapter 08, "One-hot positions"',
)
def learned_from_one_hot(weight, bias, longest, segments):
    """weight (m, d + N + S) and bias (m) give matrix (d, m) and table (S, N, m)."""
    d = weight.shape[1] - longest - segments
    word, place, segment = weight.T.split([d, longest, segments])
    return word, segment.unsqueeze(1) + place + bias
