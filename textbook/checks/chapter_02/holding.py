"""A cell that is held: what an LSTM does without what one of its units remembers."""

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from textbook.checks.chapter_02.cells import stacked_weights
from textbook.checks.exercise import exercise


def _cases(draw, sizes=((1, 30, 2, 3, 2), (4, 40, 3, 4, 3), (7, 50, 2, 5, 4))):
    """Sequences, answers that the network gives to most of them, and its weights."""
    for steps, batch, d, units, classes in sizes:
        x = 2 * draw.normal(steps, batch, d)
        weights = [1.5 * w for w in stacked_weights(draw, d, units, 4)]
        W_out = draw.normal(classes, units)
        answers = (_last(x, *weights) @ W_out.T).argmax(dim=-1)
        some = draw.integers(4, batch) == 0
        answers = mt.where(some, draw.integers(classes, batch), answers)
        yield x, answers, *weights, W_out


def _last(x, W_ih, W_hh, b):
    rnn = nn.LSTM(x.shape[2], W_hh.shape[1]).double()
    rnn.load_state_dict(
        {"weight_ih_l0": W_ih, "weight_hh_l0": W_hh, "bias_ih_l0": b, "bias_hh_l0": 0 * b}
    )
    with mt.no_grad():
        return rnn(x)[0][-1]


@exercise(
    cases=_cases,
    hidden_cases=lambda draw: _cases(draw, sizes=((3, 60, 4, 6, 2), (9, 35, 1, 2, 3))),
    gradients=False,
    after_passing=(
        "Faster: all units at once, in H copies of the batch. And what was found is a cell that is "
        "needed; one that is enough is found by holding all others."
    ),
    see='chapter 02, "A look inside"',
)
def without_each_cell(x, answers, W_ih, W_hh, b, W_out):
    """The share of right answers with each unit's cell held at its mean: (H)."""
    H, shares = W_hh.shape[1], []
    for unit in range(H):
        h = c = mt.zeros(x.shape[1], H, dtype=x.dtype)
        for x_t in x:
            i, f, g, o = (x_t @ W_ih.T + h @ W_hh.T + b).chunk(4, dim=-1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            c[:, unit] = c[:, unit].mean()
            h = o.sigmoid() * c.tanh()
        right = (h @ W_out.T).argmax(dim=-1) == answers
        shares.append(right.float().mean())
    return mt.stack(shares)


# A network that counts


def counter(seed):
    """An LSTM of six units that has learned whether *a* comes oftener than *b*, in 12 steps.

    As arguments of ``without_each_cell``: 400 streams (20, 400, 3), answers (400), weights.
    """
    mt.manual_seed(seed)
    rnn, out = nn.LSTM(3, 6), nn.Linear(6, 2, bias=False)
    with mt.no_grad():
        rnn.bias_ih_l0[6:12] = 2.0  # the forget gates stand open
    optimizer = optim.Adam([*rnn.parameters(), *out.parameters()], lr=0.03)
    for _ in range(200):
        x, answers = _streams(12, 64)
        loss = F.cross_entropy(out(rnn(x)[0][-1]), answers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    W_ih, W_hh, *biases = (parameter.detach() for parameter in rnn.parameters())
    return *_streams(20, 400), W_ih, W_hh, sum(biases), out.weight.detach()


def _streams(steps, batch):
    letters = mt.randint(0, 3, (steps, batch))  # a, b, and a third that does not count
    more = (letters == 0).sum(0) > (letters == 1).sum(0)
    return F.one_hot(letters, 3).float(), more.long()
