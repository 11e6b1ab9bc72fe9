"""Tells at the end of a run how many gradients were compared."""

import gradients
import pytest


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["comparisons"] = dict(gradients.counts)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    gradients.counts.update(getattr(node, "workeroutput", {}).get("comparisons", {}))


def pytest_terminal_summary(terminalreporter):
    if gradients.counts:
        told = ", ".join(f"{count} {what}" for what, count in sorted(gradients.counts.items()))
        terminalreporter.write_line(f"operations compared: {told}")
