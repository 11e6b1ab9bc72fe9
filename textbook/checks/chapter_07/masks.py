"""Masks: for the last tokens of a batch, out of PyTorch's two, and what a stack of them reaches."""

import minitorch as mt
from textbook.checks.exercise import exercise

# The last tokens of a batch


def steps_back(n):
    """(n, n): how many positions key j lies before query i."""
    positions = mt.arange(n)
    return positions.unsqueeze(1) - positions


def _length_cases(draw, hidden):
    """Lengths, the number of queries T and that of positions n; some rows may look nowhere."""
    yield mt.tensor([2, 3]), 3, 4
    yield mt.tensor([3, 1, 5]), 2, 5
    yield mt.tensor([1, 4]), 4, 4
    if hidden:
        yield mt.tensor([6, 2, 1, 4, 5]), 4, 6
        yield mt.tensor([7, 3]), 1, 7
        yield draw.integers(9, 3) + 1, 5, 9


def _at_the_end(lengths, n):
    """(B, n): whether a position holds a token, all padding standing in front."""
    return mt.arange(n) >= n - lengths.unsqueeze(1)


def _last(T, n):
    """(T, n): the last T rows of how far back a key lies."""
    return steps_back(n)[n - T :]


def _chunk(
    back=_last,
    seen=lambda back: back >= 0,
    real=_at_the_end,
    join=lambda causal, real: causal & real[:, None, None],
):
    """The mask with one of its pieces exchanged."""

    def mask(lengths, T, n):
        return join(seen(back(T, n)), real(lengths, n))

    return mask


@exercise(cases=_length_cases, see='chapter 07, "Padding"')
def chunk_mask(lengths, T, n):
    """Lengths (B), T and n give (B, 1, T, n) boolean: True where a query may look at a key."""
    positions = mt.arange(n)
    asking = positions[n - T :].unsqueeze(1)  # (T, 1)
    real = positions >= n - lengths.unsqueeze(1)  # (B, n)
    return (positions <= asking) & real[:, None, None]


