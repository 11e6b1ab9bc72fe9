"""The notebooks of the book are tests: see authoring/nbval_compare.py."""

pytest_plugins = ["authoring.nbval_compare"]
