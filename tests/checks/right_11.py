"""Answers to the exercises of chapter 11 that are right but written differently, or forbidden."""

import itertools
import math
from collections import defaultdict

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim
from textbook.checks.chapter_11 import TiedEmbedding, trainings

# set_rates


def rates_by_clipping(optimizer, step, warm, hold, steps):
    rise = min(step / max(warm, 1), 1.0) if warm else 1.0
    gone = max(step - hold, 0) / max(steps - hold, 1)
    for i in range(len(optimizer.param_groups)):
        group = optimizer.param_groups[i]
        group.update(lr=group["peak"] * rise * (1 - gone**0.5))


def rates_by_numpy(optimizer, step, warm, hold, steps):
    """Read off the whole course, of all steps."""
    t = np.arange(1, steps + 1)
    share = np.where(t < warm, t / max(warm, 1), 1.0)
    share[t > hold] -= np.sqrt((t[t > hold] - hold) / max(steps - hold, 1))
    for group in optimizer.param_groups:
        group["lr"] = float(share[step - 1]) * group["peak"]
    return share


# smoothed_loss


def loss_token_by_token(scores, targets, smoothing, padding):
    losses, size = [], scores.shape[-1]
    for row, words in zip(scores, targets.tolist(), strict=True):
        for z, word in zip(row, words, strict=True):
            if word == padding:
                continue
            log_p = z - z.logsumexp(dim=-1)
            loss = -(1 - smoothing) * log_p[word]
            for other in range(size):
                if other not in (word, padding):
                    loss = loss - smoothing / (size - 2) * log_p[other]
            losses.append(loss)
    return sum(losses) / len(losses)


def loss_by_a_distribution(scores, targets, smoothing, padding):
    """All q in a matrix; what padding would be multiplied by is replaced first."""
    size, real = scores.shape[-1], targets.ne(padding)
    clean = scores.masked_fill(~real.unsqueeze(-1), 0.0)
    q = mt.full(scores.shape, smoothing / (size - 2))
    q = q.scatter(2, targets.unsqueeze(2), 1 - smoothing)
    log_p = clean.log_softmax(-1).masked_fill(mt.arange(size) == padding, 0.0)
    losses = -(q * log_p).sum(-1)
    return mt.where(real, losses, 0.0).sum() / real.sum()


def loss_of_the_library(scores, targets, smoothing, padding):
    rows, words = scores[targets != padding], targets[targets != padding]
    hard = F.cross_entropy(rows, words)
    log_p = rows.log_softmax(-1).masked_fill(mt.arange(rows.shape[1]) == padding, 0.0)
    right = log_p.gather(1, words.unsqueeze(1)).squeeze(1)
    soft = (log_p.sum(1) - right).mean() / (rows.shape[1] - 2)
    return (1 - smoothing) * hard - smoothing * soft


# TiedEmbedding


class TiedWithFunctions(TiedEmbedding.reference):
    def forward(self, tokens):
        rows = F.embedding(tokens, self.table)
        return F.linear(rows, self.up.T) * self.up.shape[-1] ** 0.5

    def scores(self, x):
        return F.linear(F.linear(x, self.up), self.table, self.bias)


class TiedWithEinsum(TiedEmbedding.reference):
    def forward(self, tokens):
        scaled = self.up * math.sqrt(self.up.shape[1])
        return mt.einsum("bne,ed->bnd", self.table[tokens], scaled)

    def scores(self, x):
        narrow = mt.einsum("btd,ed->bte", x, self.up)
        return self.bias + mt.einsum("bte,ve->btv", narrow, self.table)


# merge_once


def merge_by_text(corpus):
    """Pieces between spaces, replaced as text; counts by what a replacement shortens."""
    counts = defaultdict(int)

    def merged(word, pair):
        old, new = f" {pair[0]} {pair[1]} ", f" {pair[0]}{pair[1]} "
        text, i, done = " " + " ".join(word) + " ", 0, ""
        while True:
            at = text.find(old, i)
            if at < 0:
                return tuple((done + text[i:]).split())
            done += text[i:at] + new[:-1]
            i = at + len(old) - 1

    for word in corpus:
        for i in range(len(word) - 1):
            counts[word[i : i + 2]] = 0
    for pair in counts:
        for word, count in corpus.items():
            counts[pair] += count * (len(word) - len(merged(word, pair)))
    if not counts:
        return None, corpus.copy()
    most = max(counts.values())
    pair = sorted(pair for pair in counts if counts[pair] == most)[0]
    result = defaultdict(int)
    for word, count in corpus.items():
        result[merged(word, pair)] += count
    return pair, result


