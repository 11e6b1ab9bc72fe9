"""A Transformer of the student's own parts: which are used, and whether it has learned."""

from contextlib import redirect_stdout
from functools import wraps
from io import StringIO
from time import perf_counter

import minitorch.nn.functional as F
from textbook.chapter_08 import sinusoidal_codes
from textbook.chapter_09 import FeedForward
from textbook.checks import chapter_05, chapter_07, chapter_08, chapter_09
from textbook.checks.chapter_10.attention import CrossAttention
from textbook.checks.chapter_10.block import Block
from textbook.checks.chapter_10.teaching import teacher_forcing
from textbook.checks.chapter_10.transformer import Transformer
from textbook.checks.exercise import CheckFailed
from textbook.data import number_pieces

CHECKS = {
    "05": (chapter_05.attention,),
    "07": (chapter_07.masked_attention,),
    "08": (chapter_08.sinusoidal_codes,),
    "09": (chapter_09.layer_norm, chapter_09.FeedForward),
    "10": (
        teacher_forcing,
        CrossAttention,
        Block,
        Transformer,
    ),
}


def _layer_norm(x, gain, bias, eps):
    return F.layer_norm(x, x.shape[-1:], gain, bias, eps)


LIBRARY = {
    "attention": F.scaled_dot_product_attention,
    "masked_attention": F.scaled_dot_product_attention,
    "sinusoidal_codes": sinusoidal_codes,
    "layer_norm": _layer_norm,
    "FeedForward": FeedForward,
}
ENOUGH = 0.8  # of the held-out numbers; a Transformer that has learned gets nearly all


class Parts:
    """The parts of a Transformer: the student's where they pass their check, else the library's.

    ``parts.attention`` and so on are the parts, each of which adds up the ``seconds`` that it
    runs; ``mine`` names those of the student. ``names`` are the names that the student has
    defined, ``globals()``. Printed, it says for each part whose it is, and why. Parts of set 10
    that a copy of the book without answers does not have are missing.
    """

    def __init__(self, names):
        self.mine, self.seconds, self.said = [], {}, {}
        self._inner = []  # for each part that is running, the seconds of the parts inside it
        for number, checks in CHECKS.items():
            for check in checks:
                part = LIBRARY.get(check.name, check.reference)
                problem = _problem(check, names.get(check.name))
                if problem is None:
                    part = names[check.name]
                    self.mine.append(check.name)
                others = "the library's" if check.whole or check.name in LIBRARY else "missing"
                self.said[f"set {number}, {check.name}"] = (
                    f"{others}{problem}" if problem is not None else "yours"
                )
                setattr(self, check.name, self._timed(check.name, part))

    def _timed(self, name, part):
        """The part; the seconds that it runs are added up."""
        if isinstance(part, type):

            def call(module, *args, **named):
                return self._run(name, super(timed, module).__call__, args, named)

            timed = type(part.__name__, (part,), {"__call__": call})
        else:

            @wraps(part)
            def timed(*args, **named):
                return self._run(name, part, args, named)

        return timed

    def _run(self, name, function, args, named):
        start = perf_counter()
        self._inner.append(0.0)
        try:
            return function(*args, **named)
        finally:
            spent = perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent - self._inner.pop()
            if self._inner:
                self._inner[-1] += spent

    def __str__(self):
        return "\n".join(f"{place}: {whose}" for place, whose in self.said.items())


def _problem(check, answer):
    """Why the answer is not used: "" if there is none, None if it is right."""
    if answer is None:
        return ""
    try:
        with redirect_stdout(StringIO()):
            check(answer)
    except CheckFailed as failure:
        reason = str(failure).removeprefix(f"{check.name}: ").split("\n")[0]
        return "" if reason == "not solved yet." else f"; yours does not pass its check: {reason}"
    return None


def assembled(parts, model, translate, numbers):
    """Raise ``CheckFailed`` unless the student's Transformer has learned and is of its parts.

    ``translate(number)`` gives the German pieces of a number; ``numbers`` were held out.
    """
    if "Transformer" not in parts.mine or not isinstance(model, parts.Transformer):
        raise CheckFailed(
            "Transformer: what has been trained is not made of your Transformer as it is now.\n"
            "Run all cells from the one with check.Parts on again."
        )
    right = sum(list(translate(number)) == number_pieces(number, "de") for number in numbers)
    if right < ENOUGH * len(numbers):
        slow = max(parts.seconds, key=parts.seconds.get, default=None)
        raise CheckFailed(
            f"Transformer: it translates {right} of {len(numbers)} held-out numbers, and at least "
            f"{ENOUGH:.0%} are expected.\nDid the training run to its end? If it was stopped, see "
            f"{slow}, into which most time went: if it loops over tokens, let whole tensors do it. "
            "Else run all cells again from the one with check.Parts on."
        )
    idle = [name for name in parts.mine if name not in parts.seconds]
    if idle:
        raise CheckFailed(
            f"Transformer: these parts of yours have not run in it: {', '.join(idle)}.\n"
            "Run all cells from the one with check.Parts on again, as they were given."
        )
    print(f"Transformer: at least {ENOUGH:.0%} of {len(numbers)} held-out numbers are right")
    print(f"made of your own {', '.join(parts.mine)}")