chunk_mask.wrong(
    "a triangle from the top left corner: as if the queries were the first T tokens",
    "The queries are the last T of n positions: query i stands at n - T + i.",
)(_chunk(back=lambda T, n: steps_back(n)[:T]))
chunk_mask.wrong(
    "a mask for padding at the end",
    "Here the padding stands in front: the tokens are the last lengths[b] positions.",
)(_chunk(real=lambda lengths, n: mt.arange(n) < lengths.unsqueeze(1)))
chunk_mask.wrong(
    "a mask for padding at the end and for the first T tokens",
    "Here the padding stands in front, and the queries are the last T of n positions.",
)(
    _chunk(
        back=lambda T, n: steps_back(n)[:T],
        real=lambda lengths, n: mt.arange(n) < lengths.unsqueeze(1),
    )
)
chunk_mask.wrong(
    "joined by 'or': a place that one of the two masks allows is allowed",
    "A query may look only where both masks allow it: &.",
)(_chunk(join=lambda causal, real: causal | real[:, None, None]))
chunk_mask.wrong(
    "a mask along the queries: the rows of the padding are masked, not the columns",
    "What must not be looked at is a key, and keys are columns: real as (B, 1, 1, n).",
)(_chunk(join=lambda causal, real: causal & real[:, None, -len(causal) :, None]))
chunk_mask.wrong(
    "the mask of the padding alone: the future is in sight",
    "Join it with the causal mask: a query may look where both allow it.",
)(_chunk(seen=lambda back: back == back))
chunk_mask.wrong(
    "the causal mask alone: the padding is in sight",
    "Join it with that of the padding: a query may look where both allow it.",
)(_chunk(real=lambda lengths, n: mt.ones(len(lengths), n, dtype=mt.bool)))
chunk_mask.wrong(
    "right but for the rows with nothing to look at, which may look at themselves",
    "To let each place look at itself is a good way to have no empty rows. Here follow the rule: "
    "no padded key is looked at, from nowhere.",
)(
    lambda lengths, T, n: (
        _chunk()(lengths, T, n)
        | ((_last(T, n) == 0) & ~_chunk()(lengths, T, n).any(dim=-1, keepdim=True))
    )
)
chunk_mask.wrong(
    "right but for the rows with nothing to look at, which may look everywhere",
    "Follow the rule: no padded key is looked at, from nowhere.",
)(lambda *case: _chunk()(*case) | ~_chunk()(*case).any(dim=-1, keepdim=True))
chunk_mask.wrong(
    "right for as many queries as keys: else the padding is counted from the end of T positions",
    "Keys stand at n positions, of which the last lengths[b] hold tokens.",
)(
    lambda lengths, T, n: (
        (_last(T, n) >= 0) & (mt.arange(n) >= T - lengths.unsqueeze(1))[:, None, None]
    )
)
chunk_mask.wrong(
    "the opposite: True where a query may not look",
    "Here True means: may look.",
)(_chunk(join=lambda causal, real: ~(causal & real[:, None, None])))
chunk_mask.wrong(
    "strict: a token may not look at itself",
    "The causal part includes the token itself.",
)(_chunk(seen=lambda back: back > 0))
chunk_mask.wrong(
    "off by one: each token may also look at the one after it",
    "With the token that has to be predicted in sight nothing is left to learn.",
)(_chunk(seen=lambda back: back >= -1))
chunk_mask.wrong(
    "right but for the causal part, which looks ahead in place of back",
    "Row i is a query, column j a key: a key may not come after the query.",
)(_chunk(seen=lambda back: back <= 0))
chunk_mask.wrong(
    "off by one: one position of padding counts as a token",
    "Of n positions the last lengths[b] hold tokens, so position j does if j >= n - lengths[b].",
)(_chunk(real=lambda lengths, n: _at_the_end(lengths + 1, n)))
chunk_mask.wrong(
    "off by one: the first token of each sequence counts as padding",
    "Of n positions the last lengths[b] hold tokens, so position j does if j >= n - lengths[b].",
)(_chunk(real=lambda lengths, n: _at_the_end(lengths - 1, n)))
chunk_mask.wrong(
    "a mask for all n queries",
    "Only the last T positions ask: (B, 1, T, n).",
)(lambda lengths, T, n: _chunk()(lengths, n, n))
chunk_mask.wrong(
    "right but for the axis of the heads, which is missing",
    "Scores of several heads are (B, h, T, n). A mask (B, T, n) would meet them as (1, B, T, n): "
    "its batch would be taken for the heads. Give it an axis of size 1, (B, 1, T, n).",
)(lambda lengths, T, n: _chunk()(lengths, T, n).squeeze(1))
chunk_mask.wrong(
    "right but for the place of the heads' axis: the shape is (1, B, T, n)",
    "The batch comes first: (B, 1, T, n).",
)(lambda lengths, T, n: _chunk()(lengths, T, n).transpose(0, 1))
chunk_mask.wrong(
    "right but for its numbers, 0 and 1 in place of False and True",
    "masked_fill and ~ take booleans. A comparison gives them, or .bool() at the end.",
)(lambda lengths, T, n: _chunk()(lengths, T, n).long())


# Out of PyTorch's two masks


def _pair_cases(draw, hidden):
    """attn_mask, key_padding_mask and (B, h, T, n), among them B = h; every kind with every kind.

    Which places are hidden is drawn: nothing is asked of the rows.
    """

    def padding(batch, n):
        return mt.arange(n) >= 1 + draw.integers(n, batch, 1)

    def numbers(hidden):
        return mt.zeros(hidden.shape).masked_fill(hidden, -mt.inf)

    for shape in [(3, 3, 2, 4), (2, 5, 3, 4)] if not hidden else [(4, 2, 5, 3), (2, 2, 3, 3)]:
        batch, heads, steps, n = shape
        for_all = draw.normal(steps, n) > 0
        for_each = draw.normal(batch * heads, steps, n) > 0
        yield None, padding(batch, n), shape
        yield for_all, padding(batch, n), shape
        yield numbers(for_each), padding(batch, n), shape
        yield for_each, None, shape
        yield numbers(for_all), None, shape
    yield None, None, (2, 3, 2, 3)


def _as_booleans(mask):
    return mask if mask.dtype == mt.bool else mask == -mt.inf


def _with_heads(hidden, shape):
    """(T, n) or (B h, T, n) -> what fits (B, h, T, n)."""
    return hidden.unflatten(0, shape[:2]) if hidden.ndim == 3 else hidden


