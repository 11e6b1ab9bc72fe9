"""Where the tests make their tensors (``--device``), and how many gradients were compared."""

import functools
import importlib.util
import sys
from pathlib import Path

import gradients
import numpy as np
import pytest

import minitorch as mt


def pytest_configure(config):
    config.addinivalue_line("markers", "cpu: about tensors on the CPU; left out on other devices")
    if config.getoption("device") == "cpu":
        return
    if importlib.util.find_spec("cupy") is None:
        sys.path.insert(0, str(Path(__file__).parents[1] / "stand_in"))
    mt.set_default_device(config.getoption("device"))
    mt.Tensor.numpy = lambda tensor: tensor.detach().cpu().array
    for name in ("assert_allclose", "assert_array_equal", "assert_equal"):
        setattr(np.testing, name, _on_cpu(getattr(np.testing, name)))


def pytest_collection_modifyitems(config, items):
    if config.getoption("device") != "cpu":
        reason = f"about tensors on the CPU, not on {config.getoption('device')}"
        for item in items:
            if item.get_closest_marker("cpu"):
                item.add_marker(pytest.mark.skip(reason=reason))


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
