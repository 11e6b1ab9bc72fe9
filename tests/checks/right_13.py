"""Right answers to the exercises of chapter 13, and forbidden ones."""

import copy
import math

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn, optim

# tokens_needed


def tokens_from_the_first_point(tokens, losses, loss):
    reached = [i for i, value in enumerate(losses) if value <= loss]
    if not reached:
        return None
    i = reached[0]
    if i == 0:
        return tokens[0]
    x = np.log([tokens[i - 1], tokens[i]])
    share = (loss - losses[i - 1]) / (losses[i] - losses[i - 1])
    return float(np.exp(x[0] + share * (x[1] - x[0])))


def tokens_by_interp(tokens, losses, loss):
    """np.interp on the one piece that crosses."""
    for i, value in enumerate(losses):
        if value <= loss:
            j = max(i - 1, 0)
            return 10 ** np.interp(-loss, [-losses[j], -value], np.log10([tokens[j], tokens[i]]))


# training_plan


def plan_by_matrices(budget, vocabulary, width, hidden, layers, n, batch, text, share):
    shapes = [(width, width)] * 4 + [(width, hidden), (hidden, width), (width, n), (n, width)]
    each = 6 * (layers * sum(a * b for a, b in shapes) + width * vocabulary)
    steps = math.floor(budget / (each * batch * n))
    return {
        "blanks": steps * batch * n * share,
        "passes": steps * batch * n / text,
        "steps": steps,
        "FLOPs of a token": each,
    }


def plan_of_a_batch(budget, vocabulary, width, hidden, layers, n, batch, text, share):
    """FLOPs of a step first."""
    scores = 2 * 2 * batch * n * n * width
    weights = 2 * batch * n * (4 * width * width + 2 * width * hidden)
    forward = layers * (scores + weights) + 2 * batch * n * width * vocabulary
    steps = 0
    while (steps + 1) * 3 * forward <= budget and steps < 10:
        steps += 1
    steps = steps if steps < 10 else int(budget / (3 * forward))
    read = np.int64(steps) * batch * n
    counts = 3 * forward / (batch * n), steps, read / text, read * share
    return dict(zip(("FLOPs of a token", "steps", "passes", "blanks"), counts, strict=True))


# best_sizes


def sizes_by_lagrange(runs):
    """The vertex in closed form."""
    found = {}
    for run in runs:
        found.setdefault(run["budget"], [])
        ratio = run["FLOPs of a token"] * run["tokens"] / run["budget"]
        if 0.95 <= ratio <= 1.05:
            found[run["budget"]].append(run)
    for budget, curve in found.items():
        curve.sort(key=lambda run: run["weights"])
        y = [run["loss"] for run in curve]
        x = [math.log10(run["weights"]) for run in curve]
        i = min(range(len(y)), key=y.__getitem__)
        if i in (0, len(y) - 1):
            found[budget] = None
            continue
        left, right = x[i] - x[i - 1], x[i] - x[i + 1]
        a, b = left * (y[i] - y[i + 1]), right * (y[i] - y[i - 1])
        found[budget] = 10 ** (x[i] - 0.5 * (left * a - right * b) / (a - b))
    return found


def sizes_by_solving(runs):
    result = dict.fromkeys(run["budget"] for run in runs)
    for budget in result:
        points = sorted(
            (np.log(run["weights"]), run["loss"])
            for run in runs
            if run["budget"] == budget
            and abs(run["tokens"] * run["FLOPs of a token"] - budget) / budget < 0.05
        )
        x, y = np.array(points).T
        i = y.argmin()
        if 0 < i < len(y) - 1:
            x, y = x[i - 1 : i + 2], y[i - 1 : i + 2]
            centre = x.mean()
            c = np.linalg.solve(np.vander(x - centre, 3), y)
            result[budget] = np.exp(centre - c[1] / (2 * c[0]))
    return result


# blank_loss


def loss_of_all_rows(parts):
    """All rows in one matrix."""
    asked = mt.cat([scores[blanks] for scores, _, blanks in parts])
    targets = mt.cat([original[blanks] for _, original, blanks in parts])
    nats = asked.logsumexp(dim=-1) - mt.gather(asked, 1, targets.unsqueeze(1)).squeeze(1)
    return nats.sum() / max(len(targets), 1)


