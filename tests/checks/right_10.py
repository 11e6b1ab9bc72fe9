"""Answers to the exercises of chapter 10 that are right but written differently, or forbidden."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_10 import (
    Block,
    CrossAttention,
    Decoder,
    Encoder,
    TiedEmbedding,
    Transformer,
)

# set_rate


def rates_in_two_branches(optimizer, step, width, steps):
    peak = 1 / math.sqrt(width * steps)
    rate = peak * step / steps if step < steps else peak * math.sqrt(steps / step)
    for i in range(len(optimizer.param_groups)):
        optimizer.param_groups[i].update(lr=rate)


def rates_and_a_return(optimizer, step, width, steps):
    rate = min(1 / math.sqrt(step), step / steps**1.5) / math.sqrt(width)
    for group in optimizer.param_groups:
        group["lr"] = rate
    return rate


# smoothed_cross_entropy


def loss_with_one_hot_rows(scores, targets, smoothing, padding):
    classes = scores.shape[-1]
    right = F.one_hot(targets, classes).to(scores.dtype)
    wanted = right * (1 - smoothing) + smoothing / classes
    losses = -mt.einsum("btv,btv->bt", wanted, scores.log_softmax(dim=-1))
    real = (targets != padding).to(scores.dtype)
    return (losses * real).sum() / real.sum()


def loss_token_by_token(scores, targets, smoothing, padding):
    losses = []
    for sentence, words in zip(scores, targets.tolist(), strict=True):
        for row, word in zip(sentence, words, strict=True):
            if word != padding:
                log_p = row - row.logsumexp(dim=-1)
                losses.append(-(1 - smoothing) * log_p[word] - smoothing * log_p.mean())
    return mt.stack(losses).mean()


def loss_with_gather(scores, targets, smoothing, padding):
    log_p = nn.LogSoftmax(dim=-1)(scores)
    right = log_p.gather(2, targets.unsqueeze(2)).squeeze(2)
    losses = (smoothing - 1) * right - smoothing * log_p.mean(2)
    return losses.masked_fill(targets == padding, 0.0).sum() / (targets != padding).sum()


def loss_of_the_divergence(scores, targets, smoothing, padding):
    """Two cross-entropies: of the right tokens and of the even distribution."""
    log_p = scores.log_softmax(-1).flatten(0, 1)
    keep = [i for i, word in enumerate(targets.flatten().tolist()) if word != padding]
    hard = F.nll_loss(log_p[keep], targets.flatten()[keep])
    return (1 - smoothing) * hard - smoothing * log_p[keep].mean()


def loss_of_the_library(scores, targets, smoothing, padding):
    rows = scores.flatten(0, 1)
    return F.cross_entropy(rows, targets.flatten(), ignore_index=padding, label_smoothing=smoothing)


def loss_of_the_module(scores, targets, smoothing, padding):
    return nn.CrossEntropyLoss(ignore_index=padding, label_smoothing=smoothing)(
        scores.transpose(1, 2), targets
    )


# parameter_count


def count_shapes(vocabulary, width, heads, hidden, layers, tied):
    """Every weight by its shape."""
    square, gain = (width, width), (width,)
    network = [(width, hidden), (hidden,), (hidden, width), (width,)]
    encoder = [square] * 4 + network + [gain] * 4
    decoder = [square] * 8 + network + [gain] * 6
    matrices = [(vocabulary, width)] * (1 if tied else 3)
    return sum(map(math.prod, matrices + layers * (encoder + decoder) + [gain] * 4))


def count_of_what_is_built(vocabulary, width, heads, hidden, layers, tied):
    """All layers are made, one after the other."""

    def made():
        yield from (nn.Embedding(vocabulary, width) for _ in range(1 if tied else 3))
        yield from (nn.LayerNorm(width) for _ in range(2))
        for attentions in [1, 2] * layers:
            yield from (nn.LayerNorm(width) for _ in range(attentions + 1))
            yield from (nn.Linear(width, width, bias=False) for _ in range(4 * attentions))
            yield from (nn.Linear(width, hidden), nn.Linear(hidden, width))

    return sum(x.numel() for layer in made() for x in layer.parameters())


def count_in_one_line(vocabulary, width, heads, hidden, layers, tied):
    d = width
    return (
        d * vocabulary * (3 - 2 * tied)
        + layers * (12 * d * d + 4 * d * hidden + 2 * hidden + 12 * d)
        + 4 * d
    )


# TiedEmbedding


class TiedWithFunctions(TiedEmbedding.reference):
    def forward(self, tokens):
        return F.embedding(tokens, self.weight) * self.weight.shape[-1] ** 0.5

    def scores(self, x):
        return F.linear(x, self.weight)


class TiedWithOneHotRows(TiedEmbedding.reference):
    def forward(self, tokens):
        rows = F.one_hot(tokens, len(self.weight)).to(self.weight.dtype)
        return math.sqrt(self.weight.shape[1]) * (rows @ self.weight)

    def scores(self, x):
        return mt.einsum("btd,vd->btv", x, self.weight)


class TiedToALinearLayer(TiedEmbedding.reference):
    """One weight with two names."""

    def __init__(self, vocabulary, width):
        super().__init__(vocabulary, width)
        self.output = nn.Linear(width, vocabulary, bias=False)
        self.output.weight = self.weight

    def scores(self, x):
        return self.output(x)


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


# Encoder


class EncoderByAppending(Encoder.reference):
    def __init__(self, make_block, layers, norm):
        nn.Module.__init__(self)
        self.blocks = nn.ModuleList()
        while len(self.blocks) < layers:
            self.blocks.append(make_block())
        self.norm = norm

    def forward(self, x, real):
        batch, n = real.shape
        for i in range(len(self.blocks)):
            x = self.blocks[i](x, allowed=real.reshape(batch, 1, 1, n))
        return self.norm(x)


class EncoderWithAFullMask(Encoder.reference):
    """The norm comes first; the mask is written out for every query."""

    def __init__(self, make_block, layers, norm):
        nn.Module.__init__(self)
        self.norm = norm
        self.blocks = nn.ModuleList(make_block() for _ in range(layers))

    def forward(self, x, real):
        n = real.shape[1]
        allowed = real[:, None, None, :].expand(-1, 1, n, n)
        for block in self.blocks:
            x = block(x, allowed)
        return self.norm(x)


# Decoder


class DecoderWithPositions(Decoder.reference):
    def forward(self, tokens, memory, real):
        places = mt.arange(tokens.shape[1])
        causal = places <= places.unsqueeze(1)
        output = self.embed(tokens)
        for block in self.blocks:
            output = block(
                output, allowed=causal, memory=memory, memory_allowed=real[:, None, None]
            )
        return self.norm(output) @ self.embed.weight.T


class DecoderPrefixByPrefix(Decoder.reference):
    """What the mask replaces: a pass over each prefix, of which the last position counts."""

    def forward(self, tokens, memory, real):
        scores = []
        for end in range(1, tokens.shape[1] + 1):
            x, causal = self.embed(tokens[:, :end]), mt.ones(end, end).tril().bool()
            for block in self.blocks:
                x = block(x, causal, memory, real.unsqueeze(1).unsqueeze(2))
            scores.append(self.embed.scores(self.norm(x))[:, -1])
        return mt.stack(scores, dim=1)


# cached_step


def step_with_one_joined_cache(layer, x, cache):
    """Keys and values side by side, (B, t, 2 width), split into heads at each step."""
    new = mt.cat([layer.key(x), layer.value(x)], dim=-1)
    kept = new if cache is None else mt.cat([cache, new], dim=1)
    outputs = []
    size = x.shape[-1] // layer.heads
    query, (keys, values) = layer.query(x), kept.split(x.shape[-1], dim=-1)
    for head in range(layer.heads):
        columns = slice(head * size, (head + 1) * size)
        scores = query[..., columns] @ keys[..., columns].transpose(1, 2)
        outputs.append((scores / size**0.5).softmax(dim=-1) @ values[..., columns])
    return layer.out(mt.cat(outputs, dim=-1)), kept


def step_with_lists(layer, x, cache):
    """A dict of lists, grown in place; the newest token stands first."""
    cache = cache or {"keys": [], "values": []}
    cache["keys"].insert(0, layer.key(x))
    cache["values"].insert(0, layer.value(x))
    keys, values = (mt.cat(cache[name], dim=1) for name in ("keys", "values"))
    query, keys, values = (
        each.unflatten(-1, (layer.heads, -1)) for each in (layer.query(x), keys, values)
    )
    scores = mt.einsum("bihs,bjhs->bhij", query, keys) / math.sqrt(query.shape[-1])
    mixed = mt.einsum("bhij,bjhs->bihs", scores.softmax(-1), values)
    return [layer.out(mixed.flatten(2)), cache]


def step_without_a_graph(layer, x, cache):
    """Nothing is trained while it writes: neither output nor cache need a graph."""
    with mt.no_grad():
        output, kept = step_with_one_joined_cache(layer, x, cache)
    return output, kept.detach()


def step_fused(layer, x, cache):
    query, key, value = (
        each.unflatten(-1, (layer.heads, -1)).transpose(1, 2)
        for each in (layer.query(x), layer.key(x), layer.value(x))
    )
    if cache is not None:
        key, value = (mt.cat(pair, dim=2) for pair in zip(cache, (key, value), strict=True))
    output = F.scaled_dot_product_attention(query, key, value)
    return layer.out(output.transpose(1, 2).flatten(2)), (key, value)


def step_that_starts_anew(layer, x, cache):
    """All inputs are kept and go through the layer again: right, and dear."""
    seen = x if cache is None else mt.cat([cache, x], dim=1)
    return layer(x, seen), seen


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
    "set_rate": [rates_in_two_branches, rates_and_a_return],
    "smoothed_cross_entropy": [
        loss_with_one_hot_rows,
        loss_token_by_token,
        loss_with_gather,
        loss_of_the_divergence,
    ],
    "parameter_count": [count_shapes, count_in_one_line, count_of_what_is_built],
    "TiedEmbedding": [TiedWithFunctions, TiedWithOneHotRows, TiedToALinearLayer],
    "CrossAttention": [CrossHeadByHead, CrossWithEinsum],
    "Block": [BlockInALoop, BlockWithFunctions],
    "Encoder": [EncoderByAppending, EncoderWithAFullMask],
    "Decoder": [DecoderWithPositions, DecoderPrefixByPrefix],
    "cached_step": [step_with_one_joined_cache, step_with_lists, step_without_a_graph],
    "Transformer": [TransformerSpelledOut, TransformerWithLengths],
}
refused = {
    "smoothed_cross_entropy": [loss_of_the_library, loss_of_the_module],
    "CrossAttention": [CrossFused],
    "cached_step": [step_fused],
}