def _converted(
    read=_as_booleans,
    turn=lambda hidden: ~hidden,
    fit=_with_heads,
    of_padding=lambda padding, shape: ~padding[:, None, None],
    join=lambda one, other: one & other,
    finish=lambda allowed: allowed,
):
    """The conversion with one of its pieces exchanged."""

    def convert(attn_mask, key_padding_mask, shape):
        parts = []
        if attn_mask is not None:
            parts.append(turn(fit(read(attn_mask), shape)).expand(*shape))
        if key_padding_mask is not None:
            parts.append(of_padding(key_padding_mask, shape).expand(*shape))
        if not parts:
            return finish(mt.ones(shape, dtype=mt.bool))
        return finish(parts[0] if len(parts) == 1 else join(*parts))

    return convert


def _fits(check, answer, *case):
    """A mask that would fit by broadcasting has not the shape that is asked for."""
    found, right = answer(*case), check.reference(*case)
    if found.shape != right.shape and mt.equal(found.expand(*right.shape), right):
        return "It fits by broadcasting, and the whole shape is asked for: .expand(*shape)."
    return None


@exercise(
    cases=_pair_cases,
    reasons=(_fits,),
    gradients=False,
    see='chapter 07, "True means two opposite things"',
)
def allowed_of(attn_mask, key_padding_mask, shape):
    """The two masks of nn.MultiheadAttention, or None, give the book's, of shape (B, h, T, n)."""
    allowed = mt.ones(shape, dtype=mt.bool)
    if attn_mask is not None:
        hidden = attn_mask if attn_mask.dtype == mt.bool else attn_mask == -mt.inf
        if hidden.ndim == 3:
            hidden = hidden.unflatten(0, shape[:2])  # (B, h, T, n)
        allowed = allowed & ~hidden
    if key_padding_mask is not None:
        allowed = allowed & ~key_padding_mask[:, None, None]
    return allowed


