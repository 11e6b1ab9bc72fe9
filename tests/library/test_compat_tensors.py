"""Forms in place, shifts of bits, places in a sorted sequence: against their meaning in NumPy."""

import math

import numpy as np
import pytest

import minitorch as mt

FLOATS = [0.3, -0.6, 0.9, 0.5]
FUNCTIONS = {
    "acos_": np.arccos,
    "arccos_": np.arccos,
    "asin_": np.arcsin,
    "arcsin_": np.arcsin,
    "atan_": np.arctan,
    "arctan_": np.arctan,
    "tan_": np.tan,
    "sinh_": np.sinh,
    "cosh_": np.cosh,
    "erf_": np.vectorize(math.erf),
    "expm1_": np.expm1,
    "trunc_": np.trunc,
    "negative_": np.negative,
    "absolute_": np.abs,
    "logical_not_": np.logical_not,
}
OF_POSITIVE = {"log2_": np.log2, "log10_": np.log10, "log1p_": np.log1p}
OF_TWO = {
    "eq_": np.equal,
    "ne_": np.not_equal,
    "not_equal_": np.not_equal,
    "lt_": np.less,
    "less_": np.less,
    "le_": np.less_equal,
    "less_equal_": np.less_equal,
    "gt_": np.greater,
    "greater_": np.greater,
    "ge_": np.greater_equal,
    "greater_equal_": np.greater_equal,
    "logical_and_": np.logical_and,
    "logical_or_": np.logical_or,
    "logical_xor_": np.logical_xor,
    "multiply_": np.multiply,
    "divide_": np.divide,
    "true_divide_": np.divide,
    "subtract_": np.subtract,
    "fmod_": np.fmod,
    "clamp_min_": np.maximum,
    "clamp_max_": np.minimum,
}
OF_INTEGERS = {
    "bitwise_and_": np.bitwise_and,
    "bitwise_or_": np.bitwise_or,
    "bitwise_xor_": np.bitwise_xor,
    "bitwise_left_shift_": np.left_shift,
    "bitwise_right_shift_": np.right_shift,
}


def check(name, reference, values, *others):
    x = mt.tensor(values)
    view, other = x[1:], [mt.tensor(other) for other in others]
    expected = reference(np.array(values), *map(np.array, others)).astype(x.array.dtype)
    assert getattr(x, name)(*other) is x
    assert np.allclose(mt.Tensor.cpu(x).numpy(), expected, atol=1e-6), name
    assert view.tolist() == x.tolist()[1:]


@pytest.mark.parametrize("name", FUNCTIONS | OF_POSITIVE)
def test_functions_in_place(name):
    values = FLOATS if name in FUNCTIONS else [abs(x) for x in FLOATS]
    check(name, (FUNCTIONS | OF_POSITIVE)[name], values)


@pytest.mark.parametrize("name", OF_TWO)
def test_functions_of_two_in_place(name):
    check(name, OF_TWO[name], [1.0, -3.0, 0.0, 3.0], [1.0, 2.0, 5.0, 0.5])


@pytest.mark.parametrize("name", OF_INTEGERS)
def test_functions_of_integers_in_place(name):
    check(name, OF_INTEGERS[name], [5, 12, -7], [3, 1, 2])


def test_other_changes_in_place():
    assert mt.tensor([1.0, 2, 3]).cumprod_(0).tolist() == [1, 2, 6]
    check("bitwise_not_", np.invert, [5, -2])
    assert mt.tensor([math.nan, 1]).nan_to_num_(3.0).tolist() == [3, 1]
    assert mt.tensor([5.0, -5]).divide_(2, rounding_mode="floor").tolist() == [2, -3]
    for name in ("swapaxes_", "swapdims_"):
        assert getattr(mt.ones(2, 3), name)(0, 1).shape == (3, 2)
    with pytest.raises(RuntimeError, match="keeps the type"):
        mt.tensor([1, 2]).log2_()


@pytest.mark.parametrize("name", sorted(n for n in dir(mt.Tensor) if n in FUNCTIONS | OF_POSITIVE))
def test_gradients_of_forms_in_place(name):
    x = mt.tensor([0.3, 0.5], requires_grad=True)
    changed, plain = x * 1, getattr(x, name[:-1])()
    getattr(changed, name)()
    (changed * mt.tensor([2.0, 3.0])).sum().backward()
    expected = [0, 0]
    if plain.requires_grad:
        [expected] = mt.autograd.grad((plain * mt.tensor([2.0, 3.0])).sum(), x)
    assert mt.allclose(x.grad, mt.as_tensor(expected, dtype=mt.float32))


def test_bits_are_shifted():
    x = mt.tensor([1, 2, -3])
    assert (x << 2).tolist() == [4, 8, -12] and (x >> 1).tolist() == [0, 1, -2]
    assert (1 << mt.tensor([1, 3])).tolist() == [2, 8] and (9 >> mt.tensor([1])).tolist() == [4]
    assert (x << 64).tolist() == [0, 0, 0] and (x >> 64).tolist() == [0, 0, -1]
    y = x
    y <<= 1
    y >>= mt.tensor([1, 2, 0])
    assert y is x and x.tolist() == [1, 1, -6]
    assert mt.bitwise_left_shift(x, 1).tolist() == [2, 2, -12]
    assert (mt.tensor([1], dtype=mt.int32) << mt.tensor([1])).dtype is mt.int64
    with pytest.raises(NotImplementedError, match="<<"):
        mt.ones(2) << 1


def test_searchsorted_counts_what_is_below():
    rng = np.random.default_rng(0)
    for rows in ((), (2,), (2, 3)):
        rising = np.sort(rng.integers(0, 6, (*rows, 5)), axis=-1)
        wanted = rng.integers(-1, 8, (*rows, 4))
        below = (rising[..., None, :] < wanted[..., None]).sum(-1)
        not_above = (rising[..., None, :] <= wanted[..., None]).sum(-1)
        rising, wanted = mt.tensor(rising), mt.tensor(wanted)
        assert mt.searchsorted(rising, wanted).tolist() == below.tolist()
        for option in ({"right": True}, {"side": "right"}):
            assert mt.searchsorted(rising, wanted, **option).tolist() == not_above.tolist()
        order = mt.flip(mt.arange(5), 0).expand(rising.shape)
        falling = mt.flip(rising, -1)
        assert mt.searchsorted(falling, wanted, sorter=order).tolist() == below.tolist()
    ends = mt.tensor([1.0, 3, 5])
    assert mt.searchsorted(ends, 4).item() == mt.bucketize(4, ends).item() == 2
    found = mt.bucketize(mt.tensor([[3.0], [math.nan]]), ends, right=True, out_int32=True)
    assert found.tolist() == [[2], [3]] and found.dtype is mt.int32
    assert mt.searchsorted(ends, mt.zeros(0, 2)).shape == (0, 2)
    assert mt.searchsorted(mt.zeros(0), mt.ones(2)).tolist() == [0, 0]


def test_searchsorted_says_what_it_takes():
    rising = mt.zeros(2, 3)
    with pytest.raises(RuntimeError, match=r"\(2, 3\) and \(3, 1\)"):
        mt.searchsorted(rising, mt.zeros(3, 1))
    with pytest.raises(RuntimeError, match="one axis"):
        mt.bucketize(mt.zeros(1), rising)
    for options in ({"side": "middle"}, {"side": "left", "right": True}):
        with pytest.raises(RuntimeError, match="side"):
            mt.searchsorted(rising, rising, **options)
