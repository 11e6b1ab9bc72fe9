"""Compare minitorch with PyTorch: ``python benchmarks/parity/compare.py [NAME ...] [--write]``.

Run by hand in an environment with the packages of ``requirements.txt``. Every case in ``cases/``
is text, run once with each library on equal inputs. Compared are the values, types and shapes of
the result, whether it requires a gradient, the gradient of every input and parameter (for a fixed
random gradient of the result), the class of an error, and for modules the keys and shapes of
``state_dict``, loaded from each library into the other. ``--write`` writes ``docs/parity.md``.
"""

import argparse
import importlib
import sys
import warnings
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT)]

import report  # noqa: E402
import torch  # noqa: E402
from difference import difference  # noqa: E402
from inputs import Inputs  # noqa: E402
from names import NAMES  # noqa: E402
from programs import compare_programs  # noqa: E402

import minitorch  # noqa: E402

TABLES = ["creation", "elementwise", "reductions", "shapes", "indexing", "inplace", "engine"]
TABLES += ["layers", "recurrent", "attention", "functional", "optimizers", "data", "compat"]
TOLERANCE = {"float64": 1e-9, "float32": 3e-5, "float16": 4e-3}


class WrongCase(Exception):
    """A line that does not say what PyTorch does."""


class Case:
    """One line of a table.

    The line is statements separated by ``;``, the last of which is the expression to compare. A
    line that begins with ``!`` must raise in PyTorch. ``## reason`` at the end says why minitorch
    differs on purpose; such a line must differ.
    """

    def __init__(self, line):
        text, _, self.reason = (part.strip() for part in line.partition("##"))
        self.raises = text.startswith("!")
        self.text = text.removeprefix("!").strip()
        self.value_difference = self.gradient_difference = 0.0
        self.problem = None

    def run(self, library):
        """The result, the gradients, the modules, and the error, if there was one."""
        inputs = Inputs(library)
        names = {
            "torch": library,
            "nn": library.nn,
            "F": library.nn.functional,
            "np": np,
            "x": inputs,
            "m": inputs.module,
            "show": show,
        }
        *statements, expression = self.text.split(";")
        library.manual_seed(0)
        try:
            exec("\n".join(s.strip() for s in statements), names)
            result = eval(expression.strip(), names)
            flat = list(flatten(result, library))
            gradients = backward(flat, inputs, library)
        except Exception as error:
            return None, None, inputs.modules, error
        return flat, gradients, inputs.modules, None

    def compare(self):
        """Run with both and note the first problem."""
        expected, expected_grads, theirs, their_error = self.run(torch)
        if self.raises != (their_error is not None):
            raise WrongCase(f"PyTorch: {their_error or 'no error'}")
        got, got_grads, ours, our_error = self.run(minitorch)
        if their_error or our_error:
            self.problem = different_errors(their_error, our_error)
        else:
            self.problem = self.different(expected, got, "value") or self.different(
                expected_grads, got_grads, "gradient"
            )
            if not self.problem and theirs:
                self.problem = different_states(theirs, ours)
        if self.reason and not self.problem:
            raise WrongCase("is said to differ, but does not")

    def different(self, expected, got, what):
        if [place for place, _ in expected] != [place for place, _ in got]:
            return f"{what}: {short([p for p, _ in got])}, not {short([p for p, _ in expected])}"
        for (place, first), (_, second) in zip(expected, got, strict=True):
            if not hasattr(first, "detach"):
                if not same_plain(first, second):
                    return f"{what} {place}: {short(second)}, not {short(first)}"
                continue
            if describe(first) != describe(second):
                return f"{what} {place}: {describe(second)}, not {describe(first)}"
            distance = difference(array(first), array(second))
            name = f"{what}_difference"
            setattr(self, name, max(getattr(self, name), distance))
            if not distance <= TOLERANCE.get(str(first.dtype).rpartition(".")[2], 0.0):
                return f"{what} {place}: differs by {distance:.1e}"
        return None


def flatten(value, library, place=""):
    """Every tensor and plain value in nested sequences and dicts, each with its place."""
    if isinstance(value, dict):
        for key in value:
            yield from flatten(value[key], library, f"{place}.{key}")
    elif isinstance(value, (tuple, list)) and not isinstance(value, library.Size):
        yield f"{place}#", len(value)
        for i, item in enumerate(value):
            yield from flatten(item, library, f"{place}[{i}]")
    else:
        yield place, value


