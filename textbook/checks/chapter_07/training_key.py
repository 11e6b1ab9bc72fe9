"""Hidden seeds of ``training.py``."""

SEEDS = (39,)
