"""Right answers to the exercises of chapter 01, and forbidden ones."""

import math
from fractions import Fraction

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.nn.utils import clip_grad_norm_

# unroll


def unroll_step_by_step(x, lengths, W_ih, W_hh, b, h0=None):
    """Sequence by sequence; a finished one repeats its last state."""
    columns = []
    for i, n in enumerate(lengths.tolist()):
        h = mt.zeros(len(W_hh), dtype=x.dtype) if h0 is None else h0[i]
        states = []
        for t in range(n):
            h = mt.tanh(W_ih @ x[t, i] + W_hh @ h + b)
            states.append(h)
        columns.append(mt.stack(states + [h] * (len(x) - n)))
    return mt.stack(columns, dim=1)


def unroll_by_a_share(x, lengths, W_ih, W_hh, b, h0=None):
    """0 or 1 of the new state."""
    h = x.new_zeros((x.shape[1], W_hh.shape[0])) if h0 is None else h0
    a, rows = F.linear(x, W_ih, b), []
    for t in range(len(x)):
        new = (lengths > t).float().unsqueeze(1)
        h = h + new * ((a[t] + h.matmul(W_hh.transpose(0, 1))).tanh() - h)
        rows.append(h.unsqueeze(0))
    return mt.cat(rows)


def library_rnn(x, W_ih, W_hh, b, h0):
    rnn = nn.RNN(W_ih.shape[1], len(W_hh)).to(W_ih.dtype)
    rnn.load_state_dict(
        {
            "weight_ih_l0": W_ih.detach(),
            "weight_hh_l0": W_hh.detach(),
            "bias_ih_l0": b.detach(),
            "bias_hh_l0": 0 * b.detach(),
        }
    )
    return rnn(x, None if h0 is None else h0.unsqueeze(0))[0]


def unroll_by_the_library(x, lengths, W_ih, W_hh, b, h0=None):
    states = library_rnn(x, W_ih, W_hh, b, h0)
    steps = mt.arange(len(x)).unsqueeze(1)
    places = mt.where(steps < lengths, steps, lengths - 1)
    return states[places, mt.arange(x.shape[1])]


# clip_gradients


def clip_with_hypot(gradients, max_norm):
    norm = math.hypot(*(x for g in gradients if g is not None for x in g.flatten().tolist()))
    if norm <= max_norm:
        return [g if g is None else g.clone() for g in gradients], norm
    return tuple(None if g is None else g * (max_norm / norm) for g in gradients), Fraction(norm)


def clip_in_numpy(gradients, max_norm):
    parts = [g.numpy().ravel() for g in gradients if g is not None]
    everything = np.concatenate([np.zeros(1), *parts])
    top = np.abs(everything).max() or 1.0
    norm = top * np.linalg.norm(everything / top)
    found = []
    for g in gradients:
        shrunk = g is not None and norm > max_norm
        found.append((g / norm) * max_norm if shrunk else g)
    return found, norm


def library_clip(gradients, max_norm):
    parameters = [None if g is None else nn.Parameter(mt.zeros_like(g)) for g in gradients]
    for parameter, g in zip(parameters, gradients, strict=True):
        if g is not None:
            parameter.grad = g.clone()
    own = [parameter for parameter in parameters if parameter is not None]
    norm = clip_grad_norm_(own, max_norm)
    return [p if p is None else p.grad for p in parameters], norm


# reach


def reach_from_the_end(W_hh, share, most):
    """Whole numbers of Python carry the scale: powers of two."""
    W, norms = W_hh.numpy(), []
    power, doublings = np.eye(len(W)), 0
    for _ in range(most + 1):
        size = float(np.linalg.svd(power)[1][0])
        norms.append((doublings + math.log2(size)) if size else -math.inf)
        if size:
            exponent = math.frexp(size)[1]
            power, doublings = power / 2.0**exponent, doublings + exponent
        power = W @ power
    for k in range(most, -1, -1):
        if norms[k] >= math.log2(share):
            return k
    return None


def reach_in_tensors(W_hh, share, most):
    power, log, found = mt.eye(len(W_hh), dtype=W_hh.dtype), 0.0, None
    for k in range(most + 1):
        top = power.abs().max().item()
        if not top:
            return found
        power, log = power / top, log + math.log(top)
        values = np.linalg.eigvalsh((power.T @ power).numpy())
        if 0.5 * math.log(values[-1]) + log >= math.log(share):
            found = np.int64(k)
        power = power @ W_hh
    return found


