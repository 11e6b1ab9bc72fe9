"""Right answers to the exercises of chapter 03, and forbidden ones."""

import heapq
import itertools
import math
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook import decoding
from textbook.checks.chapter_03 import Translator

# teacher_batch


def batch_filled_in(sentences, start, end, pad):
    lengths = mt.tensor([len(sentence) for sentence in sentences]).unsqueeze(1)
    steps = int(lengths.max()) + 1
    inputs = mt.full((len(sentences), steps), pad)
    targets = mt.full((len(sentences), steps), pad)
    inputs[:, 0] = start
    for i, sentence in enumerate(sentences):
        if sentence:
            inputs[i, 1 : len(sentence) + 1] = mt.tensor(sentence)
            targets[i, : len(sentence)] = mt.tensor(sentence)
        targets[i, len(sentence)] = end
    return inputs, targets, mt.arange(steps) > lengths


def batch_position_by_position(sentences, start, end, pad):
    inputs, targets, padding = [], [], []
    for t in range(1 + max(map(len, sentences))):
        inputs.append([([start, *s] + [pad] * t)[t] for s in sentences])
        targets.append([s[t] if t < len(s) else end if t == len(s) else pad for s in sentences])
        padding.append([t > len(s) for s in sentences])
    return [mt.tensor(columns).T for columns in (inputs, targets, padding)]


def batch_with_zip_longest(sentences, start, end, pad):
    hole = object()
    read = list(itertools.zip_longest(*([start, *s] for s in sentences), fillvalue=pad))
    said = list(itertools.zip_longest(*([*s, end] for s in sentences), fillvalue=hole))
    padding = np.array([[x is hole for x in row] for row in said]).T
    targets = np.array([[pad if x is hole else x for x in row] for row in said]).T
    return mt.tensor(np.array(read).T), mt.tensor(targets), mt.tensor(padding)


# log_probabilities


def likely_token_by_token(scores, targets, padding):
    totals, count = [], 0
    for row, wanted, rest in zip(scores, targets.tolist(), padding.tolist(), strict=True):
        real = [(s, y) for s, y, padded in zip(row, wanted, rest, strict=True) if not padded]
        totals.append(sum(s[y] - s.logsumexp(0) for s, y in real))
        count += len(real)
    return mt.stack(totals), -sum(totals) / count


def likely_by_selection(scores, targets, padding):
    log_p = scores[~padding].log_softmax(-1)  # (N, V)
    log_p = log_p[mt.arange(len(log_p)), targets[~padding]]
    rows = mt.arange(len(scores)).unsqueeze(1).expand(*padding.shape)[~padding]
    member = F.one_hot(rows, len(scores)).to(log_p.dtype)  # (N, B)
    return log_p @ member, -log_p.mean()


def likely_by_hand(scores, targets, padding):
    clean = mt.where(padding.unsqueeze(-1), mt.zeros_like(scores), scores)
    clean = clean - clean.amax(dim=-1, keepdim=True).detach()
    log_p = clean - clean.exp().sum(-1, keepdim=True).log()
    chosen = (F.one_hot(targets, scores.shape[-1]) * log_p).sum(-1) * (~padding).float()
    return chosen.sum(1), -chosen.sum() / (~padding).float().sum()


def likely_with_cross_entropy(scores, targets, padding):
    clean = scores.masked_fill(padding.unsqueeze(-1), 0.0)
    each = F.cross_entropy(clean.flatten(0, 1), targets.flatten(), reduction="none")
    each = each.reshape(*targets.shape) * ~padding
    return -each.sum(1), each.sum() / (~padding).sum()


def likely_with_nll(scores, targets, padding):
    log_p = scores.masked_fill(padding.unsqueeze(-1), 0.0).log_softmax(-1)
    marked = targets.masked_fill(padding, -100)
    rows = [
        F.nll_loss(row, wanted, reduction="sum") for row, wanted in zip(log_p, marked, strict=True)
    ]
    total = -mt.stack(rows)
    return total, -total.sum() / (~padding).sum()