def merge_by_runs(corpus):
    """A pair of equal pieces counts half of each run, rounded down; others count at each place."""
    counts = defaultdict(int)
    for word, count in corpus.items():
        runs = [(piece, len(list(run))) for piece, run in itertools.groupby(word)]
        for piece, length in runs:
            if length > 1:
                counts[piece, piece] += count * (length // 2)
        for (one, _), (other, _) in itertools.pairwise(runs):
            counts[one, other] += count
    if not counts:
        return [None, {**corpus}]
    first = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[0][0]
    new = {}
    for word, count in corpus.items():
        left, pieces = list(word)[::-1], []
        while left:
            piece = left.pop()
            if left and (piece, left[-1]) == first:
                piece += left.pop()
            pieces.append(piece)
        new[tuple(pieces)] = new.get(tuple(pieces), 0) + count
    return [first, new]


# translate


def translate_with_lists(model, source, start, end, padding, longest):
    real = mt.tensor([[[[word != padding for word in row]]] for row in source.tolist()])
    memory = model.encode(source, real)
    rows = [[start] for _ in source]
    for _ in range(longest):
        still = [i for i, row in enumerate(rows) if row[-1] != end]
        if not still:
            break
        tokens = mt.tensor([rows[i] for i in still])
        scores = model.decode(tokens, memory[still], real[still]).numpy()[:, -1].copy()
        scores[:, start] = scores[:, padding] = -np.inf
        for i, word in zip(still, scores.argmax(axis=-1), strict=True):
            rows[i].append(int(word))
    width = max(map(len, rows))
    return mt.tensor([row[1:] + [padding] * (width - len(row)) for row in rows])


@mt.no_grad()
def translate_into_a_table(model, source, start, end, padding, longest):
    """A table that is cut at its end; what is left shrinks with each step."""
    real = source.ne(padding)[:, None, None, :]
    memory, table = model.encode(source, real), mt.full((len(source), longest + 1), padding)
    table[:, 0] = start
    left = mt.arange(len(source))
    for t in range(longest):
        scores = model.decode(table[left, : t + 1], memory[left], real[left])[:, t]
        words = mt.arange(scores.shape[-1])
        words = words[(words != start) & (words != padding)]
        table[left, t + 1] = words[scores[:, words].argmax(-1)]
        left = left[table[left, t + 1] != end]
        if len(left) == 0:
            break
    return table[:, 1 : t + 2]


# likely_tokens


def likely_row_by_row(scores, share, temperature):
    rows = []
    for z, enough in zip(scores.numpy() / temperature, share.tolist(), strict=True):
        p = np.exp(z - z.max())
        p /= p.sum()
        kept, total = np.zeros_like(p), 0.0
        for v in sorted(range(len(p)), key=lambda v: (-p[v], v)):
            if total >= enough and total > 0:
                break
            kept[v], total = p[v], total + p[v]
        rows.append(kept / kept.sum())
    return mt.tensor(np.stack(rows))


def likely_by_counting(scores, share, temperature):
    """A token stays if those before it, by size and number, have less than the share."""
    p = (scores / temperature).softmax(-1)
    n = mt.arange(p.shape[1])
    mine, theirs = p.unsqueeze(2), p.unsqueeze(1)
    before = (theirs > mine) | ((theirs == mine) & (n < n.unsqueeze(1)))
    total = mt.where(before, theirs, 0.0).sum(-1)
    stays = (total < share.unsqueeze(1)) | (before.sum(-1) == 0)
    p = mt.where(stays, p, 0.0)
    return p / p.sum(1, keepdim=True)


# pass_flops


def flops_by_matrices(vocabulary, width, hidden, encoder_layers, decoder_layers, pairs, batch):
    """Each product by its three sizes."""

    def products(n, t):
        square, network = (width, width), [(width, hidden), (hidden, width)]
        for _ in range(encoder_layers):
            yield from ((n, *size) for size in [square] * 4 + network)
            yield from ((n, width, n), (n, n, width))
        for _ in range(decoder_layers):
            yield from ((t, *size) for size in [square] * 6 + network)
            yield from ((n, *square), (n, *square))
            yield from ((t, width, t), (t, t, width), (t, width, n), (t, n, width))
        yield t, width, vocabulary

    def cost(pairs):
        n, t = map(max, zip(*pairs, strict=True))
        return len(pairs) * sum(6 * math.prod(sizes) for sizes in products(n, t))

    parts = [pairs[i : i + batch] for i in range(0, len(pairs), batch)]
    return {"without padding": sum(cost([p]) for p in pairs), "FLOPs": sum(map(cost, parts))}


def flops_in_numpy(vocabulary, width, hidden, encoder_layers, decoder_layers, pairs, batch):
    lengths, d = np.array(pairs, dtype=np.int64), np.int64(width)

    def cost(n, t):
        both = encoder_layers * n * (4 * d * d + 2 * d * hidden + 2 * n * d)
        both += decoder_layers * (
            t * (6 * d * d + 2 * d * hidden + 2 * (n + t) * d) + 2 * n * d * d
        )
        return 6 * (both + t * d * vocabulary)

    whole = 0
    for i in range(math.ceil(len(pairs) / batch)):
        part = lengths[i * batch : (i + 1) * batch]
        whole += len(part) * cost(*part.max(axis=0))
    return {"FLOPs": whole, "without padding": cost(*lengths.T).sum()}


# cached_step


def step_with_one_joined_cache(layer, x, cache):
    """Keys and values side by side, (B, t, 2 width), split into heads at each step."""
    new = mt.cat([layer.key(x), layer.value(x)], dim=-1)
    kept = new if cache is None else mt.cat([cache, new], dim=1)
    outputs, size, k, n = [], x.shape[-1] // layer.heads, x.shape[1], kept.shape[1]
    query, (keys, values) = layer.query(x), kept.split(x.shape[-1], dim=-1)
    hidden = mt.arange(n) > mt.arange(n - k, n).unsqueeze(1)
    for head in range(layer.heads):
        columns = slice(head * size, (head + 1) * size)
        scores = query[..., columns] @ keys[..., columns].transpose(1, 2) / size**0.5
        weights = scores.masked_fill(hidden, -1e9).softmax(dim=-1)
        outputs.append(weights @ values[..., columns])
    return layer.out(mt.cat(outputs, dim=-1)), kept


def step_with_lists(layer, x, cache):
    """A dict of lists, a new one each time; one token after the other."""
    cache = {"keys": [], "values": []} if cache is None else {k: [*v] for k, v in cache.items()}
    outputs = []
    for token in x.split(1, dim=1):
        cache["keys"].append(layer.key(token))
        cache["values"].append(layer.value(token))
        query, keys, values = (
            each.unflatten(-1, (layer.heads, -1))
            for each in (
                layer.query(token),
                mt.cat(cache["keys"], dim=1),
                mt.cat(cache["values"], dim=1),
            )
        )
        scores = mt.einsum("bihs,bjhs->bhij", query, keys) / math.sqrt(query.shape[-1])
        mixed = mt.einsum("bhij,bjhs->bihs", scores.softmax(-1), values)
        outputs.append(layer.out(mixed.flatten(2)))
    return [mt.cat(outputs, dim=1), cache]


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
    k, n = x.shape[1], key.shape[2]
    allowed = mt.ones(k, n, dtype=mt.bool).tril(n - k)
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)
    return layer.out(output.transpose(1, 2).flatten(2)), (key, value)


