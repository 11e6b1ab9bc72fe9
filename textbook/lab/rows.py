"""A table of runs: settings and measured numbers."""

from __future__ import annotations

from typing import Any

import numpy as np


class NoRun(KeyError):
    """A setting that no run has."""


class Rows(list):
    """One dict a run: its settings, its ``seed`` and what was measured, in the grid's order."""

    def where(self, **settings: Any) -> Rows:
        """The runs with these settings; one that no run has is an error."""
        for name, value in settings.items():
            known = self.settings_of(name)
            if value not in known:
                raise NoRun(f"no run has {name} = {value!r}; there is {name} = {known}")
        found = [row for row in self if all(row[name] == x for name, x in settings.items())]
        if not found:
            raise NoRun(f"no run has all of {settings}")
        return Rows(found)

    def has(self, **settings: Any) -> bool:
        """Whether any run has these settings."""
        return any(all(row[name] == x for name, x in settings.items()) for row in self)

    def values(self, name: str, **settings: Any) -> np.ndarray:
        """What was measured under this name in each run with these settings, nan for None.

        Runs that differ in their seed alone come in its order, so that arrays of two settings can
        be compared seed by seed.
        """
        rows = self.where(**settings)
        self._known(name)
        return np.array([np.nan if row[name] is None else row[name] for row in rows])

    def settings_of(self, name: str) -> list:
        """The values of this setting, in the grid's order, each once."""
        self._known(name)
        return list(dict.fromkeys(row[name] for row in self))

    def _known(self, name: str) -> None:
        if self and name not in self[0]:
            raise KeyError(f"nothing is called {name!r}; there is {', '.join(self[0])}")
