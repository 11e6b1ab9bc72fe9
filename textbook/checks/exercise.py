"""``Exercise``: run an answer on many cases, compare it with the reference, name the mistake."""

import importlib
import inspect
import io
import pkgutil
import traceback
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, partial, wraps
from time import thread_time
from typing import ClassVar

import numpy as np

from minitorch.autograd import grad, record_operations
from minitorch.autograd.tensorbase import TensorBase
from minitorch.backend import float64
from minitorch.creation import tensor
from textbook.checks import progress
from textbook.checks.arguments import (
    copied,
    detached,
    exchanged,
    exchanges,
    is_plain,
    leaf,
    lengths,
    names,
    size,
    tensors,
)
from textbook.checks.compare import as_array, brief, difference, indented
from textbook.checks.describe import in_common
from textbook.checks.errors import in_words, stopped
from textbook.checks.mistakes import mistakes_of, pairs_of
from textbook.checks.precision import in_float64

SEEDS = {False: (0, 1, 2), True: (100, 101, 102)}
SECONDS_FOR_PAIRS = 2
EXPLAINS = True  # else a wrong answer is only refused
