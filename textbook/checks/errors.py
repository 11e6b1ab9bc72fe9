"""Errors in an answer, in words: what stopped it, and in which line of the student's."""

import os
import sysconfig
import traceback

import minitorch
import textbook
from textbook.checks.compare import brief

NOT_THE_STUDENTS = [  # where code lies that is not theirs
    *(os.path.dirname(package.__file__) + os.sep for package in (minitorch, textbook)),
    sysconfig.get_path("stdlib"),
    sysconfig.get_path("purelib"),
]


def stopped(error, returned=()):
    """The error with the last line of the student's own code on the way to it, if there is one."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(tuple(NOT_THE_STUDENTS))]
    if own:
        return f"your code stopped with {in_words(error)}\nin the line: {own[-1].line}"
    for value in returned:
        end = (
            ": does it end with a return?"
            if value is None
            else f", where the check found {in_words(error)}"
        )
        return f"the check cannot use what your code returned, {brief(value)}{end}"
    return f"the check cannot use what your code returned, and stopped with {in_words(error)}"


def in_words(error):
    """The error as Python shows it; "None" if there is none."""
    try:
        return f"{type(error).__name__}: {error}" if error else "None"
    except Exception:  # one of the answer's own, which has no text
        return type(error).__name__
