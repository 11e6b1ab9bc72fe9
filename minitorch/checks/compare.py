"""How a result differs from the expected one, in words for the person who wrote it."""

import numbers

import numpy as np

from minitorch.autograd.tensorbase import TensorBase

RTOL, ATOL = 1e-5, 1e-7
SHOWN_WHOLE = 12  # elements
KINDS = {"f": "floating-point", "i": "integer", "u": "integer", "b": "boolean"}


def difference(got, expected, label):
    """None if ``got`` agrees with ``expected``, else a text that begins with ``label``.

    Tensors must agree in shape, kind of number and value; a number may come as a tensor with one
    element; lists and tuples stand for one another.
    """
    if got is None and expected is not None:
        return f"{label} is None: end with a return"
    if isinstance(expected, (TensorBase, np.ndarray)):
        return _array_difference(got, expected, label)
    if isinstance(expected, numbers.Number):
        value = number(got)
        if value is not None:
            got = value
            if np.isclose(value, expected, RTOL, ATOL, equal_nan=True):
                return None
    elif isinstance(expected, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(expected):
            return _versus(f"{label} has the wrong form", _form(got), _form(expected))
        return _first(
            difference(g, e, f"item [{i}] of {label}")
            for i, (g, e) in enumerate(zip(got, expected, strict=True))
        )
    elif isinstance(expected, dict):
        if not isinstance(got, dict) or got.keys() != expected.keys():
            return _versus(f"{label} has the wrong form", _form(got), _form(expected))
        return _first(difference(got[k], expected[k], f"item [{k!r}] of {label}") for k in expected)
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
    got, expected = _array(got), _array(expected)
    if got.shape != expected.shape:
        return _versus(
            f"{label} has the wrong shape", f"shape {got.shape}", f"shape {expected.shape}"
        )
    kinds = KINDS[got.dtype.kind], KINDS[expected.dtype.kind]
    if kinds[0] != kinds[1]:
        return _versus(f"{label} holds the wrong kind of number", *kinds)
    close = np.isclose(got, expected, RTOL, ATOL, equal_nan=True)
    if close.all():
        return None
    if got.size <= SHOWN_WHOLE:
        return _versus(f"{label} differs", *_printed(got, expected))
    place = tuple(int(i) for i in np.argwhere(~close)[0])
    head = f"{label}, of shape {got.shape}, differs in {(~close).sum()} of {got.size} elements"
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


def number(value):
    """The Python number that ``value`` is or, as a tensor or array of one element, holds."""
    if isinstance(value, numbers.Number):
        return value
    if isinstance(value, (TensorBase, np.ndarray)) and _array(value).size == 1:
        return _array(value).item()
    return None


def _array(value):
    return value.array if isinstance(value, TensorBase) else value


def brief(value):
    """A value in a line: a tensor with its shape, a small one whole."""
    if isinstance(value, (TensorBase, np.ndarray)):
        kind = "tensor" if isinstance(value, TensorBase) else "NumPy array"
        array = _array(value)
        if array.size > SHOWN_WHOLE:
            return f"{kind} of shape {array.shape}"
        text = np.array2string(array, precision=4)
        return f"{kind} of shape {array.shape}" + ("\n" if "\n" in text else " ") + text
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        items = ", ".join(brief(item).split("\n")[0] for item in value)
        comma = "," if len(value) == 1 else ""
        text = f"[{items}]" if isinstance(value, list) else f"({items}{comma})"
        return text if len(text) <= 200 else f"{text[:197]}..."
    if callable(value):
        return getattr(value, "__name__", repr(value))
    text = repr(value)
    if " object at 0x" in text:
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= 200 else f"{text[:197]}..."
