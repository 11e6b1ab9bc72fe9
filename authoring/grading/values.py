"""How values, errors and the library's modes stand in a message."""

import builtins
import contextlib
import importlib
import inspect
import itertools
import keyword
import linecache
import numbers
import traceback
import types
import weakref
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np

import minitorch
from authoring.grading.copies import ModuleRecord, is_setting, read_array
from authoring.grading.stand_ins import Number, RemoteModule, stand_in
from minitorch import backend
from minitorch.autograd import is_grad_enabled, set_grad_enabled
from minitorch.autograd.tensorbase import TensorBase
from minitorch.nn import Module

DEEPEST = 50
TABLES = ("_parameters", "_buffers", "_modules")
MOST_ITEMS = 100_000  # of an iterator, which may have no end
LONGEST_NAME = 200
LONGEST_ERROR = 5_000  # characters of what an error says, and of what goes with it
MOST_DIGITS = 10_000  # of an integer: with more, arithmetic takes long
LIBRARY = str(Path(minitorch.__file__).parent)
ITERATORS = (types.GeneratorType, map, zip, filter, range, reversed, enumerate)
VIEWS = (type({}.keys()), type({}.values()), type({}.items()))


class Encoder:
    """Values as parts of a message of ``peer``; their arrays go to ``arrays``.

    ``told`` has the records of the tensors in it that the other side gets to know.
    """

    def __init__(self, peer, as_result=False):
        self.peer, self.as_result = peer, as_result
        self.arrays, self.told = [], []
        self.depth = 0

    def array(self, array):
        array = np.asarray(array)
        if array.dtype.kind not in "biufcU":
            raise TypeError(f"an array of {array.dtype} cannot be handed over")
        self.arrays.append(array.tobytes())
        return [array.dtype.str, list(array.shape), len(self.arrays) - 1]

    def __call__(self, value):
        self.depth += 1
        try:
            if self.depth > DEEPEST:
                raise ValueError(f"more than {DEEPEST} lists in one another")
            return self._encoded(value)
        finally:
            self.depth -= 1

    def _encoded(self, value):
        kind = type(value)
        if value is None or kind in (bool, str, float):
            return ["plain", value]
        if kind is int:
            return ["plain", value] if abs(value) < 2**63 else ["integer", hex(value)]
        if kind is Number:
            return ["home", int(value)]
        if isinstance(value, TensorBase):
            return self.peer.encode_tensor(value, self)
        if isinstance(value, np.ndarray):
            return ["array", self.array(value)]
        if isinstance(value, np.generic):
            return ["scalar", self.array(value)]
        if isinstance(value, tuple):
            return ["tuple", [self(item) for item in value]]
        if isinstance(value, list):
            return ["list", [self(item) for item in value]]
        if isinstance(value, (set, frozenset)):
            return ["set", [self(item) for item in value]]
        if isinstance(value, dict):
            return ["dict", [[self(key), self(item)] for key, item in value.items()]]
        if value is Ellipsis or value is NotImplemented:
            return ["constant", repr(value)]
        if kind is slice:
            return ["slice", [self(part) for part in (value.start, value.stop, value.step)]]
        if isinstance(value, backend.dtype):
            return ["dtype", value.name]
        number = self.peer.stands_for(value)
        if number is not None:
            return ["home", number]
        if kind is complex:
            return ["array", self.array(np.array(value))]
        if isinstance(value, (*ITERATORS, *VIEWS)):
            return ["list", [self(item) for item in itertools.islice(value, MOST_ITEMS)]]
        if isinstance(value, numbers.Integral):
            return self(int(value))
        if isinstance(value, numbers.Rational):
            return ["fraction", hex(value.numerator), hex(value.denominator)]
        if isinstance(value, Decimal) and value.is_finite():
            return self(Fraction(value))
        if isinstance(value, (numbers.Real, Decimal)):
            return ["plain", float(value)]
        if isinstance(value, str):
            return ["plain", str(value)]
        if isinstance(value, Module) and not self.peer.trusting:
            number = self.peer.register(value)
            return ["module", number, *self._parts_of(value, number)]
        name = library_name(value)
        if name and not self.peer.trusting:
            return ["library", *name]
        described = _described_object(value)
        if not self.peer.trusting and is_of_checks(owner_of(value)):
            described["name"] = "given"  # a program to be judged has no telling name
        return ["object", self.peer.register(value), described]

    def _parts_of(self, module, number):
        """What a module of the grader's consists of, to be made anew with copies of its parts."""
        tables = [
            [[name, self(part)] for name, part in vars(module)[table].items()] for table in TABLES
        ]
        rest = {
            name: value
            for name, value in vars(module).items()
            if (is_setting(value) or type(value) is tuple)
            and name != "name"
            and not any(name in vars(module)[table] for table in TABLES)
        }
        kind = library_name(type(module))
        if (True, number) not in self.peer.records:
            self.peer.records[True, number] = ModuleRecord(
                lambda: module, _kept_in_step(kind, rest)
            )
        return kind, tables, [[n, self(value)] for n, value in rest.items()]


