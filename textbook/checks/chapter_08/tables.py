"""Learned positions: a table that is added, and the table inside a layer for one-hot positions."""

import re

import minitorch as mt
from minitorch import nn
from textbook.checks.exercise import Draw, exercise
from textbook.checks.modules import drawn, made, results_of

# A table, added


def _table_cases(draw, hidden):
    """The length of the table and inputs (B, n, width), shorter, as long and longer."""
    sizes = [(4, 2, 2, 3), (3, 2, 3, 2), (3, 1, 5, 4), (6, 2, 7, 2)]
    for longest, batch, n, width in sizes + [(8, 3, 5, 6), (5, 5, 5, 4), (2, 2, 9, 3)] * hidden:
        yield longest, draw.normal(batch, n, width)


def _beyond_the_table(module, x):
    """What the module does with a sequence that is too long."""
    try:
        module(x)
    except NotImplementedError:
        raise
    except Exception as error:
        numbers = re.findall(r"\d+", str(error))
        named = str(x.shape[1]) in numbers and str(len(module.table)) in numbers
        kind = "IndexError" if isinstance(error, IndexError) else type(error).__name__
        return f"{kind}{', and its message names both lengths' if named else ''}"
    return "no error"


def _run(answer, longest, x):
    sizes = longest, x.shape[-1]
    if x.shape[1] > longest:
        module = made(_Learned, answer, sizes)
        return {"what happens with too long a sequence": _beyond_the_table(module, x)}
    return results_of(
        answer(*sizes),
        drawn(_Learned, *sizes),
        {"x": x},
        lambda module: {"the output": module(x)},
    )


@exercise(
    cases=_table_cases,
    run=_run,
    forbidden=("embedding",),
    instead="self.table, of which you take the rows that you need",
    gradients=False,
    see='chapter 08, "Learned positions"',
)
class LearnedPositions(nn.Module):
    """A learned vector for each place, added."""

    def __init__(self, longest, width):
        super().__init__()
        self.table = nn.Parameter(mt.randn(longest, width))

    def forward(self, x):
        """x (B, n, width) gives (B, n, width)."""
        longest, n = len(self.table), x.shape[1]
        if n > longest:
            raise IndexError(f"{n} positions, but the table has only {longest}")
        return x + self.table[:n]


_Learned = LearnedPositions.reference


class LearnedInPieces(_Learned):
    """The same; each piece that mistakes exchange is a method of its own."""

    def forward(self, x):
        self.refuse(x.shape[1], len(self.table))
        return self.join(x, self.rows(x.shape[1]))

    def refuse(self, n, longest):
        if n > longest:
            raise IndexError(f"{n} positions, but the table has only {longest}")

    def rows(self, n):
        return self.table[:n]

    def join(self, x, rows):
        return x + rows


@LearnedPositions.wrong(
    "right for sequences that fit, but too long a one gets an error that is not yours",
    "The addition stops it with a RuntimeError about shapes, which tells nobody what went wrong. "
    "Compare the lengths first: raise IndexError(...), with both of them in the message.",
)
class _(LearnedInPieces):
    def refuse(self, n, longest):
        pass


@LearnedPositions.wrong(
    "right for sequences that fit, but the error for too long a one does not say by how much",
    "Name the length of the sequence and the length of the table in the message.",
)
class _(LearnedInPieces):
    def refuse(self, n, longest):
        if n > longest:
            raise IndexError("too long")


@LearnedPositions.wrong(
    "right for sequences that fit, but the error for too long a one is a ValueError",
    "What is missing is a row of the table: raise an IndexError.",
)
class _(LearnedInPieces):
    def refuse(self, n, longest):
        if n > longest:
            raise ValueError(f"{n} positions, but the table has only {longest}")


@LearnedPositions.wrong(
    "right for sequences that fit, but positions beyond the table get vectors, without an error",
    "The last row again, the first rows again, nothing at all: none of it was learned for such a "
    "position, and nobody is told. Raise an IndexError.",
)
class _(LearnedInPieces):
    def refuse(self, n, longest):
        pass

    def rows(self, n):
        return self.table[mt.arange(n).clamp(max=len(self.table) - 1)]


@LearnedPositions.wrong(
    "off by one: it refuses a sequence that is just as long as the table",
    "A table with N rows has positions 0 to N - 1, which is N positions.",
)
class _(LearnedInPieces):
    def refuse(self, n, longest):
        super().refuse(n + 1, longest)


@LearnedPositions.wrong(
    "right but for the first position, which gets the second row: it counts from 1",
    "Position 0 has row 0.",
)
class _(LearnedInPieces):
    def rows(self, n):
        return self.table[mt.arange(1, n + 1) % len(self.table)]


@LearnedPositions.wrong(
    "right but for the rows: it takes the last ones of the table",
    "Position i has row i: the first n rows.",
)
class _(LearnedInPieces):
    def rows(self, n):
        return self.table[-n:]


@LearnedPositions.wrong(
    "right for sequences that are just as long as the table: it adds all of it",
    "A sequence of n tokens gets the first n rows.",
)
class _(LearnedInPieces):
    def rows(self, n):
        return self.table


@LearnedPositions.wrong(
    "right but for the rows: all positions get the first one",
    "Position i has row i.",
)
class _(LearnedInPieces):
    def rows(self, n):
        return self.table[0]


@LearnedPositions.wrong(
    "the positions alone, without x",
    "Add the rows to x.",
)
class _(LearnedInPieces):
    def join(self, x, rows):
        return rows.expand(*x.shape)


