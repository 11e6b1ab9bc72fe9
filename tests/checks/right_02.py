"""Right answers to the exercises of chapter 02, and forbidden ones."""

import functools
import math
from fractions import Fraction

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.autograd import grad
from minitorch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from minitorch.operations.recurrent import lstm as whole_lstm

# peephole_cell


def peephole_with_one_matrix(x_t, h, c, W_ih, W_hh, b, peepholes):
    a = mt.cat([x_t, h], dim=1) @ mt.cat([W_ih, W_hh], dim=1).T + b
    size = h.shape[1]
    seen = a[:, : 2 * size] + mt.cat([peepholes[0] * c, peepholes[1] * c], dim=1)
    i, f = seen.sigmoid().chunk(2, dim=1)
    new = f * c + i * mt.tanh(a[:, 2 * size : 3 * size])
    return mt.sigmoid(a[:, 3 * size :] + peepholes[2] * new) * mt.tanh(new), new


def peephole_unit_by_unit(x_t, h, c, W_ih, W_hh, b, peepholes):
    """Without any matrix product."""
    rows = [(x_t * W_ih[k]).sum(1) + (h * W_hh[k]).sum(1) + b[k] for k in range(len(b))]
    i, f, g, o = mt.stack(rows, dim=1).split(h.shape[1], dim=1)
    new = mt.sigmoid(f + peepholes[1] * c) * c + mt.sigmoid(i + peepholes[0] * c) * g.tanh()
    return [mt.sigmoid(o + peepholes[2] * new) * new.tanh(), new]


def peephole_with_float(x_t, h, c, W_ih, W_hh, b, peepholes):
    """The tanh by a sigmoid."""
    a = mt.einsum("bd,kd->bk", x_t, W_ih) + mt.einsum("bh,kh->bk", h, W_hh) + b.float()
    i, f, g, o = a.reshape(len(h), 4, -1).unbind(1)
    c = (f + c * peepholes[1]).sigmoid() * c + (i + c * peepholes[0]).sigmoid() * (
        2 * (2 * g).sigmoid() - 1
    )
    return (o + c * peepholes[2]).sigmoid() * c.tanh(), c


def peephole_by_linear(x_t, h, c, W_ih, W_hh, b, peepholes):
    i, f, g, o = (F.linear(x_t, W_ih, b) + F.linear(h, W_hh)).chunk(4, 1)
    c = (f + peepholes[1] * c).sigmoid() * c + (i + peepholes[0] * c).sigmoid() * g.tanh()
    return (o + peepholes[2] * c).sigmoid() * c.tanh(), c


def peephole_by_the_layer(x_t, h, c, W_ih, W_hh, b, peepholes):
    """Each gate's sum gets its peephole as a bias of the library's LSTM, one sequence at a time."""
    first = []
    for row in range(len(x_t)):
        p_i, p_f, p_o = peepholes
        zero = mt.zeros(h.shape[1], dtype=h.dtype)
        more = mt.cat([p_i * c[row], p_f * c[row], zero, zero])
        one = x_t[row : row + 1][None], h[row : row + 1], c[row : row + 1]
        _, _, new = whole_lstm(*one, W_ih, W_hh, b + more)
        more = mt.cat([p_i * c[row], p_f * c[row], zero, p_o * new[0]])
        first.append(whole_lstm(*one, W_ih, W_hh, b + more)[1:])
    return tuple(mt.cat(parts) for parts in zip(*first, strict=True))


# moved_gru


def moved_block_by_block(kernel, recurrent, bias):
    H = recurrent.shape[0]
    z, r, n = (slice(k * H, (k + 1) * H) for k in range(3))
    W_ih = mt.cat([kernel[:, r].T, -kernel[:, z].T, kernel[:, n].T])
    W_hh = mt.cat([recurrent[:, r].T, -recurrent[:, z].T, recurrent[:, n].T])
    b_ih, b_hh = (mt.cat([row[r], -row[z], row[n]]) for row in bias)
    return [W_ih, W_hh, b_ih, b_hh]