TURN = "The module takes True for: may NOT look. The book takes it for: may look."
allowed_of.wrong(
    "the opposite: True where a query may not look",
    TURN + " (Two masks that hide are joined by |, two that allow by &.)",
)(_converted(finish=lambda allowed: ~allowed))
allowed_of.wrong(
    "not turned round in either mask",
    TURN,
)(_converted(turn=lambda hidden: hidden, of_padding=lambda padding, _: padding[:, None, None]))
allowed_of.wrong(
    "right but for attn_mask, which is not turned round",
    TURN,
)(_converted(turn=lambda hidden: hidden))
allowed_of.wrong(
    "right but for boolean masks attn_mask, which are not turned round",
    TURN,
)(_converted(read=lambda mask: ~mask if mask.dtype == mt.bool else mask == -mt.inf))
allowed_of.wrong(
    "True everywhere: all is allowed from the start, and joined by 'or'",
    "A query may look only where both masks let it: &.",
)(lambda attn_mask, key_padding_mask, shape: mt.ones(shape, dtype=mt.bool))
allowed_of.wrong(
    "right but for two masks that are None: it is None, too",
    "Nothing is hidden then: return the whole shape, True everywhere.",
)(
    lambda attn_mask, key_padding_mask, shape: (
        None
        if attn_mask is None and key_padding_mask is None
        else _converted()(attn_mask, key_padding_mask, shape)
    )
)
allowed_of.wrong(
    "right but for masks (B h, T, n): it takes the first B of them, for all heads",
    "First the h heads of sequence 0, then those of sequence 1: (B h) becomes (B, h).",
)(_converted(fit=lambda hidden, shape: hidden[: shape[0]][:, None] if hidden.ndim == 3 else hidden))
allowed_of.wrong(
    "right but for key_padding_mask, which is not turned round",
    TURN,
)(_converted(of_padding=lambda padding, _: padding[:, None, None]))
allowed_of.wrong(
    "right but for masks of numbers, which are read the wrong way round",
    "Numbers are added to the scores: 0 lets a query look, minus infinity does not.",
)(_converted(read=lambda mask: mask if mask.dtype == mt.bool else mask == 0))
allowed_of.wrong(
    "right but for masks of numbers, which it takes for masks that hide nothing",
    "Minus infinity added to a score hides a key: look for it.",
)(_converted(read=lambda mask: mask if mask.dtype == mt.bool else mask > 0))
allowed_of.wrong(
    "right but for the join: a place that one of the two allows is allowed",
    "A query may look only where both masks let it: &.",
)(_converted(join=lambda one, other: one | other))
allowed_of.wrong(
    "right where one mask is None, but of two it takes attn_mask alone",
    "Both count: a query may look where neither hides the key.",
)(_converted(join=lambda one, other: one))
allowed_of.wrong(
    "right where one mask is None, but of two it takes key_padding_mask alone",
    "Both count: a query may look where neither hides the key.",
)(_converted(join=lambda one, other: other))
allowed_of.wrong(
    "right but for key_padding_mask, which is not used",
    "Nobody may look at a key that is padding.",
)(lambda attn_mask, key_padding_mask, shape: _converted()(attn_mask, None, shape))
allowed_of.wrong(
    "right but for attn_mask, which is not used",
    "A query may look where neither of the two hides the key.",
)(lambda attn_mask, key_padding_mask, shape: _converted()(None, key_padding_mask, shape))
allowed_of.wrong(
    "right but for masks (B h, T, n): they are taken apart as (h, B, T, n)",
    "First the h heads of sequence 0, then those of sequence 1: (B h) becomes (B, h).",
)(
    _converted(
        fit=lambda hidden, shape: (
            hidden.unflatten(0, (shape[1], shape[0])).transpose(0, 1)
            if hidden.ndim == 3
            else hidden
        )
    )
)
allowed_of.wrong(
    "right but for masks (B h, T, n): all heads get that of head 0",
    "Each head of each sequence has a mask of its own there.",
)(
    _converted(
        fit=lambda hidden, shape: (
            hidden.unflatten(0, shape[:2])[:, :1] if hidden.ndim == 3 else hidden
        )
    )
)
allowed_of.wrong(
    "right but for the padding: it is one axis short, and meets the heads",
    "(B, n) has to become (B, 1, 1, n). As (B, 1, n) its batch stands where the heads are.",
)(_converted(of_padding=lambda padding, shape: ~padding[:, None]))
allowed_of.wrong(
    "right but for its shape: it is (B, 1, T, n) or smaller where the heads do not differ",
    "Return all of (B, h, T, n): expand repeats an axis.",
)(
    lambda attn_mask, key_padding_mask, shape: (
        _converted()(attn_mask, key_padding_mask, shape)
        if attn_mask is not None and attn_mask.ndim == 3
        else _converted()(attn_mask, key_padding_mask, shape)[:, :1]
    )
)
allowed_of.wrong(
    "right but for its numbers, 0 and 1 in place of False and True",
    "A mask of the book is boolean.",
)(_converted(finish=lambda allowed: allowed.long()))
allowed_of.wrong(
    "right but for its numbers, 0 and minus infinity",
    "A mask of the book is boolean.",
)(_converted(finish=lambda allowed: mt.zeros(allowed.shape).masked_fill(~allowed, -mt.inf)))


# What a stack of masks reaches


def _stack_cases(draw, hidden):
    """Lists of masks (n, n), some of whose rows are empty."""
    causal = mt.ones(4, 4, dtype=mt.bool).tril()
    window = mt.ones(6, 6, dtype=mt.bool).tril() & mt.ones(6, 6, dtype=mt.bool).triu(-1)
    strict = mt.ones(5, 5, dtype=mt.bool).tril(-1)
    yield ([causal],)
    yield ([window, window],)
    yield ([strict & strict.tril(-2), strict & ~strict.tril(-2)],)
    yield ([mt.eye(3).bool()],)
    yield ([draw.normal(5, 5) > 0.8 for _ in range(3)],)
    yield ([mt.ones(4, 4, dtype=mt.bool)] * 40,)  # more ways than an int64 can count
    if hidden:
        yield ([window] * 4,)
        yield ([mt.zeros(4, 4, dtype=mt.bool), causal.T],)
        yield ([draw.normal(7, 7) > 1 for _ in range(2)],)
        yield ([draw.normal(6, 6) > 1.2 for _ in range(4)],)


def _product(one, other):
    """Of two booleans (n, n): whether there is a way from i over any k to j."""
    return one.double() @ other.double() > 0


