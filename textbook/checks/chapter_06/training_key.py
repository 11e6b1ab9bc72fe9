"""Hidden seeds of ``training.py``."""

SEEDS = 10, 11, 12
