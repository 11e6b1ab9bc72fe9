"""Right answers to the exercises of chapter 07, and forbidden ones."""

import itertools
import math

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch.nn.utils.rnn import pad_sequence
from textbook.checks.chapter_07 import CausalLanguageModel
from textbook.checks.chapter_07.written import written, wrong_with

# chunk_mask


def chunk_in_a_loop(lengths, T, n):
    return mt.tensor(
        [
            [[[n - length <= j <= i for j in range(n)] for i in range(n - T, n)]]
            for length in lengths.tolist()
        ]
    )


def chunk_with_tril(lengths, T, n):
    real = mt.arange(n).flip(0) < lengths[:, None]
    return real[:, None, None].expand(-1, 1, T, -1).tril(n - T)


def chunk_by_a_product(lengths, T, n):
    """A product of matrices of float32, compared with 0."""
    real = mt.ge(mt.arange(n), n - lengths[:, None]).float().diag_embed()  # (B, n, n)
    return ((mt.ones(T, n).tril(n - T) @ real) > 0).unsqueeze(1)


# reading_padding


def reading_with_numpy(encoders):
    random, found = np.random.default_rng(2), []
    for i, encoder in enumerate(encoders):
        worst = 0.0
        for lengths in ([5, 2], [3, 6, 1], [4, 2, 6, 3], [1, 7, 2]):
            x = random.standard_normal((len(lengths), 8, 6))
            together = encoder(mt.tensor(x), mt.tensor(lengths)).numpy()
            for b, length in enumerate(lengths):
                short = mt.tensor(x[b : b + 1, :length].copy())
                alone = encoder(short, mt.tensor([length])).numpy()[0]
                worst = max(worst, np.nan_to_num(np.abs(together[b, :length] - alone), nan=9).max())
        if worst > 1e-9:
            found.append(np.int64(i))
    return found


def reading_by_growing(encoders):
    """A sentence in a larger and larger batch."""

    def reads(encoder):
        x = mt.randn(4, 7, 6, dtype=mt.float64)
        lengths = [3, 5, 2, 4]
        alone = [encoder(x[b : b + 1, :n], mt.tensor([n]))[0] for b, n in enumerate(lengths)]
        for batch in (1, 2, 3, 4):
            together = encoder(x[:batch], mt.tensor(lengths[:batch]))
            for b in range(batch):
                if not mt.allclose(together[b, : lengths[b]], alone[b], atol=1e-9):
                    return True
        return False

    return tuple(i for i, encoder in enumerate(encoders) if reads(encoder))


# reach


def reach_by_walking(masks):
    """From each output back, layer by layer."""
    n = len(masks[0])
    rows = []
    for i in range(n):
        seen = {i}
        for allowed in reversed(masks):
            table = allowed.tolist()
            seen |= {j for k in seen for j in range(n) if table[k][j]}
        rows.append([j in seen for j in range(n)])
    return mt.tensor(rows)


def reach_with_einsum(masks):
    n = len(masks[0])
    ways = mt.eye(n)
    for allowed in reversed(masks):
        ways = mt.einsum("ik,kj->ij", ways, allowed.float() + mt.eye(n)).clamp(max=1)
    return ways.bool()


# judged


def judged_by_functions(runs):
    def same(run, places):
        return all(abs(run["in one pass"][t] - run["from the prefix"][t]) <= 0.01 for t in places)

    def verdict(run):
        n = len(run["in one pass"])
        if not same(run, [n - 1]):
            return "measured wrongly"
        return "no leak seen" if same(run, range(n)) else "leaks"

    verdicts = {run["model"]: verdict(run) for run in runs}
    fair = sorted(
        (sum(run["from the prefix"]), run["model"])
        for run in runs
        if verdicts[run["model"]] == "no leak seen" and run["text"] != "training"
    )
    return {"best": fair[0][1] if fair else None, "verdicts": verdicts}


def judged_with_numpy(runs):
    verdicts, best, lowest = {}, None, np.inf
    for run in runs:
        gap = np.abs(np.subtract(run["in one pass"], run["from the prefix"])) > 0.01
        names = ["measured wrongly", "leaks", "no leak seen"]
        verdicts[run["model"]] = names[0] if gap[-1] else names[1 if gap.any() else 2]
        mean = np.mean(run["from the prefix"])
        if not gap.any() and run["text"] == "held out" and mean < lowest:
            best, lowest = run["model"], mean
    return dict(verdicts=verdicts, best=best)


# masked_attention


def filled(allowed, query, key, value):
    """A mask of the whole shape of the scores, and keys and values without what nobody sees."""
    if allowed is None:
        allowed = mt.ones(1, dtype=mt.bool)
    allowed = allowed & mt.ones(*query.shape[:-1], key.shape[-2], dtype=mt.bool)
    seen = allowed.any(dim=-2)[..., None]
    return allowed, mt.where(seen, key, 0.0), mt.where(seen, value, 0.0)


def attention_with_where(query, key, value, allowed):
    allowed, key, value = filled(allowed, query, key, value)
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    weights = F.softmax(mt.where(allowed, scores, -math.inf), dim=-1)
    return mt.where(allowed, weights, 0.0) @ value


