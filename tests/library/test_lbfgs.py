"""LBFGS: against its definition with H written down, and where it ends."""

import numpy as np
import pytest

import minitorch as mt
from minitorch import optim


def losses():
    """Rosenbrock's function of four numbers, as (value and gradient) on arrays and as a loss."""

    def on_array(x):
        value = sum(10 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2 for i in range(3))
        gradient = np.zeros(4)
        for i in range(3):
            gradient[i] += -40 * x[i] * (x[i + 1] - x[i] ** 2) - 2 * (1 - x[i])
            gradient[i + 1] += 20 * (x[i + 1] - x[i] ** 2)
        return value, gradient

    def on_tensors(first, rest):
        x = mt.cat([first.reshape(-1), rest.reshape(-1)])
        return (10 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    return on_array, on_tensors


def by_definition(loss, x, lr, steps, history):
    """The path of x, with H as a matrix that is built anew from the last pairs in each step."""
    path, pairs, moved, before = [], [], None, None
    for number in range(steps):
        _, gradient = loss(x)
        if before is not None and (gradient - before) @ moved > 1e-10:
            pairs = [*pairs, (moved, gradient - before)][-history:]
        inverse = np.eye(len(x))
        if pairs:
            s, y = pairs[-1]
            inverse *= s @ y / (y @ y)
        for s, y in pairs:
            rho, one = 1 / (y @ s), np.eye(len(x))
            inverse = (one - rho * np.outer(s, y)) @ inverse @ (one - rho * np.outer(y, s))
            inverse += rho * np.outer(s, s)
        length = lr if number else lr * min(1, 1 / abs(gradient).sum())
        moved, before = -length * inverse @ gradient, gradient
        x = x + moved
        path.append(x)
    return path


@pytest.mark.parametrize("history", [100, 2])
@pytest.mark.parametrize("inner", [1, 4])
def test_steps_are_those_of_the_definition(history, inner):
    on_array, on_tensors = losses()
    start = np.array([-1.2, 1.0, 0.5, 2.0])
    first = mt.tensor(start[:2].reshape(2, 1), requires_grad=True)
    rest = mt.tensor(start[2:], requires_grad=True)
    options = {"lr": 0.3, "max_iter": inner, "history_size": history}
    optimizer = optim.LBFGS([first, rest], **options)

    def closure():
        optimizer.zero_grad()
        loss = on_tensors(first, rest)
        loss.backward()
        return loss

    path = by_definition(on_array, start, 0.3, 12, history)
    for expected in path[inner - 1 :: inner]:
        if expected is path[7]:  # another optimizer goes on from the state
            state = optimizer.state_dict()
            optimizer = optim.LBFGS([first, rest], **options)
            optimizer.load_state_dict(state)
        before = on_tensors(first, rest).item()
        assert optimizer.step(closure).item() == pytest.approx(before)
        found = [*first.reshape(-1).tolist(), *rest.tolist()]
        assert np.allclose(found, expected, rtol=1e-8, atol=1e-10)


def ended(**options):
    """How often the loss (x - 3)^2 of one number was computed in a step, and x after it."""
    x, calls = mt.zeros(1, dtype=mt.float64, requires_grad=True), []
    optimizer = optim.LBFGS([x], **options)

    def closure():
        calls.append(1)
        optimizer.zero_grad()
        loss = (x - 3).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return len(calls), x.item()


def test_where_a_step_ends():
    assert ended(tolerance_grad=10) == (1, 0)
    assert ended(max_iter=1) == (1, 1)
    assert ended(max_iter=20, max_eval=2) == (2, 1)
    assert ended(max_iter=20) == (3, 3)
    assert ended(max_iter=20, tolerance_change=1.1) == (2, 1)
    calls, x = ended(lr=0.1, max_iter=8)
    assert calls == 8 and 0.1 < x < 3


def test_what_lbfgs_does_not_take():
    x = mt.zeros(1, requires_grad=True)
    with pytest.raises(NotImplementedError, match="line search.*'strong_wolfe'"):
        optim.LBFGS([x], line_search_fn="strong_wolfe")
    with pytest.raises(ValueError, match="one group.*got 2"):
        optim.LBFGS([{"params": [x]}, {"params": [mt.zeros(1)]}])