def moved_with_numpy(kernel, recurrent, bias):
    """The biases of both gates are added up; that of the candidate is not."""
    H = len(recurrent)
    order = np.r_[H : 2 * H, 0:H, 2 * H : 3 * H]
    sign = np.repeat([1.0, -1.0, 1.0], H)
    W_ih, W_hh = (x.numpy()[:, order].T * sign[:, None] for x in (kernel, recurrent))
    b_ih, b_hh = bias.numpy()[:, order] * sign
    both = np.concatenate([b_ih[: 2 * H] + b_hh[: 2 * H], b_ih[2 * H :]])
    rest = np.concatenate([np.zeros(2 * H), b_hh[2 * H :]])
    return tuple(map(mt.tensor, (W_ih, W_hh, both, rest)))


# without_each_cell


def without_each_cell_in_copies(x, answers, W_ih, W_hh, b, W_out):
    """All units at once: a copy of the batch for each."""
    H = W_hh.shape[1]
    held = mt.eye(H).bool().unsqueeze(1)  # copy k holds unit k
    h = c = mt.zeros(H, x.shape[1], H, dtype=x.dtype)
    for x_t in x:
        i, f, g, o = (x_t @ W_ih.T + h @ W_hh.T + b).chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        c = mt.where(held, c.mean(dim=1, keepdim=True), c)
        h = o.sigmoid() * c.tanh()
    return ((h @ W_out.T).argmax(dim=-1) == answers).double().mean(dim=1)


def without_each_cell_in_numpy(x, answers, W_ih, W_hh, b, W_out):
    x, answers, W_ih, W_hh, b, W_out = (z.numpy() for z in (x, answers, W_ih, W_hh, b, W_out))

    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    n, H, shares = x.shape[1], W_hh.shape[1], []
    for k in range(H):
        h, c = np.zeros((n, H)), np.zeros((n, H))
        for x_t in x:
            a = (x_t @ W_ih.T + h @ W_hh.T + b).reshape(n, 4, H)
            c = sigmoid(a[:, 1]) * c + sigmoid(a[:, 0]) * np.tanh(a[:, 2])
            c[:, k] = np.average(c[:, k])
            h = sigmoid(a[:, 3]) * np.tanh(c)
        shares.append(np.mean(np.argmax(h @ W_out.T, axis=1) == answers))
    return mt.tensor(shares)


# read_padded


def _cell(x_t, h, c, W_ih, W_hh, b):
    i, f, g, o = (x_t @ W_ih.T + h @ W_hh.T + b).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def padded_one_by_one(x, lengths, W_ih, W_hh, b, state=None):
    """Each sequence by itself: the padding is never touched."""
    H = W_hh.shape[1]
    columns, last = [], []
    for k, n in enumerate(lengths.tolist()):
        h, c = (mt.zeros(1, H), mt.zeros(1, H)) if state is None else (s[k : k + 1] for s in state)
        states = []
        for t in range(n):
            h, c = _cell(x[t, k : k + 1], h, c, W_ih, W_hh, b)
            states.append(h)
        columns.append(mt.cat(states + [mt.zeros(1, H)] * (len(x) - n)))
        last.append((h, c))
    h, c = (mt.cat(parts) for parts in zip(*last, strict=True))
    return [mt.stack(columns, dim=1), [h, c]]


def padded_with_fewer_and_fewer(x, lengths, W_ih, W_hh, b, state=None):
    """Only the sequences that still run go through the step."""
    if state is None:
        state = (mt.zeros(x.size(1), W_hh.size(1)),) * 2
    h, c = state
    out = mt.zeros(len(x), *h.shape, dtype=h.dtype)
    for t in range(len(x)):
        rows = [k for k, n in enumerate(lengths) if t < n.item()]
        if rows:
            h, c = h.clone(), c.clone()
            new_h, new_c = _cell(x[t][rows], h[rows], c[rows], W_ih, W_hh, b)
            h[rows], c[rows], out[t, rows] = new_h, new_c, new_h
    return out, (h, c)


def padded_and_picked(x, lengths, W_ih, W_hh, b, state=None):
    """The padding is emptied, all steps run, and the last pairs are picked out afterwards."""
    there = (mt.arange(len(x)).unsqueeze(1) < lengths).unsqueeze(-1)  # (T, B, 1)
    x = x.masked_fill(~there, 0.0)
    zero = x.new_zeros((x.shape[1], W_hh.shape[1]))
    h, c = state or (zero, zero)
    pairs = []
    for x_t in x:
        h, c = _cell(x_t, h, c, W_ih, W_hh, b)
        pairs.append((h, c))
    h, c = (mt.stack(parts) for parts in zip(*pairs, strict=True))
    at = lengths - 1, mt.arange(len(lengths))
    return h * there, (h[at], c[at])