# both_directions


def directions_one_by_one(x, lengths, forward, backward):
    columns = []
    for i, n in enumerate(lengths.tolist()):
        own = x[:n, i : i + 1]
        halves = mt.cat([forward(own), backward(own.flip(0)).flip(0)], dim=2)[:, 0]
        rest = mt.zeros(len(x) - n, halves.shape[1], dtype=x.dtype)
        columns.append(mt.cat([halves, rest]) if len(rest) else halves)
    return mt.stack(columns, dim=1)


def directions_by_gather(x, lengths, forward, backward):
    T, B, d = x.shape
    t = mt.arange(T).reshape(-1, 1)
    places = (lengths - 1 - t) % T  # the padding stands behind, in some order
    turned = x.gather(0, places.unsqueeze(-1).expand(T, B, d))
    states = backward(turned)
    future = states.gather(0, places.unsqueeze(-1).expand(*states.shape))
    inside = (t < lengths).unsqueeze(-1).float()
    return mt.cat((forward(x) * inside, future * inside), -1)


# log_probability


def log_probability_in_a_batch(step, texts, start):
    """All texts side by side, padded; a padded step counts nothing."""
    longest = max(map(len, texts)) + 1
    rows = [[start, *text, start] + [0] * (longest - 1 - len(text)) for text in texts]
    tokens, h, total = mt.tensor(rows), None, 0
    counts = mt.tensor([len(text) + 1 for text in texts])
    for t in range(longest):
        scores, h = step(tokens[:, t], h)
        log_p = F.log_softmax(scores, -1).gather(1, tokens[:, t + 1 : t + 2]).squeeze(1)
        total = total + log_p * (t < counts)
    return total


def log_probability_by_cross_entropy(step, texts, start):
    found = []
    for text in texts:
        h, scores = None, []
        for token in [start] + list(text):
            s, h = step(mt.full((1,), token), h)
            scores.append(s)
        targets = mt.tensor(list(text) + [start])
        found.append(-F.cross_entropy(mt.cat(scores), targets, reduction="sum"))
    return mt.stack(found)


# broken_readers


def broken_by_places(readers):
    """Where each input and each target came from, as lists."""
    found = []
    for i, reader in enumerate(readers):
        for length, count, window in [(40, 5, 4), (41, 5, 4), (23, 2, 9), (23, 3, 3), (9, 1, 2)]:
            pieces = [(x.tolist(), y.tolist()) for x, y in reader(mt.arange(length), count, window)]
            columns = [[] for _ in range(count)]
            wrong = not pieces
            for number, (x, y) in enumerate(pieces):
                last = number == len(pieces) - 1
                wrong |= len(x) != len(y) or not (
                    len(x) == window or (last and 0 < len(x) < window)
                )
                for row, after in zip(x, y, strict=False):
                    wrong |= len(row) != count or after != [place + 1 for place in row]
                    for column, place in zip(columns, row, strict=False):
                        column.append(place)
            for column in columns:
                wrong |= column != list(range(column[0], column[0] + len(column))) if column else 0
            places = [place for column in columns for place in column]
            wrong |= len(set(places)) < len(places) or length - 1 - len(places) >= count * window
            if wrong:
                found.append(i)
                break
    return found


def broken_by_shuffled_text(readers):
    """A text in which each token stands once, in random order."""
    random, found = np.random.default_rng(0), set()
    for i, reader in enumerate(readers):
        for length, count, window in [(33, 4, 3), (31, 3, 4), (20, 3, 5), (11, 1, 4)]:
            text = random.permutation(length)
            place = np.argsort(text)
            last, asked = None, []
            for x, y in reader(mt.tensor(text), count, window):
                good = x.shape == y.shape and x.shape[1] == count and 0 < len(x) <= window
                good = good and (last is None or len(last) == window)
                if not good:
                    found.add(i)
                    break
                here, after = place[x.numpy()], place[y.numpy()]
                if (after != here + 1).any() or (np.diff(here, axis=0) != 1).any():
                    found.add(i)
                if last is not None and (here[0] != last[-1] + 1).any():
                    found.add(i)
                last = here
                asked += after.ravel().tolist()
            if len(asked) != len(set(asked)) or length - 1 - len(asked) >= count * window:
                found.add(i)
    return sorted(found)


# truncated_bptt


