"""The race of chapter 14: how well does a program predict letters after so many seconds?"""

from textbook.race.clock import LEAGUES, Clock
from textbook.race.measure import RaceError, nats_a_letter, parts, refuse_unfair

__all__ = ["LEAGUES", "Clock", "RaceError", "nats_a_letter", "parts", "refuse_unfair"]
