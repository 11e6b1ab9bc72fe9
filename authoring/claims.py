"""docs/claims.md: what the lectures claim and what came out, read from boxes in the chapters.

A box closes the section whose heading carries its number:

    > **C6 · holds: a sentence that can be repeated, with its number.** *The lectures* (deck 3,
    > "Attention is great!"): what they say.
    >
    > *Measured*: what came out, with its spread.

An experiment of our own, **E1 · a sentence with its number.**, has `*Our question*: what we ask.`
in place of the lectures. The page has the sentence; what was measured stands behind its link.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .form import CLAIM
from .sources import BookError, chapters, number_of, read_chapter, write_text

PAGE = Path("docs", "claims.md")
FORM = (
    'write > **C1 · holds: Sentence.** *The lectures* (deck 1, "Title of the slide"): ..., or '
    "> **E1 · Sentence.** *Our question*: ..., then an empty line and > *Measured*: ..., without |"
)
KINDS = ("holds", "holds with a condition", "not")
LONGEST = 140  # characters of a verdict: a sentence and a number
BOX = re.compile(
    r"\*\*(?P<number>[CE]\d+) · ((?P<kind>[a-z ]+): )?(?P<verdict>[A-Z1-9][^*|]+)\.\*\* "
    r"(\*The lectures\* \((?P<decks>deck [^|]+?)\)|\*Our question\*): (?P<said>[^|]+?) "
    r"\*Measured\*: (?P<measured>[^|]+)"
)
DECKS = re.compile(r'deck [1-5](, "[^"]+")*(; deck [1-5](, "[^"]+")*)*')

INTRODUCTION = """\
# What five lectures say, and what we measured

The book follows five lecture decks from the recurrent network to the Transformer. What they claim
has a number, C1, C2, ..., and a chapter that tries it, on a model small enough to run while you
read. A claim is a hypothesis: where the measurement says otherwise, the chapter reports what was
measured, and at which size, length or learning rate it turns. Questions that the lectures do not
ask are ours: E1, E2, ..., counted anew in each chapter.

Each row has what came out, in a sentence and a number. A claim of the lectures **holds**; or it
holds *with a condition*, which the sentence names; or it did **not** come out.

A verdict speaks of this book's sizes: small models, data that is mostly made up, minutes on a
processor. The link under *where* leads to the section that measures: it ends with a box, which
names the slide and all that was measured, from smallest to largest over the seeds. Its outputs and
the chapter's file in `notebooks/results` hold each number.

Do you doubt one? Measure it elsewhere, with other seeds, and with ten times the steps:

    python book.py experiment 05 C11 --seeds 100:105
    python book.py experiment 09 C34 --seeds 100:105 --budget 10

It runs the experiments of this claim as they were recorded, and prints what comes out beside the
record, with the same bounds. Nothing is written.

## The decks

They are slides, and no part of the book. This is what they say about themselves.

1. **Lecture 8: Self-Attention and Transformers**, CS224N/Ling284, Natural Language Processing with
   Deep Learning; Tatsunori Hashimoto. Self-attention and what it lacks, the Transformer, its
   results and its costs. One slide speaks of 2024.
2. **Lecture 13: Attention & Transformers**, 10-701, Introduction to Machine Learning; Hoda Heidari,
   after slides of fall 2024 by Henry Chai. RNN, backpropagation through time, LSTM, language
   models, then attention and the Transformer.
3. **Lecture 8: Self-Attention and Transformers**, CS224N of 2023, by its links; names no author.
   Deck 1's lecture of an earlier year, with the way there: the bottleneck, attention and its score
   functions.
4. **Session 3: Attention & Transformers**, Advanced NLP, winter 2025/26; Richard Sieg, TH Köln.
   Attention, the Transformer, scaling.
5. **Is Attention All We Need?**, its first heading; names neither course nor author. From attention
   to self-attention, four things that this lacks, the Transformer.
