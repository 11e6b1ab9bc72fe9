"""Right answers to the exercises of chapter 08, and forbidden ones."""

import itertools
import math

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F

# learned_from_one_hot


def tables_by_slices(weight, bias, longest, segments):
    d = weight.shape[1] - longest - segments
    place = weight[:, d : d + longest].T + bias
    return [weight[:, :d].mT, place + weight[:, -segments:].T.reshape(segments, 1, -1)]


def tables_entry_by_entry(weight, bias, longest, segments):
    columns = weight.unbind(1)
    d = len(columns) - longest - segments
    table = [
        mt.stack([columns[d + t] + columns[d + longest + s] + bias for t in range(longest)])
        for s in range(segments)
    ]
    return mt.stack(columns[:d]), mt.stack(table)


def tables_in_numpy(weight, bias, longest, segments):
    matrix, place, segment = np.split(weight.numpy().T, [-longest - segments, -segments])
    table = segment[:, None] + place[None] + bias.numpy()
    return mt.tensor(matrix.copy()), mt.tensor(table)


def tables_by_asking_the_layer(weight, bias, longest, segments):
    """What the layer makes of each unit vector."""
    d = weight.shape[1] - longest - segments
    outputs = mt.eye(weight.shape[1]).to(weight) @ weight.T
    place, segment = outputs[d : d + longest], outputs[d + longest :]
    return outputs[:d], place + segment.unsqueeze(1) + bias


def tables_by_linear(weight, bias, longest, segments):
    d = weight.shape[1] - longest - segments
    outputs = F.linear(mt.eye(weight.shape[1]).to(weight), weight)
    return outputs[:d], outputs[d : d + longest] + outputs[d + longest :].unsqueeze(1) + bias


# alibi_bias


def bias_in_a_loop(queries, keys, heads):
    bias = mt.zeros(heads, queries, keys)
    for head in range(heads):
        for row in range(queries):
            for j in range(keys):
                i = keys - queries + row
                slope = 1 / 2 ** (8 * (head + 1) / heads)
                bias[head, row, j] = -slope * (i - j) if j <= i else -math.inf
    return bias


def bias_of_the_last_rows(queries, keys, heads):
    """All rows first."""
    places = mt.arange(keys).float()
    apart = places.unsqueeze(1) - places
    ratio = 2 ** (-8 / heads)
    bias = mt.stack([-(ratio**k) * apart for k in range(1, heads + 1)])
    return mt.where(apart >= 0, bias, -mt.inf)[:, -queries:]


def bias_in_numpy(queries, keys, heads):
    apart = np.arange(keys)[None] - np.arange(keys - queries, keys)[:, None]
    slopes = np.array([0.5 ** (8 * k / heads) for k in range(1, heads + 1)])
    return mt.tensor(np.where(apart > 0, -np.inf, slopes[:, None, None] * apart))


# sinusoidal_codes


def codes_in_a_loop(n, d, base=10_000.0):
    k = d // 2
    codes = mt.zeros(n, d)
    for t in range(n):
        for m in range(k):
            omega = base ** -(m / (k - 1)) if k > 1 else 1
            codes[t, m], codes[t, k + m] = math.sin(omega * t), math.cos(omega * t)
    return codes


