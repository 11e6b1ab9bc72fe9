"""Right answers to the exercises of chapter 01, and forbidden ones."""

import math

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.nn.utils import clip_grad_norm_

# rnn_cell


def cell_with_einsum(x_t, h, W_ih, W_hh, b):
    """F.linear(x_t, W_ih, b) and nn.RNNCell do the same."""
    a = mt.einsum("bi,hi->bh", x_t, W_ih) + mt.einsum("bj,hj->bh", h, W_hh)
    return mt.tanh(a + b)


def cell_with_one_product(x_t, h, W_ih, W_hh, b):
    ones = mt.ones(len(x_t), 1, dtype=x_t.dtype)
    everything = mt.cat([x_t, h, ones], dim=1)
    weights = mt.cat([W_ih, W_hh, b.unsqueeze(1)], dim=1)
    return everything.matmul(weights.transpose(0, 1)).tanh()


def cell_unit_by_unit(x_t, h, W_ih, W_hh, b):
    units = [(x_t * W_ih[i]).sum(dim=1) + (h * W_hh[i]).sum(dim=1) + b[i] for i in range(len(W_hh))]
    a = mt.stack(units, dim=1)
    return 2 / (1 + (-2 * a).exp()) - 1


def cell_from_the_library(x_t, h, W_ih, W_hh, b):
    cell = nn.RNNCell(W_ih.shape[1], len(W_hh)).to(W_ih.dtype)
    cell.weight_ih, cell.weight_hh = nn.Parameter(W_ih.detach()), nn.Parameter(W_hh.detach())
    cell.bias_ih, cell.bias_hh = nn.Parameter(b.detach()), nn.Parameter(mt.zeros_like(b.detach()))
    return cell(x_t, h)


def library_rnn(x, W_ih, W_hh, b, h0):
    rnn = nn.RNN(W_ih.shape[1], len(W_hh), bias=False).to(W_ih.dtype)
    rnn.weight_ih_l0, rnn.weight_hh_l0 = nn.Parameter(W_ih.detach()), nn.Parameter(W_hh.detach())
    with_bias = nn.RNN(W_ih.shape[1], len(W_hh)).to(W_ih.dtype)
    with_bias.load_state_dict(
        {**rnn.state_dict(), "bias_ih_l0": b.detach(), "bias_hh_l0": 0 * b.detach()}
    )
    return with_bias(x, None if h0 is None else h0.unsqueeze(0))[0]


# unroll


def unroll_with_a_list(x, W_ih, W_hh, b, h0=None):
    states = []
    h = mt.zeros(x.size(1), W_hh.size(0)) if h0 is None else h0
    for t in range(x.size(0)):
        h = mt.tanh(x[t] @ W_ih.T + h @ W_hh.T + b)
        states.append(h)
    return mt.stack(states)


def unroll_with_inputs_first(x, W_ih, W_hh, b, h0=None):
    a = mt.einsum("tbi,hi->tbh", x, W_ih) + b
    h = 0 * a[0] if h0 is None else h0
    rows = []
    for a_t in a.unbind(0):
        h = (a_t + h @ W_hh.T).tanh()
        rows += [h.unsqueeze(0)]
    return mt.cat(rows, dim=0)


def unroll_recursively(x, W_ih, W_hh, b, h0=None):
    if h0 is None:
        h0 = x.new_zeros((x.shape[1], W_hh.shape[0]))
    h = F.tanh(F.linear(x[0], W_ih, b) + F.linear(h0, W_hh))
    if len(x) == 1:
        return h[None]
    return mt.cat([h[None], unroll_recursively(x[1:], W_ih, W_hh, b, h)])


def unroll_filling_a_tensor(x, W_ih, W_hh, b, h0=None):
    states = mt.zeros(x.shape[0], x.shape[1], W_hh.shape[0], dtype=x.dtype)
    h = mt.zeros(x.shape[1], W_hh.shape[0], dtype=x.dtype) if h0 is None else h0
    for t in range(len(x)):
        h = cell_with_einsum(x[t], h, W_ih, W_hh, b)
        states[t] = h
    return states


