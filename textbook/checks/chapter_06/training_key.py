"""Hidden seeds of ``training.py``."""

SEEDS = 10, 12
