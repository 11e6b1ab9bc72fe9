"""Teaching programs written for PyTorch, with only their import lines changed.

``build()`` makes the model, ``run(model)`` trains it shortly and returns losses and what else the
program finds out. ``benchmarks/parity`` runs the same files with PyTorch and compares every number.
"""

import importlib.util
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import minitorch

HERE = Path(__file__).resolve().parent
PROGRAMS = sorted(HERE.glob("program_*.py"))
NAMES = HERE.parent.parent / "benchmarks" / "parity" / "names.py"


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results():
    return {}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem.removeprefix("program_"))
def test_program_learns(path):
    minitorch.manual_seed(0)
    program = load(path)
    found = program.run(program.build())
    losses = found.pop("losses")
    assert all(math.isfinite(loss) for loss in losses)
    assert np.mean(losses[-2:]) < 0.9 * np.mean(losses[:2])
    for key, value in found.items():
        if isinstance(value, (bool, np.bool_)):
            assert value, key
        elif isinstance(value, (float, np.ndarray)):
            assert key == "mask" or np.isfinite(value).all(), key
    if check := CHECKS.get(path.stem.removeprefix("program_")):
        check(found)


def _annotated(found):
    assert found["future"] == 0.0
    assert found["decoded"] == [1, 6]
    assert max(found["rates"]) == found["rates"][-1]
    assert np.allclose(np.minimum(found["dist"], 1 - found["dist"]), 0, atol=1e-5)


def _bert(found):
    assert np.allclose(found["weights"], 1, atol=1e-5)
    assert found["on padding"] == 0.0
    assert found["tuning"][-1] < found["tuning"][0]


def _gpt(found):
    assert found["sampled"] == [1, 15] and len(found["greedy"]) == 25


def _idioms(found):
    assert found["load"] == pytest.approx(1) and (found["one hot"] == 1).all()
    assert found["idioms"][:12] == [1, 1, 1, 1, 0, -2, 0, 0, 0, -4, 0, 0]


def _languages(found):
    assert np.allclose(found["rows"], 1)
    assert found["right"] > 35


def _letters(found):
    assert found["sampled"] == 20


def _packed(found):
    assert found["padding row"] == 0.0
    assert found["rate"] == [0.01 / 8]
    assert found["accuracy"] >= 0.5


def _read(found):
    assert found["read"] >= 8


def _reversible(found):
    assert np.allclose(found["total"], 1, atol=1e-5)


CHECKS = {
    "annotated_transformer": _annotated,
    "bert": _bert,
    "char_rnn": _languages,
    "char_lstm": _letters,
    "einsum_relative": _idioms,
    "gpt": _gpt,
    "ctc": _read,
    "packed_classifier": _packed,
    "reversible": _reversible,
    "seq2seq_attention": lambda found: np.testing.assert_allclose(found["attention"], 1, rtol=1e-5),
    "transformer_lm": lambda found: np.testing.assert_array_equal(
        found["mask"], np.triu(np.full((3, 3), -np.inf), 1)
    ),
}


# How a name that is not a word, or not the word itself, looks in a program.
PATTERNS = {
    "indexing": r"\w\[:, ",
    "assignment": r"\w\[.*\] = ",
    "==": "==",
    "@": " @ ",
    "&": " & ",
    "~": "~",
    "+=": r"\] \+= ",
    "len": r"\blen\(",
    "iteration": r"for letter in line_to_tensor",
    "index_add": "index_add_",
    "in-place": r"\.mul_\(",
    "named_*": r"named_parameters\(",
    "one_hot": r"one_hot\(",
    "nn.init": r"nn\.init\.",
    "optim.groups": r"\"params\": ",
    "optim.zero_grad": r"optimizer\.zero_grad\(set_to_none",
    "optim.state_dict": r"optimizer\.state_dict\(",
    "deepcopy": r"copy\.deepcopy",
    "arange": r"arange\(",
    "F.pad": r"F\.pad\(",
    "F.dropout": r"nn\.Dropout\(",
    "F.linear": r"nn\.Linear\(",
    "F.embedding": r"nn\.Embedding\(",
    "F.layer_norm": r"F\.layer_norm\(",
    "F.scaled_dot_product_attention": r"scaled_dot_product_attention\(",
}


def test_every_name_is_used_in_a_program():
    text = "\n".join(path.read_text(encoding="utf-8") for path in PROGRAMS)
    spec = importlib.util.spec_from_file_location("names", NAMES)
    names = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(names)
    listed = [name for group in names.NAMES.values() for name in group]
    unused = [
        name
        for name in listed
        if not re.search(PATTERNS.get(name, rf"\b{re.escape(name.lstrip('.'))}\b"), text)
    ]
    assert not unused
