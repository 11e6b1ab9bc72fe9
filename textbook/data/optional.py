"""Packages that only some functions need."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs(package: str, purpose: str) -> Iterator[None]:
    """Around an import: where the package is missing, say what it is for and how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ModuleNotFoundError(
            f"{purpose} needs the package {package}: pip install {package}", name=package
        ) from None
