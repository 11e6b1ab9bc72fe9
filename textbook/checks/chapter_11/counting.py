"""Counts of FLOPs that are sums of parts: which part is missing, or counted too often."""

TIMES = {-1: "is missing", -0.5: "is counted half", 1: "is counted twice"}


def part_that_differs(counted, parts, others, cases):
    """A sentence on the one part by which a count is off in all cases, by the same factor.

    ``counted(case)`` is the answer's count, ``parts(case)`` a dict from phrases to what belongs
    to it, ``others(case)`` one to what does not, or is a part of a part or several of them.
    """
    off, shares = [], {}
    for case in cases:
        belongs = parts(case)
        off.append(counted(case) - sum(belongs.values()))
        for phrase, count in (belongs | others(case)).items():
            shares.setdefault(phrase, []).append(off[-1] / count)
    if not any(off):
        return None
    fitting = {
        phrase: share[0]
        for phrase, share in shares.items()
        if max(share) - min(share) < 1e-9 * max(map(abs, share))
    }
    if len(fitting) != 1:
        return None
    [(phrase, share)] = fitting.items()
    if share == 1 and phrase not in parts(cases[0]) and phrase.startswith("what is no part"):
        return f"The count has {phrase.removeprefix('what is no part: ')}, and should not."
    said = TIMES.get(round(share, 9), f"is counted {1 + share:.3g} times")
    return f"All is right but for {phrase}, which {said}."