def step_that_starts_anew(layer, x, cache):
    """All inputs are kept and go through the layer again: right, and dear."""
    seen = x if cache is None else mt.cat([cache, x], dim=1)
    n = seen.shape[1]
    return layer(seen, seen, mt.ones(n, n).tril().bool())[:, -x.shape[1] :], seen


# train


def train_by_hand(model, draw, steps, rate):
    """A cosine, the loss by hand."""
    adam = optim.Adam(list(model.parameters()), lr=rate, betas=(0.8, 0.95))
    model.train(True)
    history = []
    for k in range(steps):
        for group in adam.param_groups:
            group["lr"] = rate * (0.5 + 0.5 * math.cos(math.pi * k / steps))
        source, target = draw()
        log_p = model(source, target[:, :-1]).log_softmax(-1)
        wanted = target[:, 1:]
        right = log_p.gather(2, wanted.unsqueeze(2)).squeeze(2)
        loss = -right[wanted != 0].mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        history.append(float(loss.detach()))
    model.train(False)
    return history


def train_without_a_schedule(model, draw, steps, rate):
    learner = optim.AdamW(model.parameters(), lr=rate)
    criterion = nn.CrossEntropyLoss(ignore_index=0)
    losses = np.zeros(steps)
    model.train()
    for i in range(steps):
        learner.zero_grad()
        source, target = draw()
        inputs, wanted = target[:, : target.shape[1] - 1], target[:, 1:]
        loss = criterion(model(source, inputs).transpose(1, 2), wanted)
        loss.backward()
        learner.step()
        losses[i] = loss.item()
    model.eval()
    return losses.tolist()