# cells


def cells_in_a_loop(lengths, size):
    found = {"padded": 0, "sorted": 0, "packed": 0, "steps": 0}
    for name, corpus in (("padded", list(lengths)), ("sorted", sorted(lengths))):
        while corpus:
            batch, corpus = corpus[:size], corpus[size:]
            found[name] += len(batch) * max(batch)
            if name == "padded":
                found["packed"] += sum(batch)
                found["steps"] += max(batch)
    return found


def cells_in_numpy(lengths, size):
    starts = np.arange(0, len(lengths), size)
    widths = np.diff([*starts, len(lengths)])
    largest = np.maximum.reduceat(np.array(lengths), starts)
    from_sorted = np.maximum.reduceat(np.sort(lengths), starts)
    return {
        "packed": np.sum(lengths),
        "steps": largest.sum(),
        "padded": (widths * largest).sum(),
        "sorted": (widths * from_sorted).sum(),
    }


# largest_mean


def largest_sentence_by_sentence(states, padding, k):
    rows = []
    for row, rest in zip(states, padding, strict=True):
        words = row[~rest]  # (n, H)
        rows.append(words.sort(dim=0, descending=True)[0][:k].mean(0))
    return mt.stack(rows)


def largest_by_rank(states, padding, k):
    """A number counts if fewer than k of its sentence are larger."""
    clean = states.masked_fill(padding.unsqueeze(-1), -math.inf)
    rank = (clean.unsqueeze(1) > clean.unsqueeze(2)).sum(2)  # (B, n, H)
    counts = (rank < k) & ~padding.unsqueeze(-1)
    return mt.where(counts, states, mt.zeros_like(states)).sum(1) / counts.sum(1)


def largest_one_after_another(states, padding, k):
    left = states.masked_fill(padding.unsqueeze(-1), -math.inf)
    total, count = 0.0, (~padding).sum(1, keepdim=True)
    for i in range(min(k, states.shape[1])):
        top = left.argmax(dim=1, keepdim=True)
        value = left.gather(1, top).squeeze(1)
        total = total + value.masked_fill(count <= i, 0.0)
        left = left.masked_fill(F.one_hot(top.squeeze(1), left.shape[1]).mT.bool(), -math.inf)
    return total / count.clamp(max=k)


# complete


def complete_row_by_row(step, state, given, start, end, pad, max_length):
    rows = []
    for i in range(len(state)):
        words = [word for word in given[i].tolist() if word != pad]
        token, h, row = start, state[i : i + 1], []
        while len(row) < max_length and (not row or row[-1] != end):
            scores, h = step(mt.tensor([token]), h)
            token = words[len(row)] if len(row) < len(words) else int(scores.argmax())
            row.append(token)
        rows.append(row)
    longest = max(map(len, rows))
    return mt.tensor([row + [pad] * (longest - len(row)) for row in rows])


def complete_filling_a_tensor(step, state, given, start, end, pad, max_length):
    tokens = mt.full((len(state), max_length), pad)
    free = mt.ones(len(state), max_length, dtype=mt.bool)
    tokens[:, : given.shape[1]] = given
    free[:, : given.shape[1]] = given == pad
    going, token = mt.arange(len(state)), mt.full((len(state),), start)
    for t in range(max_length):
        scores, state = step(token, state)
        token = mt.where(free[going, t], scores.max(dim=-1).indices, tokens[going, t])
        tokens[going, t] = token
        still = token != end
        going, token, state = going[still], token[still], state[still]
        if not len(going):
            return tokens[:, : t + 1]
    return tokens


def complete_by_the_library(step, state, given, start, end, pad, max_length):
    def last(tokens, h):
        scores, h = step(tokens[:, -1], h)
        t = tokens.shape[1] - 1
        if t < given.shape[1]:
            word = given[:, t]
            forced = F.one_hot(word, scores.shape[-1]).to(scores.dtype) * 1e9
            scores = mt.where((word == pad).unsqueeze(1), scores, forced)
        return scores, h

    prompt = mt.full((len(state), 1), start)
    return decoding.greedy(last, prompt, max_length, end=end, pad=pad, state=state)[:, 1:]


