"""What both processes have a copy of: tensors and containers, kept in step by each message."""

import functools

import numpy as np

from minitorch.autograd.node import tell
from minitorch.autograd.tensorbase import TensorBase
from minitorch.tensor import Tensor

LARGEST_STAND_IN = 10**7  # elements of the array that is shown to listeners


class Record:
    """A tensor of which the other process has a copy, and what that copy held at the last message.

    ``tensor`` gives the tensor; of one of theirs it is a weak reference, and ``kept`` the tensor.
    ``is_told`` says whether they have got a copy that stays as long as they need it.
    """

    is_told = False

    def __init__(self, tensor):
        self.tensor = (lambda: tensor) if isinstance(tensor, TensorBase) else tensor
        self.history = self._made_at()
        self.kept = None
        self.note()

    def is_rewritten(self):
        """Whether it was changed in place so that it has another history than it came with."""
        return self._made_at() != self.history

    def _made_at(self):
        """When its history was recorded, None for a leaf; the history itself must not live on."""
        node = self.tensor().grad_fn
        return None if node is None else node.order

    def note(self):
        """What the tensor holds now is what the other process knows."""
        x = self.tensor()
        self.array, self.needed = Held(x.array), x._requires_grad
        self.grad = None if self._has_no_grad(x) else Held(x.grad.array)

    def _has_no_grad(self, x):
        return self.history is not None or x.grad is None

    def changes(self, arrays):
        """What the other process does not know yet, as part of a message; None if it knows all."""
        x = self.tensor()
        if x is None:
            return None
        told = {}
        if not self.array.is_in(x.array):
            self.array = Held(x.array)
            told["array"] = self.array.told(arrays)
        if self._has_no_grad(x):
            if self.grad is not None:
                self.grad = told["grad"] = None
        elif self.grad is None or not self.grad.is_in(x.grad.array):
            self.grad = Held(x.grad.array)
            told["grad"] = self.grad.told(arrays)
        if self.needed != x._requires_grad:
            self.needed = x._requires_grad
            if self.history is None:
                told["requires_grad"] = self.needed
        return told

    def apply(self, told, arrays):
        """Take over what the other process changed."""
        x = self.tensor()
        if x is None:
            return
        if "array" in told:
            self.write(read_array(told["array"], arrays))
        if "grad" in told and self.history is None:
            grad = told["grad"] and read_array(told["grad"], arrays)
            x.grad = None if grad is None else Tensor._wrap(grad.copy())
        if "requires_grad" in told and self.history is None:
            x._requires_grad = bool(told["requires_grad"]) and x.array.dtype.kind == "f"
        self.note()

    def write(self, array):
        """Take over the values; whoever has a view of the old ones sees them."""
        x = self.tensor()
        if (x.array.dtype, x.array.shape) == (array.dtype, array.shape) and x.array.flags.writeable:
            x.array[...] = array
        else:
            x.array = array.copy()
        self.note()

    def let_go(self):
        """Keep a tensor of theirs no longer if nothing else here needs it."""
        self.kept = None
        self.kept = self.tensor()


class Held:
    """What an array held."""

    __slots__ = ("dtype", "shape", "content")

    def __init__(self, array):
        self.dtype, self.shape, self.content = array.dtype, array.shape, array.tobytes()

    def is_in(self, array):
        """Whether an array holds the same."""
        if array.dtype != self.dtype or array.shape != self.shape:
            return False
        return self.content.startswith(array if array.flags.c_contiguous else array.tobytes())

    def told(self, arrays):
        """The array as part of a message."""
        arrays.append(self.content)
        return [self.dtype.str, list(self.shape), len(arrays) - 1]


