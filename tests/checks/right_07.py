"""Right answers to the exercises of chapter 07, and forbidden ones."""

import math

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.nn.utils.rnn import pad_sequence
from textbook.checks.chapter_07 import MaskedLanguageModel

# causal_mask


def causal_of_ones(n):
    return mt.ones(n, n, dtype=mt.bool).tril()


def causal_in_a_loop(n):
    return mt.tensor([[j <= i for j in range(n)] for i in range(n)])


def causal_from_the_module(n):
    return nn.Transformer.generate_square_subsequent_mask(n) == 0


# real_tokens


def padding_in_a_loop(lengths, n):
    return mt.tensor([[j < length for j in range(n)] for length in lengths.tolist()])


def padding_turned_round(lengths, n):
    return ~mt.ge(mt.arange(n)[None], lengths[:, None])


def padding_by_writing(lengths, n):
    mask = mt.zeros(len(lengths), n, dtype=mt.bool)
    for row, length in zip(mask, lengths.tolist(), strict=True):
        row[:length] = True
    return mask


# joined_mask


def joined_with_tril(real):
    return real[:, None, None, :].expand(-1, 1, real.shape[1], -1).tril()


def joined_in_a_loop(real):
    n = real.shape[1]
    rows = [[[[j <= i and row[j] for j in range(n)] for i in range(n)]] for row in real.tolist()]
    return mt.tensor(rows)


def joined_by_multiplication(real):
    n = real.shape[1]
    return mt.ones(n, n).tril().bool().reshape(1, 1, n, n) * real.reshape(-1, 1, 1, n)


def joined_by_a_product(real):
    """A product of matrices of float32, compared with 0."""
    n = real.shape[1]
    return (mt.ones(n, n).tril() @ real.float().diag_embed() > 0).unsqueeze(1)


# window_mask


def window_of_triangles(n, width):
    ones = mt.ones(n, n, dtype=mt.bool)
    return ones.tril() & ones.triu(1 - width)


def window_in_a_loop(n, width):
    mask = mt.zeros(n, n, dtype=mt.bool)
    for i in range(n):
        mask[i, max(0, i - width + 1) : i + 1] = True
    return mask


# masked_attention


def attention_with_where(query, key, value, allowed):
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    weights = F.softmax(mt.where(allowed, scores, -math.inf), dim=-1)
    return mt.where(allowed, weights, 0.0) @ value


def attention_with_nan_to_num(query, key, value, allowed):
    scores = mt.einsum("...td,...nd->...tn", query, key) / math.sqrt(key.shape[-1])
    weights = scores.masked_fill(mt.logical_not(allowed), -math.inf).softmax(-1)
    return mt.einsum("...tn,...nv->...tv", mt.nan_to_num(weights), value)


def attention_with_safe_rows(query, key, value, allowed):
    """A row without a key gets scores of 0, and then an output of 0."""
    empty = ~allowed.any(dim=-1, keepdim=True)
    added = mt.zeros(allowed.shape).masked_fill(~(allowed | empty), -math.inf)
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]) + added
    return (scores.softmax(dim=-1) @ value).masked_fill(empty, 0.0)


def attention_by_exponentials(query, key, value, allowed):
    """The softmax written out, over what is allowed alone."""
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(~allowed, -math.inf)
    largest = scores.amax(dim=-1, keepdim=True).detach()
    largest = largest.masked_fill(largest == -math.inf, 0.0)
    exponentials = (scores - largest).exp()
    total = exponentials.sum(dim=-1, keepdim=True)
    return exponentials @ value / total.masked_fill(total == 0, 1.0)


def fused_attention(query, key, value, allowed):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)


def attention_with_linear(query, key, value, allowed):
    """Keys as the weights of a linear layer, sequence by sequence."""
    shape = (*query.shape[:-1], key.shape[-2])
    rows = zip(query.flatten(0, -3), key.flatten(0, -3), strict=True) if query.ndim > 2 else ()
    scores = [F.linear(q, k) for q, k in rows] or [F.linear(query, key)]
    scores = mt.stack(scores).reshape(shape) / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)
    return weights.masked_fill(~allowed, 0.0) @ value


