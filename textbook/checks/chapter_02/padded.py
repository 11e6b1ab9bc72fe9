"""An LSTM over a padded batch."""

import math

import minitorch as mt
from textbook.checks.chapter_02.cells import lstm_step, stacked_weights
from textbook.checks.exercise import exercise


def _padded_cases(draw, hidden):
    """Padding holds zeros, large numbers, infinity and NaN; one whole batch has none."""
    sizes = [
        ([2], 1, 2, False, 0.0),
        ([3, 1, 4], 2, 3, True, 1e6),
        ([2, 3, 1], 3, 4, False, math.nan),
    ]
    sizes += [([4, 4], 2, 5, True, 0.0), ([1, 3], 4, 2, True, -math.inf)]
    if hidden:
        sizes += [([1, 5, 2, 3], 3, 2, True, math.nan), ([6, 2], 2, 4, False, -1e5)]
    for lengths, inputs, size, given, padding in sizes:
        batch, steps = len(lengths), max(lengths)
        x = draw.normal(steps, batch, inputs)
        x = x.masked_fill(_is_padding(lengths, steps).unsqueeze(-1), padding)
        states = draw.normal(batch, size), draw.normal(batch, size)
        weights = stacked_weights(draw, inputs, size, 4)
        yield x, mt.tensor(lengths), *weights, states if given else None


def _is_padding(lengths, steps):
    """(T, B), True at padding."""
    return mt.arange(steps).unsqueeze(1) >= mt.tensor(lengths)


def _zeros(x, W_hh):
    zeros = mt.zeros(x.shape[1], W_hh.shape[1], dtype=x.dtype)
    return zeros, zeros


def _reading(
    emptied=lambda x, padding: x.masked_fill(padding.unsqueeze(-1), 0.0),
    padding=lambda steps, lengths: mt.arange(steps).unsqueeze(1) >= lengths,
    start=lambda x, W_hh, state: _zeros(x, W_hh) if state is None else state,
    carry=lambda h, c: (h, c),
    keep=lambda there, new, old: mt.where(there, old, new),
    keep_cell=None,
    shown=lambda h, c, there: h.masked_fill(there, 0.0),
    finish=lambda states, h, c: (mt.stack(states), (h, c)),
):
    """The run with one of its pieces exchanged; ``there`` is True at padding, (B, 1)."""

    def read(x, lengths, W_ih, W_hh, b, state=None):
        there = padding(len(x), lengths)
        x, (h, c), states = emptied(x, there), start(x, W_hh, state), []
        for x_t, out in zip(x, there.unsqueeze(-1), strict=True):
            new_h, new_c = lstm_step(x_t, *carry(h, c), W_ih, W_hh, b)
            h, c = keep(out, new_h, h), (keep_cell or keep)(out, new_c, c)
            states.append(shown(h, c, out))
        return finish(states, h, c)

    return read


@exercise(
    cases=_padded_cases,
    forbidden=("lstm",),
    instead="a loop over the steps",
    see='chapter 02, "The loop, one product for all gates, and the library"',
)
def read_padded(x, lengths, W_ih, W_hh, b, state=None):
    """Padded inputs (T, B, d), lengths (B): states (T, B, H), the last pair (h, c) of each."""
    if state is None:
        zeros = mt.zeros(x.shape[1], W_hh.shape[1], dtype=x.dtype)
        state = zeros, zeros
    h, c = state
    states = []
    for t, x_t in enumerate(x):
        real = (t < lengths).unsqueeze(-1)  # (B, 1)
        x_t = mt.where(real, x_t, 0.0)  # a NaN would come back on the way of the gradient
        i, f, g, o = (x_t @ W_ih.T + h @ W_hh.T + b).chunk(4, dim=-1)
        c_new = f.sigmoid() * c + i.sigmoid() * g.tanh()  # (B, H)
        h_new = o.sigmoid() * c_new.tanh()
        h, c = mt.where(real, h_new, h), mt.where(real, c_new, c)
        states.append(mt.where(real, h, 0.0))
    return mt.stack(states), (h, c)