# deep_bidirectional


def layers_in_a_loop(x, layers):
    for left_to_right, right_to_left in layers:
        past = left_to_right(x)
        future = right_to_left(mt.flip(x, (0,)))
        x = mt.cat((past, mt.flip(future, (0,))), 2)
    return x


def layers_with_lists(x, layers):
    (forward, backward), *above = layers
    reverse = list(range(len(x) - 1, -1, -1))
    past, future = forward(x), backward(x[reverse])
    rows = [mt.cat([past[t], future[len(x) - 1 - t]], dim=1) for t in range(len(x))]
    result = mt.stack(rows)
    return layers_with_lists(result, above) if above else result


# pool_states


def pool_sequence_by_sequence(states, lengths):
    last, mean = [], []
    for i, n in enumerate(lengths.tolist()):
        last.append(states[n - 1, i])
        mean.append(states[:n, i].mean(dim=0))
    return mt.stack(last), mt.stack(mean)


def pool_with_weights(states, lengths):
    """Both as weighted sums over time."""
    time = mt.arange(states.shape[0]).reshape(-1, 1)
    at_end = (time == lengths - 1).to(states.dtype)
    evenly = (time < lengths).to(states.dtype) / lengths
    last = mt.einsum("tb,tbh->bh", at_end, states)
    return [last, mt.einsum("tb,tbh->bh", evenly, states)]


def pool_with_where(states, lengths):
    index = (lengths - 1).reshape(1, -1, 1).expand(1, *states.shape[1:])
    outside = (mt.arange(len(states))[:, None] >= lengths[None]).unsqueeze(-1)
    total = states.masked_fill(outside, 0.0).sum(0)
    return states.gather(0, index)[0], total / lengths[:, None]


def pool_in_numpy(states, lengths):
    states = states.numpy()
    rows = [states[:n, i] for i, n in enumerate(lengths.tolist())]
    last, mean = ([f(row) for row in rows] for f in (lambda row: row[-1], lambda row: row.mean(0)))
    return mt.tensor(np.stack(last)), mt.tensor(np.stack(mean))


# sequence_loss


def loss_token_by_token(scores, targets, lengths):
    total, count = 0, 0
    for i, n in enumerate(lengths.tolist()):
        for t in range(n):
            s = scores[t, i]
            total = total + s.logsumexp(0) - s[int(targets[t, i])]
            count += 1
    return total / count


def loss_with_a_choice(scores, targets, lengths):
    valid = mt.arange(len(targets)).unsqueeze(1) < lengths
    log_p = F.log_softmax(scores[valid], -1)
    return -log_p[mt.arange(len(log_p)), targets[valid]].mean()


def loss_with_one_hot(scores, targets, lengths):
    """As F.cross_entropy with ignore_index."""
    shifted = scores - scores.amax(dim=-1, keepdim=True)
    p = shifted.exp() / shifted.exp().sum(-1, keepdim=True)
    losses = -(F.one_hot(targets, scores.shape[-1]) * p.log()).sum(-1)
    inside = (mt.arange(len(targets)).reshape(-1, 1) < lengths).double()
    return (losses * inside).sum() / inside.sum()


def library_loss(scores, targets, lengths):
    ignored = mt.arange(len(targets)).unsqueeze(1) >= lengths
    return F.cross_entropy(
        scores.reshape(-1, scores.shape[-1]), targets.masked_fill(ignored, -100).reshape(-1)
    )


# clip_gradients


def clip_with_one_vector(gradients, max_norm):
    everything = mt.cat([g.reshape(-1) for g in gradients])
    length = (everything @ everything).sqrt()
    factor = (max_norm / (length + 1e-6)).clamp(max=1.0)
    return [factor * g for g in gradients]


def clip_with_numbers(gradients, max_norm):
    total = 0.0
    for g in gradients:
        for value in g.reshape(-1).tolist():
            total += value * value
    total = math.sqrt(total)
    if total <= max_norm:
        return [g.clone() for g in gradients]
    return tuple(g * max_norm / total for g in gradients)