# estimate


def estimate_of_two_digits():
    return {
        "recurrent": 6.4e7,
        "embeddings": 2.4e8,
        "output": 8e7,
        "parameters": 3.8e8,
        "bytes": 6.1e9,
        "FLOPs": 2.4e10,
        "speed": 3.1e11,
    }


def estimate_rounded_on_the_way():
    matrix = 10**6
    recurrent = 2 * 4 * 4 * 2 * matrix
    embeddings, output = 240 * matrix, 80 * matrix
    parameters = recurrent + embeddings + output
    a_pair = 6 * (27 * recurrent + 30 * output)
    return {
        "recurrent": mt.tensor(float(recurrent)),
        "embeddings": Decimal(embeddings),
        "output": np.float32(output),
        "parameters": 1.05 * parameters,
        "bytes": 16 * 0.4e9,
        "FLOPs": a_pair,
        "speed": 90e6 * a_pair / 864_000 / 8,
    }


# shown_better


def shown_with_fractions(rows):
    found = set()
    for one, other in itertools.permutations(rows, 2):
        tests = {one["test"], other["test"]}
        if len(tests) == 1 and not tests & {one["chosen on"], other["chosen on"]}:
            differences = [
                x - y for x, y in zip(one["right"], other["right"], strict=True) if x != y
            ]
            n, losses = len(differences), differences.count(-1)
            tail = Fraction(sum(math.comb(n, k) for k in range(losses + 1)), 2**n)
            if tail < Fraction(25, 1000):
                found.add((one["translator"], other["translator"]))
    return found


def shown_by_tosses_one_by_one(rows):
    """The distribution of the wins, toss after toss."""
    found = []
    for a, b in itertools.product(rows, rows):
        if a["test"] != b["test"] or a["test"] in (a["chosen on"], b["chosen on"]):
            continue
        x, y = np.array(a["right"]), np.array(b["right"])
        chances = np.ones(1)
        for _ in range((x != y).sum()):
            chances = (np.append(chances, 0) + np.append(0, chances)) / 2
        if chances[(x > y).sum() :].sum() < 0.025:
            found.append([a["translator"], b["translator"]])
    return found


# broken_encoders


def broken_by_batches(encoders):
    """All variants of a sentence are the rows of one batch."""
    found = []
    generator = np.random.default_rng(1)
    sentences = [[*range(12)], [3], [7, 7, 2, 9, 0], [*generator.integers(12, size=11)]]
    rows = mt.tensor([[*s, *[5] * (13 - len(s))] for s in sentences])
    padding = mt.tensor([[j >= len(s) for j in range(13)] for s in sentences])
    for i, encode in enumerate(encoders):
        before, mask = rows.clone(), padding.clone()
        vectors = encode(before, mask)
        broken = not (mt.equal(before, rows) and mt.equal(mask, padding))
        for sentence, vector in zip(sentences, vectors, strict=True):
            variants = [sentence]
            for j in range(len(sentence)):
                variants += [[*sentence[:j], w, *sentence[j + 1 :]] for w in range(12)]
                if j:
                    a, b = sentence[j - 1 : j + 1]
                    variants.append([*sentence[: j - 1], b, a, *sentence[j + 1 :]])
            nothing = mt.zeros(1, len(sentence)).bool()
            for variant in variants:
                same = mt.allclose(encode(mt.tensor([variant]), nothing)[0], vector)
                broken |= same != (list(variant) == list(sentence))
        if broken:
            found.append(np.int64(i))
    return found


