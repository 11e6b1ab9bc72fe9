"""``einsum``."""

import autograd.numpy as anp
from gradients import Case

import minitorch as mt
from rows.table import row

EQUATIONS = (
    "ij,jk->ik",
    "ij,jk",
    "bij,bjk->bik",
    "bhqd,bhkd->bhqk",
    "bqk,bkd->bqd",
    "ij->ji",
    "ijk->j",
    "ij->",
    "ij,ij->",
    "i,j->ij",
    "i,i,i->i",
    "ij,jk,kl->il",
    "ij,k->k",
    "...ij,...jk->...ik",
    "...i,i->...",
    " i j , j -> i ",
    "ii->i",
    "ii",
    "iij->j",
)


@row("einsum_")
def _(draw):
    equation = draw.pick(*EQUATIONS)
    sizes = {c: draw.int(0, 3) for c in "ijklbhqd"}
    operands = equation.replace(" ", "").partition("->")[0].split(",")
    batches = iter(draw.broadcastable(2))
    inputs = []
    for subscripts in operands:
        batch = next(batches) if "..." in subscripts else ()
        inputs.append(draw.array(batch + tuple(sizes[c] for c in subscripts.replace("...", ""))))
    return Case(
        lambda *xs: mt.einsum(equation, *xs),
        inputs,
        lambda *xs: anp.einsum(equation, *xs),
        by_autograd="ii" not in equation and "->" in equation and " " not in equation,
    )