"""


@dataclass
class Box:
    """One claim or question with what came out, and the section that it closes."""

    number: str
    kind: str | None
    verdict: str
    decks: str | None
    said: str
    measured: str
    source: Path
    heading: str
    section: str

    @property
    def name(self) -> str:
        """The number; for a question of our own also the chapter that counts it."""
        return f"**{self.number}**" + (
            "" if self.decks else f"&nbsp;of&nbsp;{number_of(self.source)}"
        )

    @property
    def where(self) -> str:
        """A link to the section, whose anchor JupyterLab and GitHub make of its heading."""
        notebook = f"../notebooks/{self.source.stem}.ipynb"
        anchor = self.heading.replace(" ", "-")
        return f"[{number_of(self.source)}&nbsp;§&nbsp;{self.section}]({notebook}#{anchor})"


def write(root: Path) -> None:
    """Write the page of claims."""
    write_text(root / PAGE, page(root))


def problems(root: Path) -> Iterator[str]:
    """Boxes that are missing or wrong, and a page that is not what they say."""
    owners: dict[str, Path] = {}
    for source in chapters(root):
        boxes, headings = _read(source)
        for number in sorted(set(headings) - {box.number for box in boxes}):
            yield f"{source}: '{headings[number]}' has no box: end its section with one; {FORM}"
        for number in (box.number for box in boxes):
            key = number if number.startswith("C") else f"{source} {number}"
            if key in owners:
                yield (
                    f"{source}: {number} has a box in {owners[key]} already: "
                    "keep one of the two, or give one another number"
                )
            owners[key] = source
    path = root / PAGE
    if not path.exists() or path.read_text(encoding="utf-8") != page(root):
        yield f"{path} is not what the boxes say: run: python book.py build NN, with any chapter"


def page(root: Path) -> str:
    """The text of docs/claims.md."""
    boxes = [box for source in chapters(root) for box in _read(source)[0]]
    claims = sorted((box for box in boxes if box.decks), key=_order)
    questions = sorted((box for box in boxes if not box.decks), key=_order)
    parts = [INTRODUCTION, "## What the lectures claim", _count(claims)]
    parts.append(_table("the lectures say", claims))
    if missing := _missing(claims):
        parts.append(f"Still to be measured, in chapters that are planned: {', '.join(missing)}.")
    parts += ["## What we asked ourselves", _table("our question", questions)]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _order(box: Box) -> tuple:
    chapter = "" if box.decks else number_of(box.source)
    return chapter, int(box.number[1:])


def _count(claims: list[Box]) -> str:
    plain, conditional, failed = (sum(box.kind == kind for box in claims) for kind in KINDS)
    return (
        f"Of {len(claims)} claims {plain} hold as they stand, {conditional} hold "
        f"under a condition, and {failed} did not come out. The conditions, which a slide has no "
        "room for, are what there is to learn."
    )


def _table(asked: str, boxes: list[Box]) -> str:
    rows = [f"| | {asked} | what came out | where |", "| --- " * 4 + "|"]
    for box in boxes:
        verdict = f"{box.verdict}."
        if box.kind:
            condition = box.kind.removeprefix("holds ")
            kind = f"**{box.kind}**" if condition == box.kind else f"**holds** *{condition}*"
            verdict = f"{kind}: {verdict}"
        rows.append(f"| {box.name} | {box.said} | {verdict} | {box.where} |")
    return "\n".join(rows)


def _missing(claims: list[Box]) -> list[str]:
    known = {int(box.number[1:]) for box in claims}
    return [f"C{number}" for number in range(1, max(known, default=0)) if number not in known]


def _read(source: Path) -> tuple[list[Box], dict[str, str]]:
    """The chapter's boxes, and the headings that carry a number."""
    boxes, headings, heading, section = [], {}, "", ""
    for cell in read_chapter(source).cells:
        if cell.cell_type != "markdown":
            continue
        quote: list[str] = []
        for line in [*cell.source.split("\n"), ""]:
            if line.startswith(">"):
                quote += line[1:].split()
                continue
            if quote and re.match(r"\*\*[CE]\d", quote[0]):
                boxes.append(_box(source, " ".join(quote), heading, section))
            quote = []
            if line.startswith("#"):
                heading = line.lstrip("# ")
                headings |= dict.fromkeys(CLAIM.findall(heading), heading)
                section = re.match(r"\d*", heading)[0] or section
    return boxes, headings


def _box(source: Path, text: str, heading: str, section: str) -> Box:
    where = f"{source}: the box '{text[:40]}'"
    found = BOX.fullmatch(text)
    if not found:
        raise BookError(f"{where} has another form than this: {FORM}")
    number, decks = found["number"], found["decks"]
    if number.startswith("C") != bool(decks):
        raise BookError(f"{where}: C stands before *The lectures*, E before *Our question*")
    if decks and not DECKS.fullmatch(decks):
        raise BookError(f'{where}: ({decks}) is not of the form (deck 1, "Title"; deck 3)')
    if decks and found["kind"] not in KINDS:
        raise BookError(f"{where}: the verdict on a claim begins with one of {KINDS} and a colon")
    if len(found["verdict"]) > LONGEST:
        raise BookError(f"{where}: a verdict is one sentence, of at most {LONGEST} characters")
    if number not in CLAIM.findall(heading):
        raise BookError(f"{where} stands under '{heading}': move it to the section with ({number})")
    return Box(**found.groupdict(), source=source, heading=heading, section=section)
