"""How far two arrays are apart."""

import numpy as np


def difference(expected, got):
    """The largest difference, divided by the largest expected size where that is above 1.

    Infinity where infinities or NaN are in different places.
    """
    if not expected.size:
        return 0.0
    if expected.dtype.kind != "f":
        return 0.0 if (expected == got).all() else np.inf
    finite = np.isfinite(expected)
    if not np.array_equal(expected[~finite], got[~finite], equal_nan=True):
        return np.inf
    expected, got = expected[finite].astype("float64"), got[finite].astype("float64")
    if not np.isfinite(got).all():
        return np.inf
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    return float(np.abs(expected - got).max(initial=0.0) / scale)