@LearnedPositions.wrong(
    "the product of x and the positions",
    "Add the rows to x.",
)
class _(LearnedInPieces):
    def join(self, x, rows):
        return x * rows


@LearnedPositions.wrong(
    "x with the positions put beside it",
    "Here they are added: the width stays as it is.",
)
class _(LearnedInPieces):
    def join(self, x, rows):
        return mt.cat([x, rows.expand(*x.shape)], dim=-1)


@LearnedPositions.wrong(
    "right but for the table, which cannot learn: no gradient reaches it",
    "Use self.table itself, not its .data, .detach() or a copy made with mt.tensor.",
)
class _(LearnedInPieces):
    def rows(self, n):
        return self.table.detach()[:n]


# One-hot positions are learned positions


def _layer_cases(draw, hidden):
    """Sizes (m, d, N) with a layer of m outputs, width d and N positions, all different."""
    for m, d, longest in [(5, 4, 7), (4, 1, 3)] if hidden else [(1, 2, 3), (3, 4, 2), (2, 3, 5)]:
        yield draw.normal(m, d + longest), draw.normal(m), longest


def _cut(
    word=lambda weight, d: weight[:, :d].T,
    place=lambda weight, d: weight[:, d:].T,
    add=lambda matrix, table, bias: (matrix, table + bias),
):
    """The two parts of the layer with one of the pieces exchanged."""

    def parts(weight, bias, longest):
        d = weight.shape[1] - longest
        return add(word(weight, d), place(weight, d), bias)

    return parts


def _same_as_the_layer(answer, weight, bias, longest):
    d = weight.shape[1] - longest
    X = Draw(0).normal(longest, d)
    joined = mt.cat([X, mt.eye(longest)], dim=1)
    matrix, table = answer(weight, bias, longest)
    if not mt.allclose(X @ matrix + table, joined @ weight.T + bias):
        return "X @ matrix + table must be what the layer makes of words and one-hot positions."
    return None


@exercise(
    cases=_layer_cases,
    forbidden=("matmul", "linear"),
    instead="slices of the weight, .T and +",
    properties=(_same_as_the_layer,),
    gradients=False,
    see='chapter 08, "One-hot positions"',
)
def learned_from_one_hot(weight, bias, longest):
    """weight (m, d + N) and bias (m) give matrix (d, m) and table (N, m)."""
    d = weight.shape[1] - longest
    return weight[:, :d].T, weight[:, d:].T + bias


learned_from_one_hot.wrong(
    "right but for the transposes, which are missing",
    "nn.Linear keeps (outputs, inputs) and multiplies by the transpose: matrix is (d, m), table is "
    "(N, m).",
)(
    _cut(
        word=lambda weight, d: weight[:, :d],
        place=lambda weight, d: weight[:, d:],
        add=lambda matrix, table, bias: (matrix, table + bias.unsqueeze(1)),
    )
)
learned_from_one_hot.wrong(
    "right but for the transposes and the bias, which are missing",
    "nn.Linear keeps (outputs, inputs) and multiplies by the transpose: matrix is (d, m), table is "
    "(N, m). The bias is added once at each position.",
)(
    _cut(
        word=lambda weight, d: weight[:, :d],
        place=lambda weight, d: weight[:, d:],
        add=lambda matrix, table, bias: (matrix, table),
    )
)
learned_from_one_hot.wrong(
    "right but for matrix, which is not transposed",
    "nn.Linear keeps (outputs, inputs): the part for the words is (m, d), and X multiplies (d, m).",
)(_cut(word=lambda weight, d: weight[:, :d]))
learned_from_one_hot.wrong(
    "right but for the bias, which is left out",
    "The layer adds its bias at each position, once: every row of the table can hold it.",
)(_cut(add=lambda matrix, table, bias: (matrix, table)))
learned_from_one_hot.wrong(
    "right but for the bias, which is in the matrix",
    "Rows of the matrix are multiplied by the words, and the bias is not. It belongs in every row "
    "of the table.",
)(_cut(add=lambda matrix, table, bias: (matrix + bias, table)))
learned_from_one_hot.wrong(
    "right but for the bias, which is in both parts",
    "Rows of the matrix are multiplied by the words, and the bias is not. It belongs in every row "
    "of the table, and nowhere else.",
)(_cut(add=lambda matrix, table, bias: (matrix + bias, table + bias)))
learned_from_one_hot.wrong(
    "right but for the bias, which only the first position gets",
    "The layer adds its bias at every position.",
)(
    _cut(
        add=lambda matrix, table, bias: (matrix, mt.cat([table[:1] + bias, table[1:]])),
    )
)
learned_from_one_hot.wrong(
    "right but for the order: the table comes first",
    "Return the matrix for the words, then the table for the positions.",
)(_cut(add=lambda matrix, table, bias: (table + bias, matrix)))


@learned_from_one_hot.wrong(
    "cut as if the position stood before the word",
    "The word has the first d columns of the weight, the one-hot position the last N.",
)
def _(weight, bias, longest):
    return weight[:, longest:].T, weight[:, :longest].T + bias


@learned_from_one_hot.wrong(
    "cut after N columns instead of d",
    "N is the number of positions: the last N columns are theirs. The words have the rest, d = "
    "weight.shape[1] - longest columns.",
)
def _(weight, bias, longest):
    return weight[:, :longest].T, weight[:, longest:].T + bias


learned_from_one_hot.wrong(
    "right but for the rows of the table, which come last one first",
    "One-hot position t has its 1 at t: row t of the table belongs to column d + t of the weight.",
)(_cut(place=lambda weight, d: weight[:, d:].T.flip(0)))