class ModuleRecord:
    """A module of the grader's of which the student's process has a copy: its settings."""

    history = None

    def __init__(self, module, names):
        self.module, self.names = module, names
        self.known = self._state()

    def _state(self):
        module = self.module()
        return None if module is None else [vars(module).get(name) for name in self.names]

    def changes(self, arrays):
        """As of a tensor's record."""
        before, now = self.known, self._state()
        if now is None or before == now:
            return None
        self.known = now
        pairs = zip(self.names, before, now, strict=True)
        return {name: new for name, old, new in pairs if new != old}

    def let_go(self):
        """As of a tensor's record: no module is kept."""

    def apply(self, told, arrays):
        """As of a tensor's record."""
        for name, value in told.items():
            if name in self.names and is_setting(value) and self.module() is not None:
                setattr(self.module(), name, value)
        self.known = self._state()


def is_setting(value):
    """Whether it is plain data, as the settings of a module are."""
    return value is None or type(value) in (bool, int, float, str)


def read_array(told, arrays):
    """The array that a message describes."""
    kind, shape, index = told
    dtype = np.dtype(kind)
    if dtype.kind not in "biufcU" or index < 0:
        raise ValueError(f"no array of {dtype}")
    return np.frombuffer(arrays[index], dtype).reshape(shape)


def write_over(mine, new):
    """Make a list or dict, and those in it, equal to a copy that the other process changed."""
    if isinstance(mine, list) and isinstance(new, list):
        kept = mine[: len(new)] + [None] * (len(new) - len(mine))
        mine[:] = [write_over(old, item) for old, item in zip(kept, new, strict=True)]
        return mine
    if isinstance(mine, dict) and isinstance(new, dict):
        items = {key: write_over(mine.get(key), item) for key, item in new.items()}
        mine.clear()
        mine.update(items)
        return mine
    if isinstance(mine, set) and isinstance(new, set):
        mine.clear()
        mine.update(new)
        return mine
    if isinstance(mine, tuple) and isinstance(new, tuple) and len(mine) == len(new):
        changed = tuple(write_over(old, item) for old, item in zip(mine, new, strict=True))
        return mine if all(a is b for a, b in zip(changed, mine, strict=True)) else changed
    return new


class _Same:
    """Equal for the same object alone, which lives as long as this does."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self):
        return id(self.value)


def contents(value, depth=0):
    """What is in the lists and dicts of a value, to be compared later: of the rest, whether it is
    the same object."""
    if isinstance(value, (list, tuple)) and depth < 20:
        return [type(value), *(contents(item, depth + 1) for item in value)]
    if isinstance(value, dict) and depth < 20:
        return [dict, *((key, contents(item, depth + 1)) for key, item in value.items())]
    if isinstance(value, (set, frozenset)):
        return set(map(_Same, value))
    plain = value is None or type(value) in (bool, int, float, complex, str)
    return (type(value), value) if plain else _Same(value)


def noting(heard):
    """A listener that notes the operations that run, without what their arrays hold."""

    def listen(name, inputs, outputs, backward):
        if not backward or name == "backward":
            heard.append([name, [_outline(x) for x in inputs], [_outline(x) for x in outputs]])

    return listen


def _outline(value):
    if isinstance(value, np.ndarray):
        repeated = [stride == 0 for stride in value.strides]
        return ["array", value.dtype.str, list(value.shape), repeated]
    return ["plain", value if isinstance(value, (str, int, float, bool)) else None]


def repeat(heard):
    """Tell the listeners here what ran in the other process, with arrays that hold nothing."""
    for name, inputs, outputs in heard:
        came, went = [_heard(x) for x in inputs], [_heard(x) for x in outputs]
        tell(str(name), came, went, name == "backward")


def _heard(outline):
    if outline[0] != "array":
        return outline[1]
    _, kind, shape, repeated = outline
    return _filled(kind, tuple(shape), tuple(repeated))


@functools.lru_cache(50)
def _filled(kind, shape, repeated):
    held = [1 if again else length for length, again in zip(shape, repeated, strict=True)]
    if np.prod(held, dtype=float) > LARGEST_STAND_IN:
        held = [1] * len(shape)
    return np.broadcast_to(np.empty(held, np.dtype(kind)), shape)