def padded_by_packing(x, lengths, W_ih, W_hh, b, state=None):
    layer = nn.LSTM(W_ih.shape[1], W_hh.shape[1]).double()
    values = {"weight_ih": W_ih, "weight_hh": W_hh, "bias_ih": b, "bias_hh": mt.zeros_like(b)}
    layer.load_state_dict({f"{name}_l0": value.detach() for name, value in values.items()})
    packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
    states, (h, c) = layer(packed, state and (state[0][None], state[1][None]))
    return pad_packed_sequence(states)[0], (h[0], c[0])


# open_forget_gates


def opened_by_halves(lstm, steps, left):
    f = math.exp(math.log(left) / steps)
    H = lstm.hidden_size
    for name, parameter in lstm.named_parameters():
        if "bias" in name:
            parameter.data[H : 2 * H] = (math.log(f) - math.log1p(-f)) / 2


def opened_by_a_difference(lstm, steps, left):
    """The other bias stays as it was; 1 - f is computed without loss of digits."""
    H = lstm.hidden_size
    parameters = dict(lstm.named_parameters())
    value = math.log(left) / steps - math.log(-math.expm1(math.log(left) / steps))
    with mt.no_grad():
        for name in list(parameters):
            if name.startswith("bias_ih"):
                other = parameters[name.replace("ih", "hh")]
                parameters[name][H : 2 * H] = value - other[H : 2 * H]


def opened_by_state_dict(lstm, steps, left):
    gate = mt.tensor(left, dtype=mt.float64) ** (1 / steps)
    value = (gate / (1 - gate)).log().item()
    weights = {}
    for name, tensor in lstm.state_dict().items():
        if name.startswith("bias"):
            i, _, g, o = tensor.chunk(4)
            new = mt.full_like(i, value if "hh" in name else 0.0)
            tensor = mt.cat([i, new, g, o])
        weights[name] = tensor
    lstm.load_state_dict(weights)


def opened_by_bisection(lstm, steps, left):
    low, high = -40.0, 40.0
    for _ in range(100):
        value = (low + high) / 2
        enough = steps * -math.log1p(math.exp(-value)) > math.log(left)
        low, high = (low, value) if enough else (value, high)
    H = lstm.hidden_size
    for layer in range(lstm.num_layers):
        for suffix in ["", "_reverse"] if lstm.bidirectional else [""]:
            getattr(lstm, f"bias_ih_l{layer}{suffix}").data[H : 2 * H].fill_(value)
            getattr(lstm, f"bias_hh_l{layer}{suffix}").data[H : 2 * H].zero_()


# two_bits


def bits_with_moderate_weights():
    W_ih = mt.zeros(8, 4)
    for k, sign in enumerate((-1, 1)):
        W_ih[k] = mt.tensor([24.0, 24.0 * sign, 0, 0])
        W_ih[2 + k] = mt.tensor([-24.0, -24.0 * sign, 0, 0])
        W_ih[4 + k, 2] = 2.0
        W_ih[6 + k] = mt.tensor([0, 16.0 * sign, 0, 16.0])
    return W_ih, mt.zeros(8, 2), mt.tensor([-12.0, -36, 12, 36, 0, 0, -8, -24])


def bits_that_are_read():
    W_ih = mt.zeros(8, 4, dtype=mt.float64)
    W_ih[0, :2], W_ih[1, :2] = mt.tensor([100.0, -100.0]), mt.tensor([100.0, 100.0])
    W_ih[2:4] = -W_ih[:2]
    W_ih[4:6, 2] = 50.0
    W_ih[6, 1], W_ih[6, 3], W_ih[7, 1], W_ih[7, 3] = -100.0, 100.0, 100.0, 100.0
    b = mt.tensor([-50, -150, 50, 150, 0, 0, -50, -150], dtype=mt.float64)
    return [W_ih, mt.ones(8, 2), b]


# broken_layers


def _cases():
    mt.manual_seed(3)
    for T, B in ((5, 2), (7, 4)):
        yield (
            mt.randn(T, B, 3, dtype=mt.float64),
            (mt.randn(B, 4, dtype=mt.float64), mt.randn(B, 4, dtype=mt.float64)),
        )