def _kept_in_step(kind, rest):
    """The settings of a copy that hold for the original: of the grader's own classes, the mode."""
    return [name for name, value in rest.items() if is_setting(value)] if kind else ["training"]


class Decoder:
    """Parts of a message as values; each kind has a method ``read_...``, no other is one."""

    def __init__(self, peer, arrays):
        self.peer, self.arrays = peer, arrays

    def array(self, told):
        return read_array(told, self.arrays)

    def __call__(self, told):
        kind, *rest = told
        if kind in ("library", "module") and not self.peer.trusting:
            raise ValueError(f"no {kind} is taken from there")
        return getattr(self, f"read_{kind}")(*rest)

    def read_plain(self, value):
        return value

    def read_integer(self, text):
        if len(text) > MOST_DIGITS:
            raise ValueError(f"more than {MOST_DIGITS} digits")
        return int(text, 16)

    def read_fraction(self, numerator, denominator):
        return Fraction(self.read_integer(numerator), self.read_integer(denominator))

    def read_home(self, number):
        return self.peer.own[number]

    def read_copy(self, number):
        return self.peer.theirs[number]

    def read_tensor(self, *told):
        return self._of_kind("tensor", *told)

    def read_parameter(self, *told):
        return self._of_kind("parameter", *told)

    def _of_kind(self, kind, number, array, needed, leaves, grad):
        leaves = leaves and [self(leaf) for leaf in leaves]
        grad = grad and self.array(grad)
        return self.peer.decode_tensor(kind, number, self.array(array), needed, leaves, grad)

    def read_array(self, told):
        array = self.array(told).copy()
        return array.item() if array.dtype.kind == "c" and not array.ndim else array

    def read_scalar(self, told):
        return self.array(told)[()]

    def read_tuple(self, items):
        return tuple(self(item) for item in items)

    def read_list(self, items):
        return [self(item) for item in items]

    def read_set(self, items):
        return {self(item) for item in items}

    def read_dict(self, items):
        return {self(key): self(item) for key, item in items}

    def read_constant(self, name):
        return {"Ellipsis": Ellipsis, "NotImplemented": NotImplemented}[name]

    def read_slice(self, parts):
        return slice(*(self(part) for part in parts))

    def read_dtype(self, name):
        return next(kind for kind in backend._DTYPES.values() if kind.name == name)

    def read_library(self, module, name):
        return getattr(importlib.import_module(module), name)

    def read_module(self, number, named, tables, rest):
        there = self.peer.theirs.get(number)
        if there is None:
            kind = self.read_library(*named) if named else RemoteModule
            there = kind.__new__(kind)
            Module.__init__(there)
            for table, parts in zip(TABLES, tables, strict=True):
                for name, part in parts:
                    vars(there)[table][name] = self(part)
            rest = {name: self(value) for name, value in rest}
            vars(there).update(rest)
            self.peer.adopt(number, there)
            record = ModuleRecord(weakref.ref(there), _kept_in_step(named, rest))
            self.peer.records[False, number] = record
            if not named:
                vars(there)["_peer"] = self.peer
        return there

    def read_object(self, number, described):
        there = self.peer.theirs.get(number)
        if there is None:
            there = self.peer.adopt(number, stand_in(self.peer, number, **described))
        return there


def library_name(value):
    """Module and name of a function or class of the library, which both sides have; or None."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(value, (types.FunctionType, type)) or not isinstance(module, str):
        return None
    if module.partition(".")[0] != "minitorch":
        return None
    return (module, name) if getattr(importlib.import_module(module), name, None) is value else None


def owner_of(value):
    """The function or class that a value is or belongs to."""
    named = isinstance(value, (type, types.FunctionType, types.MethodType))
    return value if named else type(value)


def is_of_checks(value):
    """Whether a function or class is one of the checks' own."""
    return str(getattr(value, "__module__", "")).startswith("textbook.checks")


