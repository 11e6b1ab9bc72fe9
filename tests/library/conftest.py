"""Where the tests make their tensors (``device``), and how many gradients were compared."""

import functools
import importlib.util
import sys
from pathlib import Path

import gradients
import numpy as np
import pytest

import minitorch as mt
from minitorch import backend

STAND_IN = Path(__file__).parents[1] / "stand_in" / "cupy.py"


def pytest_configure(config):
    config.addinivalue_line("markers", "cpu: about tensors on the CPU; left out on other devices")


def pytest_generate_tests(metafunc):
    asked = metafunc.config.getoption("device")
    metafunc.parametrize("device", [asked] if asked else ["cpu", "cuda"], indirect=True)


def pytest_collection_modifyitems(config, items):
    left_out = {
        item
        for item in items
        if item.get_closest_marker("cpu") and item.callspec.params["device"] != "cpu"
    }
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="module", autouse=True)
def device(request):
    """The device of all tensors: the CPU, or a GPU, without CuPy a stand-in for one."""
    if request.param == "cpu":
        yield request.param
        return
    with pytest.MonkeyPatch.context() as patch:
        if importlib.util.find_spec("cupy") is None:
            patch.setitem(sys.modules, "cupy", _stand_in())
        patch.setattr(mt.Tensor, "numpy", lambda tensor: tensor.detach().cpu().array)
        for name in ("assert_allclose", "assert_array_equal", "assert_equal"):
            patch.setattr(np.testing, name, _on_cpu(getattr(np.testing, name)))
        mt.set_default_device(request.param)
        yield request.param
        mt.set_default_device("cpu")
    backend.load_cupy.cache_clear()


@functools.cache
def _stand_in():
    spec = importlib.util.spec_from_file_location("cupy", STAND_IN)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _on_cpu(compare):
    """The comparison, for arrays and tensors wherever they lie."""

    def read(value):
        value = getattr(value, "array", value)
        return value.get() if hasattr(value, "get") and hasattr(value, "ndim") else value

    @functools.wraps(compare)
    def compare_on_cpu(actual, desired, *args, **kwargs):
        return compare(read(actual), read(desired), *args, **kwargs)

    return compare_on_cpu


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["comparisons"] = dict(gradients.counts)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    gradients.counts.update(getattr(node, "workeroutput", {}).get("comparisons", {}))


def pytest_terminal_summary(terminalreporter):
    if gradients.counts:
        told = ", ".join(f"{count} {what}" for what, count in sorted(gradients.counts.items()))
        terminalreporter.write_line(f"operations compared: {told}")