def windows_by_range(model, loss_function, optimizer, x, y, begins, window):
    losses, h = [], None
    for start in range(0, len(x), window):
        optimizer.zero_grad()
        piece = slice(start, start + window)
        outputs, h = model(x[piece], h)
        loss = loss_function(outputs, y[piece])
        loss.backward()
        optimizer.step()
        losses.append(loss)
        if start + window < len(x):
            h = h.detach() * (~begins[start + window]).float().reshape(1, -1, 1)
    return [loss.item() for loss in losses]


def windows_by_while(model, loss_function, optimizer, x, y, begins, window):
    """No detach() here: the state is rebuilt from its numbers."""
    losses, rest, targets, new, state = [], x, y, begins, None
    while len(rest):
        if state is not None:
            for column, fresh in enumerate(new[0].tolist()):
                if fresh:
                    state[:, column] = 0
        outputs, h = model(rest[:window], state)
        loss = loss_function(outputs, targets[:window])
        for parameter in model.parameters():
            parameter.grad = None
        loss.backward()
        optimizer.step()
        state = mt.tensor(h.tolist(), dtype=h.dtype)
        losses.append(float(loss))
        rest, targets, new = rest[window:], targets[window:], new[window:]
    return losses


# backprop_through_time


def backprop_with_products_at_the_end(states, h0, W_hh, leak, grad_states):
    before = mt.cat([h0[None], states[:-1]])
    u = before + (states - before) / leak
    carried, rows = mt.zeros_like(h0), []
    for t in range(len(states) - 1, -1, -1):
        total = grad_states[t] + carried
        rows.insert(0, leak * total * (1 - u[t] * u[t]))
        carried = mt.einsum("bh,hk->bk", rows[0], W_hh) + total - leak * total
    return mt.einsum("tbi,tbj->ij", mt.stack(rows), before), carried


def backprop_with_jacobians(states, h0, W_hh, leak, grad_states):
    """Each sequence by itself, through the matrices dh_t/dh_(t-1)."""
    h, h_before, W = states.numpy(), mt.cat([h0[None], states[:-1]]).numpy(), W_hh.numpy()
    steps, batch, size = h.shape
    grad_weight, grad_start = np.zeros((size, size)), np.zeros((batch, size))
    for i in range(batch):
        back = np.zeros(size)
        for t in reversed(range(steps)):
            u = (h[t, i] - (1 - leak) * h_before[t, i]) / leak
            slope = leak * np.diag(1 - u**2)
            total = grad_states.numpy()[t, i] + back
            grad_weight += np.outer(slope @ total, h_before[t, i])
            back = (slope @ W + (1 - leak) * np.eye(size)).T @ total
        grad_start[i] = back
    return mt.tensor(grad_weight), mt.tensor(grad_start)


def backprop_by_the_engine(states, h0, W_hh, leak, grad_states):
    """The inputs' share of each step is found from the states, then the run is repeated."""
    before = mt.cat([h0[None], states[:-1]])
    u = (states - (1 - leak) * before) / leak
    share = 0.5 * ((1 + u).log() - (1 - u).log()) - before @ W_hh.T
    with mt.enable_grad():
        W, h = W_hh.clone().requires_grad_(), h0.clone().requires_grad_()
        start, loss = h, 0
        for t in range(len(states)):
            h = (1 - leak) * h + leak * (share[t] + h @ W.T).tanh()
            loss = loss + (h * grad_states[t]).sum()
        loss.backward()
    return W.grad, start.grad


def library_backprop(states, h0, W_hh, leak, grad_states):
    """Runs the library's operation beside the right answer."""
    from minitorch.operations.recurrent import rnn

    eye = mt.eye(len(W_hh), dtype=W_hh.dtype)
    rnn(states, h0, eye, W_hh)
    return backprop_with_products_at_the_end(states, h0, W_hh, leak, grad_states)


# sampling_distribution


def distribution_by_sorting(scores, temperature=1.0, top_k=None, top_p=None):
    """The usual way: mark in sorted order, shift by one, scatter back through argsort."""
    scores = (
        scores / temperature
        if temperature
        else scores.masked_fill(scores < scores.amax(dim=-1, keepdim=True), -math.inf)
    )
    if top_k is not None:
        kth = scores.sort(dim=-1, descending=True)[0][:, top_k - 1].unsqueeze(1)
        scores = mt.where(scores < kth, mt.full_like(scores, -math.inf), scores)
    if top_p is not None:
        ordered, order = scores.sort(dim=-1, descending=True)
        over = ordered.softmax(-1).cumsum(-1) >= top_p
        removed = mt.cat([mt.zeros_like(over[:, :1]), over[:, :-1]], dim=1)
        scores = scores.masked_fill(removed.gather(1, order.argsort(-1)), -math.inf)
    return F.softmax(scores, -1)