def loss_with_where(parts):
    """Scores that are not asked become 0 before anything is computed."""
    total, count = 0.0, 0
    for scores, original, blanks in parts:
        clean = scores.masked_fill(~blanks.unsqueeze(-1), 0.0)
        largest = clean.amax(dim=-1, keepdim=True).detach()
        normal = (clean - largest).exp().sum(dim=-1).log() + largest.squeeze(-1)
        nats = normal - (clean * F.one_hot(original, scores.shape[-1])).sum(dim=-1)
        total = total + mt.where(blanks, nats, 0.0).sum()
        count = count + blanks.sum()
    return total / count.clamp(min=1)


def loss_by_cross_entropy(parts):
    asked = mt.cat([scores[blanks] for scores, _, blanks in parts])
    targets = mt.cat([original[blanks] for _, original, blanks in parts])
    return F.cross_entropy(asked, targets, reduction="sum") / max(len(targets), 1)


def loss_by_nll(parts):
    asked = mt.cat([scores[blanks] for scores, _, blanks in parts])
    targets = mt.cat([original[blanks] for _, original, blanks in parts])
    return F.nll_loss(asked.log_softmax(-1), targets, reduction="sum") / max(len(targets), 1)


# completion_scores


def scores_row_by_row(model, prompts, choices, mean):
    pairs = [(p, c) for p, each in zip(prompts, choices, strict=True) for c in each]
    longest = max(len(p) + len(c) for p, c in pairs)
    table = mt.tensor([p + c + [0] * (longest - len(p) - len(c)) for p, c in pairs])
    log_p = F.log_softmax(model(table), dim=-1).detach().numpy()
    rows = iter(enumerate(pairs))
    found = []
    for each in choices:
        scores = []
        for _ in each:
            i, (p, c) = next(rows)
            values = [log_p[i, len(p) + j - 1, token] for j, token in enumerate(c)]
            scores.append(np.mean(values) if mean else np.sum(values))
        found.append(mt.tensor(scores))
    return found


def scores_by_cross_entropy(model, prompts, choices, mean):
    """What is not asked has the target -100."""
    pairs = [(p, c) for p, each in zip(prompts, choices, strict=True) for c in each]
    longest = max(len(p) + len(c) for p, c in pairs)
    inputs = mt.tensor([(p + c + [0] * longest)[: longest - 1] for p, c in pairs])
    targets = [([-100] * (len(p) - 1) + c + [-100] * longest)[: longest - 1] for p, c in pairs]
    scores = model(inputs).transpose(1, 2)
    losses = F.cross_entropy(scores, mt.tensor(targets), reduction="none").sum(dim=1)
    lengths = mt.tensor([len(c) if mean else 1 for _, c in pairs])
    values, found = -losses / lengths, []
    for each in choices:
        found.append(values[: len(each)])
        values = values[len(each) :]
    return tuple(found)


# probe


def probe_with_a_column_of_ones(train, labels, validation, validation_labels, test, strengths):
    """The offset as a weight without penalty."""
    x, v, t = (np.asarray(states.numpy()) for states in (train, validation, test))
    moving = x.std(axis=0) > 0
    mean, spread = x[:, moving].mean(axis=0), x[:, moving].std(axis=0)
    x, v, t = (
        np.column_stack([(each[:, moving] - mean) / spread, np.ones(len(each))])
        for each in (x, v, t)
    )
    y = np.zeros((len(x), int(labels.max()) + 1))
    y[np.arange(len(x)), labels.numpy()] = 1
    penalty = np.diag([1.0] * (x.shape[1] - 1) + [0.0])
    found = []
    for strength in strengths:
        weights = np.linalg.solve(x.T @ x + strength * penalty, x.T @ y)
        share = (np.argmax(v @ weights, axis=1) == validation_labels.numpy()).sum()
        found.append((share, strength, weights))
    _, strength, weights = max(found, key=lambda each: each[:2])
    return strength, mt.tensor(t @ weights)


def probe_by_singular_values(train, labels, validation, validation_labels, test, strengths):
    mean, spread = train.mean(0), train.var(0, correction=0).sqrt()
    scale = mt.where(spread > 0, 1 / spread, 0.0)
    x, v, t = (((states - mean) * scale).numpy() for states in (train, validation, test))
    y = F.one_hot(labels, int(labels.max()) + 1).numpy().astype(float)
    u, s, right = np.linalg.svd(x, full_matrices=False)
    best = None
    for strength in strengths:
        weights = right.T @ (s[:, None] / (s**2 + strength)[:, None] * (u.T @ (y - y.mean(0))))
        hits = int(((v @ weights + y.mean(0)).argmax(1) == validation_labels.numpy()).sum())
        if best is None or (hits, strength) > best[:2]:
            best = hits, strength, t @ weights + y.mean(0)
    return [best[1], best[2]]


