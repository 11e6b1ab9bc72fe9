"""Masks: causal, for padding, both joined, a window, and the one that PyTorch's module takes."""

import minitorch as mt
from minitorch import nn
from textbook.checks.exercise import Draw, exercise

# The future


def steps_back(n):
    """(n, n): how many positions key j lies before query i."""
    positions = mt.arange(n)
    return positions.unsqueeze(1) - positions


def _size_cases(draw, hidden):
    yield from [(1,), (2,), (3,), (5,)] + [(4,), (8,)] * hidden


@exercise(cases=_size_cases, see='chapter 07, "The causal mask"')
def causal_mask(n):
    """(n, n) boolean: True where query i may look at key j."""
    positions = mt.arange(n)
    return positions <= positions.unsqueeze(1)


causal_mask.wrong(
    "strict: a token may look at the tokens before it, but not at itself",
    "Key j is allowed if j <= i, the diagonal included. Else the first token sees nothing.",
)(lambda n: steps_back(n) > 0)
causal_mask.wrong(
    "transposed: each token looks at itself and at what comes after it",
    "Row i belongs to query i and column j to key j, so what is allowed is the lower triangle.",
)(lambda n: steps_back(n) <= 0)
causal_mask.wrong(
    "the opposite: True where a token may not look",
    "In the book True means that a query may look there. (nn.MultiheadAttention and nn.Transformer "
    "mean the opposite by True, and the library's own masks for them are the other way round.)",
)(lambda n: steps_back(n) < 0)
causal_mask.wrong(
    "off by one: each token may also look at the one after it",
    "Key j is allowed if j <= i. With j <= i + 1 the token that has to be predicted is in sight.",
)(lambda n: steps_back(n) >= -1)
causal_mask.wrong(
    "True everywhere: nothing is masked",
    "Query i may look at key j only if j <= i.",
)(lambda n: mt.ones(n, n, dtype=mt.bool))
causal_mask.wrong(
    "the identity: each token looks at itself alone",
    "The tokens before it are allowed, too: j <= i.",
)(lambda n: steps_back(n) == 0)
causal_mask.wrong(
    "a mask of numbers, 0 and minus infinity, to be added to the scores",
    "That is another habit, and a good one. Here the mask is boolean: True where query i may look "
    "at key j.",
)(lambda n: mt.zeros(n, n).masked_fill(steps_back(n) < 0, -mt.inf))
causal_mask.wrong(
    "right but for its numbers, 0 and 1 in place of False and True",
    "masked_fill and ~ take booleans. Compare positions, or end with .bool().",
)(lambda n: (steps_back(n) >= 0).long())


# The padding


def _length_cases(draw, hidden):
    """In public cases no sequence fills all n positions."""
    yield mt.tensor([1]), 2
    yield mt.tensor([2, 1, 0]), 3
    yield draw.integers(4, 2), 6
    if hidden:
        yield mt.tensor([4, 1, 4]), 4
        yield draw.integers(10, 5), 9


def _real(lengths, n):
    """(B, n): whether a position holds a token."""
    return mt.arange(n) < lengths.unsqueeze(1)


@exercise(cases=_length_cases, see='chapter 07, "Padding"')
def real_tokens(lengths, n):
    """Lengths (B) give (B, n) boolean: True at real tokens."""
    return mt.arange(n) < lengths.unsqueeze(1)


