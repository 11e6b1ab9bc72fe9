"""The GPU: what is missing is named, devices are not mixed, and the stand-in refuses enough."""

import importlib
import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import minitorch as mt
from minitorch import backend, nn

STAND_IN = Path(__file__).parents[1] / "stand_in"


@pytest.fixture
def cuda(monkeypatch):
    """A device "cuda": the one under test, else the stand-in for CuPy."""
    if mt.get_default_device().type == "cuda":
        yield sys.modules["cupy"]
        return
    monkeypatch.syspath_prepend(str(STAND_IN))
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    backend.load_cupy.cache_clear()
    yield importlib.import_module("cupy")
    backend.load_cupy.cache_clear()
    sys.modules.pop("cupy", None)


# What is missing


def failing(error):
    def fail(*args):
        raise error

    return fail


class CUDARuntimeError(RuntimeError):
    pass


def cupy_with(count=lambda: 1, ones=np.ones):
    runtime = types.SimpleNamespace(getDeviceCount=count, CUDARuntimeError=CUDARuntimeError)
    return types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime), ones=ones)


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("installed", "found", "words"),
    [
        (False, ImportError("No module named 'cupy'"), "needs CuPy, which is not installed"),
        (True, ImportError("libcublas.so.12"), r"needs the CUDA libraries.*libcublas\.so\.12"),
        (
            True,
            cupy_with(count=failing(CUDARuntimeError("cudaErrorNoDevice"))),
            "needs a GPU and NVIDIA's driver.*cudaErrorNoDevice",
        ),
        (
            True,
            cupy_with(ones=failing(RuntimeError("libnvrtc.so"))),
            r"needs the CUDA libraries.*libnvrtc\.so",
        ),
    ],
)
def test_what_is_missing_is_named(monkeypatch, installed, found, words):
    def import_module(name):
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(backend.importlib, "import_module", import_module)
    monkeypatch.setattr(backend.importlib.util, "find_spec", lambda name: installed or None)
    backend.load_cupy.cache_clear()
    with pytest.raises(RuntimeError, match=words):
        mt.zeros(2, device="cuda")
    with pytest.raises(RuntimeError, match=words):
        mt.set_default_device("cuda")
    assert mt.get_default_device() == mt.device("cpu")
    assert not mt.cuda.is_available()
    assert mt.cuda.device_count() == 0
    backend.load_cupy.cache_clear()


def test_a_gpu_that_is_not_there(cuda):
    count = mt.cuda.device_count()
    with pytest.raises(RuntimeError, match=f"no device cuda:{count}: this machine has {count}"):
        mt.zeros(2, device=f"cuda:{count}")


# Moving and mixing


def test_there_and_back(cuda):
    x = mt.tensor([1.0, 2.0], device="cpu", requires_grad=True)
    there = x.to("cuda")
    assert there.is_cuda and there.device == mt.device("cuda:0")
    assert there.cuda() is there
    (there * there).sum().cpu().backward()
    assert not x.grad.is_cuda
    np.testing.assert_array_equal(x.grad.array, [2.0, 4.0])
    assert there.tolist() == [1.0, 2.0]
    assert repr(there.detach()) == "tensor([1., 2.], device='cuda:0')"


@pytest.mark.cpu
def test_numpy_of_a_tensor_elsewhere(cuda):
    with pytest.raises(TypeError, match=r"use cpu\(\)\.numpy\(\)"):
        mt.ones(2, device="cuda").numpy()


def test_creation_on_a_device_with_the_numbers_of_a_seed(cuda):
    def drawn(device):
        mt.manual_seed(3)
        made = [
            mt.randn(4, device=device),
            mt.rand(4, device=device),
            mt.randint(0, 9, (4,), device=device),
            mt.randperm(4, device=device),
        ]
        assert all(t.device.type == device for t in made)
        return [t.tolist() for t in made]

    assert drawn("cuda") == drawn("cpu")
    ones = mt.ones(2, device="cuda")
    assert mt.zeros_like(ones).is_cuda and ones.new_zeros(3).is_cuda
    assert mt.cuda.manual_seed(0) is not None


def test_modules_and_optimizers_move(cuda):
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2)).to("cuda")
    assert all(p.is_cuda and p.is_leaf for p in model.parameters())
    optimizer = mt.optim.AdamW(model.parameters(), lr=0.1)
    x, y = mt.randn(8, 3, device="cuda"), mt.randint(0, 2, (8,), device="cuda")
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert all(p.is_cuda for p in model.state_dict().values())


@pytest.mark.parametrize(
    "mix",
    [
        lambda a, b: a + b,
        lambda a, b: b * a,
        lambda a, b: a @ b,
        lambda a, b: mt.cat([a, b]),
        lambda a, b: nn.functional.linear(a, b),
        lambda a, b: mt.where(a > 0, a, b),
        lambda a, b: a.add_(b),
        lambda a, b: a.__iadd__(b),
        lambda a, b: nn.functional.embedding(a.long(), b),
    ],
)
def test_mixing_devices_is_an_error(cuda, mix):
    there, here = mt.ones(2, 2, device="cuda"), mt.ones(2, 2, device="cpu")
    for first, second in [(there, here), (here, there)]:
        with pytest.raises(RuntimeError, match=r"one device.*\.to\("):
            mix(first, second)


def test_copies_and_indices_across_devices(cuda):
    there, here = mt.zeros(3, device="cuda"), mt.arange(3, device="cpu")
    there.copy_(here)
    assert there[here.flip(0)].tolist() == [2, 1, 0]
    assert there[here > 0].tolist() == [1, 2]
    assert here[there.long()[1]].item() == 1
    with pytest.raises(RuntimeError, match=r"use index\.cpu\(\)"):
        here[there.long()]


def test_default_device(cuda):
    before = mt.get_default_device()
    try:
        mt.set_default_device("cuda")
        assert mt.zeros(2).is_cuda and mt.tensor([1]).is_cuda and mt.Tensor([1.0]).is_cuda
        assert nn.Linear(2, 2).weight.is_cuda
        assert not mt.zeros(2, device="cpu").is_cuda
    finally:
        mt.set_default_device(before)


# The stand-in


@pytest.mark.cpu
def test_the_stand_in_refuses_what_cupy_refuses(cuda):
    there, here = cuda.ones(2), np.ones(2)
    for planted in [
        lambda: np.asarray(there),
        lambda: np.exp(there),
        lambda: np.where(here > 0, there, 0),
        lambda: there + here,
        lambda: here + there,
        lambda: cuda.add(there, here),
        lambda: cuda.where(here > 0, 1, 0),
        lambda: there.max(initial=0),
        lambda: cuda.block([there]),
        lambda: there.__setitem__(0, here),
    ]:
        with pytest.raises((TypeError, AttributeError)):
            planted()
    assert isinstance(there.sum(), cuda.ndarray) and there.sum().shape == ()
    np.testing.assert_array_equal((there + 1).get(), [2, 2])


@pytest.mark.cpu
def test_a_view_in_the_stand_in_knows_its_base_even_without_elements(cuda):
    there = cuda.ones(2)
    assert there[:1].base is there and there[1:1].base is there
    assert there[1:][1:].base is there and (there + 1).base is None