BOTH = "Both states go on: h, c = step(x_t, h, c)."
ENDED = "Where a sequence has ended, its h and c stay as they are: mt.where(real, new, old)."
ZERO = "At padding the states that are returned are 0; those that go on are not."
for name, hint, pieces in (
    (
        "a run that reads the padding as if it belonged to the sequence",
        ENDED,
        {
            "emptied": lambda x, padding: x,
            "keep": lambda there, new, old: new,
            "shown": lambda h, c, there: h,
        },
    ),
    (
        "right for the states, but the last pair is that at the end of the padding",
        ENDED,
        {"emptied": lambda x, padding: x, "keep": lambda there, new, old: new},
    ),
    (
        "right for the states, but for the last pair it goes on with zeros as inputs",
        "An input of zeros is an input: the gates still work. " + ENDED,
        {"keep": lambda there, new, old: new},
    ),
    (
        "right but for the last c, which goes on in the padding",
        "Keep both, h and c. " + ENDED,
        {"keep_cell": lambda there, new, old: new},
    ),
    (
        "right but for the last pair, which is 0 where a sequence has ended",
        ZERO,
        {"keep": lambda there, new, old: new.masked_fill(there, 0.0)},
    ),
    (
        "right but for the states at padding, which repeat the last one",
        ZERO,
        {"shown": lambda h, c, there: h},
    ),
    (
        "right in its values, but NaN or infinity in the padding gets into the gradient",
        "What is thrown away afterwards still has a gradient, and 0 * NaN is NaN. Take the padding "
        "out of x before the step, by mt.where or masked_fill, not by a product.",
        {"emptied": lambda x, padding: x},
    ),
    (
        "right but for NaN and infinity in the padding: a product with 0 does not remove them",
        "0 * NaN is NaN. Choose, by mt.where or masked_fill.",
        {
            "emptied": lambda x, padding: x,
            "keep": lambda there, new, old: new * (~there).double() + old * there.double(),
            "shown": lambda h, c, there: h * (~there).double(),
        },
    ),
    (
        "right but for the lengths, each of which is taken for one more",
        "Places count from 0: x[t] belongs to a sequence if t < length.",
        {"padding": lambda steps, lengths: mt.arange(steps).unsqueeze(1) > lengths},
    ),
    (
        "right but for the lengths, each of which is taken for one less",
        "Places count from 0: x[t] belongs to a sequence if t < length.",
        {"padding": lambda steps, lengths: mt.arange(steps).unsqueeze(1) >= lengths - 1},
    ),
    (
        "right if all sequences were as long as the first",
        "Each sequence has a length of its own: compare t with all of them.",
        {
            "padding": lambda steps, lengths: (
                mt.arange(steps).unsqueeze(1) >= lengths[:1].expand(len(lengths))
            )
        },
    ),
    (
        "right if the padding stood in front",
        "The first lengths[b] steps of a sequence are real: t < length.",
        {"padding": lambda steps, lengths: mt.arange(steps).unsqueeze(1) < steps - lengths},
    ),
    (
        "right but for the cell to start from, which is 0 whatever state is",
        "state is a pair: both h and c are given.",
        {"start": lambda x, W_hh, state: (state[0], 0 * state[1]) if state else _zeros(x, W_hh)},
    ),
    (
        "right for zeros in the padding, which it reads; NaN and infinity have become 0",
        ENDED,
        {
            "emptied": lambda x, padding: x.masked_fill(~x.isfinite(), 0.0),
            "keep": lambda there, new, old: new,
            "shown": lambda h, c, there: h,
        },
    ),
    (
        "right but for state: it starts from zeros whatever is given",
        "Zeros are only the default. Start from state when it is given.",
        {"start": lambda x, W_hh, state: _zeros(x, W_hh)},
    ),
    (
        "right but for state, which is taken as (c, h)",
        "state is (h, c), as in nn.LSTM.",
        {"start": lambda x, W_hh, state: state[::-1] if state else _zeros(x, W_hh)},
    ),
    (
        "a run in which the cell starts at zero at every step",
        BOTH,
        {"carry": lambda h, c: (h, 0 * c)},
    ),
    (
        "a run in which the hidden state goes on in place of the cell",
        "h and c are two states. Give the next step the c that this one returned.",
        {"carry": lambda h, c: (h, h)},
    ),
    (
        "the cells in place of the hidden states",
        "The output of a layer is h_1 to h_T; of the cells only the last is returned.",
        {"shown": lambda h, c, there: c.masked_fill(there, 0.0)},
    ),
    (
        "right but for the last pair: c comes before h",
        "Return the pair as (h, c).",
        {"finish": lambda states, h, c: (mt.stack(states), (c, h))},
    ),
    (
        "right for all hidden states, but the last pair is missing",
        "Return two things: the states (T, B, H), and the pair (h, c).",
        {"finish": lambda states, h, c: mt.stack(states)},
    ),
    (
        "right but for the last pair, whose h is taken from the end of the states",
        "There short sequences have 0. The last h of a sequence is that of its own last step.",
        {"finish": lambda states, h, c: (mt.stack(states), (states[-1], c))},
    ),
    (
        "right but for the order of the axes: it is (B, T, H)",
        "Time comes first: stack the states along axis 0 to get (T, B, H).",
        {"finish": lambda states, h, c: (mt.stack(states, dim=1), (h, c))},
    ),
    (
        "right in its values, but the gradient stops at every step",
        "Something cuts a state off from the graph between two steps: detach(), numpy(), .data or "
        "tensor(...). Hand both on as they are.",
        {"carry": lambda h, c: (h.detach(), c.detach())},
    ),
):
    read_padded.wrong(name, hint)(_reading(**pieces))


@read_padded.wrong(
    "right but for the cell, which goes on where a sequence has ended",
    "Both states stay as they are. " + ENDED,
)
def _(x, lengths, W_ih, W_hh, b, state=None):
    states, (h, _) = read_padded.reference(x, lengths, W_ih, W_hh, b, state)
    finish = _reading(keep=lambda there, new, old: new)
    return states, (h, finish(x, lengths, W_ih, W_hh, b, state)[1][1])