def codes_with_linspace(n, d, base=10_000.0):
    """As the program has it."""
    omega = mt.exp(-math.log(base) * mt.linspace(0.0, 1.0, d // 2))
    angles = mt.arange(n).float().unsqueeze(1) @ omega.unsqueeze(0)
    return mt.cat([mt.sin(angles), mt.cos(angles)], dim=-1)


def codes_with_numpy(n, d, base=10_000.0):
    angles = np.outer(np.arange(n), np.geomspace(1, 1 / base, d // 2))
    return mt.tensor(np.concatenate([np.sin(angles), np.cos(angles)], axis=1))


def codes_by_turning(n, d, base=10_000.0):
    """Each row is the one before, shifted by 1."""
    k, rows = d // 2, [[0.0] * (d // 2) + [1.0] * (d // 2)]
    omega = [base ** (-m / max(1, k - 1)) for m in range(k)]
    while len(rows) < n:
        pairs = zip(rows[-1][:k], rows[-1][k:], omega, strict=True)
        turned = [
            (s * math.cos(w) + c * math.sin(w), c * math.cos(w) - s * math.sin(w))
            for s, c, w in pairs
        ]
        rows.append([s for s, _ in turned] + [c for _, c in turned])
    return mt.tensor(rows)


# shift_matrix


def shift_number_by_number(shift, omega):
    k = len(omega)
    matrix = mt.zeros(2 * k, 2 * k)
    for m, angle in enumerate((shift * omega).tolist()):
        matrix[m, m] = matrix[k + m, k + m] = math.cos(angle)
        matrix[k + m, m] = math.sin(angle)
        matrix[m, k + m] = -math.sin(angle)
    return matrix


def shift_with_kron(shift, omega):
    angles = shift * omega.numpy()
    c, s = np.diag(np.cos(angles)), np.diag(np.sin(angles))
    return mt.tensor(np.kron(np.eye(2), c) + np.kron(np.array([[0, -1], [1, 0]]), s))


def shift_from_pairs(shift, omega):
    """The chapter's blocks, with rows and columns in the other order."""
    k = len(omega)
    blocks = mt.zeros(2 * k, 2 * k)
    for m, angle in enumerate((shift * omega).tolist()):
        c, s = math.cos(angle), math.sin(angle)
        blocks[2 * m : 2 * m + 2, 2 * m : 2 * m + 2] = mt.tensor([[c, -s], [s, c]])
    order = mt.tensor([*range(0, 2 * k, 2), *range(1, 2 * k, 2)])
    return blocks[order][:, order].float()


def shift_by_two_codes(shift, omega):
    """Two codes of each hand are enough to solve for its four numbers."""
    k, matrix = len(omega), np.zeros((2 * len(omega),) * 2)
    for m, w in enumerate(omega.tolist()):
        before = np.array([[math.sin(0), math.cos(0)], [1.0, 0.0]])
        quarter = math.pi / 2
        after = np.array([[math.sin(a), math.cos(a)] for a in (shift * w, quarter + shift * w)])
        block = np.linalg.solve(before, after)
        matrix[np.ix_([m, k + m], [m, k + m])] = block
    return mt.tensor(matrix)


# longer_context


def context_with_numpy(d, base, trained, longer):
    omega = base ** (-2 * np.arange(d // 2) / d)
    angles = omega * (trained - 1)
    ratio = np.float64(longer - 1) / (trained - 1)
    return {
        "base": base * ratio ** (d / (d - 2)),
        "squeeze": 1 / ratio,
        "pairs that have been around": np.count_nonzero(angles >= 2 * np.pi),
    }


def context_by_bisection(d, base, trained, longer):
    """The base is looked for; pairs are counted until one has not been around."""
    wanted = (trained - 1) * base ** (2 / d - 1)
    low, high = base, base * 1e12
    for _ in range(200):
        middle = math.sqrt(low * high)
        if (longer - 1) * middle ** (2 / d - 1) > wanted:
            low = middle
        else:
            high = middle
    around = itertools.takewhile(
        lambda m: (trained - 1) / base ** (2 * m / d) >= math.tau, range(d // 2)
    )
    return {
        "pairs that have been around": len(list(around)),
        "squeeze": (trained - 1) / (longer - 1),
        "base": low,
    }


# relative_attention


def relative_in_a_loop(query, key, value, keys_of, values_of, allowed=None):
    batch, heads, n, d = query.shape
    c = len(keys_of) // 2
    if allowed is None:
        allowed = mt.ones(n, n).bool()
    allowed = allowed.expand(batch, heads, n, n)
    result = mt.zeros(*value.shape)
    for b, h, i in itertools.product(range(batch), range(heads), range(n)):
        seen = [j for j in range(n) if allowed[b, h, i, j]]
        rows = [max(-c, min(c, j - i)) + c for j in seen]
        scores = mt.stack(
            [
                query[b, h, i] @ (key[b, h, j] + keys_of[r]) / math.sqrt(d)
                for j, r in zip(seen, rows, strict=True)
            ]
        )
        weights = scores.softmax(dim=0)
        for w, j, r in zip(weights, seen, rows, strict=True):
            result[b, h, i] = result[b, h, i] + w * (value[b, h, j] + values_of[r])
    return result


def relative_with_a_key_for_each_pair(query, key, value, keys_of, values_of, allowed=None):
    n, c = query.shape[-2], len(keys_of) // 2
    places = mt.arange(n)
    rows = (places - places[:, None] + c).clamp(0, 2 * c)
    keys = key.unsqueeze(-3) + keys_of[rows]  # (B, h, n, n, d)
    values = value.unsqueeze(-3) + values_of[rows]
    scores = (query.unsqueeze(-2) * keys).sum(-1) * query.shape[-1] ** -0.5
    if allowed is not None:
        scores = mt.where(allowed, scores, -mt.inf)
    return (scores.softmax(-1).unsqueeze(-1) * values).sum(-2)


def relative_by_one_hot_rows(query, key, value, keys_of, values_of, allowed=None):
    """The queries meet each vector once; the weights of one difference are added up."""
    n, d = query.shape[-2:]
    c = len(keys_of) // 2
    rows = (mt.arange(n) - mt.arange(n).unsqueeze(1)).clamp(-c, c) + c
    pick = F.one_hot(rows, 2 * c + 1).float()  # (n, n, 2c + 1)
    place = mt.einsum("bhir,ijr->bhij", query @ keys_of.T, pick)
    scores = (query @ key.transpose(-1, -2) + place) / math.sqrt(d)
    if allowed is not None:
        scores = scores + mt.zeros(allowed.shape).masked_fill(allowed.logical_not(), -mt.inf)
    weights = scores.softmax(-1)
    return weights @ value + mt.einsum("bhij,ijr->bhir", weights, pick) @ values_of


# rotate


def rotate_pair_by_pair(x, positions, base):
    d, first, second = x.shape[-1], [], []
    for m in range(d // 2):
        angles = positions.unsqueeze(1) * base ** (-2 * m / d)  # (B, 1, n)
        a, b = x[..., m], x[..., m + d // 2]  # (B, h, n)
        first.append(a * angles.cos() - b * angles.sin())
        second.append(a * angles.sin() + b * angles.cos())
    return mt.stack(first + second, dim=-1)


def rotate_as_most_programs_do(x, positions, base):
    """x cos + (x with its halves exchanged and one negative) sin."""
    half = x.shape[-1] // 2
    inverse = 1.0 / (base ** (mt.arange(0, 2 * half, 2).float() / (2 * half)))
    angles = positions[:, None, :, None].float() * inverse
    angles = mt.cat([angles, angles], dim=-1)
    exchanged = mt.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * angles.cos() + exchanged * angles.sin()


def rotate_in_numpy(x, positions, base):
    half = x.shape[-1] // 2
    turns = np.exp(1j * positions.numpy()[..., None] * base ** (-np.arange(half) / half))
    numbers = x.numpy()
    turned = (numbers[..., :half] + 1j * numbers[..., half:]) * turns[:, None]
    return mt.tensor(np.concatenate([turned.real, turned.imag], axis=-1))


def rotate_sequence_by_sequence(x, positions, base):
    def one(rows, places):
        half = rows.shape[-1] // 2
        angles = mt.outer(places.to(rows.dtype), base ** (-mt.arange(half) / half))
        a, b = rows.split(half, dim=-1)
        c, s = angles.cos(), angles.sin()
        return mt.cat([c * a - s * b, s * a + c * b], dim=-1)

    return mt.stack([one(rows, places) for rows, places in zip(x, positions, strict=True)])


# broken_rotations


def broken_by_random_trials(programs):
    """Each rule by itself, at drawn places."""
    found = []
    for number, rotate in enumerate(programs):
        broken = False
        for trial in range(4):
            random = np.random.default_rng(trial)
            x = mt.tensor(random.standard_normal((2, 2, 4, 4)))
            places = mt.tensor(random.permutation(5000)[:4])
            kept = x.clone()
            y = rotate(x, places)
            broken |= (kept != x).any().item()
            x = kept
            alone = rotate(x[1:, 1:, 1:2].clone(), places[1:2])
            broken |= not np.allclose(alone.numpy(), y[1:, 1:, 1:2].numpy(), atol=1e-9)
            at_zero = rotate(x.clone(), places * 0)
            broken |= not np.allclose(at_zero.numpy(), x.numpy(), atol=1e-9)
            scores = (y @ y.mT).numpy()
            later = rotate(x.clone(), places + 2 * trial + 1)
            broken |= not np.allclose(scores, (later @ later.mT).numpy(), atol=1e-9)
            apart = rotate(x.clone(), places + mt.tensor([0, 3, 7, 1]))
            broken |= np.allclose(scores, (apart @ apart.mT).numpy(), atol=1e-9)
        if broken:
            found.append(number)
    return tuple(found)


def broken_by_single_rows(programs):
    """Everything is compared with what single rows become."""

    def single(rotate, x, places):
        y = mt.zeros_like(x)
        for b, h, i in itertools.product(*map(range, x.shape[:3])):
            y[b, h, i] = rotate(
                x[b, h, i].reshape(1, 1, 1, -1).clone(), places[i : i + 1]
            ).flatten()
        return y

    def broken(rotate):
        mt.manual_seed(3)
        x = mt.randn(2, 2, 3, 6).double()
        for start in (0, 601):
            places = mt.tensor([start, start + 5, start + 45])
            y = rotate(x.clone(), places)
            if not mt.allclose(y, single(rotate, x, places)):
                return True
            if start == 0:
                first = y
                if not mt.allclose(y[:, :, 0], x[:, :, 0]):
                    return True
        same = mt.allclose(first @ first.mT, y @ y.mT)
        near = rotate(x.clone(), mt.tensor([0, 1, 2]))
        changes = not mt.allclose(first @ first.mT, near @ near.mT)
        given = x.clone()
        rotate(given, places)
        return not (same and changes and mt.equal(given, x))

    return [i for i, rotate in enumerate(programs) if broken(rotate)]


# right_beyond


def right_in_a_loop(model, batches, first):
    mode = model.training
    model.eval()
    answers = []
    for tokens, targets in batches:
        scores = model(tokens)
        for b in range(len(tokens)):
            for t in range(first, tokens.shape[1]):
                if targets[b, t].item() != -100:
                    answers.append(scores[b, t].argmax().item() == targets[b, t].item())
    if mode:
        model.train()
    return np.mean(answers) if answers else None


def right_with_cut_tensors(model, batches, first):
    training = model.training
    try:
        model.eval()
        said = [model(tokens).argmax(-1)[:, first:].flatten() for tokens, _ in batches]
    finally:
        model.train(training)
    targets = mt.cat([targets[:, first:].flatten() for _, targets in batches])
    asked = targets != -100
    if not asked.any():
        return None
    return (mt.cat(said) == targets)[asked].double().mean()


right = {
    "learned_from_one_hot": [tables_by_slices, tables_entry_by_entry, tables_in_numpy],
    "alibi_bias": [bias_in_a_loop, bias_of_the_last_rows, bias_in_numpy],
    "sinusoidal_codes": [codes_in_a_loop, codes_with_linspace, codes_with_numpy, codes_by_turning],
    "shift_matrix": [shift_number_by_number, shift_with_kron, shift_from_pairs, shift_by_two_codes],
    "longer_context": [context_with_numpy, context_by_bisection],
    "relative_attention": [
        relative_in_a_loop,
        relative_with_a_key_for_each_pair,
        relative_by_one_hot_rows,
    ],
    "rotate": [
        rotate_pair_by_pair,
        rotate_as_most_programs_do,
        rotate_in_numpy,
        rotate_sequence_by_sequence,
    ],
    "broken_rotations": [broken_by_random_trials, broken_by_single_rows],
    "right_beyond": [right_in_a_loop, right_with_cut_tensors],
}
refused = {"learned_from_one_hot": [tables_by_asking_the_layer, tables_by_linear]}
