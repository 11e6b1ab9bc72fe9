"""Attention: against its formula, its masks, long sequences, its shapes and errors."""

import tracemalloc

import numpy as np
import pytest

import minitorch as mt
import minitorch.nn.functional as F
from minitorch.operations import attention


def normal(*shape, seed=0):
    return mt.tensor(np.random.default_rng(seed).standard_normal(shape))


def heads(batch, length, count, width, seed):
    """(B, h, n, d) as programs make it: a view of (B, n, h * d)."""
    whole = normal(batch, length, count * width, seed=seed).requires_grad_()
    return whole, whole.view(batch, length, count, width).transpose(1, 2)


def formula(query, key, value, mask=None, is_causal=False, scale=None):
    scores = query @ key.transpose(-1, -2) * (scale or query.shape[-1] ** -0.5)
    if is_causal:
        future = mt.ones(scores.shape[-2:]).triu(1).bool()
        scores = scores.masked_fill(future, -mt.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -mt.inf) if mask.dtype is mt.bool else scores + mask
    return scores.softmax(-1) @ value


MASKS = {
    "none": lambda: None,
    "padding": lambda: mt.tensor(np.arange(7) < np.array([[7], [3]]))[:, None, None, :],
    "square": lambda: normal(5, 7) > -0.5,
    "added": lambda: normal(2, 1, 5, 7),
    "one row": lambda: normal(7),
    "steep": lambda: 100 * normal(3, 5, 1),
}


@pytest.fixture(params=["whole", "tiles", "tiles again"])
def tiled(request, monkeypatch):
    """Short sequences go through the code for long ones, with and without kept weights."""
    if request.param != "whole":
        monkeypatch.setattr(attention, "TILE", 1)
        monkeypatch.setattr(attention, "ROWS", 2)
        monkeypatch.setattr(attention, "KEPT", 0 if request.param == "tiles again" else 1 << 20)


@pytest.mark.parametrize("large", [1, 40])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("name", MASKS)
def test_equals_its_formula(tiled, name, is_causal, large):
    mask = MASKS[name]()
    if is_causal and mask is not None and mask.dtype is mt.bool:
        mask[..., 0] = True
    results = []
    for function in (F.scaled_dot_product_attention, formula):
        sources, (q, k, v) = zip(
            *(heads(2, n, 3, 4, seed) for seed, n in enumerate((5, 7, 7))), strict=True
        )
        learned = mask.clone().requires_grad_() if name in ("added", "one row", "steep") else mask
        output = function(q * large, k, v, learned, is_causal=is_causal)
        output.backward(normal(2, 3, 5, 4, seed=9))
        results.append([output.detach(), *(source.grad for source in sources)])
        if learned is not mask:
            results[-1].append(learned.grad)
    for got, expected in zip(*results, strict=True):
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-9, atol=1e-10)


def test_more_queries_than_a_tile(monkeypatch):
    monkeypatch.setattr(attention, "TILE", 500)
    monkeypatch.setattr(attention, "KEPT", 0)
    for n, m in ((70, 45), (45, 70)):
        results = []
        for function in (F.scaled_dot_product_attention, formula):
            q, k, v = (normal(size, 3, seed=s).requires_grad_() for s, size in enumerate((n, m, m)))
            output = function(q, k, v, is_causal=True, scale=0.3)
            (output * normal(n, 3, seed=5)).sum().backward()
            results.append([output.detach(), q.grad, k.grad, v.grad])
        for got, expected in zip(*results, strict=True):
            np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-9, atol=1e-10)


def peak(function):
    tracemalloc.start()
    function()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def test_memory_grows_with_the_length_not_its_square(monkeypatch):
    monkeypatch.setattr(attention, "TILE", 1 << 14)
    monkeypatch.setattr(attention, "KEPT", 1 << 14)

    def train(n):
        q, k, v = (mt.zeros(n, 8, requires_grad=True) for _ in range(3))
        F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()

    train(8)
    peaks = [peak(lambda n=n: train(n)) for n in (512, 1024, 2048)]
    assert peaks[1] < 2.5 * peaks[0] and peaks[2] < 2.5 * peaks[1]
    assert peaks[2] < 2048 * 2048


def test_what_is_masked_leaks_nothing(tiled):
    q, k, v = (normal(2, 3, 6, 4, seed=s).requires_grad_() for s in range(3))
    hidden = mt.tensor(np.arange(6) >= np.array([[4], [6]]))[:, None, None, :]
    F.scaled_dot_product_attention(q, k, v, ~hidden).sum().backward()
    assert not k.grad[0, :, 4:].any() and not v.grad[0, :, 4:].any()
    assert k.grad[1].all() and v.grad[1].all() and v.grad[0, :, :4].all()

    for position in range(6):
        for x in (q, k, v):
            x.grad = None
        F.scaled_dot_product_attention(q, k, v, is_causal=True)[:, :, position].sum().backward()
        assert not v.grad[:, :, position + 1 :].any() and v.grad[:, :, : position + 1].all()
        assert not k.grad[:, :, position + 1 :].any()


