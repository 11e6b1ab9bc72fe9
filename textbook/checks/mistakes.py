"""The usual mistakes of an exercise: a table of text, ``NAME.txt`` beside its module.

A mistake is an edit of the reference. An entry of the table, ended by an empty line, is ::

    what the answer is
        a piece of the reference => what stands in its place
    what to think about

The name completes "your answer is ...". A piece stands in the reference once; an entry may have
several, and a long one goes on in lines that are indented deeper. Whole lines are exchanged by ::

        - lines of the reference
        + lines in their place

and where an edit will not do, ``by`` is followed by an expression with the names of the key,
which gives a function (or class) that makes the mistake. Mistakes of one hint may share an entry:
name, edits, name, edits, hint.
"""

import inspect
import itertools
import math
import re
import statistics
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType

import numpy as np

import minitorch as mt

NAMES = {"math": math, "mt": mt, "np": np, "statistics": statistics}  # for what edits put in
CHANGE = re.compile(r"((?:^-(?: .*)?\n)+)((?:^\+(?: .*)?\n)*)|(^.*\n(?:^ .*\n)*)", re.MULTILINE)


@dataclass(frozen=True)
class Mistake:
    """A usual wrong answer: what it is, how it computes, what to think about."""

    name: str
    function: object
    hint: str
    edits: tuple = ()  # of the reference, if these are what makes it


@dataclass(frozen=True)
class Edit:
    """A piece of a reference, or whole lines of it, and what stands in its place."""

    old: str
    new: str
    lines: bool = False

    def place(self, text: str) -> tuple[int, int, str]:
        """Where it begins and ends in the text, and what is put there."""
        pattern = re.escape(self.old)
        if self.lines:
            each = (re.escape(line) + "(?:  #.*)?" for line in self.old.split("\n"))
            pattern = "^( *)" + r"\n\1".join(each) + "$"
        found = list(re.finditer(pattern, text, re.MULTILINE))
        if len(found) != 1:
            raise ValueError(
                f"{self.old!r} stands {len(found)} times in the reference, and has to stand there "
                "once"
            )
        new = textwrap.indent(self.new, found[0][1]) if self.lines else self.new
        return *found[0].span(), new


def mistakes_of(reference: Callable) -> list[Mistake]:
    """The mistakes in the table of an exercise; none, if it has no table."""
    path = Path(inspect.getfile(reference)).with_name(f"{reference.__name__}.txt")
    if not path.exists():
        return []
    found, wrong = [], []
    for name, changes, hint in entries(path.read_text(encoding="utf-8")):
        try:
            edits = () if changes.startswith("by ") else edits_in(changes)
            function = edited(reference, edits) if edits else _given(reference, changes)
            found.append(Mistake(name, function, hint, edits=edits))
        except Exception as error:
            wrong.append(f"{path.parent.name}/{path.name}, {name!r}: {error}")
    if wrong:
        raise ValueError("\n".join(wrong))
    return found


def entries(text: str) -> Iterator[tuple[str, str, str]]:
    """Of each mistake in a table its name, the lines that change something, and its hint."""
    for entry in filter(None, re.split(r"\n\s*\n", text.strip("\n"))):
        blocks = [
            (indented, list(lines))
            for indented, lines in itertools.groupby(entry.split("\n"), lambda line: line[0] == " ")
        ]
        if len(blocks) < 3 or blocks[0][0] or blocks[-1][0]:
            raise ValueError(f"expected a name, indented edits and a hint, got\n{entry}")
        *mistakes, (_, hint) = blocks
        for (_, name), (_, changes) in zip(mistakes[::2], mistakes[1::2], strict=True):
            yield " ".join(name), textwrap.dedent("\n".join(changes)), " ".join(hint)


def edits_in(changes: str) -> tuple[Edit, ...]:
    """The edits that the lines say."""
    found = []
    for removed, added, piece in re.findall(CHANGE, f"{changes}\n"):
        if removed:
            old, new = (re.sub("(?m)^[-+] ?", "", lines[:-1]) for lines in (removed, added))
            found.append(Edit(old, new, lines=True))
        elif "=>" in piece:
            found.append(Edit(*map(str.strip, " ".join(piece.split("\n")).split("=>", 1))))
        else:
            raise ValueError(f"expected 'a piece => what stands in its place', got {piece!r}")
    return tuple(found)


def pairs_of(
    reference: Callable, mistakes: Sequence[Mistake]
) -> Iterator[tuple[Mistake, Mistake, Callable]]:
    """Two mistakes that edit other places of the reference, and what makes both of them.

    None, where the reference repeats something ``while`` a condition holds: two edits may have it
    hold for ever.
    """
    single = [m for m in mistakes if m.edits]
    texts = [text_of(reference), *(edit.new for mistake in single for edit in mistake.edits)]
    if any("while " in text for text in texts):
        return
    for one, other in itertools.combinations(single, 2):
        with suppress(ValueError, SyntaxError):  # they overlap
            yield one, other, edited(reference, one.edits + other.edits)


@cache
def text_of(reference: Callable) -> str:
    """The text of a function or class, without decorators."""
    text = textwrap.dedent(inspect.getsource(reference))
    return text[re.search("^(def|class) ", text, re.MULTILINE).start() :]


def edited(reference: Callable, edits: Sequence[Edit]) -> Callable:
    """The function or class that the text of the reference defines when it is edited."""
    names = names_of(reference)
    exec(edited_code(reference, edits), names)
    return names[reference.__name__]


def names_of(reference: Callable) -> dict[str, object]:
    """What an edit may name: all that the key of its exercise has, and the module beside it."""
    home = sys.modules[reference.__module__.removesuffix("_key")]
    return NAMES | vars(home) | vars(inspect.getmodule(reference))


def edited_code(reference: Callable, edits: Sequence[Edit]) -> CodeType:
    """What ``edited`` runs."""
    text = text_of(reference)
    places = sorted(edit.place(text) for edit in edits)
    if any(end > begin for (_, end, _), (begin, _, _) in itertools.pairwise(places)):
        raise ValueError("two of its edits change the same piece")
    for begin, end, new in reversed(places):
        text = text[:begin] + new + text[end:]
    return compile(text, f"{inspect.getfile(reference)}, edited", "exec")


def _given(reference: Callable, changes: str) -> Callable:
    return eval(f"({changes.removeprefix('by ')})", names_of(reference))
