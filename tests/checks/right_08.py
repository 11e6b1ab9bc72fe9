"""Right answers to the exercises of chapter 08, and forbidden ones."""

import math
from collections import deque

import numpy as np

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.checks.chapter_08 import LearnedPositions

# LearnedPositions


class LearnedByIndex(LearnedPositions.reference):
    def forward(self, x):
        places = mt.arange(x.shape[1])
        if places[-1] >= len(self.table):
            raise IndexError(
                f"The table ends after {len(self.table)} places, the sequence has {len(places)}."
            )
        return x + self.table[places].unsqueeze(0)


class LearnedByProduct(LearnedPositions.reference):
    """One-hot rows times the table."""

    def forward(self, x):
        longest, n = self.table.shape[0], x.size(1)
        if not n <= longest:
            raise IndexError(f"n = {n} > longest = {longest}")
        return mt.eye(longest)[:n] @ self.table + x


class LearnedInALoop(LearnedPositions.reference):
    def forward(self, x):
        batch, n, _ = x.shape
        rows = []
        for t in range(n):
            try:
                rows.append(x[:, t] + self.table[t])
            except IndexError as error:
                raise IndexError(f"{n} positions, {len(self.table)} rows") from error
        return mt.stack(rows, dim=1)


class LearnedByOneHotRows(LearnedPositions.reference):
    def forward(self, x):
        longest, n = len(self.table), x.shape[1]
        if n > longest:
            raise IndexError(f"{n} positions, but only {longest} rows")
        return x + F.one_hot(mt.arange(n), longest).float() @ self.table


class TooLong(IndexError):
    pass


class LearnedWithAnErrorOfItsOwn(LearnedPositions.reference):
    def forward(self, x):
        longest, n = self.table.shape[0], x.shape[1]
        if n > longest:
            raise TooLong(f"{n} > {longest}")
        return self.table.narrow(0, 0, n) + x


class LearnedByFunction(LearnedPositions.reference):
    def forward(self, x):
        if x.shape[1] > len(self.table):
            raise IndexError(f"{x.shape[1]} positions, {len(self.table)} rows")
        return x + F.embedding(mt.arange(x.shape[1]), self.table)


class LearnedByModule(LearnedPositions.reference):
    def forward(self, x):
        rows = nn.Embedding.from_pretrained(self.table, freeze=False)
        if x.shape[1] > len(self.table):
            raise IndexError(f"{x.shape[1]} positions, {len(self.table)} rows")
        return x + rows(mt.arange(x.shape[1]))


# learned_from_one_hot


def parts_by_split(weight, bias, longest):
    word, place = weight.T.split([len(weight.T) - longest, longest])
    return word, place + bias


def parts_from_the_end(weight, bias, longest):
    return [weight.mT[:-longest], weight[:, -longest:].transpose(0, 1) + bias.unsqueeze(0)]


def parts_row_by_row(weight, bias, longest):
    rows = weight.unbind(1)
    d = len(rows) - longest
    return mt.stack(rows[:d]), mt.stack([row + bias for row in rows[d:]])


def parts_in_numpy(weight, bias, longest):
    matrix, table = np.split(weight.numpy().T, [-longest])
    return mt.tensor(matrix.copy()), mt.tensor(table + bias.numpy())


def parts_by_asking_the_layer(weight, bias, longest):
    """What the layer makes of each unit vector."""
    d = weight.shape[1] - longest
    outputs = mt.eye(weight.shape[1]).to(weight) @ weight.T + bias
    return outputs[:d] - bias, outputs[d:]


def parts_by_linear(weight, bias, longest):
    d = weight.shape[1] - longest
    outputs = F.linear(mt.eye(weight.shape[1]).to(weight), weight)
    return outputs[:d], outputs[d:] + bias


# sinusoidal_codes