real_tokens.wrong(
    "the opposite: True at the padding",
    "In this chapter True means: may be looked at. (data.padding_mask and key_padding_mask mean "
    "the opposite.)",
)(lambda lengths, n: ~_real(lengths, n))
real_tokens.wrong(
    "off by one: one position of padding counts as a token",
    "Positions count from 0, so position j holds a token if j < lengths[b].",
)(lambda lengths, n: _real(lengths + 1, n))
real_tokens.wrong(
    "off by one: the last token of each sequence counts as padding",
    "Positions count from 0, so position j holds a token if j < lengths[b].",
)(lambda lengths, n: _real(lengths - 1, n))
real_tokens.wrong(
    "a mask for padding at the front",
    "Here the tokens come first: positions 0 to lengths[b] - 1.",
)(lambda lengths, n: _real(lengths, n).flip(1))
real_tokens.wrong(
    "right but for the number of positions: it is the longest length, not n",
    "A batch may have more positions than its longest sequence. n says how many.",
)(lambda lengths, n: _real(lengths, int(lengths.max())))
real_tokens.wrong(
    "right but for the order of the axes: it is (n, B)",
    "The batch comes first, (B, n): compare arange(n) with lengths.unsqueeze(1).",
)(lambda lengths, n: _real(lengths, n).T)
real_tokens.wrong(
    "right but for its numbers, 0 and 1 in place of False and True",
    "masked_fill and ~ take booleans. A comparison gives them.",
)(lambda lengths, n: _real(lengths, n).long())


# Both


def _real_cases(draw, hidden):
    """Padding at the end, at the front, in the middle; real (B, n)."""
    yield (mt.tensor([[True, False]]),)
    yield (mt.tensor([[False, True, True]]),)
    yield (mt.tensor([[True, True, True], [True, True, False], [False, True, True]]),)
    if hidden:
        yield (draw.normal(4, 6) > -0.5,)
        yield (mt.tensor([[False], [True]]),)


def _joined(real, seen=lambda back: back >= 0):
    """The join of both, with the causal part exchanged."""
    return seen(steps_back(real.shape[1])) & real.unsqueeze(1).unsqueeze(1)


@exercise(cases=_real_cases, see='chapter 07, "Padding"')
def joined_mask(real):
    """Real (B, n) gives (B, 1, n, n) boolean: True where query i may look at key j."""
    positions = mt.arange(real.shape[1])
    causal = positions <= positions.unsqueeze(1)  # (n, n)
    return causal & real.unsqueeze(1).unsqueeze(1)


joined_mask.wrong(
    "joined by 'or': a place that one of the two masks allows is allowed",
    "A query may look only where both masks allow it: &.",
)(lambda real: (steps_back(real.shape[1]) >= 0) | real[:, None, None])
joined_mask.wrong(
    "a mask along the queries: the rows of the padding are masked, not the columns",
    "What must not be looked at is a key, and keys are columns: real as (B, 1, 1, n), not "
    "(B, 1, n, 1).",
)(lambda real: (steps_back(real.shape[1]) >= 0) & real[:, None, :, None])
joined_mask.wrong(
    "masked along keys and queries: columns and rows of the padding",
    "Mask the keys alone. What the queries of the padding see does no harm, for the loss leaves "
    "their outputs out; and a row with nothing to look at is a trouble of its own.",
)(lambda real: _joined(real) & real[:, None, :, None])
joined_mask.wrong(
    "the mask of the padding alone: the future is in sight",
    "Join it with the causal mask: a query may look where both allow it.",
)(lambda real: _joined(real, seen=lambda back: back == back))
joined_mask.wrong(
    "the causal mask alone: the padding is in sight",
    "Join it with real: a query may look where both allow it.",
)(lambda real: _joined(mt.ones_like(real)))
joined_mask.wrong(
    "a mask for padding at the end: it counts the tokens and does not ask where they stand",
    "The padding may also stand at the front. real says of each position what it is.",
)(lambda real: _joined(_real(real.sum(dim=1), real.shape[1])))
joined_mask.wrong(
    "right but for the diagonal, which is allowed in the padding, too",
    "To let each place look at itself is a good way to have no empty rows. Here follow the rule: "
    "no padded key is looked at, from nowhere.",
)(lambda real: _joined(real) | (steps_back(real.shape[1]) == 0))
joined_mask.wrong(
    "the opposite: True where a query may not look",
    "Here True means: may look.",
)(lambda real: ~_joined(real))
joined_mask.wrong(
    "strict: a token may not look at itself",
    "The causal part is j <= i, the diagonal included.",
)(lambda real: _joined(real, seen=lambda back: back > 0))
joined_mask.wrong(
    "right but for the causal part, which is transposed",
    "Row i is query i, column j is key j, and j <= i is allowed: the lower triangle.",
)(lambda real: _joined(real, seen=lambda back: back <= 0))
joined_mask.wrong(
    "right but for the axis of the heads, which is missing",
    "Scores of several heads are (B, h, n, n). A mask (B, n, n) would meet them as (1, B, n, n): "
    "its batch would be taken for the heads. Give it an axis of size 1, (B, 1, n, n).",
)(lambda real: _joined(real).squeeze(1))
joined_mask.wrong(
    "right but for the place of the heads' axis: the shape is (1, B, n, n)",
    "The batch comes first: (B, 1, n, n).",
)(lambda real: _joined(real).transpose(0, 1))


