"""Answers to the exercises of ``estimates.py``."""

from decimal import Decimal

import numpy as np

import minitorch as mt
from textbook.checks.chapter_03.estimates import estimate


@estimate.answer(
    after_passing=(
        "The paper reports 384 million parameters, 64 million of them recurrent. Its embeddings "
        "alone have 240 million, and cost nothing."
    )
)
def estimate():
    """Parameters, bytes, FLOPs of a pair, and FLOPs a second of one GPU: a dict."""
    layer = 4 * (1000 * 1000 + 1000 * 1000)  # four sums a unit, of its input and its state
    reader = writer = 4 * layer
    embeddings = (160_000 + 80_000) * 1000
    output = 80_000 * 1000
    parameters = reader + writer + embeddings + output
    flops = 6 * (25 * reader + 29 * (writer + output))
    seconds = 10 * 24 * 60 * 60
    return {
        "recurrent": reader + writer,
        "embeddings": embeddings,
        "output": output,
        "parameters": parameters,
        "bytes": 4 * 4 * parameters,
        "FLOPs": flops,
        "speed": 7.5 * 12e6 * flops / seconds / 8,
    }


# Right in another way


def estimate_of_two_digits():
    return {
        "recurrent": 6.4e7,
        "embeddings": 2.4e8,
        "output": 8e7,
        "parameters": 3.8e8,
        "bytes": 6.1e9,
        "FLOPs": 2.4e10,
        "speed": 3.1e11,
    }


def estimate_rounded_on_the_way():
    matrix = 10**6
    recurrent = 2 * 4 * 4 * 2 * matrix
    embeddings, output = 240 * matrix, 80 * matrix
    parameters = recurrent + embeddings + output
    a_pair = 6 * (27 * recurrent + 30 * output)
    return {
        "recurrent": mt.tensor(float(recurrent)),
        "embeddings": Decimal(embeddings),
        "output": np.float32(output),
        "parameters": 1.05 * parameters,
        "bytes": 16 * 0.4e9,
        "FLOPs": a_pair,
        "speed": 90e6 * a_pair / 864_000 / 8,
    }


right = {
    "estimate": [estimate_of_two_digits, estimate_rounded_on_the_way],
}
