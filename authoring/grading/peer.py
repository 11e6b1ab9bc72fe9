"""Calls between two processes that share no memory: values, functions, objects and gradients.

The grader's process and the student's each have a ``Peer``. What one hands to the other arrives as

- a copy, if it is plain data, a NumPy array or a tensor without a gradient's history. Copies of
  tensors stay in step: what either side writes into them is told with the next message;
- a tensor whose gradient flows on at the other end, if it has a history there: the pass backward
  asks for the vector-Jacobian product;
- a stand-in that calls back, if it is a function or any other object.

What comes home is the object itself again. Both sides act the same but for what they may ask:
the student's process knows of the grader's objects only their public attributes and methods, and
can neither reach an object that it was not given nor set an attribute.
"""

import collections
import contextlib
import copy
import gc
import itertools
import threading
import types
import weakref

from authoring.grading import values
from authoring.grading.copies import ModuleRecord, Record, contents, noting, repeat, write_over
from authoring.grading.stand_ins import MethodStandIn, Number
from authoring.grading.wire import Lost, Wire
from minitorch.autograd import grad
from minitorch.autograd.modes import listening
from minitorch.autograd.node import Node, state
from minitorch.autograd.tensorbase import TensorBase, made
from minitorch.generator import default_generator
from minitorch.nn import Module, Parameter
from minitorch.optim import Optimizer
from minitorch.tensor import Tensor

ASKED = ("call", "get", "set", "item", "put", "length", "list", "operate", "instance", "copy")
TELLING = ("name", "function")  # what programs to be judged are, and are made of
ENVELOPE = ("kind", "modes", "listen", "containers", "updates", "random", "dropped")


class Refused(Exception):
    """The other side asks for what it must not have."""


