"""A window into attention: a page that shows where each head of a model looks.

``look`` runs a model, listens at the library's dispatch point, and keeps the weights of every
attention that it hears. The page holds them and needs nothing else: it works in a notebook, from a
file, and on a site.
"""

from textbook.look.view import View, look

__all__ = ["View", "look"]