@pytest.mark.parametrize("kind", ["bool", "float", "causal too"])
def test_a_query_that_sees_nothing_gets_zeros(tiled, kind):
    q, k, v = (normal(3, 2, seed=s).requires_grad_() for s in range(3))
    mask = mt.tensor([[True, True, False], [False, False, False], [True, False, True]])
    if kind == "float":
        mask = mt.zeros(3, 3, dtype=mt.float64).masked_fill(~mask, -mt.inf).requires_grad_()
    output = F.scaled_dot_product_attention(q, k, v, mask, is_causal=kind == "causal too")
    output.sum().backward()
    assert output[1].tolist() == [0, 0] and q.grad[1].tolist() == [0, 0]
    for x in (output, q.grad, k.grad, v.grad):
        assert x.isfinite().all()
    if kind == "float":
        assert mask.grad[1].tolist() == [0, 0, 0] and mask.grad.isfinite().all()


def test_extreme_scores(tiled):
    q = mt.tensor([[1e4], [-1e4]], requires_grad=True)
    k, v = mt.tensor([[1.0], [0.0], [-1.0]]), mt.tensor([[1.0], [2.0], [3.0]])
    output = F.scaled_dot_product_attention(q, k, v)
    output.sum().backward()
    assert output.tolist() == [[1], [3]] and q.grad.tolist() == [[0], [0]]
    even = F.scaled_dot_product_attention(q, 0 * k, v, mt.full((1, 3), -1e9))
    assert mt.allclose(even, mt.full((2, 1), 2.0))


def test_sizes_of_zero_and_one():
    for lead, n, m in [((0, 2), 3, 4), ((2,), 0, 4), ((2,), 3, 0), ((2, 1), 1, 1)]:
        q, k, v = (mt.ones(*lead, s, 2, requires_grad=True) for s in (n, m, m))
        output = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        assert output.shape == (*lead, n, 2)
        assert (output == (1 if m else 0)).all()
        output.sum().backward()
        assert k.grad.shape == k.shape


def test_leading_axes_broadcast():
    q, k, v = normal(3, 1, 2, 4), normal(2, 5, 4, seed=1), normal(5, 6, seed=2)
    mask = normal(7, 1, 1, 2, 5) > -1
    for extra in (None, mask):
        output = F.scaled_dot_product_attention(q, k, v, extra)
        np.testing.assert_allclose(output.numpy(), formula(q, k, v, extra).numpy(), rtol=1e-9)


def test_dropout_drops_weights(tiled):
    n, p = 200, 0.25
    q, k = mt.zeros(n, 2, requires_grad=True), mt.zeros(n, 2)
    v = mt.eye(n).requires_grad_()
    mt.manual_seed(0)
    weights = F.scaled_dot_product_attention(q, k, v, dropout_p=p)
    values = weights.detach().numpy()
    np.testing.assert_allclose(values[values > 0], 1 / (n * (1 - p)), rtol=1e-5)
    assert abs((values == 0).mean() - p) < 0.02
    weights.sum().backward()
    np.testing.assert_allclose(v.grad.numpy(), np.repeat(values.sum(0)[:, None], n, 1), rtol=1e-4)
    mt.manual_seed(0)
    assert mt.equal(weights, F.scaled_dot_product_attention(q, k, v, dropout_p=p))
    assert not F.scaled_dot_product_attention(q, k, v, dropout_p=1.0).any()


def test_dropout_has_the_gradient_of_the_weights_that_it_left(tiled):
    """With the values' identity the output is the weights, so the mask can be read from it."""
    q, k = (normal(20, 3, seed=s).requires_grad_() for s in range(2))
    g = normal(20, 20, seed=3)
    output = F.scaled_dot_product_attention(q, k, mt.eye(20).double(), dropout_p=0.4)
    output.backward(g)
    got = q.grad, k.grad
    q.grad = k.grad = None
    kept = (output.detach() > 0).double() / 0.6
    (formula(q, k, mt.eye(20).double()) * kept).backward(g)
    for one, other in zip(got, (q.grad, k.grad), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)


def test_a_mask_changed_before_backward_is_an_error():
    q, mask = normal(3, 2).requires_grad_(), mt.zeros(3, 3, dtype=mt.float64)
    output = F.scaled_dot_product_attention(q, q, q, mask)
    mask.fill_(1.0)
    with pytest.raises(RuntimeError, match="attn_mask.*changed in place"):
        output.sum().backward()


def test_errors_name_shapes_and_types():
    x = mt.zeros(2, 3)
    for message, arguments in [
        (r"shapes \(3,\)", (x[0], x, x)),
        (r"\(2, 3\) and key \(2, 2\)", (x, x[:, :2], x)),
        ("one size before the last", (x, x, x[:1])),
        ("float64, float32", (x.double(), x, x)),
        ("floating-point.*int64", (x.long(), x.long(), x.long())),
        ("attn_mask must be of type bool or float32.*int64", (x, x, x, mt.ones(2, 2).long())),
        ("between 0 and 1, got 1.5", (x, x, x, None, 1.5)),
        ("scaled_dot_product_attention", (x, x, x, mt.ones(3, 2).bool())),
    ]:
        with pytest.raises(RuntimeError, match=message):
            F.scaled_dot_product_attention(*arguments)
