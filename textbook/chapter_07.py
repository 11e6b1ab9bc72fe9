"""What chapter 07 defines and later chapters use.

Generated from the cells of notebooks/07_masking.py that start with
`# %% save`: change them there.
"""

import minitorch as mt


def causal_mask(T, n=None):
    """The last T of n tokens, each allowed to look at itself and all before it: (T, n)."""
    n = T if n is None else n
    return mt.ones(T, n).tril(n - T).bool()


def real_tokens(tokens, filler=0):
    """True where there is a token, False at padding, for all heads and queries: (B, 1, 1, n)."""
    return (tokens != filler)[:, None, None]