def broken_rule_by_rule(encoders):
    mt.manual_seed(4)
    tokens = mt.randint(0, 12, (6, 12))
    lengths = mt.tensor([7, 12, 2, 10, 1, 12])
    padding = mt.arange(12) >= lengths.unsqueeze(1)

    def vector(encode, sentence):
        return encode(mt.tensor([sentence]), mt.zeros(1, len(sentence), dtype=mt.bool))[0]

    def in_batch(encode):
        given, mask = tokens.clone(), padding.clone()
        found = encode(given, mask)
        sentences = [row[:n].tolist() for row, n in zip(tokens, lengths.tolist(), strict=True)]
        alone = mt.stack([vector(encode, sentence) for sentence in sentences])
        kept = mt.equal(given, tokens) and mt.equal(mask, padding)
        return kept and mt.allclose(found, alone)

    def words(encode):
        for sentence in ([*range(12)], [*range(11, -1, -1)], [0], [4, 4]):
            here = vector(encode, sentence)
            for j, other in itertools.product(range(len(sentence)), range(12)):
                if other != sentence[j]:
                    changed = [*sentence[:j], other, *sentence[j + 1 :]]
                    if mt.allclose(vector(encode, changed), here):
                        return False
        return True

    def order(encode):
        for j in range(1, 12):
            sentence = [*range(12)]
            turned = [*sentence]
            turned[j - 1], turned[j] = j, j - 1
            if mt.allclose(vector(encode, turned), vector(encode, sentence)):
                return False
        return True

    rules = in_batch, words, order
    return tuple(i for i, e in enumerate(encoders) if not all(rule(e) for rule in rules))


# beam_search


def beams_with_topk(step, state, start, end, beams, max_length, alpha):
    log_p, tokens, token = mt.zeros(1), [[]], mt.tensor([start])
    finished = []

    def score(p, said):
        return p / ((5 + len(said)) / 6) ** alpha

    for n in range(1, max_length + 1):
        scores, state = step(token, state)
        table = log_p.unsqueeze(1) + F.log_softmax(scores, -1)  # (K, V)
        values, places = table.flatten().topk(min(beams, table.numel()))
        parents, token = places // scores.shape[1], places % scores.shape[1]
        pairs = zip(parents.tolist(), token.tolist(), strict=True)
        tokens = [tokens[parent] + [chosen] for parent, chosen in pairs]
        over = (token == end) | (n == max_length)
        for place in over.nonzero().flatten().tolist():
            finished.append((tokens[place], score(values[place].item(), tokens[place])))
        going = (~over).nonzero().flatten()
        if len(going) == 0:
            break
        tokens = [tokens[place] for place in going.tolist()]
        log_p, token, state = values[going], token[going], state[parents[going]]
    finished.sort(key=lambda pair: pair[1], reverse=True)
    return finished[:beams]


def beams_hypothesis_by_hypothesis(step, state, start, end, beams, max_length, alpha):
    """Each hypothesis carries its own state and length, and is a tuple on a heap."""
    hypotheses, done = [(0.0, (), state)], []
    while hypotheses and len(hypotheses[0][1]) < max_length:
        candidates = []
        for log_p, said, h in hypotheses:
            scores, new = step(mt.tensor([said[-1] if said else start]), h)
            row = scores[0] - scores[0].logsumexp(0)
            candidates += [(log_p + x.item(), (*said, token), new) for token, x in enumerate(row)]
        best = heapq.nlargest(beams, candidates, key=lambda each: each[0])
        done += [each for each in best if each[1][-1] == end]
        hypotheses = [each for each in best if each[1][-1] != end]
    scored = [
        (log_p * (6 / (5 + len(said))) ** alpha, list(said)) for log_p, said, _ in done + hypotheses
    ]
    return [(said, score) for score, said in sorted(scored, reverse=True)][:beams]


def beams_by_the_library(step, state, start, end, beams, max_length, alpha):
    def last(tokens, h):
        return step(tokens[:, -1], h)

    tokens, scores = decoding.beam_search(
        last,
        mt.tensor([[start]]),
        max_length,
        beams=beams,
        alpha=alpha,
        end=end,
        pad=-1,
        state=state,
    )
    found = []
    for row, score in zip(tokens[0, :, 1:].tolist(), scores[0].tolist(), strict=True):
        if score > -math.inf:
            found.append(([token for token in row if token >= 0], score))
    return found


# Translator