def attention_with_nan_to_num(query, key, value, allowed):
    allowed, key, value = filled(allowed, query, key, value)
    scores = mt.einsum("...td,...nd->...tn", query, key) / math.sqrt(key.shape[-1])
    weights = scores.masked_fill(mt.logical_not(allowed), -math.inf).softmax(-1)
    return mt.einsum("...tn,...nv->...tv", mt.nan_to_num(weights), value)


def attention_with_safe_rows(query, key, value, allowed):
    """A row without a key gets scores of 0, and then an output of 0."""
    allowed, key, value = filled(allowed, query, key, value)
    empty = ~allowed.any(dim=-1, keepdim=True)
    added = mt.zeros(allowed.shape).masked_fill(~(allowed | empty), -math.inf)
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]) + added
    return (scores.softmax(dim=-1) @ value).masked_fill(empty, 0.0)


def attention_by_exponentials(query, key, value, allowed):
    """The softmax written out, over what is allowed alone."""
    allowed, key, value = filled(allowed, query, key, value)
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(~allowed, -math.inf)
    largest = scores.amax(dim=-1, keepdim=True).detach()
    largest = largest.masked_fill(largest == -math.inf, 0.0)
    exponentials = (scores - largest).exp()
    total = exponentials.sum(dim=-1, keepdim=True)
    return exponentials @ value / total.masked_fill(total == 0, 1.0)


def fused_attention(query, key, value, allowed):
    allowed, key, value = filled(allowed, query, key, value)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)


def attention_with_linear(query, key, value, allowed):
    """Keys as the weights of a linear layer, sequence by sequence."""
    allowed, key, value = filled(allowed, query, key, value)
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


# CausalLanguageModel


class ModelWithTriangles(CausalLanguageModel.reference):
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


class ModelInALoop(CausalLanguageModel.reference):
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


class FusedModel(CausalLanguageModel.reference):
    def forward(self, tokens):
        X = self.embedding(tokens)
        mixed = F.scaled_dot_product_attention(
            self.query(X), self.key(X), self.value(X), is_causal=True
        )
        return self.output(mixed)


# continue_prompts


def continued_with_padding_at_the_end(model, prompts, end, count):
    rows, open_rows = [list(prompt) for prompt in prompts], set(range(len(prompts)))
    for _ in range(count):
        if not open_rows:
            break
        n = max(map(len, rows))
        batch = pad_sequence([mt.tensor(row) for row in rows], batch_first=True, padding_value=3)
        allowed = mt.ones(n, n, dtype=mt.bool).tril().expand(len(rows), 1, n, n)
        scores = model(batch, allowed)
        for b in sorted(open_rows):
            token = scores[b, len(rows[b]) - 1].argmax().item()
            rows[b].append(token)
            if token == end:
                open_rows.discard(b)
    return [row[len(prompt) :] for row, prompt in zip(rows, prompts, strict=True)]


def continued_in_tensors(model, prompts, end, count):
    """Room for all new tokens from the start; what comes after the end is cut off."""
    n = max(map(len, prompts))
    real = mt.tensor([[False] * (n - len(p)) + [True] * len(p) for p in prompts])
    tokens = mt.tensor([[1] * (n - len(p)) + p for p in prompts])
    for _ in range(count):
        n = tokens.shape[1]
        allowed = mt.ones(n, n).tril().bool() & real[:, None, None, :]
        token = model(tokens, allowed)[:, -1].argmax(-1, keepdim=True)
        tokens, real = mt.cat([tokens, token], dim=1), mt.cat([real, token >= 0], dim=1)
    new = tokens[:, -count:].tolist()
    return tuple(row[: row.index(end) + 1] if end in row else row for row in new)


# counterexamples


def examples_from_longer_sentences():
    broken = {"B": [[3, 5], 6], "D": [(2, 7, 4), 7], "F": [[4, 1], 8]}
    return {name: broken.get(name) for name in "FEDCBA"}


def examples_by_trying():
    """The first pair of lengths that shows something."""
    found = dict.fromkeys(written)
    for n in (1, 2, 3):
        for lengths in itertools.product(range(1, n + 1), repeat=2):
            for name, program in written.items():
                given = mt.tensor(lengths)
                if found[name] is None and wrong_with(program(given, n), given, n):
                    found[name] = np.array(lengths).tolist(), np.int64(n)
    return found


right = {
    "counterexamples": [examples_from_longer_sentences, examples_by_trying],
    "chunk_mask": [chunk_in_a_loop, chunk_with_tril, chunk_by_a_product],
    "reading_padding": [reading_with_numpy, reading_by_growing],
    "dependence": [
        dependence_with_random_weights,
        dependence_with_new_passes,
        dependence_by_one_hot_gradients,
    ],
    "reach": [reach_by_walking, reach_with_einsum],
    "judged": [judged_by_functions, judged_with_numpy],
    "CausalLanguageModel": [ModelWithTriangles, ModelInALoop],
    "masked_attention": [
        attention_with_where,
        attention_with_nan_to_num,
        attention_with_safe_rows,
        attention_by_exponentials,
    ],
    "continue_prompts": [continued_with_padding_at_the_end, continued_in_tensors],
}
refused = {
    "CausalLanguageModel": [FusedModel],
    "masked_attention": [fused_attention, attention_with_linear],
}
