"""Two bits, kept by weights that are set by hand."""

import math
from itertools import groupby, permutations

import minitorch as mt
from minitorch.operations.recurrent import lstm
from textbook.checks.compare import brief
from textbook.checks.released import exercise


def _bit_cases(draw, length=150, more=()):
    """Sequences (T, 4) of (write, slot, bit, read); the first two steps write both bits."""
    written = [[1, 0, 1, 0], [1, 1, -1, 0], [0, 0, -1, 1], [0, 1, 1, 1], [0, 0, 1, 0]]
    written += [[1, 1, 1, 1], [0, 0, -1, 1], [1, 0, -1, 0], [0, 1, -1, 1], [0, 0, 1, 1]]
    yield (mt.tensor(written, dtype=mt.float64),)
    for bit in (-1, 1):
        against = [[0, slot, -bit, 0] for slot in [0, 1] * length]
        ends = [[1, 0, bit, 0], [1, 1, bit, 0]], [[0, 0, -bit, 1], [0, 1, -bit, 1]]
        yield (mt.tensor([*ends[0], *against, *ends[1]], dtype=mt.float64),)
    for steps, often in [(12, 0.4), (100, 0.05), *more]:
        write, read = mt.tensor(draw.random.random((2, steps))) < mt.tensor([[often], [0.3]])
        slot, bits = draw.integers(2, steps), 2 * draw.integers(2, steps) - 1
        write[:2], slot[0], slot[1] = True, 0, 1
        yield (mt.stack([write, slot, bits, read], dim=1).double(),)


def _sign(h):
    """What an output says: nothing, one of the two bits, or neither."""
    if abs(h) < 0.05:
        return "."
    if abs(h) < 0.5:
        return "?"
    return "+" if h > 0 else "-"


def _said(outputs):
    """The signs of all outputs, those that repeat with their number."""
    runs = [(sign, len(list(same))) for sign, same in groupby(map(_sign, outputs))]
    return " ".join(sign if count == 1 else f"{sign} x{count}" for sign, count in runs)


def _form(weights):
    """The shapes of several tensors in a text; anything else as it is."""
    if isinstance(weights, (list, tuple)) and all(isinstance(w, mt.Tensor) for w in weights):
        return ", ".join(str(tuple(w.shape)) for w in weights)
    return brief(weights)


def _kept(answer, x):
    weights = answer()
    form = {"what two_bits returns": _form(weights)}
    if form["what two_bits returns"] != "(8, 4), (8, 2), (8,)":
        return form | {"the output of unit 0": None, "the output of unit 1": None}
    zero = mt.zeros(1, 2)
    states, _, _ = lstm(x.unsqueeze(1), zero, zero, *(w.double() for w in weights))
    said = {f"the output of unit {k}": _said(states[:, 0, k].tolist()) for k in range(2)}
    return form | said


def _signs(weights, x):
    """What both units say at each step, and i, f, o, the cell and g at that step."""
    W_ih, W_hh, b = (w.double() for w in weights)
    h, c, found = mt.zeros(2).double(), mt.zeros(2).double(), []
    for x_t in x:
        i, f, g, o = (x_t @ W_ih.T + h @ W_hh.T + b).chunk(4)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        c = f * c + i * g
        h = o * c.tanh()
        found.append([(_sign(h[k].item()), i[k], f[k], o[k], c[k], g[k]) for k in range(2)])
    return found


def _first_slip(answer, x):
    """The first step at which a unit shows something else than it should, and its gates there."""
    said = _kept(answer, x)
    if said["what two_bits returns"] != "(8, 4), (8, 2), (8,)":
        return None
    steps = zip(x.tolist(), _signs(answer(), x), _signs(two_bits.reference(), x), strict=True)
    for t, (x_t, got, right) in enumerate(steps):
        for k in range(2):
            if got[k][0] != right[k][0]:
                told = f"At {_step(t, x_t)} unit {k} "
                told += f"has to show {right[k][0]!r} and shows {got[k][0]!r}."
                before = _cell_slip(answer, x[: t + 1], k)
                if before < t and abs(got[k][3] - right[k][3]).item() < 0.5:
                    told += f" Its cell is wrong since {_step(before, x[before].tolist())}."
                    got = _signs(answer(), x[: before + 1])[before]
                gates = ", ".join(
                    f"{name} {value.item():.2f}"
                    for name, value in zip("ifo", got[k][1:4], strict=True)
                )
                cell = got[k][4].item()
                return f"{told} There its gates are {gates}, and its cell is {cell:.2f}."
    return None


