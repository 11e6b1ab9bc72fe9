"""Answers to the exercises of ``moving.py``."""

from textbook.checks.chapter_10.moving import _moving_cases, moved


@moved.answer(
    hidden_cases=lambda draw: _moving_cases(draw, others=([True] * 3 + [False], 6), last=("cross",))
)
def moved(real, T, place, forgotten):
    """The places of the target, counted from 0, whose scores move: a list."""
    where, i = place
    if where == "target":
        return list(range(0 if "causal" in forgotten else i, T))
    read = real[i] or "encoder" in forgotten or "cross" in forgotten
    return list(range(T)) if read else []


# Right in another way


def moved_by_reach(real, T, place, forgotten):
    """Who sees whom, as sets."""
    where, i = place
    sees = {t: {*range(T)} if "causal" in forgotten else {*range(t + 1)} for t in range(T)}
    if where == "target":
        return [t for t in sees if i in sees[t]]
    carriers = {i} | ({*range(len(real))} if real[i] or "encoder" in forgotten else set())
    read = {j for j in range(len(real)) if real[j] or "cross" in forgotten}
    return [t for t in range(T) if carriers & read]


def moved_by_running(real, T, place, forgotten):
    """Numbers that are sums of what is seen: no number cancels another one."""
    n, (where, i) = len(real), place
    vectors = {"source": [1.0] * n, "target": [1.0] * T}

    def run():
        x, y = vectors["source"], vectors["target"]
        seen = [k for k in range(n) if real[k] or "encoder" in forgotten]
        memory = [x[k] + 0.5 * sum(x[j] for j in seen) for k in range(n)]
        across = sum(memory[k] for k in range(n) if real[k] or "cross" in forgotten)
        ends = [T if "causal" in forgotten else t + 1 for t in range(T)]
        return [sum(y[:end]) + across for end in ends]

    before = run()
    vectors[where][i] += 1.0
    return tuple(t for t, (a, b) in enumerate(zip(before, run(), strict=True)) if a != b)


right = {
    "moved": [moved_by_reach, moved_by_running],
}