def broken_at_every_cut(layers):
    """All cuts, all sequences; the numbers come as a set."""

    def near(*pairs):
        return all((a - b).abs().max().item() < 1e-9 for a, b in pairs)

    found = set()
    for number, layer in enumerate(layers):
        for x, state in _cases():
            copies = x.clone(), tuple(s.clone() for s in state)
            outputs, (h, c) = layer(x, state)
            fine = near((copies[0], x), *zip(copies[1], state, strict=True), (outputs[-1], h))
            for cut in range(1, len(x)):
                one, middle = layer(x[:cut].clone(), tuple(s.clone() for s in state))
                two, (h_2, c_2) = layer(x[cut:].clone(), middle)
                fine = fine and near((mt.cat([one, two]), outputs), (h_2, h), (c_2, c))
            for k in range(x.shape[1]):
                mine = tuple(s[[k]] for s in state)
                part, (h_1, c_1) = layer(x[:, [k]], mine)
                fine = fine and near((part, outputs[:, [k]]), (h_1, h[[k]]), (c_1, c[[k]]))
            zero = mt.zeros_like(state[0])
            fine = fine and near(
                (layer(x.clone())[0], layer(x.clone(), (zero, zero.clone()))[0]),
            )
            leaf = x.clone().requires_grad_()
            [slope] = grad(layer(leaf)[0][-1].sum(), [leaf], allow_unused=True)
            fine = fine and slope is not None and bool((slope[0].abs() > 0).any())
            if not fine:
                found.add(number)
    return found


def broken_one_by_one(layers):
    x, state = next(_cases())
    zero = mt.zeros(2, 4, dtype=mt.float64)

    def near(a, b):
        return bool((a - b).abs().max() < 1e-9)

    def fine(layer):
        def run(x, state=None):
            given = None if state is None else tuple(each.clone() for each in state)
            states, (h, c) = layer(x.clone(), given)
            kept = state is None or all(mt.equal(a, b) for a, b in zip(given, state, strict=True))
            return mt.cat([states, h[None], c[None]]), kept, (h, c)

        same_x = x.clone()
        layer(same_x, None)
        whole, kept, _ = run(x, state)
        pieces, between = [], state
        for x_t in x:
            rows, _, between = run(x_t[None], between)
            pieces.append(rows[:1])
        pieces += [each[None] for each in between]
        leaf = x.clone().requires_grad_()
        layer(leaf, None)[0][-1].sum().backward()
        return (
            kept
            and mt.equal(same_x, x)
            and near(mt.cat(pieces), whole)
            and near(whole[-3], whole[-2])
            and near(run(x[:, :1], [s[:1] for s in state])[0], whole[:, :1])
            and near(run(x)[0], run(x, (zero, zero))[0])
            and leaf.grad is not None
            and leaf.grad[0].abs().sum().item() > 0
        )

    return list(np.flatnonzero([not fine(layer) for layer in layers]))


# lstm_step_backward


def backward_by_jacobians(h, c, W_hh, gates, grad_h_new, grad_c_new):
    """Number by number."""
    i, f, g, o = (gate.numpy() for gate in gates)
    old, cell, W = h.numpy(), c.numpy(), W_hh.numpy()
    into_h, into_c = grad_h_new.numpy(), grad_c_new.numpy()
    batch, size = old.shape
    grad_h, grad_c, grad_W = np.zeros_like(old), np.zeros_like(cell), np.zeros_like(W)
    for b in range(batch):
        for k in range(size):
            t = np.tanh(f[b, k] * cell[b, k] + i[b, k] * g[b, k])
            d_c = into_c[b, k] + into_h[b, k] * o[b, k] * (1 - t * t)
            grad_c[b, k] = d_c * f[b, k]
            sums = {
                k: d_c * g[b, k] * i[b, k] * (1 - i[b, k]),
                size + k: d_c * cell[b, k] * f[b, k] * (1 - f[b, k]),
                2 * size + k: d_c * i[b, k] * (1 - g[b, k] * g[b, k]),
                3 * size + k: into_h[b, k] * t * o[b, k] * (1 - o[b, k]),
            }
            for row, value in sums.items():
                grad_h[b] += value * W[row]
                grad_W[row] += value * old[b]
    return mt.tensor(grad_h), mt.tensor(grad_c), mt.tensor(grad_W)