# dependence


def dependence_with_random_weights(model, x):
    x = x.clone().requires_grad_()
    outputs = model(x)
    outputs = outputs * mt.randn(*outputs.shape, generator=mt.Generator().manual_seed(3))
    rows = []
    for i in range(len(outputs)):
        x.grad = None
        outputs[i].sum().backward(retain_graph=True)
        rows.append((x.grad != 0).any(dim=1))
    return mt.stack(rows)


def dependence_with_new_passes(model, x):
    """A forward and a backward pass for each number of each output."""
    n, size = model(x).shape
    table = mt.zeros(n, n, dtype=mt.bool)
    for i in range(n):
        for c in range(size):
            leaf = x.clone().requires_grad_()
            model(leaf)[i, c].backward()
            table[i] |= (leaf.grad != 0).any(dim=1)
    return table


def dependence_by_one_hot_gradients(model, x):
    leaf = x.clone().requires_grad_()
    outputs = model(leaf)
    table = mt.zeros(len(x), len(x))
    for i in range(len(outputs)):
        for c in range(outputs.shape[1]):
            chosen = mt.zeros_like(outputs)
            chosen[i, c] = 1
            [gradient] = mt.autograd.grad(outputs, leaf, chosen, retain_graph=True)
            table[i] += gradient.abs().sum(dim=1)
    return table > 0


# module_mask


def mask_of_numbers(allowed, heads):
    added = mt.zeros(allowed.shape).masked_fill(~allowed, -math.inf)
    return mt.cat([matrix for matrix in added for _ in range(heads)]).reshape(
        -1, *allowed.shape[1:]
    )


def mask_with_expand(allowed, heads):
    batch, steps, n = allowed.shape
    return (~allowed)[:, None].expand(batch, heads, steps, n).reshape(batch * heads, steps, n)


# one_at_a_time


def loop_with_a_cache(X, Q, K, V):
    """Each token is projected when its turn comes; keys and values are kept in lists."""
    keys, values, outputs = [], [], []
    for x in X.unbind(1):
        keys.append(x @ K)
        values.append(x @ V)
        scores = mt.einsum("bd,tbd->bt", x @ Q, mt.stack(keys)) / math.sqrt(len(K))
        outputs.append(mt.einsum("bt,tbd->bd", scores.softmax(-1), mt.stack(values)))
    return mt.stack(outputs, dim=1)


def loop_with_sums(X, Q, K, V):
    queries, keys, values = X @ Q, X @ K, X @ V
    outputs = []
    for t in range(X.shape[1]):
        scores = (queries[:, t, None] * keys[:, : t + 1]).sum(-1) * Q.shape[1] ** -0.5
        outputs.append((F.softmax(scores, 1)[..., None] * values[:, : t + 1]).sum(1))
    return mt.stack(outputs, 1)


def loop_with_the_fused_operation(X, Q, K, V):
    queries, keys, values = X @ Q, X @ K, X @ V
    outputs = [
        F.scaled_dot_product_attention(queries[:, t : t + 1], keys[:, : t + 1], values[:, : t + 1])
        for t in range(X.shape[1])
    ]
    return mt.cat(outputs, dim=1)


# MaskedLanguageModel


class ModelWithTriangles(MaskedLanguageModel.reference):
    def forward(self, tokens):
        X, n = self.embedding(tokens), tokens.shape[1]
        future = mt.ones(n, n, dtype=mt.bool).triu(1)
        scores = mt.einsum("bid,bjd->bij", self.query(X), self.key(X)) * X.shape[-1] ** -0.5
        return self.output(
            F.softmax(scores + mt.zeros(n, n).masked_fill(future, -1e30), -1) @ self.value(X)
        )

    def loss(self, tokens, lengths):
        start = mt.full((len(tokens), 1), self.start)
        scores = self(mt.cat([start, tokens], dim=1)[:, :-1])
        targets = tokens.masked_fill(mt.arange(tokens.shape[1]) >= lengths[:, None], -100)
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


