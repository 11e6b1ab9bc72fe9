"""How an answer that is a module of one input is driven."""

from textbook.checks import modules


def made(reference, answer, sizes):
    """The module in float64, with drawn parameters where it has those of the reference."""
    return modules.loaded(answer(*sizes), modules.drawn(reference, *sizes))


def results_of(reference, answer, sizes, x, *others):
    """Its parameters; and, if these are as they should be, its output and all gradients."""
    weights = modules.drawn(reference, *sizes)
    return modules.results_of(
        answer(*sizes), weights, {"x": x}, lambda module: {"the output": module(x, *others)}
    )