def backward_gate_by_gate(h, c, W_hh, gates, grad_h_new, grad_c_new):
    i, f, g, o = gates
    t = mt.tanh(c * f + g * i)
    total = grad_c_new + (grad_h_new * o - grad_h_new * o * t * t)
    parts = [total * g * (i - i * i), total * c * (f - f * f)]
    parts += [total * i * (1 - g) * (1 + g), grad_h_new * t * (o - o * o)]
    blocks = W_hh.chunk(4)
    grad_h = sum(part @ block for part, block in zip(parts, blocks, strict=True))
    return grad_h, f * total, mt.cat([mt.einsum("bk,bj->kj", part, h) for part in parts])


def _logits(gates):
    """The sums that went into the gates, (B, 4 H)."""
    i, f, g, o = gates
    parts = [(s / (1 - s)).log() for s in (i, f, o)]
    parts.insert(2, 0.5 * ((1 + g) / (1 - g)).log())
    return mt.cat(parts, dim=1)


def backward_by_the_engine(h, c, W_hh, gates, grad_h_new, grad_c_new):
    from_x = _logits(gates) - h @ W_hh.T
    h, c, W_hh = (x.clone().requires_grad_() for x in (h, c, W_hh))
    i, f, g, o = (from_x + h @ W_hh.T).chunk(4, dim=1)
    new = f.sigmoid() * c + i.sigmoid() * g.tanh()
    ((o.sigmoid() * new.tanh()) * grad_h_new + new * grad_c_new).sum().backward()
    return h.grad, c.grad, W_hh.grad


def backward_by_the_library(h, c, W_hh, gates, grad_h_new, grad_c_new):
    from_x = _logits(gates) - h @ W_hh.T
    leaves = [x.clone().requires_grad_() for x in (h, c, W_hh)]
    eye = mt.eye(len(W_hh), dtype=W_hh.dtype)
    _, h_new, c_new = whole_lstm(from_x[None], leaves[0], leaves[1], eye, leaves[2])
    return grad((h_new * grad_h_new + c_new * grad_c_new).sum(), leaves)


# right_by_distance


def distances_with_tensors(model, batches):
    was = model.training
    hits, groups = [], []
    for tokens, answers, distances in batches:
        scores = model.eval()(tokens).detach()
        hits.append((scores.max(dim=-1).indices == answers).double())
        groups.append(distances // 10 * 10)
    model.train(was)
    if not hits:
        return {}
    hits, groups = mt.cat(hits), mt.cat(groups)
    return {key: hits[groups == key].mean() for key in groups.unique().tolist()}


def distances_as_fractions(model, batches):
    training, right, count = model.training, {}, {}
    model.eval()
    for tokens, answers, distances in batches:
        for k, distance in enumerate(distances):
            key = np.int64(distance.item() - distance.item() % 10)
            said = np.argmax(model(tokens[:, k : k + 1]).detach().numpy())
            right[key] = right.get(key, 0) + int(said == answers[k].item())
            count[key] = count.get(key, 0) + 1
    (model.train if training else model.eval)()
    return {key: Fraction(right[key], count[key]) for key in count}


right = {
    "peephole_cell": [peephole_with_one_matrix, peephole_unit_by_unit, peephole_with_float],
    "moved_gru": [moved_block_by_block, moved_with_numpy],
    "without_each_cell": [without_each_cell_in_copies, without_each_cell_in_numpy],
    "read_padded": [
        padded_one_by_one,
        padded_with_fewer_and_fewer,
        padded_and_picked,
        functools.partial(padded_one_by_one),
    ],
    "open_forget_gates": [
        opened_by_halves,
        opened_by_a_difference,
        opened_by_state_dict,
        opened_by_bisection,
    ],
    "two_bits": [bits_with_moderate_weights, bits_that_are_read],
    "broken_layers": [broken_at_every_cut, broken_one_by_one],
    "lstm_step_backward": [backward_by_jacobians, backward_gate_by_gate],
    "right_by_distance": [distances_with_tensors, distances_as_fractions],
}
refused = {
    "peephole_cell": [peephole_by_linear, peephole_by_the_layer],
    "read_padded": [padded_by_packing],
    "lstm_step_backward": [backward_by_the_engine, backward_by_the_library],
}