def clip_with_fresh_tensors(gradients, max_norm):
    squares = sum((g * g).sum().item() for g in gradients)
    copies = [g.clone() for g in gradients]
    if squares > max_norm**2:
        for g in copies:
            g *= max_norm / squares**0.5
    return copies


def library_clip(gradients, max_norm):
    parameters = [nn.Parameter(mt.zeros_like(g)) for g in gradients]
    for parameter, g in zip(parameters, gradients, strict=True):
        parameter.grad = g.clone()
    clip_grad_norm_(parameters, max_norm)
    return [parameter.grad for parameter in parameters]


# truncated_bptt


def windows_by_range(model, loss_function, optimizer, x, y, window):
    losses, h = [], None
    for start in range(0, len(x), window):
        if h is not None:
            h = h.detach()
        optimizer.zero_grad()
        outputs, h = model(x[start : start + window], h)
        loss = loss_function(outputs, y[start : start + window])
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return [loss.item() for loss in losses]


def windows_by_while(model, loss_function, optimizer, x, y, window):
    """No detach() here: the state is rebuilt from its numbers."""
    losses, rest, targets, state = [], x, y, None
    while len(rest):
        outputs, h = model(rest[:window], state)
        loss = loss_function(outputs, targets[:window])
        for parameter in model.parameters():
            parameter.grad = None
        loss.backward()
        optimizer.step()
        state = mt.tensor(h.tolist(), dtype=h.dtype)
        losses.append(float(loss))
        rest, targets = rest[window:], targets[window:]
    return losses


