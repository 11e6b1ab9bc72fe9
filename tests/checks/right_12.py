"""Right answers to the exercises of chapter 12, and forbidden ones."""

import functools
import math
from fractions import Fraction
from statistics import mean, stdev

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_12 import OwnMixer

# cache_bytes


def bytes_in_a_loop(n, layers, width, heads, key_heads, window, full_layers, bits):
    numbers = 0
    for layer in range(layers):
        kept = n if layer < full_layers else min(window, n)
        for _ in range(key_heads):
            numbers += kept * (width // heads) + kept * (width // heads)
    return numbers * bits // 8


def bytes_as_a_fraction(n, layers, width, heads, key_heads, window, full_layers, bits):
    row = Fraction(2 * key_heads * width * bits, 8 * heads)
    windowed = (layers - full_layers) * (n if n < window else window)
    return row * (windowed + n * full_layers)


# believable


def _fair(row, whose):
    tried = sorted(row[f"{whose}rates tried"])
    return row[f"{whose}rate"] in tried[1:-1]


def believed_with_numpy(rows):
    found = []
    for i, row in enumerate(rows):
        if row["chosen on"] == "test" or not (_fair(row, "") and _fair(row, "base ")):
            continue
        n = len(row["losses"])
        if row["steps"] != row["base steps"] or n != len(row["base losses"]) or n < 5:
            continue
        differences = np.array(row["base losses"]) - np.array(row["losses"])
        signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        if (signs @ differences >= differences.sum() - 1e-9).sum() <= 0.05 * 2**n:
            found.append(i)
    return found


def believed_in_one_go(rows):
    def p(row):
        differences = [b - a for a, b in zip(row["losses"], row["base losses"], strict=True)]
        sums = [0.0]
        for one in differences:
            sums = [x + y for x in sums for y in (one, -one)]
        return mean(x > sum(differences) - 1e-9 for x in sums)

    return [
        i
        for i, row in enumerate(rows)
        if _fair(row, "")
        and _fair(row, "base ")
        and row["chosen on"] != "test"
        and row["base steps"] == row["steps"]
        and len(row["losses"]) == len(row["base losses"])
        and p(row) <= 0.05
    ]


# block_flops


def product(n, k, m):
    return 2 * n * k * m


def flops_of_products(T, n, width, hidden, heads, key_heads):
    size = width // heads
    projections = product(T, width, width) * 2 + product(T, width, key_heads * size) * 2
    scores = sum(product(T, size, n) + product(T, n, size) for _ in range(heads))
    network = product(T, width, 2 * hidden) + product(T, hidden, width)
    return {"projections": projections, "scores": scores, "network": network}


def flops_as_tensors(T, n, width, hidden, heads, key_heads):
    each = mt.tensor([2 * width**2 * (1 + key_heads / heads), 2 * n * width, 3 * width * hidden])
    counts = (2 * T * each).tolist()
    return dict(zip(("projections", "scores", "network"), counts, strict=True))


# one_tile


def tile_key_by_key(state, scores, value, allowed):
    """One key after the other, each with a maximum of its own."""
    m, z, u = state
    for j in range(scores.shape[-1]):
        new = mt.where(allowed[:, j], mt.maximum(m, scores[..., j]), m)
        nothing = new == -mt.inf
        old = mt.where(nothing, 0.0, (m - new).exp())
        share = mt.where(allowed[:, j], (scores[..., j] - new).exp(), 0.0)
        z = old * z + share
        u = old[..., None] * u + share[..., None] * value[..., j, None, :]
        m = new
    return m, z, u


def tile_with_where(state, scores, value, allowed):
    m, z, u = state
    hidden = mt.where(allowed, scores, -math.inf)
    new = mt.stack([m, hidden.max(dim=-1)[0]]).amax(dim=0)
    share = mt.nan_to_num((hidden - new[..., None]).exp())
    old = mt.nan_to_num((m - new).exp())
    return [
        new,
        z * old + share.sum(-1),
        u * old[..., None] + mt.einsum("...tw,...wv->...tv", share, value),
    ]


def _by_the_library(state, scores, value, allowed, weigh):
    m, z, u = state
    hidden = scores.masked_fill(~allowed, -mt.inf)
    new = mt.maximum(m, hidden.amax(dim=-1))
    old = mt.nan_to_num((m - new).exp())
    total, mixed = weigh(hidden, value, mt.nan_to_num(new, neginf=0.0))
    return new, old * z + total, old[..., None] * u + mixed


def tile_with_logsumexp(*case):
    def weigh(hidden, value, new):
        total = mt.nan_to_num((hidden.logsumexp(dim=-1) - new).exp())
        return total, (hidden - new[..., None]).exp() @ value

    return _by_the_library(*case, weigh)


def tile_with_softmax(*case):
    def weigh(hidden, value, new):
        total = (hidden - new[..., None]).exp().sum(dim=-1)
        return total, total[..., None] * (mt.nan_to_num(hidden.softmax(dim=-1)) @ value)

    return _by_the_library(*case, weigh)


def tile_with_the_fused_operation(state, scores, value, allowed):
    def weigh(hidden, value, new):
        total = (hidden - new[..., None]).exp().sum(dim=-1)
        keys = mt.eye(hidden.shape[-1], dtype=hidden.dtype).expand(*value.shape[:-2], -1, -1)
        mixed = F.scaled_dot_product_attention(scores, keys, value, attn_mask=allowed, scale=1.0)
        return total, total[..., None] * mt.nan_to_num(mixed)

    return _by_the_library(state, scores, value, allowed, weigh)


# grouped_attention


def _causal(T, n):
    return mt.arange(n) <= mt.arange(T).unsqueeze(1) + n - T


def grouped_in_a_loop(query, key, value):
    """Head by head."""
    group = query.shape[1] // key.shape[1]
    outputs = []
    for i in range(query.shape[1]):
        scores = query[:, i] @ key[:, i // group].mT / key.shape[-1] ** 0.5
        scores = mt.where(_causal(*scores.shape[-2:]), scores, -math.inf)
        outputs.append(F.softmax(scores, -1) @ value[:, i // group])
    return mt.stack(outputs, dim=1)


def grouped_in_rows(query, key, value):
    """The queries of a group below one another, in one matrix."""
    batch, heads, T, d = query.shape
    groups, n = key.shape[1:3]
    scores = query.reshape(batch, groups, heads // groups * T, d) @ key.mT / math.sqrt(d)
    hidden = ~mt.cat([_causal(T, n)] * (heads // groups))
    weights = scores.masked_fill(hidden, -mt.inf).softmax(dim=-1)
    return (weights @ value).reshape(batch, heads, T, -1)


def grouped_by_einsum(query, key, value):
    q = query.unflatten(1, (key.shape[1], -1))
    scores = mt.einsum("bgrtd,bgnd->bgrtn", q, key) * key.shape[-1] ** -0.5
    weights = scores.masked_fill(~_causal(*scores.shape[-2:]), -math.inf).softmax(-1)
    return mt.einsum("bgrtn,bgnv->bgrtv", weights, value).flatten(1, 2)


def _all_heads(query, key, value, copied):
    mask = _causal(query.shape[2], key.shape[2])
    scores = query @ copied(key).mT / math.sqrt(key.shape[-1])
    return scores.masked_fill(~mask, -mt.inf).softmax(dim=-1) @ copied(value)


def grouped_with_repeat_interleave(query, key, value):
    group = query.shape[1] // key.shape[1]
    return _all_heads(query, key, value, lambda x: x.repeat_interleave(group, dim=1))


def grouped_with_repeat(query, key, value):
    group = query.shape[1] // key.shape[1]
    return _all_heads(
        query, key, value, lambda x: x.unsqueeze(2).repeat(1, 1, group, 1, 1).flatten(1, 2)
    )


def grouped_by_index(query, key, value):
    group = query.shape[1] // key.shape[1]
    heads = mt.arange(query.shape[1]) // group
    return _all_heads(query, key, value, lambda x: x[:, heads])


def grouped_with_the_fused_operation(query, key, value):
    q = query.unflatten(1, (key.shape[1], -1))
    parts = [
        F.scaled_dot_product_attention(
            q[:, :, r], key, value, _causal(query.shape[2], key.shape[2])
        )
        for r in range(q.shape[2])
    ]
    return mt.stack(parts, dim=2).flatten(1, 2)


# windowed_attention


def windowed_by_sums(query, key, value, width):
    """Cumulative sums of key-value products, less those of width tokens before."""
    pairs = (key.unsqueeze(-1) * value.unsqueeze(-2)).cumsum(dim=-3)
    sums, n = key.cumsum(dim=-2), key.shape[-2]
    if width < n:
        pairs = mt.cat(
            [pairs[..., :width, :, :], pairs[..., width:, :, :] - pairs[..., :-width, :, :]], dim=-3
        )
        sums = mt.cat([sums[..., :width, :], sums[..., width:, :] - sums[..., :-width, :]], dim=-2)
    mixed = (query.unsqueeze(-2) @ pairs).squeeze(-2)
    return mixed / (query * sums).sum(dim=-1, keepdim=True)


def windowed_with_a_queue(query, key, value, width):
    """The values get a column of ones, so that one state carries both sums."""
    value = mt.cat([value, mt.ones_like(value[..., :1])], dim=-1)
    queue, state, outputs = [], 0.0, []
    for q, k, v in zip(query.unbind(-2), key.unbind(-2), value.unbind(-2), strict=True):
        queue.append(mt.einsum("...d,...v->...dv", k, v))
        state = state + queue[-1]
        if len(queue) > width:
            state = state - queue.pop(0)
        mixed = mt.einsum("...d,...dv->...v", q, state)
        outputs.append(mixed[..., :-1] / mixed[..., -1:])
    return mt.stack(outputs, dim=-2)


def _logarithms(query, key, value, width, attend):
    n = key.shape[-2]
    back = mt.arange(n).unsqueeze(1) - mt.arange(n)
    return attend((query @ key.mT).log(), value, (back >= 0) & (back < width))


def windowed_with_softmax(*case):
    def attend(scores, value, allowed):
        return scores.masked_fill(~allowed, -mt.inf).softmax(dim=-1) @ value

    return _logarithms(*case, attend)


def windowed_with_the_fused_operation(*case):
    def attend(scores, value, allowed):
        keys = mt.eye(scores.shape[-1], dtype=scores.dtype).expand(*value.shape[:-2], -1, -1)
        return F.scaled_dot_product_attention(scores, keys, value, attn_mask=allowed, scale=1.0)

    return _logarithms(*case, attend)


# decay_matrix


def decays_in_a_loop(log_decay, starts):
    """Row by row: the row before, times the decay, and a new 1."""
    n = log_decay.shape[-1]
    row, rows = mt.zeros_like(log_decay), []
    for t in range(n):
        go_on = (~starts[..., t : t + 1]).to(log_decay.dtype)
        row = row * log_decay[..., t : t + 1].exp() * go_on + (mt.arange(n) == t)
        rows.append(row)
    return mt.stack(rows, dim=-2)


def decays_of_clamped_differences(log_decay, starts):
    sums = log_decay.cumsum(-1)
    difference = (sums[..., :, None] - sums[..., None, :]).tril()
    text = starts.to(mt.int64).cumsum(-1)
    return difference.exp().tril() * (text[..., None] == text[..., None, :])


def decays_with_where(log_decay, starts):
    """A start is a decay of 0, whose logarithm is far enough below all others."""
    sums = mt.where(starts, -1e6, log_decay).cumsum(dim=-1)
    later = mt.arange(sums.shape[-1])
    difference = sums.unsqueeze(-1) - sums.unsqueeze(-2)
    return mt.where(later.unsqueeze(1) >= later, difference, -math.inf).exp()


# leaking


def leaking_token_by_token(mixers, x):
    """Each pair of tokens: the later one is changed, the outputs before it are compared."""

    def leaks(mixer):
        whole = mixer(x)
        for j in range(1, len(x)):
            for by in (-77.0, 77.0):
                for c in range(x.shape[1]):
                    changed = x.clone()
                    changed[j, c] += by
                    if ((mixer(changed) - whole)[:j].abs() > 1e-7).any():
                        return True
        return False

    return [i for i, mixer in enumerate(mixers) if leaks(mixer)]


def leaking_by_chance(mixers, x):
    """Random ends of the text, in NumPy."""
    random = np.random.default_rng()
    found = set()
    for i, mixer in enumerate(mixers):
        whole = mixer(x).numpy()
        for _ in range(10):
            for t in range(1, len(x)):
                end = mt.tensor(50 * random.standard_normal((len(x) - t, x.shape[1])))
                if np.abs(mixer(mt.cat([x[:t], end])).numpy()[:t] - whole[:t]).max() > 1e-6:
                    found.add(i)
    return sorted(found)


# scan


def scan_in_halves(combine, items):
    """Neighbours first, then the same with half as many (Blelloch, 1990)."""
    n = len(items[0])
    if n == 1:
        return items
    odd = combine(tuple(x[: n - n % 2 : 2] for x in items), tuple(x[1::2] for x in items))
    odd = scan_in_halves(combine, odd)
    if n > 2:
        count = (n - 1) // 2
        even = combine(tuple(x[:count] for x in odd), tuple(x[2::2] for x in items))
        even = [mt.cat([x[:1], y]) for x, y in zip(items, even, strict=True)]
    else:
        even = [x[:1] for x in items]
    rows = mt.arange(n)
    order = rows // 2 + (rows % 2) * len(even[0])
    return [mt.cat([a, b])[order] for a, b in zip(even, odd, strict=True)]


def scan_by_blocks(combine, items):
    """The last row of each left half is combined with all rows of the right half (Sklansky)."""
    n, size = len(items[0]), 1
    rows = mt.arange(n)
    while size < n:
        right = rows[(rows // size) % 2 == 1]
        left = right // size * size - 1
        joined = combine(tuple(x[left] for x in items), tuple(x[right] for x in items))
        items = tuple(x.clone() for x in items)
        for x, y in zip(items, joined, strict=True):
            x[right] = y
        size *= 2
    return items


# OwnMixer


class DecayingMixer(nn.Module):
    """One decay for each head, and the token before as the key; a Mamba-2 of a few lines."""

    def __init__(self, width):
        super().__init__()
        self.roles = nn.Linear(2 * width, 3 * width)
        self.out = nn.Linear(width, width)
        self.speed = nn.Parameter(mt.tensor(-5.0))

    def split(self, x, before):
        return self.roles(mt.cat([x, before], dim=-1)).chunk(3, dim=-1)

    def forward(self, x):
        n = x.shape[1]
        query, key, value = self.split(x, F.pad(x, (0, 0, 1, 0))[:, :-1])
        back = mt.arange(n).unsqueeze(1) - mt.arange(n)
        decay = (-self.speed.exp() * back.clamp(min=0)).exp().tril()
        return self.out((query @ key.mT * decay) @ value)

    def start(self, batch):
        width = self.out.weight.shape[0]
        zeros = functools.partial(mt.zeros, dtype=self.speed.dtype)
        return zeros(batch, width, width), zeros(batch, width)

    def step(self, x, state):
        query, key, value = self.split(x, state[1])
        pairs = state[0] * (-self.speed.exp()).exp() + mt.einsum("bk,bv->bkv", key, value)
        return self.out(mt.einsum("bk,bkv->bv", query, pairs)), (pairs, x)


class RecurrentMixer(nn.Module):
    """A GRU: right in both forms, whatever it may learn."""

    def __init__(self, width):
        super().__init__()
        self.cell = nn.GRU(width, width, batch_first=True)

    def forward(self, x):
        return self.cell(x)[0]

    def start(self, batch):
        return (self.cell.weight_hh_l0.new_zeros(batch, self.cell.hidden_size),)

    def step(self, x, state):
        output, last = self.cell(x.unsqueeze(1), state[0].unsqueeze(0))
        return output[:, 0], (last[0],)


class FusedMixer(OwnMixer.reference):
    def forward(self, x):
        same = F.scaled_dot_product_attention(x, x, x, is_causal=True)
        return super().forward(x) + 0 * same


# measure


def measured_in_a_table(accuracy, rates, choosing, reporting):
    table = np.array([[accuracy(rate, seed) for seed in choosing] for rate in rates])
    rate = rates[int(table.mean(axis=1).argmax())]
    found = np.array([accuracy(rate, seed) for seed in reporting])
    return {
        "rate": rate,
        "at the edge": bool(sorted(rates).index(rate) in (0, len(rates) - 1)),
        "accuracies": found.tolist(),
        "mean": found.mean(),
        "spread": found.std(ddof=1),
    }


def measured_seed_by_seed(accuracy, rates, choosing, reporting):
    sums = dict.fromkeys(rates, 0.0)
    for seed in choosing:
        for rate in rates:
            sums[rate] += accuracy(rate, seed)
    best = sorted(rates, key=sums.get)[-1]
    found = tuple(accuracy(best, seed) for seed in reporting)
    edge = not min(rates) < best < max(rates)
    report = {"accuracies": found, "mean": sum(found) / len(found), "spread": stdev(found)}
    return {"rate": best, "at the edge": edge} | report


right = {
    "cache_bytes": [bytes_in_a_loop, bytes_as_a_fraction],
    "believable": [believed_with_numpy, believed_in_one_go],
    "block_flops": [flops_of_products, flops_as_tensors],
    "one_tile": [tile_key_by_key, tile_with_where],
    "grouped_attention": [grouped_in_a_loop, grouped_in_rows, grouped_by_einsum],
    "windowed_attention": [windowed_by_sums, windowed_with_a_queue],
    "decay_matrix": [decays_in_a_loop, decays_of_clamped_differences, decays_with_where],
    "leaking": [leaking_token_by_token, leaking_by_chance],
    "scan": [scan_in_halves, scan_by_blocks],
    "OwnMixer": [DecayingMixer, RecurrentMixer],
    "measure": [measured_in_a_table, measured_seed_by_seed],
}
refused = {
    "one_tile": [tile_with_logsumexp, tile_with_softmax, tile_with_the_fused_operation],
    "grouped_attention": [grouped_with_the_fused_operation],
    "windowed_attention": [windowed_with_softmax, windowed_with_the_fused_operation],
    "OwnMixer": [FusedMixer],
}
copying = [grouped_with_repeat_interleave, grouped_with_repeat, grouped_by_index]
