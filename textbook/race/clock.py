"""The time of a race: processor time, counted in training steps of chapter 11's model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from statistics import median
from time import process_time

import minitorch as mt
import minitorch.nn.functional as F
from minitorch import nn
from textbook.chapter_10 import OneStack

LEAGUES = (40, 120, 600)  # seconds
STEP = 0.1  # seconds of processor time that the reference step takes on the book's machine
OFTEN = 2.5  # after so many seconds of training the reference step is timed again


class Reference:
    """One training step of chapter 11's model of Shakespeare: the unit of work of a race.

    Four blocks of width 128, 16 windows of 128 letters, AdamW. It reads the same windows each time.
    """

    def __init__(self, letters: int = 65, width: int = 128, windows: int = 16) -> None:
        with mt.random.fork_rng():  # the program that is timed draws as if this were not here
            self.model = OneStack(letters, width, width // 32, 4 * width, 4, causal=True)
            self.windows = mt.randint(0, letters, (windows, width + 1))
        self.optimizer = mt.optim.AdamW(self.model.parameters(), lr=1e-4, betas=(0.9, 0.98))
        self.model.train()
        self.seconds()  # the first step sets up what the others find

    def seconds(self) -> float:
        """Take the step; the processor time that it took."""
        began = process_time()
        scores = self.model(self.windows[:, :-1]).flatten(0, 1)
        loss = F.cross_entropy(scores, self.windows[:, 1:].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return process_time() - began


reference = cache(Reference)  # one for all races of a process


class Clock:
    """Runs through the time of a race: one training step for each share of it that is used. ::

        clock = Clock(40)
        for done in clock:  # 0.0, 0.002, ..., 0.998
            ...  # a training step, at a rate that depends on done

    A league of 40 seconds is the work of 40 / 0.1 reference steps. How long such a step takes is
    measured before the race, and again and again in it; this is not counted. So a second of the
    race is longer on a slower machine, and also while other programs compete for the caches. The
    race begins when the clock is made: setting up a model counts.

    ``seconds`` of the race are used so far, ``spent`` of processor time, in ``steps`` steps.
    """

    def __init__(self, league: float) -> None:
        self.league, self.reference = league, reference()
        self.steps, self.spent, self.seconds, self._since = 0, 0.0, 0.0, 0.0
        self.measured = [self.reference.seconds() for _ in range(3)]
        self._began = process_time()

    @property
    def reference_step(self) -> float:
        """Processor time of the reference step, over the whole race."""
        return median(self.measured)

    @property
    def done(self) -> float:
        """The share of the time that is used up to now; above 1 it is over."""
        self._count()
        return self.seconds / self.league

    def __iter__(self) -> Clock:
        return self

    def __next__(self) -> float:
        done = self.done
        if done >= 1:
            raise StopIteration
        if self._since >= OFTEN:
            self.measured.append(self.reference.seconds())
            self._since, self._began = 0.0, process_time()
        self.steps += 1
        return done

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """A block that does not count: a look at the model, say."""
        self._count()
        try:
            yield
        finally:
            self._began = process_time()

    def _count(self) -> None:
        """Add what was spent since the last time, in the steps that the machine takes now."""
        now = process_time()
        used = now - self._began
        self.spent, self._since, self._began = self.spent + used, self._since + used, now
        self.seconds += used * STEP / median(self.measured[-3:])
