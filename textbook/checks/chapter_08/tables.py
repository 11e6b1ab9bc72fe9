"""The tables inside a layer that gets one-hot vectors beside its words."""

import minitorch as mt
from textbook.checks.exercise import Draw, exercise


def _layer_cases(draw, hidden):
    """A layer of m outputs for width d, N positions and S segments, all different."""
    public = [(1, 3, 4, 2), (3, 4, 2, 5), (4, 2, 5, 3)]
    for m, d, longest, segments in [(5, 4, 7, 2), (4, 1, 3, 6)] if hidden else public:
        yield draw.normal(m, d + longest + segments), draw.normal(m), longest, segments


def _cut(
    parts=lambda weight, d, longest: (
        weight[:, :d],
        weight[:, d : d + longest],
        weight[:, d + longest :],
    ),
    turn=lambda part: part.T,
    join=lambda place, segment: segment.unsqueeze(1) + place,
    add=lambda matrix, table, bias: (matrix, table + bias),
):
    """The parts of the layer with one of the pieces exchanged."""

    def tables(weight, bias, longest, segments):
        d = weight.shape[1] - longest - segments
        word, place, segment = map(turn, parts(weight, d, longest))
        return add(word, join(place, segment), bias)

    return tables


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
    forbidden=("matmul", "linear"),
    instead="slices of the weight, .T and +: a one-hot vector picks a column, there is nothing "
    "to multiply",
    properties=(_same_as_the_layer,),
    reasons=(_other_width,),
    gradients=False,
    see='chapter 08, "One-hot positions"',
)
def learned_from_one_hot(weight, bias, longest, segments):
    """weight (m, d + N + S) and bias (m) give matrix (d, m) and table (S, N, m)."""
    d = weight.shape[1] - longest - segments
    word, place, segment = weight.T.split([d, longest, segments])
    return word, segment.unsqueeze(1) + place + bias


learned_from_one_hot.wrong(
    "right but for matrix, which is not transposed",
    "nn.Linear keeps (outputs, inputs): the part for the words is (m, d), and X multiplies (d, m).",
)(lambda weight, *others: (_cut()(weight, *others)[0].T, _cut()(weight, *others)[1]))
learned_from_one_hot.wrong(
    "cut rightly, but its parts are reshaped where they should be transposed",
    "reshape hands out the numbers in the order in which they lie; .T exchanges the axes.",
)(_cut(turn=lambda part: part.reshape(part.shape[1], -1)))
learned_from_one_hot.wrong(
    "right but for the table, made as (m, S, N) and then reshaped",
    "reshape hands out the numbers in the order in which they lie: move the axis m last, with "
    "permute or transpose.",
)(
    _cut(
        add=lambda matrix, table, bias: (
            matrix,
            (table + bias).permute(2, 0, 1).reshape(*table.shape),
        )
    )
)
learned_from_one_hot.wrong(
    "three tensors: a table of places and one of segments, not yet added up",
    "One table (S, N, m): its entry [s, t] is the sum of the two and the bias.",
)(
    lambda weight, bias, longest, segments: (
        weight.T[: -longest - segments],
        weight.T[-longest - segments : -segments] + bias,
        weight.T[-segments:],
    )
)
learned_from_one_hot.wrong(
    "right but for the bias, which is left out",
    "The layer adds its bias once, wherever a word stands: every entry of the table can hold it.",
)(_cut(add=lambda matrix, table, bias: (matrix, table)))
learned_from_one_hot.wrong(
    "right but for the bias, which is in the table twice",
    "The layer adds its bias once. If places and segments both bring it, it is there twice.",
)(_cut(add=lambda matrix, table, bias: (matrix, table + 2 * bias)))
learned_from_one_hot.wrong(
    "right but for the bias, which is in the matrix",
    "Rows of the matrix are multiplied by the words, and the bias is not. It belongs in the table.",
)(_cut(add=lambda matrix, table, bias: (matrix + bias, table)))
learned_from_one_hot.wrong(
    "right but for the bias, which is in both parts",
    "Rows of the matrix are multiplied by the words, and the bias is not. It belongs in the table, "
    "and nowhere else.",
)(_cut(add=lambda matrix, table, bias: (matrix + bias, table + bias)))
learned_from_one_hot.wrong(
    "right but for the bias, which only the first place gets",
    "The layer adds its bias at every place.",
)(
    _cut(
        add=lambda matrix, table, bias: (matrix, mt.cat([table[:, :1] + bias, table[:, 1:]], dim=1))
    )
)
learned_from_one_hot.wrong(
    "right but for the bias, which only the first segment gets",
    "The layer adds its bias in every segment.",
)(_cut(add=lambda matrix, table, bias: (matrix, mt.cat([table[:1] + bias, table[1:]]))))
learned_from_one_hot.wrong(
    "right but for the order: the table comes first",
    "Return the matrix for the words, then the table.",
)(_cut(add=lambda matrix, table, bias: (table + bias, matrix)))
learned_from_one_hot.wrong(
    "right but for the axes of the table: the places come first",
    "table[s, t] belongs to segment s and place t: (S, N, m).",
)(_cut(join=lambda place, segment: place.unsqueeze(1) + segment))
learned_from_one_hot.wrong(
    "right but for the table, from which the segments are missing",
    "A word in segment s at place t gets both columns: that of t and that of s.",
)(_cut(join=lambda place, segment: place.expand(len(segment), *place.shape)))
learned_from_one_hot.wrong(
    "right but for the table, from which the places are missing",
    "A word in segment s at place t gets both columns: that of t and that of s.",
)(_cut(join=lambda place, segment: segment.unsqueeze(1).expand(-1, len(place), -1)))
learned_from_one_hot.wrong(
    "right but for the table, in which places and segments are multiplied",
    "The layer adds up what its inputs give: the column of t plus the column of s.",
)(_cut(join=lambda place, segment: segment.unsqueeze(1) * place))
learned_from_one_hot.wrong(
    "right but for the rows of the table, of which the last place comes first",
    "The one-hot vector of place t has its 1 at t.",
)(_cut(join=lambda place, segment: segment.unsqueeze(1) + place.flip(0)))


@learned_from_one_hot.wrong(
    "right but for the rest of the table, which is one table below the other: (N + S, m)",
    "table[s, t] is for a word in segment s at place t: the sum of two columns and the bias.",
)
def _(weight, bias, longest, segments):
    d = weight.shape[1] - longest - segments
    return weight[:, :d].T, weight[:, d:].T + bias


learned_from_one_hot.wrong(
    "cut as if the segment stood before the place",
    "After the d columns of the word come the N of the place, then the S of the segment.",
)(
    lambda weight, bias, longest, segments: _cut(
        parts=lambda weight, d, longest: (
            weight[:, :d],
            weight[:, d + segments :],
            weight[:, d : d + segments],
        )
    )(weight, bias, longest, segments)
)
learned_from_one_hot.wrong(
    "cut as if the word stood last",
    "The word has the first d columns of the weight.",
)(
    lambda weight, bias, longest, segments: _cut(
        parts=lambda weight, d, longest: (
            weight[:, longest + segments :],
            weight[:, :longest],
            weight[:, longest : longest + segments],
        )
    )(weight, bias, longest, segments)
)
