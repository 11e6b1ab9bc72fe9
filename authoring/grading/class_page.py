"""One page about the class: what cost most points, what went wrong how often, who may need help."""

import ast
import html
import logging
import textwrap
from collections import Counter, defaultdict

from nbformat import NotebookNode

from authoring import preflight
from authoring.grading.course import POLICY, maximum
from authoring.grading.statistics import statistics

log = logging.getLogger("authoring.grading.grade")
STYLE = """body { font: 15px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse } td, th { padding: 0 1em 0 0; text-align: left }
.side { display: flex; gap: 1em } .side > div { flex: 1; min-width: 0 }
pre { overflow-x: auto; background: #f4f4f4; padding: 0.5em; font-size: 13px }"""
MOST_LINES = 15  # of a plot or list
LONGEST_LINE = 110  # characters
SHORTEST = 150  # characters of an answer in its plain form: shorter ones are alike by chance
MOST_ALIKE = 4  # students: what more of them wrote is the usual way to write it
NEEDS_HELP = 0.5  # share of the points


def class_page(rows: list[dict], sets: dict[str, NotebookNode]) -> str:
    """The page, as HTML without scripts, from the rows of a grading with what their checks said."""
    parts = [
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"/>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"/>'
        f"<title>The class</title><style>{STYLE}</style></head><body><h1>The class</h1>"
    ]
    for name, source in sets.items():
        of_set = [row for row in rows if row["set"] == name]
        handed_in = [row for row in of_set if row["answers"]]
        without = [(row["student"], row["problem"]) for row in of_set if not row["answers"]]
        parts.append(f"<h2>{html.escape(name)}</h2>")
        parts.append(f"<p>{len(handed_in)} notebooks of {len(of_set)} students.</p>")
        if without:
            parts.append(f"<h3>Not in what follows: {len(without)}</h3>{_table(without, '')}")
        if handed_in:
            parts += _guarded(_section, handed_in, source)
            parts += _guarded(_similar, handed_in, source)
    parts.append("<h2>Who may need help</h2>")
    parts.append(_table(_in_need(rows), "nobody has less than half of the points"))
    return "\n".join([*parts, "</body></html>"])


def _guarded(make, *arguments):
    """A part of the page; what cannot be shown, whatever is in the answers, is named."""
    try:
        return list(make(*arguments))
    except Exception:
        log.exception("a part of the class page")
        return ["<p>(A part could not be shown: see grading.log.)</p>"]


def _section(rows, source):
    most = maximum(source)
    lost = {name: points - _mean(row[name] for row in rows) for name, points in most.items()}
    yield "<h3>Points lost, on average</h3>"
    yield _bars([(name, cost, f"{cost:.1f} of {most[name]:g}") for name, cost in _largest(lost)])
    said = Counter(f"{name}: {line}" for row in rows for name, line in row["said"].items())
    yield "<h3>What the checks said, and how often</h3>"
    yield _bars([(line, count, str(count)) for line, count in said.most_common(MOST_LINES)])
    yield "<h3>How each exercise did</h3>"
    lines = statistics(rows, {rows[0]["set"]: most})
    head = ("", "solved by", "mean", "goes with the other points")
    shown = [
        (
            _text(line["exercise"]),
            f"{line['solved']:.0%}",
            f"{line['mean']:.1f} of {line['points']:g}",
            _text(line["tells apart"]),
        )
        for line in lines
    ]
    yield _table([head, *shown], "")


def _text(value):
    return "-" if value is None else str(value)


def _similar(rows, source):
    yield "<h3>Similar answers</h3>"
    yield "<p>The same code but for names and comments: a reason to look, and no verdict.</p>"
    found = alike(rows, source)
    for exercise, students in found[:MOST_LINES]:
        sides = "".join(
            f"<div>{html.escape(student)}<pre>{html.escape(text)}</pre></div>"
            for student, text in students.items()
        )
        yield f'<h4>{html.escape(exercise)}</h4><div class="side">{sides}</div>'
    if not found:
        yield "<p>(none)</p>"


def _mean(values):
    values = list(values)
    return sum(values) / len(values)


def _largest(values):
    return sorted(values.items(), key=lambda item: -item[1])


def _bars(lines):
    """A plot of horizontal bars, as SVG: each a label, a number and how it is shown."""
    if not lines:
        return "<p>(nothing)</p>"
    largest = max(value for _, value, _ in lines) or 1
    drawn = []
    for i, (label, value, shown) in enumerate(lines):
        y, width = 40 * i, 600 * value / largest
        label = textwrap.shorten(label, LONGEST_LINE, placeholder=" ...")
        drawn.append(
            f'<text x="0" y="{y + 14}">{html.escape(label)}</text>'
            f'<rect x="0" y="{y + 19}" width="{width:.1f}" height="12" fill="#3b6ea8"/>'
            f'<text x="{width + 6:.1f}" y="{y + 30}">{html.escape(shown)}</text>'
        )
    height = 40 * len(lines)
    return (
        f'<svg viewBox="0 0 800 {height}" width="800" height="{height}" font-size="13">'
        + "".join(drawn)
        + "</svg>"
    )


def _table(lines, otherwise):
    if not lines:
        return f"<p>({otherwise})</p>"
    cells = ("".join(f"<td>{html.escape(text)}</td>" for text in line) for line in lines)
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in cells) + "</table>"


def _in_need(rows):
    """Students with less than half of the points, the least first, and what they did not solve."""
    totals = defaultdict(lambda: [0, 0, []])
    for row in rows:
        total = totals[row["student"]]
        total[0] += row["total"]
        total[1] += row["max"]
        total[2] += row["said"] or ([] if row["answers"] else [f"{row['set']} not handed in"])
    found = sorted((got / most, name) for name, (got, most, _) in totals.items() if most)
    return [
        (name, f"{share:.0%}", ", ".join(totals[name][2]))
        for share, name in found
        if share < NEEDS_HELP
    ]


def alike(rows: list[dict], source: NotebookNode) -> list[tuple[str, dict[str, str]]]:
    """Exercises with the answers of students who wrote the same but for names and comments.

    What the solution writes too, or many of the students, is no sign of anything.
    """
    ours = {plain_form(cell.source) for cell in preflight.plain(source).cells}
    found = defaultdict(dict)
    for row in rows:
        for exercise, text in row["answers"].items():
            form = plain_form(text)
            if form and len(form) >= SHORTEST and form not in ours:
                found[exercise, form][row["student"]] = text
    return [
        (exercise, students)
        for (exercise, _), students in found.items()
        if 1 < len(students) <= MOST_ALIKE
    ]


def plain_form(text: str) -> str | None:
    """Code without comments and docstrings, its own variables numbered; None if it is no code.

    Nor has it such a form where Python cannot write it: an integer of thousands of digits, say.
    """
    try:
        return ast.unparse(_numbered(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _numbered(tree):
    own = {}
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            body[:1] = [ast.Pass()]
        if isinstance(node, ast.arg):
            own.setdefault(node.arg, f"v{len(own)}")
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.setdefault(node.id, f"v{len(own)}")
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.arg = own[node.arg]
        elif isinstance(node, ast.Name):
            node.id = own.get(node.id, node.id)
    return tree
