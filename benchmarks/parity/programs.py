"""The programs of ``tests/programs`` with both libraries, step by step."""

import importlib.util
import re
import sys
from collections import namedtuple
from pathlib import Path

import numpy as np
import torch
from difference import difference

import minitorch

FOLDER = Path(__file__).resolve().parent.parent.parent / "tests" / "programs"
Result = namedtuple("Result", "name count first last difference problem")
TOLERANCE = 2e-3


def compare_programs():
    """A result for each program."""
    sys.path.insert(0, str(FOLDER))
    return [compare(path) for path in sorted(FOLDER.glob("program_*.py"))]


def load(path, library):
    """The program as a module; for PyTorch, with its import lines changed."""
    source = path.read_text(encoding="utf-8")
    if library is torch:
        source = re.sub(r"(?m)^((?:import|from) )minitorch", r"\1torch", source)
    spec = importlib.util.spec_from_loader(f"{path.stem}_{library.__name__}", loader=None)
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


def compare(path):
    """Train with both from PyTorch's initial weights and compare every number."""
    name = path.stem.removeprefix("program_")
    try:
        reference, program = load(path, torch), load(path, minitorch)
        torch.manual_seed(0)
        model = reference.build()
        start = {k: v.detach().numpy().copy() for k, v in model.state_dict().items()}
        expected = reference.run(model)
        own = program.build()
        own.load_state_dict({k: minitorch.from_numpy(v) for k, v in start.items()})
        got = program.run(own)
    except Exception as error:
        return Result(name, 0, None, None, 0.0, f"{type(error).__name__}: {error}")
    if list(expected) != list(got):
        return Result(name, 0, None, None, 0.0, f"{list(got)}, not {list(expected)}")
    count, largest, problem = 0, 0.0, None
    for key in expected:
        first, second = np.asarray(expected[key]), np.asarray(got[key])
        count += first.size
        if first.dtype.kind != "f":
            if not np.array_equal(first, second):
                problem = problem or f"{key}: {got[key]}, not {expected[key]}"
            continue
        distance = difference(first, second) if first.shape == second.shape else np.inf
        largest = max(largest, float(distance))
        if not distance <= TOLERANCE:
            problem = problem or f"{key} differs by {distance:.1e}"
    losses = expected["losses"]
    return Result(name, count, losses[0], losses[-1], largest, problem)
