"""Answers to the exercises of ``broken.py``."""

from functools import partial

import numpy as np

import minitorch as mt
from minitorch.autograd import grad
from textbook.checks.chapter_02.broken import D, H, _kinds, _layer, broken_layers
from textbook.checks.exercise import Draw
from textbook.checks.suspects import all_together

_near = partial(mt.allclose, rtol=0, atol=1e-9)  # the 1e-9 of the text


@broken_layers.answer(hidden_cases=lambda draw: all_together(_kinds(), draw.random))
def broken_layers(layers):
    """The numbers of the layers that break a rule."""
    mt.manual_seed(0)
    x = mt.randn(5, 3, 3).double()
    given = tuple(mt.randn(3, 4).double() for _ in range(2))
    zeros = tuple(mt.zeros(3, 4).double() for _ in range(2))

    def near(a, b):
        return mt.allclose(a, b, rtol=0, atol=1e-9)

    def equal(one, other):
        """Whether two results, states and last pair, agree."""
        (states, last), (others, other_last) = one, other
        pairs = [(states, others), *zip(last, other_last, strict=True)]
        return all(near(a, b) for a, b in pairs)

    def follows_the_rules(layer):
        mine, state = x.clone(), tuple(each.clone() for each in given)
        whole = states, (h, c) = layer(mine, state)
        untouched = mt.equal(mine, x) and all(map(mt.equal, state, given))
        early, between = layer(x[:2].clone(), given)
        late, last = layer(x[2:].clone(), between)
        in_two = mt.cat([early, late]), last
        alone = layer(x[:, 1:2].clone(), tuple(each[1:2].clone() for each in given))
        one_of_all = states[:, 1:2], (h[1:2], c[1:2])
        start = x.clone().requires_grad_()
        layer(start, None)[0][-1].sum().backward()
        return (
            untouched
            and near(states[-1], h)
            and equal(in_two, whole)
            and equal(alone, one_of_all)
            and equal(layer(x.clone(), None), layer(x.clone(), zeros))
            and start.grad is not None
            and (start.grad[0] != 0).any(dim=-1).all().item()
        )

    return [i for i, layer in enumerate(layers) if not follows_the_rules(layer)]


def _states(result):
    states, last = result
    return [states, *last]


def _rules(drop=(), close=_near):
    """What the rules say of a layer, by name; without the rules to be dropped."""

    def broken(layer):
        draw = Draw(0)
        x, zeros = draw.normal(4, 3, D), [mt.zeros(3, H).double() for _ in range(2)]
        state = [draw.normal(3, H) for _ in range(2)]

        def run(x, state):
            kept = None if state is None else tuple(each.clone() for each in state)
            return layer(x, kept), kept

        def same(one, other):
            return all(map(close, _states(one), _states(other)))

        mine = x.clone()
        whole, kept = run(mine, state)
        first, between = run(x[:2].clone(), state)[0]
        second, last = run(x[2:].clone(), between)[0]
        alone, _ = run(x[:, -1:].clone(), [each[-1:] for each in state])
        one = whole[0][:, -1:], tuple(each[-1:] for each in whole[1])
        start = x.clone().requires_grad_()
        loss = run(start, None)[0][0][-1].sum()
        loss.backward()
        none, zero = run(x.clone(), None)[0], run(x.clone(), zeros)[0]
        kept_as_it_was = all(map(mt.equal, kept, state))
        follows = {
            "x": mt.equal(mine, x),
            "state": kept_as_it_was,
            "last": close(whole[0][-1], whole[1][0]),
            "pieces": same((mt.cat([first, second]), last), whole),
            "alone": same(alone, one),
            "none": same(none, zero),
            "gradient": (start.grad[0] != 0).any(dim=-1).all().item(),
        }
        return not all(holds for name, holds in follows.items() if name not in drop)

    return broken


def _testing(say=lambda i, broken: i if broken else None, **pieces):
    """The test with one of its pieces exchanged."""
    broken = _rules(**pieces)

    def test(layers):
        found = [say(i, broken(layer)) for i, layer in enumerate(layers)]
        return [each for each in found if each is not None]

    return test