# mask_words


def masked_with_numpy(tokens, words, share, mask, ordinary):
    random = np.random.default_rng()
    inputs, number = tokens.numpy().copy(), words.numpy()
    blanks = np.zeros(inputs.shape, bool)
    for k in range(number.max() + 1):
        blanks |= (number == k) & (random.random((len(inputs), 1)) < share)
    case = random.choice(3, p=[0.8, 0.1, 0.1], size=inputs.shape)
    inputs[blanks & (case == 0)] = mask
    replaced = blanks & (case == 1)
    inputs[replaced] = random.choice(ordinary.numpy(), size=replaced.sum())
    return mt.tensor(inputs), mt.tensor(blanks)


def masked_in_two_draws(tokens, words, share, mask, ordinary):
    """A second draw among what does not show the mask."""
    chosen = mt.rand(len(tokens), tokens.shape[1] + 1) < share
    chosen[:, -1] = False  # the place of word -1
    blanks = mt.stack([row[word] for row, word in zip(chosen, words, strict=True)])
    hidden = blanks & (mt.rand(tokens.shape) < 0.8)
    random = blanks & ~hidden & (mt.rand(tokens.shape) < 0.5)
    inputs = tokens.clone()
    inputs[hidden] = mask
    inputs[random] = ordinary[mt.randint(0, len(ordinary), (int(random.sum()),))]
    return inputs, blanks


# PartlyTuned


class TwoHalves(nn.Module):
    """The frozen half is kept in a list, so that train() does not reach it."""

    def __init__(self, pretrained, classes, trained):
        super().__init__()
        model = copy.deepcopy(pretrained)
        kept = len(model.blocks) - trained
        parts = [model.embedded, *list(model.blocks)[:kept]]
        self.frozen = [part.eval().requires_grad_(False) for part in parts]
        self.trained = nn.ModuleList(list(model.blocks)[kept:])
        self.norm = model.norm if trained else model.norm.requires_grad_(False)
        self.score = nn.Linear(model.norm.weight.shape[0], classes)

    def forward(self, tokens):
        real = tokens != 0
        with mt.no_grad():
            x = self.frozen[0](tokens)
            for block in self.frozen[1:]:
                x = block(x, real[:, None, None])
        for block in self.trained:
            x = block(x, real[:, None, None])
        x = self.norm(x).masked_fill(~real.unsqueeze(-1), 0.0)
        return self.score(x.sum(dim=1) / real.sum(dim=1, keepdim=True))


class ByNames(nn.Module):
    """Which parameters are trained is told from their names; modes at each call."""

    def __init__(self, pretrained, classes, trained):
        super().__init__()
        self.body = copy.deepcopy(pretrained)
        layers = len(pretrained.blocks)
        learned = {f"blocks.{i}" for i in range(layers - trained, layers)}
        self.learned = learned | ({"norm"} if trained else set())
        for name, p in self.body.named_parameters():
            p.requires_grad = self._learns(name)
        self.classify = nn.Linear(len(pretrained.norm.bias), classes)

    def _learns(self, name):
        return any(name == each or name.startswith(f"{each}.") for each in self.learned)

    def forward(self, tokens):
        for name, part in self.body.named_modules():
            part.training = self.training and self._learns(name)
        states = self.body.states(tokens)
        rows = [row[token != 0].mean(dim=0) for row, token in zip(states, tokens, strict=True)]
        return self.classify(mt.stack(rows))


# unfair


def _honest_report(accuracy, rates, steps, choosing, reporting):
    report = {}
    for method in ("frozen", "untrained", "from scratch"):
        table = np.array(
            [
                [[accuracy(method, r, s, seed, "validation") for seed in choosing] for s in steps]
                for r in rates
            ]
        ).mean(axis=2)
        i, j = np.unravel_index(table.argmax(), table.shape)
        values = [accuracy(method, rates[i], steps[j], seed, "test") for seed in reporting]
        ordered = sorted(rates)
        edge = rates[i] in (ordered[0], ordered[-1]) or steps[j] == sorted(steps)[-1]
        report[method] = (np.mean(values), bool(edge))
    return report


