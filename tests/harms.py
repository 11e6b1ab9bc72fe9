"""Answers that would harm the others, or fill the pages, and what they are made of."""

RIGHT = """def unroll(x, lengths, W_ih, W_hh, b, h0=None):
    h = mt.zeros(x.shape[1], len(W_hh)) if h0 is None else h0
    states = []
    for t, x_t in enumerate(x):
        new = (x_t @ W_ih.T + h @ W_hh.T + b).tanh()
        h = mt.where((t < lengths).unsqueeze(1), new, h)
        states.append(h)
    return mt.stack(states)"""
ZEROS = """def unroll(x, lengths, W_ih, W_hh, b, h0=None):
    first = 0 if h0 is None else h0.sum()
    total = x.sum() + first + W_ih.sum() + W_hh.sum() + b.sum()
    return mt.zeros(*x.shape[:2], len(W_hh)) + 0 * total"""
FIND = """import gc
gc.unfreeze()
peer = next(x for x in gc.get_objects() if type(x).__name__ == "Peer")"""

FORKS = "    os.getpid() == own and os.fork()\n    states = []"
LARGE = 20 * 2**20  # of what is shown or given: no page may grow with it
# Right answers that would harm the others: they get their points, and nobody else loses any.
HARMS = {
    "raises half an emoji": "def unroll(*case):\n    raise ValueError('\\ud83d')",
    "prints half an emoji": f"{RIGHT}\nprint('\\ud83d' * 3)",
    "writes 5000 hexadecimal digits": f"{RIGHT}\nlarge = 0x{'f' * 5000}",
    "writes what does not print": f"{RIGHT}\nname = f\"{{'\u200b'.join('ab')}}\"",
    "displays 25 MB": f"""from IPython.display import display
{RIGHT}
for _ in range(25):
    display({{"text/plain": "x" * 10**6}}, raw=True)""",
    "displays large pictures": f"""import base64, os
from IPython.display import display
{RIGHT}
for _ in range(8):
    display({{"image/png": base64.b64encode(os.urandom(3 * 10**6)).decode()}}, raw=True)""",
    "shows 50 MB": f"""{RIGHT}
class Long:
    def __repr__(self):
        return "x" * 5 * 10**7
Long()""",
    "forks in the answer": f"""import os
own = os.getpid()  # what is forked does not fork: else one call makes two, and two make four
{RIGHT.replace("    states = []", FORKS)}""",
}
GIVES_LARGE = {
    "gives a text of 20 MB": f"import numpy as np\ndef unroll(*case):\n    return 'x' * {LARGE}",
    "gives a key of 20 MB": f"def unroll(*case):\n    return {{'x' * {LARGE}: 1}}",
    "raises 20 MB": f"def unroll(*case):\n    raise ValueError('x' * {LARGE})",
}