def _comparison_with_one_layer(layers):
    x = Draw(0).normal(6, 3, D)
    right = _layer()(x, None)[0]
    return [i for i, layer in enumerate(layers) if not mt.allclose(layer(x, None)[0], right)]


def _finding_what_sees_later_inputs(layers):
    x = Draw(0).normal(6, 3, D)
    changed = mt.cat([x[:3], 0 * x[3:]])
    return [
        i
        for i, layer in enumerate(layers)
        if not mt.allclose(layer(x.clone(), None)[0][:3], layer(changed.clone(), None)[0][:3])
    ]


# Right in another way


def _cases():
    mt.manual_seed(3)
    for T, B in ((5, 2), (7, 4)):
        yield (
            mt.randn(T, B, 3, dtype=mt.float64),
            (mt.randn(B, 4, dtype=mt.float64), mt.randn(B, 4, dtype=mt.float64)),
        )


def broken_at_every_cut(layers):
    """All cuts, all sequences; the numbers come as a set."""

    def near(*pairs):
        return all((a - b).abs().max().item() < 1e-9 for a, b in pairs)

    found = set()
    for number, layer in enumerate(layers):
        for x, state in _cases():
            copies = x.clone(), tuple(s.clone() for s in state)
            outputs, (h, c) = layer(x, state)
            fine = near((copies[0], x), *zip(copies[1], state, strict=True), (outputs[-1], h))
            for cut in range(1, len(x)):
                one, middle = layer(x[:cut].clone(), tuple(s.clone() for s in state))
                two, (h_2, c_2) = layer(x[cut:].clone(), middle)
                fine = fine and near((mt.cat([one, two]), outputs), (h_2, h), (c_2, c))
            for k in range(x.shape[1]):
                mine = tuple(s[[k]] for s in state)
                part, (h_1, c_1) = layer(x[:, [k]], mine)
                fine = fine and near((part, outputs[:, [k]]), (h_1, h[[k]]), (c_1, c[[k]]))
            zero = mt.zeros_like(state[0])
            fine = fine and near(
                (layer(x.clone())[0], layer(x.clone(), (zero, zero.clone()))[0]),
            )
            leaf = x.clone().requires_grad_()
            [slope] = grad(layer(leaf)[0][-1].sum(), [leaf], allow_unused=True)
            fine = fine and slope is not None and bool((slope[0].abs() > 0).any(dim=-1).all())
            if not fine:
                found.add(number)
    return found


def broken_one_by_one(layers):
    x, state = next(_cases())
    zero = mt.zeros(2, 4, dtype=mt.float64)

    def near(a, b):
        return bool((a - b).abs().max() < 1e-9)

    def fine(layer):
        def run(x, state=None):
            given = None if state is None else tuple(each.clone() for each in state)
            states, (h, c) = layer(x.clone(), given)
            kept = state is None or all(mt.equal(a, b) for a, b in zip(given, state, strict=True))
            return mt.cat([states, h[None], c[None]]), kept, (h, c)

        same_x = x.clone()
        layer(same_x, None)
        whole, kept, _ = run(x, state)
        pieces, between = [], state
        for x_t in x:
            rows, _, between = run(x_t[None], between)
            pieces.append(rows[:1])
        pieces += [each[None] for each in between]
        leaf = x.clone().requires_grad_()
        layer(leaf, None)[0][-1].sum().backward()
        return (
            kept
            and mt.equal(same_x, x)
            and near(mt.cat(pieces), whole)
            and near(whole[-3], whole[-2])
            and near(run(x[:, 1:], [s[1:] for s in state])[0], whole[:, 1:])
            and near(run(x)[0], run(x, (zero, zero))[0])
            and leaf.grad is not None
            and leaf.grad[0].abs().sum(dim=-1).min().item() > 0
        )

    return list(np.flatnonzero([not fine(layer) for layer in layers]))


right = {
    "broken_layers": [broken_at_every_cut, broken_one_by_one, _testing()],
}