def codes_in_a_loop(n, d):
    codes = mt.zeros(n, d)
    for t in range(n):
        for j in range(d // 2):
            angle = t / 10_000 ** (2 * j / d)
            codes[t, 2 * j], codes[t, 2 * j + 1] = math.sin(angle), math.cos(angle)
    return codes


def codes_in_float32(n, d):
    """As most programs have it."""
    codes = mt.zeros(n, d, dtype=mt.float32)
    places = mt.arange(n).float().unsqueeze(1)
    factors = mt.exp(mt.arange(0, d, 2).float() * (-math.log(10_000.0) / d))
    codes[:, 0::2] = mt.sin(places * factors)
    codes[:, 1::2] = mt.cos(places * factors)
    return codes


def codes_by_a_product(n, d):
    omega = mt.tensor([[10_000 ** (-j / d) for j in range(0, d, 2)]])
    angles = mt.arange(n).float().unsqueeze(1) @ omega
    return mt.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def codes_with_numpy(n, d):
    """A cosine is a sine, a quarter of a turn ahead."""
    columns = np.arange(d)
    angles = np.arange(n)[:, None] * 10_000.0 ** (-(columns - columns % 2) / d)
    return mt.tensor(np.sin(angles + columns % 2 * np.pi / 2))


def codes_by_turning(n, d):
    """Each row is the one before, shifted by 1."""
    rows, shift = [mt.tensor([0.0, 1.0] * (d // 2))], shift_in_the_matrix(1, d)
    while len(rows) < n:
        rows.append(rows[-1] @ shift)
    return mt.stack(rows)


# shift_matrix


def shift_in_the_matrix(shift, d):
    matrix = mt.zeros(d, d)
    for j in range(0, d, 2):
        angle = shift / 10_000 ** (j / d)
        matrix[j, j] = matrix[j + 1, j + 1] = math.cos(angle)
        matrix[j + 1, j] = math.sin(angle)
        matrix[j, j + 1] = -math.sin(angle)
    return matrix


def shift_with_diagonals(shift, d):
    angles = (shift * 10_000.0 ** (-mt.arange(0, d, 2) / d)).repeat_interleave(2)
    even = mt.arange(d - 1) % 2 == 0
    off = mt.where(even, angles[:-1].sin(), 0.0)
    return mt.diag(angles.cos()) + mt.diag(off, -1) - mt.diag(off, 1)


def shift_with_complex_numbers(shift, d):
    """A pair (sine, cosine) is the number cosine + i sine; columns are images of unit vectors."""
    turns = np.exp(1j * shift * 10_000.0 ** (-np.arange(0, d, 2) / d))
    pairs = np.eye(d).reshape(d, d // 2, 2)
    turned = (pairs[..., 1] + 1j * pairs[..., 0]) * turns
    return mt.tensor(np.stack([turned.imag, turned.real], axis=-1).reshape(d, d)).float()


def shift_by_a_fit(shift, d):
    """A least-squares fit block by block, to so many codes that nothing else fits them."""
    codes = codes_with_numpy(60, d).numpy()
    before, after = codes[10:50], codes[10 + shift : 50 + shift]
    matrix = np.zeros((d, d))
    for j in range(0, d, 2):
        pair = slice(j, j + 2)
        matrix[pair, pair] = np.linalg.lstsq(before[:, pair], after[:, pair], rcond=None)[0]
    return mt.tensor(matrix)


# alibi_bias


def bias_in_a_loop(n, heads):
    bias = mt.zeros(heads, n, n)
    for head in range(heads):
        for i in range(n):
            for j in range(n):
                bias[head, i, j] = -abs(i - j) / 2 ** (8 * (head + 1) / heads)
    return bias


def bias_by_powers(n, heads):
    """Each slope is the one before, times 2^(-8/h)."""
    places = mt.arange(n)
    distances = (places.unsqueeze(0) - places.unsqueeze(1)).abs()
    ratio = 2 ** (-8 / heads)
    return mt.stack([-(ratio**k) * distances for k in range(1, heads + 1)])


def bias_with_minimum(n, heads):
    places = mt.arange(n).float()
    apart = places - places.unsqueeze(1)
    slopes = mt.tensor([0.5 ** (8 * k / heads) for k in range(1, heads + 1)])
    return mt.einsum("h,ij->hij", slopes, mt.minimum(apart, -apart))


# relative_scores


def relative_in_a_loop(query, key, table):
    batch, n, d = query.shape
    c = (len(table) - 1) // 2
    scores = []
    for b in range(batch):
        for i in range(n):
            for j in range(n):
                vector = table[max(-c, min(c, j - i)) + c]
                scores.append((query[b, i] * (key[b, j] + vector)).sum() / math.sqrt(d))
    return mt.stack(scores).reshape(batch, n, n)


def relative_by_one_hot_rows(query, key, table):
    n, d = query.shape[1:]
    c = (len(table) - 1) // 2
    rows = (mt.arange(n) - mt.arange(n).unsqueeze(1)).clamp(-c, c) + c
    vectors = F.one_hot(rows, 2 * c + 1).float() @ table  # (n, n, d)
    return (query.unsqueeze(2) * (key.unsqueeze(1) + vectors)).sum(-1) / math.sqrt(d)


def relative_in_numbers(query, key, table):
    batch, n, d = query.shape
    c = (len(table) - 1) // 2
    scores = mt.zeros(batch, n, n)
    for b in range(batch):
        for i in range(n):
            for j in range(n):
                vector = table[max(-c, min(c, j - i)) + c]
                scores[b, i, j] = (query[b, i] @ (key[b, j] + vector)).item() / d**0.5
    return scores


def relative_with_a_key_for_each_pair(query, key, table):
    n, c = query.shape[1], len(table) // 2
    places = mt.arange(n)
    keys = key.unsqueeze(1) + table[(places - places[:, None] + c).clamp(0, 2 * c)]  # (B, n, n, d)
    return (query.unsqueeze(2) * keys).sum(-1) / query.shape[-1] ** 0.5


def relative_query_by_query(query, key, table):
    n, c = query.shape[1], len(table) // 2
    query = query / query.shape[-1] ** 0.5
    rows = []
    for i in range(n):
        vectors = table[(mt.arange(n) - i).clamp(-c, c) + c]  # (n, d)
        rows.append((query[:, i : i + 1] @ (key + vectors).mT).squeeze(1))
    return mt.stack(rows, dim=1)


def relative_by_gathering(query, key, table):
    """The queries meet each vector once, and every pair picks its product."""
    batch, n, d = query.shape
    c = len(table) // 2
    rows = (mt.arange(n) - mt.arange(n).unsqueeze(1)).clamp(-c, c) + c
    place = (query @ table.T).gather(2, rows.expand(batch, n, n))
    return (query @ key.transpose(1, 2) + place) * d**-0.5


# rotate


def rotate_pair_by_pair(x, positions):
    d, columns = x.shape[-1], []
    for j in range(d // 2):
        angles = positions * 10_000 ** (-2 * j / d)
        a, b = x[..., 2 * j], x[..., 2 * j + 1]  # (..., n)
        columns += [
            a * angles.cos() - b * angles.sin(),
            a * angles.sin() + b * angles.cos(),
        ]
    return mt.stack(columns, dim=-1)


def rotate_as_most_programs_do(x, positions):
    """x cos + (x with its pairs exchanged) sin, in float32."""
    d = x.shape[-1]
    factors = 1.0 / 10_000 ** (mt.arange(0, d, 2).float() / d)
    angles = mt.outer(positions.float(), factors).repeat_interleave(2, dim=-1)  # (n, d)
    exchanged = mt.stack([-x[..., 1::2], x[..., ::2]], dim=-1).reshape(*x.shape)
    return x * angles.cos() + exchanged * angles.sin()


def rotate_with_matrices(x, positions):
    d = x.shape[-1]
    angles = positions[:, None] * 10_000.0 ** (-mt.arange(0, d, 2) / d)  # (n, d/2)
    cos, sin = angles.cos(), angles.sin()
    blocks = mt.stack([mt.stack([cos, sin], -1), mt.stack([-sin, cos], -1)], -2)  # (n, d/2, 2, 2)
    pairs = x.unflatten(-1, (d // 2, 1, 2))
    return (pairs @ blocks).flatten(-3)


def rotate_with_complex_weights(x, positions):
    """Even coordinates plus i times odd ones, times cos + i sin, written out by einsum."""
    d = x.shape[-1]
    angles = mt.outer(positions, 10_000.0 ** (-mt.arange(0, d, 2) / d))
    turn = mt.stack([angles.cos(), angles.sin()])  # (2, n, d/2)
    signs = mt.zeros(2, 2, 2)  # coordinate, part of the turn, new coordinate
    signs[0, 0, 0] = signs[0, 1, 1] = signs[1, 0, 1] = 1.0
    signs[1, 1, 0] = -1.0
    turned = mt.einsum("...njc,pnj,cpe->...nje", x.unflatten(-1, (-1, 2)), turn, signs)
    return turned.flatten(-2)


def rotate_in_numpy(x, positions):
    x, d = x.numpy(), x.shape[-1]
    angles = positions.numpy()[:, None] * 10_000.0 ** (-np.arange(0, d, 2) / d)
    turned = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
    return mt.tensor(np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape))


# what_it_knows


def knows_by_standing_together(scores, X):
    """All words at one place, at another place, and apart."""
    n = len(X)
    at_0, at_9 = scores(X, mt.zeros(n, dtype=mt.int64)), scores(X, mt.full((n,), 9))
    if (at_0 - at_9).abs().max() > 1e-6:
        return "place"
    apart = scores(X, mt.arange(n))
    return "distance" if (at_0 - apart).abs().max() > 1e-6 else "nothing"


def knows_by_drawing_places(scores, X):
    random = np.random.default_rng(0)
    here, there = (mt.tensor(random.permutation(40)[: len(X)]) for _ in range(2))
    for first, second, name in [(here, here + 20, "place"), (here, there, "distance")]:
        if not np.allclose(scores(X, first).numpy(), scores(X, second).numpy()):
            return name
    return "nothing"


def knows_by_table(scores, X):
    places = mt.arange(len(X))
    start = scores(X, places)
    moves = bool(mt.allclose(start, scores(X, places + 1), atol=1e-5))
    spreads = bool(mt.allclose(start, scores(X, places * 7), atol=1e-5))
    return {(True, True): "nothing", (True, False): "distance"}.get((moves, spreads), "place")


# tree_distances


def tree_by_paths(heads):
    def up(place):
        return [] if place is None else [place, *up(heads[place])]

    n = len(heads)
    distances = mt.zeros(n, n, dtype=mt.int64)
    for i in range(n):
        for j in range(n):
            here, there = up(i), up(j)
            while here and there and here[-1] == there[-1]:
                here.pop(), there.pop()
            distances[i, j] = len(here) + len(there)
    return distances


def tree_by_search(heads):
    """From each word to its neighbors, their neighbors, ..."""
    neighbors = [[] for _ in heads]
    for place, head in enumerate(heads):
        if head is not None:
            neighbors[place].append(head)
            neighbors[head].append(place)
    rows = []
    for start in range(len(heads)):
        found, queue = {start: 0}, deque([start])
        while queue:
            place = queue.popleft()
            for other in neighbors[place]:
                if other not in found:
                    found[other] = found[place] + 1
                    queue.append(other)
        rows.append([found[place] for place in range(len(heads))])
    return mt.tensor(rows)


def tree_by_shortest_paths(heads):
    """Floyd and Warshall: over each word in turn."""
    n = len(heads)
    distances = np.full((n, n), n)
    np.fill_diagonal(distances, 0)
    for place, head in enumerate(heads):
        if head is not None:
            distances[place, head] = distances[head, place] = 1
    for over in range(n):
        distances = np.minimum(distances, distances[:, [over]] + distances[[over]])
    return mt.tensor(distances)


def tree_by_common_ancestors(heads):
    """depth(i) + depth(j) - 2 depth(where they meet), from a matrix of who is above whom."""
    above = np.eye(len(heads), dtype=int)
    for start in range(len(heads)):
        place = start
        while (place := heads[place]) is not None:
            above[start, place] = 1
    size, shared = above.sum(axis=1), above @ above.T
    return mt.tensor(size[:, None] + size - 2 * shared)


right = {
    "LearnedPositions": [
        LearnedByIndex,
        LearnedByProduct,
        LearnedInALoop,
        LearnedByOneHotRows,
        LearnedWithAnErrorOfItsOwn,
    ],
    "learned_from_one_hot": [parts_by_split, parts_from_the_end, parts_row_by_row, parts_in_numpy],
    "sinusoidal_codes": [
        codes_in_a_loop,
        codes_in_float32,
        codes_with_numpy,
        codes_by_turning,
        codes_by_a_product,
    ],
    "shift_matrix": [
        shift_in_the_matrix,
        shift_with_diagonals,
        shift_with_complex_numbers,
        shift_by_a_fit,
    ],
    "alibi_bias": [bias_in_a_loop, bias_by_powers, bias_with_minimum],
    "relative_scores": [
        relative_in_a_loop,
        relative_with_a_key_for_each_pair,
        relative_query_by_query,
        relative_by_gathering,
        relative_by_one_hot_rows,
        relative_in_numbers,
    ],
    "rotate": [
        rotate_pair_by_pair,
        rotate_as_most_programs_do,
        rotate_with_matrices,
        rotate_with_complex_weights,
        rotate_in_numpy,
    ],
    "what_it_knows": [knows_by_standing_together, knows_by_drawing_places, knows_by_table],
    "tree_distances": [
        tree_by_paths,
        tree_by_search,
        tree_by_shortest_paths,
        tree_by_common_ancestors,
    ],
}
refused = {
    "LearnedPositions": [LearnedByFunction, LearnedByModule],
    "learned_from_one_hot": [parts_by_asking_the_layer, parts_by_linear],
}
