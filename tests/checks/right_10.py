"""Answers to the exercises of chapter 10 that are right but written differently, or forbidden."""

import math

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_10 import (
    Block,
    CrossAttention,
    Transformer,
)

# teacher_forcing


def force_row_by_row(sentences, start, end, padding):
    width, read, asked = sentences.shape[1] + 1, [], []
    for row in sentences.tolist():
        words = [word for word in row if word != padding]
        read.append([start, *words] + [padding] * (width - 1 - len(words)))
        asked.append([*words, end] + [padding] * (width - 1 - len(words)))
    return mt.tensor(read), mt.tensor(asked)


def force_by_rolling(sentences, start, end, padding):
    """What is asked for is what is read, one place earlier, and the end where padding begins."""
    wide = F.pad(sentences, (1, 1), value=padding)
    read = wide[:, :-1].masked_fill(mt.arange(wide.shape[1] - 1) == 0, start)
    begins = (wide[:, 1:] == padding).cumsum(dim=1) == 1
    return [read, mt.where(begins & (wide[:, 1:] == padding), end, wide[:, 1:])]


# three_masks


def masks_by_lists(source, target, padding):
    length = target.shape[1]
    own = [
        [
            [
                [
                    j == i or (j < i and row[i] != padding and row[j] != padding)
                    for j in range(length)
                ]
                for i in range(length)
            ]
        ]
        for row in target.tolist()
    ]
    encoder = mt.tensor([[[[token != padding for token in row]]] for row in source.tolist()])
    return [encoder, mt.tensor(own), encoder.clone()]


def masks_by_first_token(source, target, padding):
    """Padding stands at the front: all from the first token on."""

    def real(tokens):
        first = (tokens == padding).sum(dim=1).reshape(-1, 1, 1, 1)
        return mt.arange(tokens.shape[1]) >= first

    n = mt.arange(target.shape[1])
    own = mt.where(n == n.unsqueeze(1), mt.tensor(True), (n < n.unsqueeze(1)) & real(target))
    return real(source), own, real(source)


# weights_more