# A window


def _window_cases(draw, hidden):
    yield from [(2, 1), (3, 2), (3, 5), (5, 3), (6, 2)] + [(1, 1), (7, 4), (9, 1)] * hidden


@exercise(cases=_window_cases, see='chapter 07, "The causal mask"')
def window_mask(n, width):
    """(n, n) boolean: True where query i may look at key j, one of the last `width` tokens."""
    positions = mt.arange(n)
    back = positions.unsqueeze(1) - positions  # (n, n)
    return (back >= 0) & (back < width)


window_mask.wrong(
    "off by one: the window holds one token too many",
    "The token itself is one of the width tokens, so it sees width - 1 before it.",
)(lambda n, width: (steps_back(n) >= 0) & (steps_back(n) <= width))
window_mask.wrong(
    "off by one: the window begins with the token before",
    "The token itself is one of the width tokens.",
)(lambda n, width: (steps_back(n) > 0) & (steps_back(n) <= width))
window_mask.wrong(
    "off by one: the window holds one token too few",
    "The token itself is one of the width tokens, so it sees width - 1 before it.",
)(lambda n, width: (steps_back(n) >= 0) & (steps_back(n) < width - 1))
window_mask.wrong(
    "empty, or for width 1 the diagonal: the left end has the wrong sign",
    "triu(k) keeps j - i >= k. What is wanted is i - j < width, so k = 1 - width.",
)(lambda n, width: (steps_back(n) >= 0) & (steps_back(n) <= 1 - width))
window_mask.wrong(
    "a window that stands still: the first width tokens of the text",
    "The window moves along: it ends at the token itself.",
)(lambda n, width: (steps_back(n) >= 0) & (mt.arange(n) < width))
window_mask.wrong(
    "a window to both sides: it looks ahead",
    "The mask is causal, too: j <= i.",
)(lambda n, width: steps_back(n).abs() < width)
window_mask.wrong(
    "a window that looks ahead instead of back",
    "Row i is query i, column j is key j: i - width < j <= i.",
)(lambda n, width: (steps_back(n) <= 0) & (steps_back(n) > -width))
window_mask.wrong(
    "the causal mask: the window has no left end",
    "A token further back than width - 1 places is out of sight.",
)(lambda n, width: steps_back(n) >= 0)
window_mask.wrong(
    "the opposite: True where a query may not look",
    "Here True means: may look.",
)(lambda n, width: (steps_back(n) < 0) | (steps_back(n) >= width))
window_mask.wrong(
    "what the window leaves out: the tokens further back",
    "The near tokens are in sight and the far ones are not: i - width < j <= i.",
)(lambda n, width: steps_back(n) >= width)
window_mask.wrong(
    "cut into blocks of width tokens, each of which sees its own block",
    "The window moves along: it always ends at the token itself.",
)(
    lambda n, width: (
        (steps_back(n) >= 0) & (mt.arange(n).unsqueeze(1) // width == mt.arange(n) // width)
    )
)


# The other convention


def _allowed_cases(draw, hidden):
    """Batches with more than one mask; every query may look somewhere. Square in public."""
    sizes = [(1, 2, 2, 1), (2, 2, 2, 2), (2, 3, 3, 3)] + [(3, 4, 6, 2), (2, 5, 3, 4)] * hidden
    for batch, steps, n, heads in sizes:
        allowed = draw.normal(batch, steps, n) > 0
        somewhere = draw.integers(n, batch, steps).unsqueeze(-1)
        yield allowed | (mt.arange(n) == somewhere), heads


def _weights_of_the_module(answer, allowed, heads):
    """What nn.MultiheadAttention looks at with the mask that the answer makes."""
    batch, steps, n = allowed.shape
    draw, width = Draw(0), 2 * heads
    module = nn.MultiheadAttention(width, heads, batch_first=True)
    module.load_state_dict(draw.state(module))
    x, memory = draw.normal(batch, steps, width), draw.normal(batch, n, width)
    x[:, 0] *= 1e7  # the scores of the first query lie far apart
    mask = answer(allowed, heads)
    _, weights = module(x, memory, memory, attn_mask=mask, average_attn_weights=False)
    return {"the tensor of the module's weights": weights.detach()}


@exercise(
    cases=_allowed_cases,
    run=_weights_of_the_module,
    gradients=False,
    see='chapter 07, "True means two opposite things"',
)
def module_mask(allowed, heads):
    """Allowed (B, T, n) gives the module's attn_mask, (B * heads, T, n)."""
    return (~allowed).repeat_interleave(heads, dim=0)


module_mask.wrong(
    "not turned round: the module looks exactly where it must not",
    "nn.MultiheadAttention takes True for: may NOT look. Turn the mask round with ~.",
)(lambda allowed, heads: allowed.repeat_interleave(heads, dim=0))
module_mask.wrong(
    "the mask as it is given, neither turned round nor made for the heads",
    "nn.MultiheadAttention takes True for: may NOT look. And it wants (B * heads, T, n), the same "
    "mask heads times for each sequence.",
)(lambda allowed, heads: allowed)
module_mask.wrong(
    "neither turned round nor in the right order",
    "nn.MultiheadAttention takes True for: may NOT look. And every mask comes heads times in a "
    "row, as repeat_interleave does it.",
)(lambda allowed, heads: allowed.repeat(heads, 1, 1))
module_mask.wrong(
    "repeated in the wrong order: sequences get one another's masks",
    "The masks of the heads of sequence 0 come first, then those of sequence 1: every mask heads "
    "times in a row, as repeat_interleave does. repeat puts whole batches behind one another.",
)(lambda allowed, heads: (~allowed).repeat(heads, 1, 1))
module_mask.wrong(
    "turned round and transposed",
    "Rows stay queries and columns keys: the two conventions differ in the meaning of True alone.",
)(lambda allowed, heads: (~allowed).transpose(1, 2).repeat_interleave(heads, dim=0))
module_mask.wrong(
    "one mask for the whole batch",
    "Each sequence has a mask of its own: return (B * heads, T, n).",
)(lambda allowed, heads: ~allowed[0])
module_mask.wrong(
    "no mask at all",
    "Return a mask (B * heads, T, n), True where a query may NOT look.",
)(lambda allowed, heads: None)
module_mask.wrong(
    "one mask for each sequence, and not one for each head of each sequence",
    "The module has no axis of size 1 for the heads: it wants (B * heads, T, n), the same mask "
    "heads times for each sequence.",
)(lambda allowed, heads: ~allowed)
module_mask.wrong(
    "a mask of zeros and ones as floating-point numbers, which are added to the scores",
    "The module adds a mask of numbers to the scores: 1 changes little, minus infinity masks. "
    "Return booleans, or 0 and minus infinity.",
)(lambda allowed, heads: (~allowed).repeat_interleave(heads, dim=0).to(mt.get_default_dtype()))
module_mask.wrong(
    "a mask of numbers that are not low enough",
    "The module adds a mask of numbers to the scores. Where the other scores are lower still, a "
    "finite number hides nothing: return booleans, or 0 and minus infinity.",
)(lambda allowed, heads: -1e4 * (~allowed).repeat_interleave(heads, dim=0))