def unfair_with_numpy(studies):
    found = set()
    for trial in range(25):
        random = np.random.default_rng(100 + trial)
        runs = {}

        def accuracy(*run, runs=runs, random=random):
            if run not in runs:
                runs[run] = random.normal()
            return runs[run]

        rates, steps = list(random.permutation([1, 2, 3, 4, 5])), [10, 40, 20]
        expected = _honest_report(accuracy, rates, steps, [0, 1], [5, 6, 7])
        for i, study in enumerate(studies):
            report = study(accuracy, rates, steps, [0, 1], [5, 6, 7])
            for method, (mean, edge) in expected.items():
                said = report[method]
                if not math.isclose(said["mean"], mean) or said["at the edge"] != edge:
                    found.add(i)
    return sorted(found)


def unfair_by_hashes(studies):
    """Accuracies from a formula without a table."""
    places = {"frozen": 1, "untrained": 2, "from scratch": 3, "validation": 5, "test": 11}

    def shaken(salt):
        def accuracy(method, rate, count, seed, data):
            x = 0.7 * places[method] + 90 * rate + 0.37 * count + 1.7 * seed + places[data]
            return math.sin(x + salt) * 43758.5453 % 1

        return accuracy

    def differs(study, salt):
        case = shaken(salt), [0.02, 0.5, 0.003, 0.1, 0.01], [7, 31, 13], [1, 2, 8], [3, 4, 9]
        report, expected = study(*case), _honest_report(*case)
        return any(
            abs(report[method]["mean"] - mean) > 1e-8 or report[method]["at the edge"] is not edge
            for method, (mean, edge) in expected.items()
        )

    return [i for i, study in enumerate(studies) if any(differs(study, s) for s in range(20))]


# pretrain


def pretrain_with_masks_alone(model, sentences, special, mask, steps, rate):
    """AdamW, shuffled passes, at least one blank in each batch, no other case than the mask."""
    random = np.random.default_rng(5)
    optimizer = optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    order, losses = [], []
    text = sentences.numpy()
    while len(losses) < steps:
        if not len(order):
            order = random.permutation(len(text))
        rows, order = text[order[:24]], order[24:]
        ordinary = ~np.isin(rows, special)
        blanks = (random.random(rows.shape) < 0.2) & ordinary
        if not blanks.any():
            blanks[tuple(np.argwhere(ordinary)[0])] = True
        inputs, targets = np.where(blanks, mask, rows), np.where(blanks, rows, -100)
        scores = model(mt.tensor(inputs)).flatten(0, 1)
        loss = F.cross_entropy(scores, mt.tensor(targets).flatten(), ignore_index=-100)
        model.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


def pretrain_sentence_by_sentence(model, sentences, special, mask, steps, rate):
    """A tenth at least of each sentence, by a permutation; Adam with a constant rate."""
    optimizer, losses = optim.Adam(model.parameters(), lr=rate), []
    for _ in range(steps):
        batch = sentences[mt.randint(0, len(sentences), (16,))]
        inputs, blanks = batch.clone(), mt.zeros(batch.shape, dtype=mt.bool)
        for i, row in enumerate(batch.tolist()):
            places = [j for j, token in enumerate(row) if token not in special]
            blanks[i, places[int(mt.randint(0, len(places), (1,)))]] = True
        inputs[blanks] = mask
        loss = -model(inputs)[blanks].log_softmax(-1)[mt.arange(16), batch[blanks]].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return tuple(losses)


right = {
    "tokens_needed": [tokens_from_the_first_point, tokens_by_interp],
    "training_plan": [plan_by_matrices, plan_of_a_batch],
    "best_sizes": [sizes_by_lagrange, sizes_by_solving],
    "blank_loss": [loss_of_all_rows, loss_with_where, loss_by_nll],
    "completion_scores": [scores_row_by_row, scores_by_cross_entropy],
    "probe": [probe_with_a_column_of_ones, probe_by_singular_values],
    "mask_words": [masked_with_numpy, masked_in_two_draws],
    "PartlyTuned": [TwoHalves, ByNames],
    "unfair": [unfair_with_numpy, unfair_by_hashes],
    "pretrain": [pretrain_with_masks_alone, pretrain_sentence_by_sentence],
}
refused = {"blank_loss": [loss_by_cross_entropy]}
