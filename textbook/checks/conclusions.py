"""Exercises that ask what a table allows to conclude: the pairs of an answer, in any order."""

from typing import Any

from textbook.checks.compare import brief


def as_pairs(found: Any, relation: str, asked: str = "what is concluded") -> dict[str, Any]:
    """Pairs as sorted sentences ("a is better than b"); their form is compared by itself."""
    if not isinstance(found, (list, tuple, set)) or not all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in found
    ):
        return {"the form of the result": brief(found), asked: None}
    pairs = sorted(f"{one} is {relation} than {other}" for one, other in found)
    return {"the form of the result": "pairs", asked: "; ".join(pairs) or "nothing"}
