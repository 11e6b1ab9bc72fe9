"""What students get: the exercise sets, and the book, without solutions and hidden tests."""

from .folder import from_shell as from_shell
from .folder import hand_out as hand_out
from .sets import release as release