class ModelInALoop(MaskedLanguageModel.reference):
    """A growing set of keys, and a loss sequence by sequence."""

    def forward(self, tokens):
        X = self.embedding(tokens)
        query, key, value = self.query(X), self.key(X), self.value(X)
        outputs = []
        for t in range(tokens.shape[1]):
            scores = (key[:, : t + 1] @ query[:, t].unsqueeze(-1)).squeeze(-1)
            weights = (scores / math.sqrt(X.shape[-1])).softmax(dim=-1)
            outputs.append((weights.unsqueeze(-1) * value[:, : t + 1]).sum(dim=1))
        return self.output(mt.stack(outputs, dim=1))

    def loss(self, tokens, lengths):
        total = 0
        for row, n in zip(tokens, lengths.tolist(), strict=True):
            inputs = mt.tensor([self.start, *row[: n - 1].tolist()])
            scores = self(inputs.unsqueeze(0))[0].log_softmax(dim=-1)
            total = total - scores[mt.arange(n), row[:n]].sum()
        return total / lengths.sum()


class FusedModel(MaskedLanguageModel.reference):
    def forward(self, tokens):
        X = self.embedding(tokens)
        mixed = F.scaled_dot_product_attention(
            self.query(X), self.key(X), self.value(X), is_causal=True
        )
        return self.output(mixed)


# continue_prompts


def prompt_by_prompt(model, tokens, lengths, count, pick):
    """Without padding, one prompt at a time."""
    new = []
    for row, n in zip(tokens, lengths.tolist(), strict=True):
        sequence = row[:n].unsqueeze(0)
        for _ in range(count):
            sequence = mt.cat([sequence, pick(model(sequence)[:, -1])[:, None]], dim=1)
        new.append(sequence[0, n:])
    return mt.stack(new)


def padded_anew_at_each_step(model, tokens, lengths, count, pick):
    rows = [row[:n].tolist() for row, n in zip(tokens, lengths.tolist(), strict=True)]
    for _ in range(count):
        batch = pad_sequence([mt.tensor(row) for row in rows], batch_first=True, padding_value=1)
        scores = mt.stack([s[len(row) - 1] for s, row in zip(model(batch), rows, strict=True)])
        for row, token in zip(rows, pick(scores).tolist(), strict=True):
            row.append(token)
    return mt.tensor([row[-count:] for row in rows])


def written_in_place(model, tokens, lengths, count, pick):
    rows, lengths = mt.arange(len(tokens)), lengths.clone()
    tokens = mt.cat([tokens, mt.ones(len(tokens), count, dtype=mt.int64)], dim=1)
    new = mt.zeros(len(tokens), count, dtype=mt.int64)
    for t in range(count):
        token = pick(model(tokens)[rows, lengths - 1])
        tokens[rows, lengths] = token
        new[:, t] = token
        lengths += 1
    return new


right = {
    "causal_mask": [causal_of_ones, causal_in_a_loop, causal_from_the_module],
    "real_tokens": [padding_in_a_loop, padding_turned_round, padding_by_writing],
    "joined_mask": [
        joined_with_tril,
        joined_in_a_loop,
        joined_by_multiplication,
        joined_by_a_product,
    ],
    "window_mask": [window_of_triangles, window_in_a_loop],
    "masked_attention": [
        attention_with_where,
        attention_with_nan_to_num,
        attention_with_safe_rows,
        attention_by_exponentials,
    ],
    "dependence": [
        dependence_with_random_weights,
        dependence_with_new_passes,
        dependence_by_one_hot_gradients,
    ],
    "module_mask": [mask_of_numbers, mask_with_expand],
    "one_at_a_time": [loop_with_a_cache, loop_with_sums],
    "MaskedLanguageModel": [ModelWithTriangles, ModelInALoop],
    "continue_prompts": [prompt_by_prompt, padded_anew_at_each_step, written_in_place],
}
refused = {
    "masked_attention": [fused_attention, attention_with_linear],
    "one_at_a_time": [loop_with_the_fused_operation],
    "MaskedLanguageModel": [FusedModel],
}
