"""The results of the comparison as text: a summary for the terminal, a page for the docs."""

from collections import namedtuple

Row = namedtuple("Row", "name total failures intended missing value gradient remarks")


def row(name, cases):
    """What a name's cases came to."""
    failed = [case for case in cases if case.problem and not case.reason]
    missing = sum(case.problem.startswith("missing") for case in failed)
    reasons = dict.fromkeys(case.reason for case in cases if case.reason)
    first = [f"`{failed[0].text}`: {failed[0].problem}"] if failed else []
    value = max((c.value_difference for c in cases if not c.problem), default=0.0)
    gradient = max((c.gradient_difference for c in cases if not c.problem), default=0.0)
    remarks = "; ".join([*first, *(f"on purpose: {reason}" for reason in reasons)])
    intended = sum(bool(case.reason) for case in cases)
    return Row(name, len(cases), len(failed), intended, missing, value, gradient, remarks)


def summary(rows, programs):
    """One paragraph."""
    total = sum(row.total for row in rows)
    failures = sum(row.failures for row in rows)
    missing = sum(row.missing for row in rows)
    intended = sum(row.intended for row in rows)
    whole = sum(not row.failures for row in rows)
    agreeing = sum(not program.problem for program in programs)
    return (
        f"{total - failures - intended} of {total} cases agree, {intended} differ on purpose, "
        f"{failures} fail ({missing} of them for a missing name); "
        f"{whole} of {len(rows)} names have no failure; "
        f"{agreeing} of {len(programs)} programs agree step by step."
    )


def _number(value):
    return "0" if value == 0 else f"{value:.0e}"


def page(rows, programs, names, versions):
    """The page for the docs."""
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    lines = [
        "# minitorch and PyTorch, name by name",
        "",
        "Written by `python benchmarks/parity/compare.py --write`; do not edit. " + told + ".",
        "",
        summary(rows, programs),
        "",
        "A case is run with both libraries on equal inputs; values, types, shapes, gradients, "
        "error classes and, for modules, `state_dict` (moved both ways) must agree. The largest "
        "difference found is relative to the largest number of the result where that is above 1; "
        "0 is exact. Where the two differ on purpose, the remark says so, and "
        "[pytorch.md](pytorch.md) explains it.",
        "",
    ]
    groups = {group: [r for r in rows if r.name in listed] for group, listed in names.items()}
    everywhere = {name for listed in names.values() for name in listed}
    groups["further names"] = [r for r in rows if r.name not in everywhere]
    for group, members in groups.items():
        lines += [f"## {group}", "", "| name | cases | agree | value | gradient | remarks |"]
        lines += ["| --- | --- | --- | --- | --- | --- |"]
        for r in members:
            remarks = r.remarks.replace("|", "\\|").replace("\n", " ")
            agree = r.total - r.failures - r.intended
            lines.append(
                f"| `{r.name}` | {r.total} | {agree} | {_number(r.value)} | "
                f"{_number(r.gradient)} | {remarks} |"
            )
        lines.append("")
    lines += [
        "## Programs",
        "",
        "The programs of `tests/programs`, run with both libraries from equal initial weights; the "
        "import lines are the only difference. Compared is every loss of training, in order, and "
        "what the program makes of the trained model.",
        "",
        "| program | numbers compared | first loss | last loss | largest difference | remarks |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for p in programs:
        losses = f"{p.first:.4f} | {p.last:.4f}" if p.count else "- | -"
        lines.append(
            f"| {p.name} | {p.count} | {losses} | {_number(p.difference)} | {p.problem or ''} |"
        )
    return "\n".join(lines) + "\n"