def counts_of_shapes(vocabulary, width, heads, hidden, layers):
    """Every weight by its shape."""

    def count(h, m, layers, tied=False, ends=2):
        square, gain = (h, width // h, width), (width,)
        network = [(width, m), (m,), (m, width), (width,)]
        encoder = [square] * 4 + network + [gain] * 4
        decoder = [square] * 8 + network + [gain] * 6
        tables = [(vocabulary, width)] * (1 if tied else 2) + [(vocabulary,)]
        return sum(map(math.prod, tables + layers * (encoder + decoder) + [gain] * 2 * ends))

    now = count(heads, hidden, layers)
    after = {
        "a layer more in each stack": count(heads, hidden, layers + 1),
        "twice the heads": now,
        "twice the hidden width": count(heads, 2 * hidden, layers),
        "output tied": count(heads, hidden, layers, tied=True),
        "no norms at the ends": count(heads, hidden, layers, ends=0),
    }
    return {"weights": now} | {name: n - now for name, n in after.items()}


def counts_in_numpy(vocabulary, width, heads, hidden, layers):
    V, d, m, L = np.array([vocabulary, width, hidden, layers], dtype=np.int64)
    layer = 12 * d**2 + 4 * d * m + 2 * m + 12 * d
    return dict(
        zip(
            ("weights", "no norms at the ends", "output tied", "twice the hidden width"),
            (2 * V * d + V + L * layer + 4 * d, -4 * d, -V * d, L * (4 * d * m + 2 * m)),
            strict=True,
        )
    ) | {"twice the heads": 0, "a layer more in each stack": layer}


# moved


def moved_by_reach(real, T, place, forgotten):
    """Who sees whom, as sets."""
    where, i = place
    sees = {t: {*range(T)} if "causal" in forgotten else {*range(t + 1)} for t in range(T)}
    if where == "target":
        return [t for t in sees if i in sees[t]]
    carriers = {i} | ({*range(len(real))} if real[i] or "encoder" in forgotten else set())
    read = {j for j in range(len(real)) if real[j] or "cross" in forgotten}
    return [t for t in range(T) if carriers & read]


def moved_by_running(real, T, place, forgotten):
    """Numbers that are sums of what is seen: no number cancels another one."""
    n, (where, i) = len(real), place
    vectors = {"source": [1.0] * n, "target": [1.0] * T}

    def run():
        x, y = vectors["source"], vectors["target"]
        seen = [k for k in range(n) if real[k] or "encoder" in forgotten]
        memory = [x[k] + 0.5 * sum(x[j] for j in seen) for k in range(n)]
        across = sum(memory[k] for k in range(n) if real[k] or "cross" in forgotten)
        ends = [T if "causal" in forgotten else t + 1 for t in range(T)]
        return [sum(y[:end]) + across for end in ends]

    before = run()
    vectors[where][i] += 1.0
    return tuple(t for t, (a, b) in enumerate(zip(before, run(), strict=True)) if a != b)


# CrossAttention


class CrossHeadByHead(CrossAttention.reference):
    def forward(self, x, memory, allowed=None):
        size = x.shape[-1] // self.heads
        query, key, value = self.query(x), self.key(memory), self.value(memory)
        outputs, maps = [], []
        for first in range(0, x.shape[-1], size):
            columns = slice(first, first + size)
            scores = query[..., columns] @ key[..., columns].mT / math.sqrt(size)
            if allowed is not None:
                scores = mt.where(allowed.squeeze(1), scores, -mt.inf)
            maps.append(scores.softmax(dim=-1))
            outputs.append(maps[-1] @ value[..., columns])
        self.weights = mt.stack(maps, dim=1).detach()
        return self.out(mt.cat(outputs, dim=-1))


class CrossWithEinsum(CrossAttention.reference):
    def forward(self, x, memory, allowed=None):
        query, key, value = (
            each.reshape(len(x), -1, self.heads, x.shape[-1] // self.heads)
            for each in (self.query(x), self.key(memory), self.value(memory))
        )
        scores = mt.einsum("bihs,bjhs->bhij", query, key) * key.shape[-1] ** -0.5
        mask = mt.zeros(1) if allowed is None else mt.zeros(allowed.shape)
        mask = mask if allowed is None else mask.masked_fill(~allowed, -mt.inf)
        weights = (scores + mask).softmax(dim=-1)
        self.weights = weights.detach().clone()
        return self.out(mt.einsum("bhij,bjhs->bihs", weights, value).flatten(2))


class CrossFused(CrossAttention.reference):
    def forward(self, x, memory, allowed=None):
        super().forward(x, memory, allowed)
        query, key, value = (
            y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for y in (self.query(x), self.key(memory), self.value(memory))
        )
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
        return self.out(attended.transpose(1, 2).flatten(2))


# Block


class BlockInALoop(Block.reference):
    def forward(self, x, allowed=None, memory=None, memory_allowed=None):
        steps = [(self.attention_norm, lambda y: self.attention(y, y, allowed=allowed))]
        if self.cross:
            steps.append((self.cross_norm, lambda y: self.cross(y, memory, memory_allowed)))
        steps.append((self.feed_forward_norm, self.feed_forward))
        for norm, part in steps:
            x = self.dropout(part(norm(x))) + x
        return x


class BlockWithFunctions(Block.reference):
    def forward(self, x, allowed=None, memory=None, memory_allowed=None):
        def drop(y):
            return F.dropout(y, self.dropout.p, self.training)

        normal = self.attention_norm(x)
        total = mt.stack([x, drop(self.attention(normal, normal, allowed))]).sum(dim=0)
        if self.cross is None:
            return total + drop(self.feed_forward(self.feed_forward_norm(total)))
        read = self.cross(self.cross_norm(total), memory=memory, allowed=memory_allowed)
        total = total + drop(read)
        return total + drop(self.feed_forward(self.feed_forward_norm(total)))


# many_beginnings


def beginnings_with_reshape(block, x, memory, allowed):
    """Between the parts every beginning is alone; only the queries are laid side by side."""
    B, k, T, d = x.shape
    places = mt.arange(T)
    y = block.norm_1(x).reshape(B * k, T, d)
    seen = block.attention(y, y, places <= places.unsqueeze(1))
    x = x + seen.reshape(B, k, T, d)
    x = x + block.cross(block.norm_3(x).reshape(B, -1, d), memory, allowed).reshape(x.shape)
    return x + block.feed_forward(block.norm_2(x))


class _LaidOut(nn.Module):
    """A cross-attention for texts that stand one below the other, k of each source."""

    def __init__(self, cross, k):
        super().__init__()
        self.cross, self.k = cross, k

    def forward(self, x, memory, allowed=None):
        return self.cross(x.reshape(len(memory), -1, x.shape[-1]), memory, allowed).reshape(x.shape)


def beginnings_by_another_cross(block, x, memory, allowed):
    """The block itself, with a cross-attention that lays out its queries."""
    cross, causal = block.cross, mt.ones(x.shape[2], x.shape[2]).bool().tril()
    block.cross = _LaidOut(cross, x.shape[1])
    try:
        return block(x.flatten(0, 1), causal, memory, allowed).reshape(*x.shape)
    finally:
        block.cross = cross


# promises


def promises_by_logarithms(T, V):
    """Probabilities as a softmax of scores."""
    scores = mt.zeros(T, V).double()
    scores[:, 0] = 1e-3
    unsure = mt.full((T, V), -1e9).double()
    unsure[:, 0] = 0.0
    unsure[T - 1, 1] = 1e-3
    return {
        "right below": -math.log(0.5) / T,
        "wrong above": -math.log(1 / V),
        "wrong": unsure.softmax(dim=1),
        "right": scores.softmax(dim=1),
    }


def promises_by_lists(T, V):
    rest = (1 - 1.005 / V) / (V - 1)
    sure = [1.0] + [0.0] * (V - 1)
    wrong = [sure] * (T - 1) + [[0.498] + [0.0] * (V - 2) + [0.502]]
    right = [[1.005 / V] + [rest] * (V - 1)] * T
    bounds = {"right below": np.log(2) / T, "wrong above": np.log(V)}
    return bounds | {"wrong": mt.tensor(wrong), "right": mt.tensor(right)}


# faults


def faults_one_by_one(decoder, vocabulary, width):
    """A question for each fault; token by token, place by place."""
    mt.manual_seed(7)
    lengths, n, steps = [3, 7, 5, 1], 7, 6
    real = mt.tensor([[i < length for i in range(n)] for length in lengths])
    target = mt.randint(0, vocabulary, (4, steps))
    memory = mt.randn(4, n, width).double()
    base = decoder(target, memory, real).numpy()

    def moved(target=target, memory=memory):
        now = decoder(target, memory, real).numpy()
        same = (now == base) | (np.abs(np.nan_to_num(now - base, nan=1.0)) < 1e-9)
        return ~same.all(axis=-1)  # (B, T)

    answers = []
    for t in range(1, steps):
        for _ in range(3):
            other = target.clone()
            other[:, t:] = mt.randint(0, vocabulary, (4, steps - t))
            if moved(target=other)[:, :t].any():
                answers.append("future")
    for factor in (100.0, -3.0, 0.0):
        if moved(memory=mt.where(real.unsqueeze(-1), memory, factor * memory + factor)).any():
            answers.append("padding")
    for b in range(4):
        words, vectors = target.clone(), memory.clone()
        words[b] = (words[b] + 1 + mt.randint(0, vocabulary - 1, (steps,))) % vocabulary
        vectors[b] = 2 * mt.randn(n, width).double()
        if np.delete(moved(words, vectors), b, axis=0).any():
            answers.append("batch")
        for i in range(lengths[b]):
            vectors = memory.clone()
            vectors[b, i] = -vectors[b, i] + 0.5
            if not moved(memory=vectors)[b].all():
                answers.append("source")
    return list(dict.fromkeys(answers))


def faults_of_questions(decoder, vocabulary, width):
    """Each question is a change, and the places that must stay, or must move."""
    real = mt.arange(4) < mt.tensor([[2], [4], [1]])
    target, memory = mt.randint(0, vocabulary, (3, 4)), mt.randn(3, 4, width).double()
    rows = mt.arange(3)
    before, found = decoder(target, memory, real), set()

    def ask(fault, words=target, vectors=memory, places=slice(None), row=slice(None), stay=True):
        after = decoder(words, vectors, real)[row, places]
        if stay and not mt.allclose(after, before[row, places]):
            found.add(fault)
        if not stay and (after == before[row, places]).all(dim=-1).any():
            found.add(fault)

    for shift in range(1, vocabulary):
        for place in range(1, 4):
            words = target.clone()
            words[:, place] = (target[:, place] + shift) % vocabulary
            ask("future", words, places=slice(0, place))
        for row in range(3):
            words = target.clone()
            words[row] = (target[row] + shift) % vocabulary
            ask("batch", words, row=rows != row)
    for row in range(3):
        for place in range(4):
            vectors = memory.clone()
            vectors[row, place] += 1.5
            ask("batch", vectors=vectors, row=rows != row)
            fault = "source" if real[row, place] else "padding"
            ask(fault, vectors=vectors, row=row, stay=fault == "padding")
    return [fault for fault in ("source", "batch", "padding", "future") if fault in found]


# Transformer


class TransformerSpelledOut(Transformer.reference):
    def encode(self, source):
        real = ~(source == self.padding)
        return [self.encoder(self.embed(source), real), real]

    def forward(self, source, target):
        memory, real = self.encode(source)
        return self.decoder(target, memory=memory, real=real)


class TransformerWithLengths(Transformer.reference):
    """The padding stands at the end."""

    def encode(self, source):
        lengths = source.ne(self.padding).sum(dim=1, keepdim=True)
        real = mt.arange(source.shape[1]) < lengths
        return self.encoder(real=real, x=self.embed(source)), real


right = {
    "teacher_forcing": [force_row_by_row, force_by_rolling],
    "three_masks": [masks_by_lists, masks_by_first_token],
    "weights_more": [counts_of_shapes, counts_in_numpy],
    "moved": [moved_by_reach, moved_by_running],
    "CrossAttention": [CrossHeadByHead, CrossWithEinsum],
    "Block": [BlockInALoop, BlockWithFunctions],
    "many_beginnings": [beginnings_with_reshape, beginnings_by_another_cross],
    "promises": [promises_by_logarithms, promises_by_lists],
    "faults": [faults_one_by_one, faults_of_questions],
    "Transformer": [TransformerSpelledOut, TransformerWithLengths],
}
refused = {"CrossAttention": [CrossFused]}