def backward(flat, inputs, library):
    """The gradients of inputs and parameters for a fixed gradient of every floating result."""
    random = np.random.default_rng(1)
    for _, item in flat:
        if isinstance(item, library.Tensor) and item.requires_grad:
            seed = random.uniform(0.5, 1.5, tuple(item.shape)).astype(array(item).dtype)
            item.backward(library.from_numpy(np.asarray(seed)), retain_graph=True)
    leaves = [(f"input {i}", leaf.grad) for i, leaf in enumerate(inputs.leaves)]
    return leaves + [
        (name, parameter.grad)
        for module in inputs.modules
        for name, parameter in module.named_parameters()
    ]


def array(tensor):
    return tensor.detach().numpy()


def describe(tensor):
    if not hasattr(tensor, "detach"):
        return type(tensor).__name__
    kind = str(tensor.dtype).rpartition(".")[2]
    return f"{kind}{list(tensor.shape)}{' with gradient' if tensor.requires_grad else ''}"


def short(value):
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."


def show(value):
    """The text of a value, with the libraries' own names left out."""
    return str(value).replace("minitorch.", "").replace("torch.", "")


def same_plain(first, second):
    if isinstance(first, float) and isinstance(second, float):
        return difference(np.float64(first), np.float64(second)) <= TOLERANCE["float32"]
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return first.dtype == second.dtype and first.shape == second.shape
    if type(first).__module__.partition(".")[0] == "torch":
        return show(first) == show(second)
    return type(first) is type(second) and first == second


def builtin_class(error):
    return next(c for c in type(error).__mro__ if c.__module__ == "builtins").__name__


def different_errors(theirs, ours):
    if theirs is None:
        kind = "missing" if isinstance(ours, (AttributeError, ImportError)) else "raises"
        return f"{kind}: {type(ours).__name__}: {ours}"
    if ours is None:
        return f"does not raise {builtin_class(theirs)}: {short(str(theirs))}"
    if builtin_class(theirs) != builtin_class(ours):
        return f"raises {type(ours).__name__}, not {builtin_class(theirs)}: {ours}"
    return None


def different_states(theirs, ours):
    """Load each module's state into the other library's module and compare what is there then."""
    for their, our in zip(theirs, ours, strict=True):
        expected, got = their.state_dict(), our.state_dict()
        if list(expected) != list(got):
            return f"state_dict has {short(list(got))}, not {short(list(expected))}"
        for key in expected:
            if describe(expected[key]) != describe(got[key]):
                return f"state_dict {key}: {describe(got[key])}, not {describe(expected[key])}"
        moved = {
            k: minitorch.from_numpy(np.asarray(array(v) + array(v))) for k, v in expected.items()
        }
        our.load_state_dict(moved)
        back = {k: torch.from_numpy(array(v)) for k, v in our.state_dict().items()}
        their.load_state_dict(back)
        for key, tensor in their.state_dict().items():
            if not np.array_equal(array(tensor), array(moved[key])):
                return f"state_dict {key} did not arrive as it was sent"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="only these names")
    parser.add_argument("--write", action="store_true", help="write docs/parity.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    tables = {}
    for name in TABLES:
        for key, text in importlib.import_module(f"cases.{name}").TABLE.items():
            lines = [line.strip() for line in text.splitlines()]
            tables[key] = tables.get(key, []) + [Case(line) for line in lines if line]
    listed = {name for group in NAMES.values() for name in group}
    if untested := sorted(listed - set(tables)):
        raise SystemExit(f"names without a case: {untested}")
    if options.names:
        tables = {name: tables[name] for name in options.names if name in tables}
    wrong = []
    for name, cases in tables.items():
        for case in cases:
            try:
                case.compare()
            except WrongCase as error:
                wrong.append(f"{name}: {case.text}\n    {error}")
            if case.problem and not case.reason:
                print(f"{name}: {case.text}\n    {case.problem}")
    if wrong:
        raise SystemExit("\n".join(["cases to be corrected:", *wrong]))
    rows = [report.row(name, cases) for name, cases in tables.items()]
    programs = compare_programs() if not options.names else []
    print(report.summary(rows, programs))
    if options.write:
        page = report.page(rows, programs, NAMES, {"PyTorch": torch.__version__, **versions()})
        (ROOT / "docs" / "parity.md").write_text(page, encoding="utf-8")
    return int(any(row.failures for row in rows) or any(p.problem for p in programs))


def versions():
    python = ".".join(map(str, sys.version_info[:3]))
    return {"minitorch": minitorch.__version__, "NumPy": np.__version__, "Python": python}


if __name__ == "__main__":
    sys.exit(main())
