"""Keys: what instructors have of a module ``X.py`` and students do not, in ``X_key.py``."""

import importlib
from types import ModuleType

from textbook.checks.exercise import CheckFailed

ONLY_PUBLIC = "the hidden checks are the instructor's; this copy of the book has the public ones"


def key_of(home: str) -> ModuleType:
    """The key of the module of this name; refused where this copy of the book has none."""
    try:
        return importlib.import_module(f"{home}_key")
    except ModuleNotFoundError:
        raise CheckFailed(ONLY_PUBLIC) from None