def _reached(
    layer=lambda allowed: allowed | mt.eye(len(allowed)).bool(),
    order=lambda masks: masks,
    step=lambda layer, before: _product(layer, before),
):
    """The product with one of its pieces exchanged."""

    def reached(masks):
        found = mt.eye(len(masks[0])).bool()
        for allowed in order(masks):
            found = step(layer(allowed), found)
        return found

    return reached


def _way(check, answer, masks):
    """The way from the first token that is missed to its output; or that there is none."""
    found, steps = answer(masks), [mt.eye(len(masks[0])).bool()]
    for allowed in masks:
        steps.append(_product(allowed | mt.eye(len(allowed)).bool(), steps[-1]))
    if not isinstance(found, mt.Tensor) or found.shape != steps[-1].shape:
        return None
    wrong = (found != steps[-1]).nonzero().tolist()
    if not wrong:
        return None
    output, token = wrong[0]
    if not steps[-1][output, token].item():
        return (
            f"No way leads from token {token} to output {output} in {len(masks)} steps, "
            "one for each layer."
        )
    ways, place = [], output
    for layer in range(len(masks), 0, -1):
        if not steps[layer - 1][place, token].item():
            heard = masks[layer - 1][place] & steps[layer - 1][:, token]
            other = heard.nonzero()[0].item()
            ways.insert(0, f"in layer {layer} place {place} looks at {other}")
            place = other
    ways = ", ".join(ways) or "each layer adds to what is there, and looks at nothing else"
    return f"Output {output} depends on token {token}: {ways}. All places keep what they have."


@exercise(
    cases=_stack_cases,
    reasons=(_way,),
    gradients=False,
    see='chapter 07, "Gradients from the future (C15)"',
)
def reach(masks):
    """(n, n) boolean: True where output i of a stack with these masks depends on token j."""
    itself = mt.eye(len(masks[0])).bool()
    reached = itself
    for allowed in masks:
        ways = (allowed | itself).float() @ reached.float()  # how many tokens lie between
        reached = ways > 0
    return reached


reach.wrong(
    "right but for what is added: a token keeps what it was",
    "Each layer adds to its input: output i depends on token i, whatever the mask says.",
)(_reached(layer=lambda allowed: allowed))
reach.wrong(
    "right but for the order of the layers: the last mask comes first",
    "The first mask acts on the tokens, the next one on what that has made: its rows come last in "
    "the way from output to token.",
)(_reached(order=lambda masks: masks[::-1]))
reach.wrong(
    "what the last layer alone can see",
    "What it looks at has heard of others in the layers below.",
)(_reached(order=lambda masks: masks[-1:]))
reach.wrong(
    "what the first layer alone can see",
    "In the next layer these outputs are looked at in their turn.",
)(_reached(order=lambda masks: masks[:1]))
reach.wrong(
    "what any single layer can see: joined by 'or', without the ways over other tokens",
    "A token heard of in one layer hands on in the next what it has heard itself.",
)(_reached(step=lambda layer, before: layer | before))
reach.wrong(
    "what all layers can see: joined by 'and'",
    "One layer that looks is enough: the others carry on what is there.",
)(_reached(step=lambda layer, before: layer & (before | before.all())))
reach.wrong(
    "the causal triangle, whatever the masks are",
    "Follow the ways that the masks allow.",
)(lambda masks: steps_back(len(masks[0])) >= 0)
reach.wrong(
    "transposed: row i tells which outputs depend on token i",
    "Row i belongs to output i and column j to token j.",
)(lambda masks: _reached()(masks).T)
reach.wrong(
    "the opposite: True where an output does not depend on a token",
    "True where there is a way from token j to output i.",
)(lambda masks: ~_reached()(masks))
reach.wrong(
    "right but for deep stacks, where the number of ways is too large for an integer",
    "Turn the numbers into True and False after each layer.",
)(
    lambda masks: (
        _reached(
            layer=lambda allowed: (allowed | mt.eye(len(allowed)).bool()).long(),
            step=lambda layer, before: layer @ before.long(),
        )(masks)
        > 0
    )
)
reach.wrong(
    "the number of ways, not yet turned into True and False",
    "Only yes or no is asked: compare with 0.",
)(
    _reached(
        layer=lambda allowed: (allowed | mt.eye(len(allowed)).bool()).double(),
        step=lambda layer, before: layer @ before.double(),
    )
)