def _step(t, x_t):
    """A step and what comes there, in words."""
    write, slot, bit, read = map(int, x_t)
    return f"step {t} (write {write}, slot {slot}, bit {bit}, read {read})"


def _cell_slip(answer, x, unit):
    """The first step since which the cell of a unit holds something else than it should."""
    since = 0
    steps = zip(_signs(answer(), x), _signs(two_bits.reference(), x), strict=True)
    for t, (got, right) in enumerate(steps):
        if _sign(got[unit][4].tanh().item()) == _sign(right[unit][4].tanh().item()):
            since = t + 1
    return since


def _in_order(check, answer, x):
    """In which order the rows stand, if that alone is wrong."""
    cases, rows = [case for (case,) in check.all_cases()], [*answer()]

    def right(order, x):
        W_ih, W_hh, b = rows
        return _kept(lambda: (W_ih[order], W_hh, b[order]), x) == _kept(check.reference, x)

    for gates in permutations(range(4)):
        for order in (
            [2 * k + unit for k in gates for unit in range(2)],
            [k + 4 * unit for k in gates for unit in range(2)],
        ):
            if all(right(order, x) for x in cases):
                asked = [f"{gate}{unit}" for gate in "ifgo" for unit in range(2)]
                yours = [asked[order.index(row)] for row in range(8)]
                return (
                    f"Your rows stand in the order {', '.join(yours)}, with which all would be "
                    f"right; asked for are {', '.join(asked)} (gate and unit)."
                )
    return None


COLUMNS = "write", "slot", "bit", "read"


def _columns(check, answer, x):
    """In which order the columns stand, if that alone is wrong."""
    W_ih, W_hh, b = answer()
    for order in permutations(range(4)):
        if all(
            _kept(lambda order=order: (W_ih[:, list(order)], W_hh, b), x)
            == _kept(check.reference, x)
            for (x,) in check.all_cases()
        ):
            yours = [COLUMNS[order.index(column)] for column in range(4)]
            return (
                f"Your columns stand in the order {', '.join(yours)}, with which all would be "
                f"right; the four numbers come in the order {', '.join(COLUMNS)}."
            )
    return None


def _decided(check, answer, x):
    said = _kept(answer, x)
    if not any("?" in said[f"the output of unit {k}"] for k in range(2)):
        return _first_slip(answer, x)
    return _why_undecided(_signs(answer(), x), x.tolist())


def _why_undecided(signs, x):
    """What makes the first ? of all outputs: the factor of it that is smallest, if one is small."""
    t, k = next((t, k) for t, both in enumerate(signs) for k in range(2) if both[k][0] == "?")
    told = f"At step {t} unit {k} shows ?, an output between 0.05 and 0.5."
    steps = [each[k] for each in signs[: t + 1]]
    gate = steps[t][3].item()
    if x[t][3] != 1 or x[t][1] != k:
        return f"{told} It should show nothing: its output gate, {gate:.2f}, has to be near 0."
    s = max(s for s in range(t + 1) if x[s][0] == 1 and x[s][1] == k)  # here the bit is written
    _, i, _, _, _, g = steps[s]
    forget = [f.item() for _, _, f, *_ in steps[s + 1 :]]
    kept, least = math.prod(forget), min(forget, default=1.0)
    written = f"When its bit was written, at step {s},"
    factors = {
        f"Its output gate is {gate:.2f} there, and has to be near 1.": gate,
        f"{written} its input gate was {i:.2f}, which is too far from 1.": i.item(),
        f"{written} g was {g:.2f}: the candidate is too small. Give bit a larger weight.": abs(g),
        f"Of the bit that was written at step {s}, {kept:.0%} is left: a forget gate of "
        f"{least:.2f} keeps {least:.0%} a step. It has to be nearer to 1.": kept,
    }
    why = min(factors, key=factors.get)
    if factors[why] > 0.9:
        why = "Its cell is not the bit that was written alone: look at all its gates since then."
    return f"{told} {why}"


two_bits = exercise(
    "two_bits",
    cases=_bit_cases,
    run=_kept,
    gradients=False,
    reasons=(_columns, _in_order, _decided),
    see='chapter 02, "A bit behind a closed gate"',
)