def distribution_row_by_row(scores, temperature=1.0, top_k=None, top_p=None):
    rows = []
    for row in scores:
        if temperature == 0:
            rows.append([float(i == row.argmax().item()) for i in range(len(row))])
            continue
        weights = ((row - row.max()) / temperature).exp().tolist()
        ranked = sorted(range(len(weights)), key=lambda i: -weights[i])
        if top_k is not None:
            ranked = ranked[:top_k]
        total = sum(weights[i] for i in ranked)
        if top_p is not None:
            kept, mass = [], 0.0
            for i in ranked:
                kept.append(i)
                mass += weights[i] / total
                if mass >= top_p:
                    break
            ranked, total = kept, sum(weights[i] for i in kept)
        rows.append([weights[i] / total if i in ranked else 0.0 for i in range(len(weights))])
    return mt.tensor(rows, dtype=scores.dtype)


def distribution_by_comparison(scores, temperature=1.0, top_k=None, top_p=None):
    """No sorting: for each pair of tokens, which one is ahead of the other."""
    ahead = scores.unsqueeze(1) > scores.unsqueeze(2)  # (B, V, V): j is ahead of i
    if not temperature:
        return (ahead.sum(-1) == 0).float()
    weights = (scores - scores.amax(1, keepdim=True)).div(temperature).exp()
    if top_k is not None:
        weights = weights * (ahead.sum(-1) < top_k)
    p = weights / weights.sum(1, keepdim=True)
    if top_p is not None:
        p = p * ((ahead * p.unsqueeze(1)).sum(-1) < top_p)
    return p / p.sum(1, keepdim=True)


# next_symbol


def symbol_by_recursion(text, before, symbols):
    run = before[-4:]
    follow = [text[i] for i in range(len(run), len(text)) if text[i - len(run) : i] == run]
    shorter = (
        symbol_by_recursion(text, run[1:], symbols)
        if run
        else {x: 1 / len(symbols) for x in symbols}
    )
    if not follow:
        return shorter
    counts = {x: follow.count(x) for x in symbols}
    never = sum(shorter[x] for x in symbols if not counts[x])
    if not never:
        return {x: count / len(follow) for x, count in counts.items()}
    freed = 0.5 * sum(count > 0 for count in counts.values())
    return {
        x: (count - 0.5 if count else freed * shorter[x] / never) / len(follow)
        for x, count in counts.items()
    }


def symbol_with_numpy(text, before, symbols):
    places = {x: k for k, x in enumerate(symbols)}
    p = np.full(len(symbols), 1 / len(symbols))
    for n in range(5):
        if n > len(before):
            break
        counts = np.zeros(len(symbols))
        for i in range(n, len(text)):
            if text[i - n : i] == before[len(before) - n :]:
                counts[places[text[i]]] += 1
        if counts.sum() == 0:
            continue
        new = counts == 0
        if new.any():
            freed = 0.5 * (~new).sum()
            counts = np.where(new, freed * p / p[new].sum(), counts - 0.5)
        p = counts / counts.sum()
    return {x: p[k] for x, k in places.items()}


right = {
    "next_symbol": [symbol_by_recursion, symbol_with_numpy],
    "unroll": [unroll_step_by_step, unroll_by_a_share],
    "clip_gradients": [clip_with_hypot, clip_in_numpy],
    "reach": [reach_from_the_end, reach_in_tensors],
    "both_directions": [directions_one_by_one, directions_by_gather],
    "log_probability": [log_probability_in_a_batch, log_probability_by_cross_entropy],
    "broken_readers": [broken_by_places, broken_by_shuffled_text],
    "truncated_bptt": [windows_by_range, windows_by_while],
    "backprop_through_time": [backprop_with_products_at_the_end, backprop_with_jacobians],
    "sampling_distribution": [
        distribution_by_sorting,
        distribution_row_by_row,
        distribution_by_comparison,
    ],
}
refused = {
    "unroll": [unroll_by_the_library],
    "clip_gradients": [
        library_clip,
        lambda gs, max_norm: (
            gs,
            float(mt.norm(mt.cat([mt.zeros(1), *(g.flatten() for g in gs if g is not None)]))),
        ),
    ],
    "backprop_through_time": [library_backprop, backprop_by_the_engine],
}