class Peer:
    """One end of a connection; ``trusting`` where the other end may ask for anything."""

    def __init__(self, wire: Wire, trusting: bool, refused: tuple = ()):
        self.wire, self.trusting = wire, trusting
        self.refused = refused
        self.asking = threading.RLock()  # threads of an answer ask one after the other
        self.numbers = itertools.count()
        self.own: dict[int, object] = {}  # what the other side knows of ours
        self.number_of: dict[int, int] = {}  # by id; `own` keeps the object alive
        self.theirs = weakref.WeakValueDictionary()  # what stands for theirs here, by number
        self.lives = collections.Counter()  # by number, how much here needs that object of theirs
        self.lost: list[int] = []  # numbers of theirs, as often as something of them has died
        # What both sides have a copy of, by whether the original is ours, and number
        self.records: dict[tuple[bool, int], Record | ModuleRecord] = {}
        self.borrowed: dict[int, dict] = {}  # lists and dicts that are attributes of theirs
        self.told_at = None  # the time of the last change in place of which they know
        self.random = None  # the state of the random numbers that both sides know of
        self.result_of: dict[int, int] = {}  # alike, of results whose history goes on there
        self.ends: dict[int, list] = {}  # the leaves of the histories of `own`
        self.extra = {"gradients": self._gradients}  # what this side answers beside ASKED, by name

    # Asking

    def ask(self, kind: str, **request):
        """Send a request, answer what the other side asks meanwhile, and return its reply."""
        with self.asking:
            return self._ask(kind, request)

    def _ask(self, kind, request):
        encode = values.Encoder(self)
        told = {name: encode(value) for name, value in request.items()}
        told |= {
            "kind": kind,
            "modes": values.modes(),
            "listen": bool(state.listeners) and not self.trusting,
        }
        self._send(told, encode)
        while True:
            message, arrays = self._receive()
            if message.get("kind") in ("result", "error"):
                break
            self._answer(message, arrays)
        try:
            repeat(message["heard"])
            if message["kind"] == "error":
                result = values.error_from(message["error"])
            else:
                decode = values.Decoder(self, arrays)
                result, changed = decode(message["value"]), decode(message["arguments"])
                if changed is not None:
                    write_over(request["arguments"], changed)
        except Exception as error:
            raise Lost(f"sent what is no reply ({type(error).__name__})") from error
        if message["kind"] == "error":
            raise result
        return result

    def call(self, number: int, *args, **kwargs):
        """Call a function of the other side."""
        return self.ask("call", object=Number(number), arguments=list(args), named=kwargs)

    def borrow(self, number: int, name: str):
        """An attribute of an object of the other side; a list or dict goes back when it changed."""
        value = self.ask("get", object=Number(number), name=name)
        if isinstance(value, (list, dict)):
            loans = self.borrowed.setdefault(number, {})
            before, _ = loans.get(name, (value, None))
            value = write_over(before, value)
            loans[name] = value, contents(value)
        if isinstance(value, MethodStandIn):
            vars(self.theirs[number])[name] = value
        return value

    # Answering

    def serve(self):
        """Answer requests until the other side ends."""
        while True:
            self._answer(*self._receive())
            gc.collect(1)  # copies of modules, which refer to themselves, would be kept in step

    def _answer(self, message, arrays):
        heard = []
        try:
            kind, answer = message["kind"], self.extra.get(message["kind"])
            if answer is None and kind not in ASKED:
                raise Refused(f"unknown request {kind!r:.40}")
            decode = values.Decoder(self, arrays)
            wanted = {
                name: decode(value) for name, value in message.items() if name not in ENVELOPE
            }
            arguments = wanted.get("arguments", [])
            before = contents(arguments)
            listener = listening(noting(heard)) if message["listen"] else contextlib.nullcontext()
            with listener, values.in_modes(message["modes"]):
                result = answer(**wanted) if answer else self._do(kind, **wanted)
                encode = values.Encoder(self, as_result=True)
                reply = {"kind": "result", "value": encode(result), "heard": heard}
                changed = contents(arguments) != before
                reply["arguments"] = encode(arguments if changed else None)
            self._send(reply, encode)
        except Lost:
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and not self.trusting:
                raise
            told = {"kind": "error", "error": values.described(error), "heard": heard}
            self._send(told, values.Encoder(self))

    def _gradients(self, number, weight):
        """Of a tensor of ours that the other side has, to the leaves of its history."""
        leaves = self.ends[number]
        found = grad([self.own[number]], leaves, [weight], retain_graph=True, allow_unused=True)
        return [None if x is None else x.array for x in found]

    def _do(self, kind, object, **wanted):
        if not self.trusting:
            self._allow(kind, object, wanted.get("name"))
        if kind == "call":
            return object(*wanted["arguments"], **wanted["named"])
        if kind == "get":
            return getattr(object, wanted["name"])
        if kind == "set":
            return setattr(object, wanted["name"], wanted["value"])
        if kind == "item":
            return object[wanted["key"]]
        if kind == "put":
            object[wanted["key"]] = wanted["value"]
            return None
        if kind == "instance":
            return isinstance(wanted["value"], object)
        if kind == "copy":
            return copy.deepcopy(object)
        if kind == "operate":
            method = getattr(object, wanted["name"], None)
            return method(*wanted["arguments"]) if method else NotImplemented
        return len(object) if kind == "length" else list(object)

    def _allow(self, kind, object, name):
        """Raise unless the other side, a student's, may ask this of an object of the grader's."""
        if id(object) not in self.number_of:
            raise Refused("no object of the grader's")
        if kind in ("get", "set") and (type(name) is not str or name.startswith("_")):
            raise AttributeError(name)
        if kind == "get" and name in TELLING and values.is_of_checks(values.owner_of(object)):
            raise AttributeError(name)
        if kind in ("put", "operate", "instance") or (
            kind == "get" and isinstance(object, types.FunctionType)
        ):
            raise Refused(f"{kind} of {type(object).__name__}")
        if kind == "copy" and not isinstance(object, Module):
            raise Refused(f"copy of {type(object).__name__}")
        if kind == "set" and not isinstance(object, (Module, Optimizer)):
            raise Refused(f"set of {type(object).__name__}")

    # Messages

    def _send(self, message, encode):
        encode.as_result = False
        message["containers"] = []
        for number, loans in list(self.borrowed.items()):
            for name, (value, before) in loans.items():
                now = contents(value)
                if now != before:
                    message["containers"].append([number, name, encode(value)])
                    loans[name] = value, now
        message["updates"] = self._updates(encode.arrays)
        drawn = default_generator.get_state()
        message["random"] = None if drawn == self.random else drawn
        self.random = drawn
        message["dropped"] = self._count_lost()
        self.wire.send(message, encode.arrays)
        for record in encode.told:
            record.is_told = True

    def _receive(self):
        message, arrays = self.wire.receive()
        try:
            for own, number, changes in message["updates"]:
                record = self.records.get((own, number))
                if record is not None:
                    record.apply(changes, arrays)
            for number, name, value in message["containers"]:
                if isinstance(name, str) and not name.startswith("_"):
                    held = vars(self.own[number]).get(name)
                    write_over(held, values.Decoder(self, arrays)(value))
            if message["random"] is not None:
                default_generator.set_state(message["random"])
                self.random = default_generator.get_state()
            for number in message["dropped"]:
                self._forget(number)
        except Lost:
            raise
        except Exception as error:
            raise Lost(f"sent what is no message ({type(error).__name__})") from error
        return message, arrays

    def _forget(self, number):
        thing = self.own.pop(number, None)
        if thing is not None:
            for numbers in (self.number_of, self.result_of):
                if numbers.get(id(thing)) == number:
                    del numbers[id(thing)]
            self.records.pop((True, number), None)
            self.ends.pop(number, None)

    def _updates(self, arrays):
        """What the other side does not know yet of that of which it has a copy.

        What has a history is changed by operations alone, and these tell the time. Copies are kept
        up to here, since they may have been written into and let go.
        """
        updates, quiet = [], self.told_at == state.last_change
        self.told_at = state.last_change
        for (own, number), record in reversed(list(self.records.items())):
            if not quiet or record.history is None:
                changes = record.changes(arrays)
                if changes:
                    updates.append([not own, number, changes])
            if not own:
                record.let_go()
        return updates

    # Values

    def register(self, value, numbers=None) -> int:
        """The number under which the other side knows an object of ours."""
        numbers = self.number_of if numbers is None else numbers
        if isinstance(value, self.refused):
            raise Refused(f"a {type(value).__name__} is not handed over")
        number = numbers.get(id(value))
        if number is None:
            number = next(self.numbers)
            self.own[number], numbers[id(value)] = value, number
        return number

    def stands_for(self, value) -> int | None:
        """The number of the other side's object for which a value stands here, if it does."""
        number = getattr(value, "__dict__", {}).get("_home")
        return number if number is not None and self.theirs.get(number) is value else None

    def adopt(self, number, value):
        """Note what stands for an object of theirs, which they keep as long as we need it."""
        self.theirs[number] = value
        vars(value).update(_home=number, _lifetime=Lifetime())
        self.lives[number] += 1
        weakref.finalize(vars(value)["_lifetime"], self.lost.append, number).atexit = False
        return value

    def _count_lost(self):
        """The numbers of theirs that nothing here needs any more.

        Objects die at any moment, in a loop too: that is only noted then, and counted here.
        """
        dropped = []
        while self.lost:
            number = self.lost.pop()
            self.lives[number] -= 1
            if not self.lives[number]:
                del self.lives[number]
                self.records.pop((False, number), None)
                self.borrowed.pop(number, None)
                dropped.append(number)
        return dropped

    # Tensors

    def encode_tensor(self, x, encoder):
        number = self.stands_for(x)
        if number is not None and not self.records[False, number].is_rewritten():
            # As a result, what has a history here too must not lose it.
            if not (encoder.as_result and x.grad_fn and x.grad_fn.vjp is not _unchanged):
                return ["home", number]
        as_result = encoder.as_result and x.grad_fn is not None
        numbers = self.result_of if as_result else self.number_of
        number = numbers.get(id(x))
        record = None if number is None else self.records[True, number]
        if record and record.is_rewritten():
            del numbers[id(x)]  # it has another history now, and is another tensor there
            record = None
        if record and record.is_told:
            return ["copy", number]
        number = self.register(x, numbers)
        if record:
            record.note()
        else:
            record = self.records[True, number] = Record(x)
        leaves = None
        if x.requires_grad and not x.is_leaf:
            leaves = []
            if as_result:
                self.ends[number] = _leaves(x)
                leaves = [encoder(_named(leaf)) for leaf in self.ends[number]]
        grad = None
        if leaves is None:  # else what made it may be needed there when it is not
            encoder.told.append(record)
            grad = None if x.grad is None else encoder.array(x.grad.array)
        kind = "parameter" if isinstance(x, Parameter) else "tensor"
        return [kind, number, encoder.array(x.array), bool(x.requires_grad), leaves, grad]

    def decode_tensor(self, kind, number, array, needed, leaves, grad):
        there = self.theirs.get(number)
        if isinstance(there, TensorBase):
            self.records[False, number].write(array)
            return there
        array = array.copy()
        if leaves is None:
            x = (Parameter if kind == "parameter" else Tensor)._wrap(array)
            x._requires_grad = bool(needed) and array.dtype.kind == "f"
            x.grad = None if grad is None else Tensor._wrap(grad.copy())
            self.adopt(number, x)
        elif leaves:
            node = Node(remote, None, [leaf._gradient_edge() for leaf in leaves])
            x = self.adopt(number, made(Tensor, array, node, 0))
            node.vjp = _asking(self, number, x._lifetime)
        else:
            inner = Boundary._wrap(array)
            inner._requires_grad = True
            node = Node(remote, _unchanged, [inner])
            x = self.adopt(number, made(Tensor, array.copy(), node, 0))
            inner.number, inner.lifetime = Number(number), x._lifetime
        record = self.records[False, number] = Record(weakref.ref(x))
        record.kept = x
        return x


def _leaves(x):
    """The tensors at which the history of ``x`` ends."""
    found, seen, waiting = {}, set(), [x.grad_fn]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for edge in node.edges:
            if type(edge) is tuple:
                waiting.append(edge[0])
            elif edge is not None:
                found[id(edge)] = edge
    return list(found.values())


class Boundary(Tensor):
    """The leaf at which a history ends here that goes on at the other side.

    ``number`` is that of the tensor there.
    """


def _named(leaf):
    """The number of what a leaf stands for at the other side; else the leaf."""
    return leaf.number if isinstance(leaf, Boundary) else leaf


class Lifetime:
    """As long as it is needed, the other side keeps the object to which it belongs."""


def _unchanged(gradient):
    return gradient


def _asking(peer, number, kept):
    """The gradient function of a tensor of the other side, which lives as long as this does."""

    def gradients(gradient, kept=kept):
        weight = Tensor._wrap(gradient)
        return tuple(peer.ask("gradients", number=number, weight=weight))

    return gradients


def remote():
    """The name of a history that lies in another process."""