def windows_step_by_step(model, loss_function, optimizer, x, y, window):
    losses, h = [], None
    for inputs, targets in zip(x.split(window), y.split(window), strict=True):
        outputs = []
        for t in range(len(inputs)):
            output, h = model(inputs[t : t + 1], h)
            outputs.append(output)
        loss = loss_function(mt.cat(outputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        h = h.data
    return losses


# backprop_through_time


def backprop_with_products_at_the_end(states, h0, W_hh, grad_states):
    before = mt.cat([h0[None], states[:-1]])
    carried, rows = mt.zeros_like(h0), []
    for t in range(len(states) - 1, -1, -1):
        rows.insert(0, (grad_states[t] + carried) * (1 - states[t] * states[t]))
        carried = mt.einsum("bh,hk->bk", rows[0], W_hh)
    return mt.einsum("tbi,tbj->ij", mt.stack(rows), before), carried


def backprop_with_jacobians(states, h0, W_hh, grad_states):
    """Each sequence by itself, through the matrices dh_t/dh_(t-1)."""
    h, h_before, W = states.numpy(), mt.cat([h0[None], states[:-1]]).numpy(), W_hh.numpy()
    steps, batch, size = h.shape
    grad_weight, grad_start = np.zeros((size, size)), np.zeros((batch, size))
    for i in range(batch):
        back = np.zeros(size)
        for t in reversed(range(steps)):
            slope = np.diag(1 - h[t, i] ** 2)
            total = grad_states.numpy()[t, i] + back
            grad_weight += np.outer(slope @ total, h_before[t, i])
            back = (slope @ W).T @ total
        grad_start[i] = back
    return mt.tensor(grad_weight), mt.tensor(grad_start)


def library_backprop(states, h0, W_hh, grad_states):
    from minitorch.operations.recurrent import rnn

    before = mt.cat([h0[None], states[:-1]])
    share = 0.5 * ((1 + states).log() - (1 - states).log()) - before @ W_hh.T
    W, start = W_hh.clone().requires_grad_(), h0.clone().requires_grad_()
    eye = mt.eye(len(W), dtype=W.dtype)
    (rnn(share, start, eye, W)[0] * grad_states).sum().backward()
    return W.grad, start.grad


# sequence_log_probability


def chain_rule_step_by_step(step, tokens, start):
    steps, batch = tokens.shape
    total = mt.zeros(batch)
    token, h = mt.full((batch,), start), None
    for t in range(steps):
        scores, h = step(token, h)
        log_p = scores.log_softmax(dim=-1)
        total = total + log_p[mt.arange(batch), tokens[t]]
        token = tokens[t]
    return total


def chain_rule_by_products(step, tokens, start):
    inputs = mt.cat([mt.tensor([[start] * tokens.shape[1]]), tokens])
    probability, h = 1.0, None
    for token, following in zip(inputs[:-1], inputs[1:], strict=True):
        scores, h = step(token, h)
        p = scores.softmax(-1)
        probability = probability * p.gather(1, following[:, None])[:, 0]
    return probability.log()


def chain_rule_sequence_by_sequence(step, tokens, start):
    results = []
    for i in range(tokens.shape[1]):
        previous, h, total = mt.tensor([start]), None, 0
        for token in tokens[:, i : i + 1]:
            scores, h = step(previous, h)
            total = total - F.cross_entropy(scores, token)
            previous = token
        results.append(total)
    return mt.stack(results)


# sampling_distribution


def distribution_by_sorting(scores, temperature=1.0, top_k=None, top_p=None):
    """The usual way: mark in sorted order, shift by one, scatter back through argsort."""
    scores = scores / temperature
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
    weights = (scores - scores.amax(1, keepdim=True)).div(temperature).exp()
    ahead = weights.unsqueeze(1) > weights.unsqueeze(2)  # (B, V, V): j is ahead of i
    if top_k is not None:
        weights = weights * (ahead.sum(-1) < top_k)
    p = weights / weights.sum(1, keepdim=True)
    if top_p is not None:
        p = p * ((ahead * p.unsqueeze(1)).sum(-1) < top_p)
    return p / p.sum(1, keepdim=True)


right = {
    "rnn_cell": [cell_with_einsum, cell_with_one_product, cell_unit_by_unit],
    "unroll": [
        unroll_with_a_list,
        unroll_with_inputs_first,
        unroll_recursively,
        unroll_filling_a_tensor,
    ],
    "deep_bidirectional": [layers_in_a_loop, layers_with_lists],
    "pool_states": [pool_sequence_by_sequence, pool_with_weights, pool_with_where, pool_in_numpy],
    "sequence_loss": [loss_token_by_token, loss_with_a_choice, loss_with_one_hot],
    "clip_gradients": [clip_with_one_vector, clip_with_numbers, clip_with_fresh_tensors],
    "truncated_bptt": [windows_by_range, windows_by_while, windows_step_by_step],
    "backprop_through_time": [
        backprop_with_products_at_the_end,
        backprop_with_jacobians,
    ],
    "sequence_log_probability": [
        chain_rule_step_by_step,
        chain_rule_by_products,
        chain_rule_sequence_by_sequence,
    ],
    "sampling_distribution": [
        distribution_by_sorting,
        distribution_row_by_row,
        distribution_by_comparison,
    ],
}
refused = {
    "rnn_cell": [
        lambda x_t, h, W_ih, W_hh, b: (F.linear(x_t, W_ih, b) + F.linear(h, W_hh)).tanh(),
        lambda x_t, h, W_ih, W_hh, b: library_rnn(x_t[None], W_ih, W_hh, b, h)[0],
        cell_from_the_library,
    ],
    "unroll": [
        lambda x, W_ih, W_hh, b, h0=None: library_rnn(x, W_ih, W_hh, b, h0),
        lambda x, W_ih, W_hh, b, h0=None: mt.stack(
            [library_rnn(x[: t + 1], W_ih, W_hh, b, h0)[t] for t in range(len(x))]
        ),
    ],
    "sequence_loss": [library_loss],
    "clip_gradients": [
        library_clip,
        lambda gs, max_norm: [
            g * min(1.0, max_norm / float(mt.norm(mt.cat([g.flatten() for g in gs])) + 1e-9))
            for g in gs
        ],
        lambda gs, max_norm: [
            g * min(1.0, max_norm / float(mt.stack([g.norm() for g in gs]).norm() + 1e-9))
            for g in gs
        ],
    ],
    "backprop_through_time": [library_backprop],
}