class SentenceBySentence(Translator.reference):
    """No packing: each sentence alone."""

    def forward(self, source, padding, inputs):
        results = []
        for words, rest, read in zip(source, padding, inputs, strict=True):
            outputs, _ = self.encoder(self.source_embedding(words[~rest]).unsqueeze(0))
            half = outputs.shape[-1] // 2
            ends = mt.cat([outputs[0, -1, :half], outputs[0, 0, half:]])
            c = mt.tanh(self.bridge(ends))
            h, scores = c.reshape(1, 1, -1), []
            for y in self.target_embedding(read):
                state, h = self.decoder(mt.cat([y, c]).reshape(1, 1, -1), h)
                scores.append(self.out(state[0, 0]))
            results.append(mt.stack(scores))
        return mt.stack(results)


class WithOutputs(Translator.reference):
    """The ends are taken from the outputs, padded again."""

    def forward(self, source, padding, inputs):
        lengths = (~padding).long().sum(1)
        order = lengths.argsort(descending=True)
        x = self.source_embedding(source[order])
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths[order], batch_first=True)
        outputs, n = nn.utils.rnn.pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        outputs = outputs[order.argsort()]  # (B, n, 2 H)
        forward, backward = outputs.chunk(2, dim=-1)
        last = (lengths - 1).reshape(-1, 1, 1).expand(-1, 1, forward.shape[-1])
        c = F.tanh(self.bridge(mt.cat([forward.gather(1, last)[:, 0], backward[:, 0]], 1)))
        y = self.target_embedding(inputs)
        c_at_each = mt.stack([c] * inputs.shape[1], dim=1)
        return self.out(self.decoder(mt.cat([y, c_at_each], 2), c[None])[0])


# training_step


def step_with_one_loss(model, optimizer, parts, clip):
    """All parts in one graph."""
    losses = []
    for source, source_padding, inputs, targets, padding in parts:
        log_p = model(source, source_padding, inputs).log_softmax(-1)
        each = -log_p.gather(2, targets.unsqueeze(2)).squeeze(2)
        losses.append(each[~padding])
    loss = mt.cat(losses).mean()
    model.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(list(model.parameters()), max_norm=clip)
    optimizer.step()
    return loss


def step_that_divides_gradients(model, optimizer, parts, clip):
    optimizer.zero_grad()
    total, count = 0.0, 0
    for source, rest, inputs, targets, padding in parts:
        scores, marked = model(source, rest, inputs), targets.masked_fill(padding, -100)
        loss = F.cross_entropy(scores.flatten(0, 1), marked.flatten(), reduction="sum")
        loss.backward()
        total, count = total + loss.item(), count + int((~padding).sum())
    for x in model.parameters():
        x.grad /= count
    norm = math.sqrt(sum((x.grad**2).sum().item() for x in model.parameters()))
    if norm > clip:
        for x in model.parameters():
            x.grad *= clip / norm
    optimizer.step()
    return np.float64(total / count)


right = {
    "teacher_batch": [batch_filled_in, batch_position_by_position, batch_with_zip_longest],
    "log_probabilities": [likely_token_by_token, likely_by_selection, likely_by_hand],
    "cells": [cells_in_a_loop, cells_in_numpy],
    "largest_mean": [
        largest_sentence_by_sentence,
        largest_by_rank,
        largest_one_after_another,
    ],
    "complete": [complete_row_by_row, complete_filling_a_tensor],
    "estimate": [estimate_of_two_digits, estimate_rounded_on_the_way],
    "shown_better": [shown_with_fractions, shown_by_tosses_one_by_one],
    "broken_encoders": [broken_by_batches, broken_rule_by_rule],
    "beam_search": [beams_with_topk, beams_hypothesis_by_hypothesis],
    "Translator": [SentenceBySentence, WithOutputs],
    "training_step": [step_with_one_loss, partial(step_that_divides_gradients)],
}
refused = {
    "log_probabilities": [likely_with_cross_entropy, likely_with_nll],
    "complete": [complete_by_the_library],
    "beam_search": [beams_by_the_library],
}
