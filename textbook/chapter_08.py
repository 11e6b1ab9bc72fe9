"""What chapter 08 defines and later chapters use.

Generated from the cells of notebooks/08_positions.py that start with
`# %% save`: change them there.
"""

import minitorch as mt


def sinusoidal_codes(n, d):
    """p_t in row t, sine in even and cosine in odd columns: (n, d)."""
    angles = mt.arange(n).unsqueeze(1) * 10_000.0 ** (-mt.arange(0, d, 2) / d)  # (n, d/2)
    return mt.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