def _described_object(value):
    """What the other side is told of an object for which it gets a stand-in."""
    kind = "callable" if callable(value) else "object"
    if isinstance(value, types.FunctionType):
        kind = "function"
    elif isinstance(value, types.MethodType):
        kind = "method"
    owner = value if isinstance(value, type) else type(value)
    parents = [name for name in map(library_name, owner.__mro__) if name]
    described = {
        "kind": kind,
        "name": str(getattr(value, "__name__", type(value).__name__)),
        "parent": parents[0] if parents and not isinstance(value, type) else None,
        "parameters": None,
    }
    if callable(value):
        with contextlib.suppress(TypeError, ValueError):
            described["parameters"] = [
                [p.name, int(p.kind), p.default is not p.empty]
                for p in inspect.signature(value).parameters.values()
            ]
    return described


# Errors


def described(error):
    """An error, to be raised again in the other process: its type, text and last lines."""
    try:
        text = str(error)
    except Exception:  # one of a student's own
        text = ""
    bases = [base for base in type(error).__mro__ if getattr(builtins, base.__name__, None) is base]
    frames = [
        [not _of_library(frame.filename), frame.name, frame.line or ""]
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(str(Path(__file__).parent))
    ]
    own = [i for i, frame in enumerate(frames) if frame[0]]
    kept = frames[own[-1] :] if own else frames
    return {
        "name": type(error).__name__,
        "base": bases[0].__name__,
        "text": text[:LONGEST_ERROR],
        "frames": kept[:1] + kept[1:][-1:],
    }


def _of_library(filename):
    return filename.startswith((LIBRARY, str(Path(inspect.__file__).parent))) or (
        "site-packages" in filename
    )


def error_from(told):
    """The error that another process described, with the traceback that it had there."""
    base = getattr(builtins, str(told["base"]), None)
    if not (isinstance(base, type) and issubclass(base, (Exception, SystemExit))):
        base = Exception
    text = str(told["text"])[:LONGEST_ERROR]

    class Raised(base):
        def __init__(self):
            pass

        def __str__(self):
            return text

    Raised.__name__ = Raised.__qualname__ = str(told["name"])[:LONGEST_NAME]
    Raised.__module__ = "builtins"
    error = Raised()

    def raise_it():
        raise error

    step = raise_it
    for own, name, line in reversed(told["frames"][:2]):
        step = _frame(bool(own), str(name)[:LONGEST_NAME], str(line)[:LONGEST_ERROR], step)
    try:
        step()
    except BaseException as raised:
        steps = [raised.__traceback__]
        while steps[-1].tb_next:
            steps.append(steps[-1].tb_next)
        steps[-2].tb_next = None  # the last is raise_it, the first this function
        return raised.with_traceback(steps[0].tb_next)


def _frame(own, name, line, step):
    """A function whose frame has this name and shows this line, and which calls ``step``."""
    name = name if name.isidentifier() and not keyword.iskeyword(name) else "cell"
    number = abs(hash((name, line)))
    filename = f"<cell {number}>" if own else f"{LIBRARY}/{number}"
    linecache.cache[filename] = (len(line), None, [line + "\n"], filename)

    def frame():
        step()

    code = frame.__code__.replace(co_name=name, co_filename=filename, co_firstlineno=0)
    return types.FunctionType(code, globals(), closure=frame.__closure__)


# Modes


def modes():
    """The library's modes, under which the other side is to compute."""
    return {
        "gradients": is_grad_enabled(),
        "default": backend.get_default_dtype().name,
        "single": backend.float32.numpy.str,
    }


@contextlib.contextmanager
def in_modes(told):
    """Compute as the other side does."""
    before = is_grad_enabled(), backend.get_default_dtype(), backend.float32.numpy
    try:
        set_grad_enabled(bool(told["gradients"]))
        backend.set_default_dtype(getattr(backend, told["default"]))
        backend.float32.numpy = np.dtype(told["single"])
        with np.errstate(all="ignore"):
            yield
    finally:
        set_grad_enabled(before[0])
        backend.set_default_dtype(before[1])
        backend.float32.numpy = before[2]
