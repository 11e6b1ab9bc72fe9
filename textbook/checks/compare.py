"""How a result differs from the expected one, in words for the person who wrote it."""

import numbers
from decimal import Decimal

import numpy as np

from minitorch.autograd.tensorbase import TensorBase

RTOL, ATOL = 1e-5, 1e-7
SHOWN_WHOLE = 12  # elements
KINDS = {"f": "floating-point", "i": "integer", "u": "integer", "b": "boolean"}  # others: neither


def difference(got, expected, label):
    """None if ``got`` agrees with ``expected``, else a text that begins with ``label``.

    Tensors must agree in shape, kind of number and value, integers exactly; a number may come as a
    tensor with one element, and a tensor without axes as a number; lists and tuples stand for one
    another.
    """
    if got is None and expected is not None and not label.endswith("]"):
        return f"{label} is None: does your code end with a return?"
    if isinstance(expected, TensorBase) and expected.ndim == 0 and not isinstance(got, TensorBase):
        expected = number(expected)
    if isinstance(expected, (TensorBase, np.ndarray)):
        return _array_difference(got, expected, label)
    if isinstance(expected, numbers.Number):
        value = number(got)
        if value is not None:
            got = value
            if _close(value, number(expected)):
                return None
    elif isinstance(expected, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(expected):
            return _versus(f"{label} has the wrong form", _form(got), _form(expected))
        problem = _first(
            difference(g, e, f"{label}[{i}]")
            for i, (g, e) in enumerate(zip(got, expected, strict=True))
        )
        if not problem or not all(isinstance(e, (numbers.Number, str)) for e in expected):
            return problem
    elif isinstance(expected, dict):
        if not isinstance(got, dict) or got.keys() != expected.keys():
            return _versus(f"{label} has the wrong form", _form(got), _form(expected))
        return _first(difference(got[k], expected[k], f"{label}[{k!r}]") for k in expected)
    elif got is expected or (type(got) is type(expected) and got == expected):
        return None
    return _versus(f"{label} differs", brief(got), brief(expected))


def _first(texts):
    return next((text for text in texts if text is not None), None)


def _form(value):
    """What a container holds, in words; for anything else the value."""
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)} items"
    if isinstance(value, dict):
        return f"a dict with the keys {list(value)}"
    return brief(value)


def _array_difference(got, expected, label):
    if not isinstance(got, type(expected)):
        return _versus(f"{label} has the wrong type", brief(got), brief(expected))
    got, expected = as_array(got), as_array(expected)
    if got.shape != expected.shape:
        return _versus(
            f"{label} has the wrong shape", f"shape {got.shape}", f"shape {expected.shape}"
        )
    kinds = [KINDS.get(x.dtype.kind, "neither") for x in (got, expected)]
    if kinds[0] != kinds[1]:
        return _versus(f"{label} holds the wrong kind of number", *kinds)
    if kinds[0] == "neither":
        same = np.array_equal(got, expected)
        return None if same else _versus(f"{label} differs", brief(got), brief(expected))
    whole = expected.dtype.kind in "iu"
    wrong = got != expected if whole else ~np.isclose(got, expected, RTOL, ATOL, equal_nan=True)
    if not wrong.any():
        return None
    lost = wrong & np.isfinite(expected) & ~np.isfinite(got)
    if lost.any():
        wrong, kind = lost, "nan" if np.isnan(got[lost]).any() else "inf"
        what = f"holds {kind} where a number belongs"
    else:
        what = "differs"
    if got.size <= SHOWN_WHOLE:
        return _versus(f"{label} {what}", *_printed(got, expected))
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    head = f"{label}, of shape {got.shape}, {what} in {wrong.sum()} of {got.size} elements"
    at = ", ".join(map(str, place))
    return _versus(f"{head}, first at [{at}]", *_printed(got[place], expected[place]))


def _versus(head, got, expected):
    return f"{head}\n  expected: {indented(expected, 12)}\n  got:      {indented(got, 12)}"


def indented(text, width):
    """The text with its lines after the first moved to the right."""
    return text.replace("\n", "\n" + " " * width)


def _printed(got, expected):
    """Both arrays as text, with as many digits as it takes to see a difference."""
    for digits in (4, 8, 17):
        texts = tuple(np.array2string(np.asarray(x), precision=digits) for x in (got, expected))
        if texts[0] != texts[1]:
            break
    return texts


class Words(str):
    """A result in words, shown whole, without quotes and with its line breaks."""

    __slots__ = ()


def number(value):
    """The plain bool, int, float or complex that ``value`` is, whatever its type of number.

    It may also be a tensor or array of one element. None if there is no such number.
    """
    if isinstance(value, (TensorBase, np.ndarray, np.generic)) and as_array(value).size == 1:
        value = as_array(value).item()
    if type(value) in (bool, int, float, complex):
        return value
    kinds = {numbers.Integral: int, (numbers.Real, Decimal): float, numbers.Complex: complex}
    plain = next((plain for kind, plain in kinds.items() if isinstance(value, kind)), None)
    try:
        return plain and plain(value)
    except (OverflowError, ValueError):  # a fraction that is too large, a signalling NaN
        return None


def _close(got, expected):
    if got == expected or (isinstance(got, int) and isinstance(expected, int)):
        return got == expected
    try:
        return bool(np.isclose(complex(got), complex(expected), RTOL, ATOL, equal_nan=True))
    except OverflowError:  # integers that are too large for a float
        return got == expected


def as_array(value):
    """The NumPy array of a tensor; anything else as it is."""
    return value.array if isinstance(value, TensorBase) else value


def brief(value):
    """A value in a line: a tensor with its shape, a small one whole."""
    try:
        return _in_a_line(value)
    except Exception:  # an answer may return what cannot be printed
        return f"an object of type {type(value).__name__}"


def _in_a_line(value):
    if isinstance(value, (TensorBase, np.ndarray)):
        kind = "tensor" if isinstance(value, TensorBase) else "NumPy array"
        array = as_array(value)
        if array.size > SHOWN_WHOLE:
            return f"{kind} of shape {array.shape}"
        text = np.array2string(array, precision=4)
        return f"{kind} of shape {array.shape}" + ("\n" if "\n" in text else " ") + text
    if isinstance(value, Words):
        return str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        items = ", ".join(_item(item) for item in value)
        comma = "," if len(value) == 1 else ""
        text = f"[{items}]" if isinstance(value, list) else f"({items}{comma})"
        return text if len(text) <= 400 else f"{text[:397]}..."
    if callable(value):
        return getattr(value, "__name__", repr(value))
    text = repr(value)
    if " object at 0x" in text:
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= 200 else f"{text[:197]}..."


def _item(value):
    """A value in the line of its list: the rows of a small tensor one after the other."""
    text = brief(value)
    rows = isinstance(value, (TensorBase, np.ndarray))
    return " ".join(text.split()) if rows else text.split("\n")[0]
