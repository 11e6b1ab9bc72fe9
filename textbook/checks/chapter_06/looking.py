"""Two heads that are set by hand."""

import minitorch as mt
from textbook.checks.chapter_06.axes import scaled_scores
from textbook.checks.compare import difference
from textbook.checks.released import exercise


def _pair_cases(draw, others=()):
    """Sizes k and c, then x (T, 2k), pairs of different keys, and memory (n, k + c)."""
    sizes = others or [(2, 1, 2, 2), (4, 2, 3, 3), (16, 3, 4, 8)]
    for k, c, steps, n in sizes:
        present = draw.random.permutation(k)[:n]
        pairs = mt.tensor([draw.random.permutation(present)[:2].tolist() for _ in range(steps)])
        eye = mt.eye(k, dtype=mt.float64)
        memory = mt.cat([eye[mt.tensor(present)], draw.integers(2, n, c).double()], dim=-1)
        yield k, c, eye[pairs].flatten(1), memory


def _shapes(k, c):
    """Those of Q[l], K[l] and V[l]."""
    return (2 * k, k), (k + c, k), (k + c, c)


def _run(answer, k, c, x, memory):
    """The shapes of the matrices and, if they fit, what the heads find, to two decimals."""
    Q, K, V = answer(k, c)
    results = {}
    for name, matrices in (("Q", Q), ("K", K), ("V", V)):
        results[f"the number of matrices in {name}"] = len(matrices)
        for head, matrix in enumerate(matrices):
            results[f"{name}[{head}]"] = mt.zeros(matrix.shape)  # its shape is compared
    found = None
    if [(len(two), *(tuple(matrix.shape) for matrix in two)) for two in (Q, K, V)] == [
        (2, shape, shape) for shape in _shapes(k, c)
    ]:
        heads = [_found(x, memory, *(W[head].double() for W in (Q, K, V))) for head in (0, 1)]
        found = (mt.cat(heads, dim=-1) * 100).round() / 100
    return {**results, "the tensor of what the two heads find": found}


def _found(x, memory, query, key, value):
    return scaled_scores(x @ query, memory @ key).softmax(dim=-1) @ memory @ value


def _where_they_look(check, answer, k, c, x, memory):
    """A sentence on the first head that does not find its value."""
    matrices, case = answer(k, c), (k, c, x, memory)
    if not difference(_run(lambda *_: matrices, *case), _run(check.reference, *case), ""):
        return None
    for two, shape in zip(matrices, _shapes(k, c), strict=True):
        if any(tuple(matrix.shape) != shape for matrix in two):
            return None
    for head, (query, key, value) in enumerate(zip(*matrices, strict=True)):
        query, key, value = (matrix.double() for matrix in (query, key, value))
        scores = scaled_scores(x @ query, memory @ key)
        asked = x[:, head * k : (head + 1) * k] @ memory[:, :k].T > 0  # (T, n), one True a row
        weight = scores.softmax(dim=-1)[asked].min().item()
        if weight < 0.995:
            text = f"Head {head} gives the key that it has to find a weight of {weight:.3f} only. "
            if key[k:].abs().sum() > 0:
                return text + f"K[{head}] reads the values, too: its last c rows have to be 0."
            own, flat = scores[asked].unsqueeze(1), scores.amax(dim=-1) == scores.amin(dim=-1)
            if (own <= scores).all() and not flat.any():
                return text + "It looks away from it: change the sign of Q or of K."
            if ((scores >= own) & ~asked).any():
                return text + (
                    "Another key scores as high, or higher. For each key the score should be high "
                    f"where this key is asked for, in the k columns of x from {head * k} on, and "
                    "nowhere else."
                )
            return text + "Its score must be far above all others, for any k and many keys."
        if not mt.allclose(memory @ value, memory[:, k:], atol=0.005):
            return (
                f"Head {head} finds its key, but V[{head}] does not take the value as it is: of "
                "the k + c columns of memory it has to pick the last c, one by one."
            )
    return None


two_heads = exercise(
    "two_heads",
    cases=_pair_cases,
    run=_run,
    reasons=(_where_they_look,),
    gradients=False,
    see='chapter 06, "A task for two heads"',
)