# measure


def measure_with_numpy(run, score, rates, choosing, reporting):
    tried = {}

    def value(rate):
        if rate not in tried:
            shares = [score(run(rate, seed), "validation") for seed in choosing]
            tried[rate] = np.mean(shares)
        return tried[rate]

    rates = sorted(rates)
    while True:
        best = max(rates, key=value)
        if best == rates[0]:
            rates = [best / 2, *rates]
        elif best == rates[-1]:
            rates = [*rates, best * 2]
        else:
            break
    found = np.array([score(run(best, seed), "test") for seed in reporting])
    return {
        "accuracies": found.tolist(),
        "rate": best,
        "mean": found.mean(),
        "spread": found.std(ddof=1),
    }


def measure_by_recursion(run, score, rates, choosing, reporting, known=None):
    known = dict(known or {})
    for rate in rates:
        if rate not in known:
            known[rate] = sum(score(run(rate, seed), "validation") for seed in choosing)
    best = sorted(known, key=known.get)[-1]
    for edge, beyond in ((min(known), 0.5), (max(known), 2.0)):
        if best == edge:
            return measure_by_recursion(run, score, [best * beyond], choosing, reporting, known)
    accuracies = []
    for seed in reporting:
        accuracies.append(score(run(best, seed), data="test"))
    mean = math.fsum(accuracies) / len(accuracies)
    squares = math.fsum((x - mean) ** 2 for x in accuracies)
    spread = math.sqrt(squares / (len(accuracies) - 1))
    return dict(rate=best, accuracies=tuple(accuracies), mean=mean, spread=spread)


# diagnosed


def diagnosed_in_lists():
    faults = {
        "learns by heart": "B 95",
        "nothing": "D",
        "an odd batch": "C 145",
        "sees the answers": "F 65",
        "the rate ends too early": "A 125",
        "gradients pile up": "G 25",
        "the rate is too high": "E 80",
    }
    pairs = {place.split()[0]: (fault, place.split()[1:]) for fault, place in faults.items()}
    return {name: [fault, int(step[0]) if step else None] for name, (fault, step) in pairs.items()}


def diagnosed_from_the_numbers():
    """The steps read off the numbers."""
    runs = trainings

    def largest_rise(name, key):
        values = runs[name][key]
        return runs[name]["step"][1 + int(np.argmax(np.diff(values)))]

    below = next(k for k, loss in enumerate(runs["F"]["validation"]) if loss < 0.8)
    best = int(np.argmin(runs["B"]["validation"]))
    level = np.array(runs["A"]["validation"])
    flat = next(k for k in range(len(level)) if abs(level[k:] - level[k:].mean()).max() < 0.05)
    return {
        "A": ("the rate ends too early", runs["A"]["step"][flat]),
        "B": ("learns by heart", runs["B"]["step"][best]),
        "C": ("an odd batch", largest_rise("C", "norm")),
        "D": ("nothing", None),
        "E": ("the rate is too high", largest_rise("E", "training")),
        "F": ("sees the answers", runs["F"]["step"][below]),
        "G": ("gradients pile up", 22.5),
    }


right = {
    "diagnosed": [diagnosed_in_lists, diagnosed_from_the_numbers],
    "set_rates": [rates_by_clipping, rates_by_numpy],
    "smoothed_loss": [loss_token_by_token, loss_by_a_distribution],
    "TiedEmbedding": [TiedWithFunctions, TiedWithEinsum],
    "merge_once": [merge_by_text, merge_by_runs],
    "translate": [translate_with_lists, translate_into_a_table],
    "likely_tokens": [likely_row_by_row, likely_by_counting],
    "pass_flops": [flops_by_matrices, flops_in_numpy],
    "cached_step": [step_with_one_joined_cache, step_with_lists, step_without_a_graph],
    "train": [train_by_hand, train_without_a_schedule],
    "measure": [measure_with_numpy, measure_by_recursion],
}
refused = {
    "smoothed_loss": [loss_of_the_library],
    "cached_step": [step_fused],
}
