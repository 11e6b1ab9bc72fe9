"""Names: those that are missing tell what is near; the module stands in for torch."""

import ast
import copy
import importlib
import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest

import minitorch as mt


@pytest.mark.parametrize(
    ("owner", "name", "near"),
    [
        (mt, "zero_like", "zeros_like"),
        (mt, "Float_Tensor", "FloatTensor"),
        (mt.nn, "LayerNormal", "LayerNorm"),
        (mt.nn, "Relu", "ReLU"),
        (mt.nn.functional, "softmaxx", "softmax"),
        (mt.optim, "AdamX", "Adam"),
        (mt.Tensor([1]), "un_squeeze", "unsqueeze"),
        (mt.nn.Parameter(mt.zeros(1)), "requires_gradient", "requires_grad"),
    ],
)
def test_a_missing_name_tells_what_is_near(owner, name, near):
    with pytest.raises(AttributeError, match=rf"has no '{name}'; nearest: .*\b{near}\b"):
        getattr(owner, name)
    assert not hasattr(owner, name) and getattr(owner, name, 3) == 3


def test_nothing_near_nothing_said():
    with pytest.raises(AttributeError, match="^minitorch has no 'qqqqqq'$"):
        mt.qqqqqq  # noqa: B018
    with pytest.raises(AttributeError, match="^Tensor has no '__array_interface__'$"):
        mt.zeros(1).__array_interface__  # noqa: B018
    with pytest.raises(ImportError):
        from minitorch import not_there  # noqa: F401


def test_protocols_still_find_nothing():
    x = mt.ones(2)
    twin = copy.deepcopy({"x": x, "module": mt.nn.Linear(2, 2)})
    assert mt.equal(twin["x"], x) and twin["x"] is not x
    with pytest.raises(TypeError):
        np.ones(2) + x


def test_minitorch_in_the_place_of_torch():
    program = """
import minitorch as torch
import minitorch.nn as nn
import minitorch.nn.functional as F
from minitorch.autograd import Variable
from minitorch.utils.data import DataLoader
x = Variable(torch.ones(2), requires_grad=True)
assert isinstance(x, Variable) and isinstance(x, torch.FloatTensor) and x.requires_grad
assert torch.nn.functional is F and torch.utils.data.DataLoader is DataLoader
torch.optim.lr_scheduler, torch.autograd.grad, torch.cuda.is_available, torch.nn.init
torch.backends.cudnn.deterministic = True
assert not torch.backends.mps.is_available()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_another_default_type():
    mt.set_default_dtype(mt.float64)
    try:
        whole = mt.arange(3)
        made = [mt.zeros(1), mt.tensor([1.5]), mt.full((1,), 0.5), mt.rand(1), mt.Tensor([1])]
        made += [whole / 2, whole * 0.5, whole.exp(), mt.arange(0, 1, 0.5), mt.eye(2)]
        assert {x.dtype for x in made} == {mt.float64}
        assert mt.zeros(1, dtype=mt.float32).mul(0.5).dtype is mt.float32
        assert mt.finfo().bits == 64
    finally:
        mt.set_default_dtype(mt.float32)
    with pytest.raises(TypeError, match="floating-point.*int64"):
        mt.set_default_dtype(mt.int64)


def test_names_of_types():
    x = mt.zeros(2, device="cpu")
    assert x.type() == "torch.FloatTensor" and x.long().type() == "torch.LongTensor"
    assert x.type("torch.cuda.LongTensor").dtype is x.type(mt.LongTensor).dtype is mt.int64
    with pytest.raises(ValueError, match="FloatTensor.*'Floaty'"):
        x.type("Floaty")
    with pytest.raises(TypeError, match="got 1.5"):
        mt.Tensor(1.5)
    with pytest.raises(TypeError, match="int64: use iinfo"):
        mt.finfo(mt.int64)


def test_shapes_changed_in_place():
    x = mt.tensor([[1.0, 2.0]], requires_grad=True)
    y = (x * 1).squeeze_(0).unsqueeze_(1)
    z = (x * 3).t_()
    assert y.shape == z.shape == (2, 1)
    (y * y + z).sum().backward()
    assert x.grad.tolist() == [[5, 7]]
    rows = mt.zeros(2, 3)
    rows.transpose_(0, 1)[2, 0] = 4
    assert rows.shape == (3, 2) and rows[2].tolist() == [4, 0]
    with pytest.raises(RuntimeError, match="leaf"):
        x.squeeze_()
    state = (x * 2).detach_()
    assert not state.requires_grad and state.is_leaf
    with pytest.raises(RuntimeError, match="detach()"):
        state[0].detach_()


def test_old_order_of_add_():
    x = mt.ones(2)
    x.data.add_(-0.5, mt.tensor([1.0, 2.0]))
    assert x.tolist() == [0.5, 0]


def test_where_and_pieces_of_a_uint8_mask():
    x = mt.arange(3)
    mask = mt.tensor([1, 0, 1], dtype=mt.uint8)
    assert x[mask].tolist() == [0, 2]
    assert [part.tolist() for part in mt.where(mask)] == [[0, 2]]


def defined():
    """Every function and class of the library by name, and the names that modules offer."""
    names, offered = set(), set()
    for path in pathlib.Path(mt.__file__).parent.rglob("*.py"):
        for item in ast.parse(path.read_text()).body:
            if isinstance(item, (ast.FunctionDef, ast.ClassDef)):
                names.add(item.name)
        module = ".".join(path.relative_to(pathlib.Path(mt.__file__).parents[1]).parts)[:-3]
        offered |= set(getattr(importlib.import_module(module), "__all__", ()))
    return names, offered


@pytest.mark.parametrize("module", [mt, mt.nn])
def test_helpers_stay_where_they_are(module):
    names, offered = defined()
    shown = {
        name
        for name in dir(module)
        if not name.startswith("_") and not isinstance(getattr(module, name), types.ModuleType)
    }
    taken_by_name = {"Module", "Parameter", "Size", "Tensor", "div", "load", "save"}
    taken_by_name |= {"enable_grad", "is_grad_enabled", "no_grad", "set_grad_enabled"}
    assert {"tensor", "relu", "Adam"} <= names and {"tensor", "relu", "Linear"} <= offered
    assert not shown & (names - offered - taken_by_name)


def test_nothing_that_is_offered_is_lost():
    for name in sys.modules[mt.__name__ + ".operations.shapes"].__all__:
        assert hasattr(mt, name)
    assert mt.tensor([1.0]).tolist() == [1] and callable(mt.tensor)
    assert mt.bool is mt.tensor(True).dtype and mt.float is mt.float32 and mt.int is mt.int32
    assert mt.div is mt.true_divide is mt.divide and mt.clip is mt.clamp
    assert {"Linear", "Conv1d", "LSTM", "functional"} <= set(dir(mt.nn))
    assert {"linalg", "einsum", "median", "inf", "LongTensor"} <= set(dir(mt))
