"""Exercises that say of a wrong result what is wrong with it."""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from textbook.checks.exercise import Exercise, in_float64


@dataclass(eq=False)
class Explained(Exercise):
    """A check with ``reasons``: functions of the answer that return None or a sentence.

    They are asked where no known mistake fits, after the properties, often of an example that can
    be done by hand; an answer that is right never meets them.
    """

    reasons: tuple = ()

    def _reason(self, answer, case):
        said = super()._reason(answer, case)
        for reason in self.reasons:
            with suppress(Exception, SystemExit), in_float64(), np.errstate(all="ignore"):
                said = said or f"{reason(answer) or ''} ".lstrip()
        return said


def explained(**settings):
    """Make an ``Explained`` out of its reference, as ``exercise`` does."""
    return lambda reference: Explained(reference, **settings)
