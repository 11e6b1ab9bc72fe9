"""Each expression of ``like_pytorch.txt`` gives what PyTorch gives, its gradients included.

And the results of those in ``layouts.txt`` lie in memory as PyTorch's.
"""

import builtins
import json
import re

import expressions
import numpy as np
import pytest

import minitorch as mt

EXPECTED = json.loads((expressions.HERE / "like_pytorch.json").read_text(encoding="utf-8"))
LAYOUTS = json.loads((expressions.HERE / "layouts.json").read_text(encoding="utf-8"))


def test_every_expression_has_its_result():
    assert expressions.listed() == list(EXPECTED)
    assert expressions.listed("layouts.txt") == list(LAYOUTS)


def _check_close(got, expected, dtype):
    tolerance = 3e-3 if dtype == "float16" else 2e-5
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance / 20)


@pytest.mark.parametrize("start", range(0, len(EXPECTED), 50))
def test_like_pytorch(start):
    for expression in list(EXPECTED)[start : start + 50]:
        print(expression)
        check(expression)


def check(expression):
    expected = EXPECTED[expression]
    got = expressions.evaluate(mt, expression)
    if "error" in expected:
        assert "error" in got, f"{expected['error']} expected, got {got}"
        raised, wanted = getattr(builtins, got["error"]), getattr(builtins, expected["error"])
        assert issubclass(raised, wanted) or issubclass(wanted, raised)
        return
    assert "error" not in got, got
    assert len(got["results"]) == len(expected["results"])
    for result, wanted in zip(got["results"], expected["results"], strict=True):
        if isinstance(wanted, list) and len(wanted) == 4 and isinstance(wanted[0], str):
            assert result[:3] == wanted[:3]
            _check_close(result[3], wanted[3], wanted[0])
        else:
            assert result == (pytest.approx(wanted) if type(wanted) is float else wanted)
    tolerance = "float16" if re.search(r"\bh\b", expression) else ""
    zero = dict.fromkeys({*got["gradients"], *expected["gradients"]}, 0.0)
    for name, gradient in (zero | expected["gradients"]).items():
        _check_close((zero | got["gradients"])[name], gradient, tolerance)


@pytest.mark.parametrize("start", range(0, len(LAYOUTS), 50))
def test_results_lie_as_pytorchs(start):
    """Row by row where PyTorch's do; elsewhere in PyTorch's order, or row by row all the same."""
    for expression in list(LAYOUTS)[start : start + 50]:
        print(expression)
        for layout, got in expressions.strides(mt, expression).items():
            wanted = LAYOUTS[expression][layout]
            for lies, expected in zip(got, wanted, strict=True):
                assert lies is None or lies == expected, f"{layout}: {got}, not {wanted}"
