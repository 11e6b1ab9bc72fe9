"""Hidden seeds of ``recall.py``."""

SEEDS = [21, 22, 23]
