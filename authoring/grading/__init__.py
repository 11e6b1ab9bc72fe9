"""Grading: the command, and what it is made of."""
