"""Curves, of one run or of several seeds."""

import numpy as np

from textbook.plot.matrices import as_array


def losses(axes, runs, *, smooth=1, log=False, xlabel="step", ylabel="loss", title=""):
    """Draw one curve for each of ``runs``, a dict from names to losses, one a step.

    The losses of several seeds, (seeds, steps), are drawn as ``spread`` draws them; a pair (steps,
    losses) says where on the x axis each loss stands. ``smooth`` averages over that many values up
    to each one, with the raw curve of a single run behind it in a pale shade. ::

        figure, axes = plot.subplots()
        plot.losses(axes, {"lr 0.1": first, "lr 0.01": second}, smooth=20, log=True)
        plot.show(figure, alt="The loss falls faster at the larger learning rate.")
    """
    if smooth < 1:
        raise ValueError(f"smooth is a number of steps, at least 1; got {smooth}")
    for name, run in runs.items():
        steps, values = run if isinstance(run, tuple) else (None, run)
        values = as_array(values)
        steps = np.arange(values.shape[-1]) if steps is None else as_array(steps)
        smoothed = [_running_mean(run, smooth) for run in np.atleast_2d(values)]
        line = spread(axes, steps, smoothed, label=name)
        if values.ndim == 1 and smooth > 1:
            axes.plot(
                steps, values, color=line.get_color(), alpha=0.3, linewidth=0.8, linestyle="-"
            )
    if log:
        axes.set_yscale("log")
    axes.set(xlabel=xlabel, ylabel=ylabel, title=title)
    if len(runs) > 1:
        axes.legend()
    return axes


def spread(axes, x, runs, **style):
    """Draw the median over ``runs``, (seeds, len(x)), in a band from the smallest to the largest.

    ``style`` is that of the line; the line is returned. One run is drawn as a line alone. ::

        line = plot.spread(axes, [8, 16, 32], accuracy_by_seed, marker="o", label="two heads")
    """
    runs = as_array(runs)
    [line] = axes.plot(x, np.median(runs, axis=0), **style)
    if len(runs) > 1:
        low, high = runs.min(axis=0), runs.max(axis=0)
        axes.fill_between(x, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    return line


@np.errstate(invalid="ignore")  # losses that became infinite: inf - inf
def _running_mean(values, count):
    """The mean of up to ``count`` values that end at each place."""
    if count == 1:
        return values
    total = np.cumsum(values, dtype=float)
    before = np.concatenate([np.zeros(min(count, len(total))), total[:-count]])
    return (total - before) / np.minimum(np.arange(1, len(total) + 1), count)
