"""Small made-up tasks, for one idea at a time. Each call draws a new batch, batch first.

Tokens are int64; a target of -100 is one that ``cross_entropy`` leaves out. Numbers come from
``generator``, or from the one that ``manual_seed`` seeds.
"""

from minitorch.creation import arange, full_like, rand, randint
from minitorch.generator import Generator
from minitorch.operations.indexing import gather
from minitorch.operations.shapes import cat, stack
from minitorch.tensor import Tensor

Task = tuple[Tensor, Tensor]
IGNORED = -100


def copy(batch: int, length: int, symbols: int, *, generator: Generator | None = None) -> Task:
    """Say again what was said: ``[3, 1, 2]`` gives ``[3, 1, 2]``; both (B, T)."""
    tokens = randint(0, symbols, (batch, length), generator=generator)
    return tokens, tokens.clone()


def reverse(batch: int, length: int, symbols: int, *, generator: Generator | None = None) -> Task:
    """Say it backwards: ``[3, 1, 2]`` gives ``[2, 1, 3]``; both (B, T)."""
    tokens = randint(0, symbols, (batch, length), generator=generator)
    return tokens, tokens.flip(1)


def sort(batch: int, length: int, symbols: int, *, generator: Generator | None = None) -> Task:
    """Put in order: ``[3, 1, 2]`` gives ``[1, 2, 3]``; both (B, T)."""
    tokens = randint(0, symbols, (batch, length), generator=generator)
    return tokens, tokens.sort(dim=1)[0]


def first(batch: int, length: int, symbols: int, *, generator: Generator | None = None) -> Task:
    """Remember the first symbol: ``[3, 1, 2]`` gives ``3``; tokens (B, T), targets (B)."""
    tokens = randint(0, symbols, (batch, length), generator=generator)
    return tokens, tokens[:, 0]


def back(
    batch: int, length: int, symbols: int, distance: int, *, generator: Generator | None = None
) -> Task:
    """The token ``distance`` steps back: with 1, ``[3, 1, 2]`` gives ``[-100, 3, 1]``; (B, T)."""
    if not 0 <= distance <= length:
        raise ValueError(f"distance is between 0 and the length, {length}; got {distance}")
    tokens = randint(0, symbols, (batch, length), generator=generator)
    nothing = full_like(tokens[:, :distance], IGNORED)
    return tokens, cat([nothing, tokens[:, : length - distance]], dim=1)


def last_symbol(
    batch: int,
    length: int,
    symbols: int,
    blank: float = 0.8,
    *,
    generator: Generator | None = None,
) -> Task:
    """The most recent token that is not blank (0): ``[0, 2, 0, 1]`` gives ``[-100, 2, 2, 1]``.

    Tokens are 0 with probability ``blank``, else one of 1 to ``symbols``; both (B, T).
    """
    tokens = randint(1, symbols + 1, (batch, length), generator=generator)
    tokens = tokens.masked_fill(rand(batch, length, generator=generator) < blank, 0)
    targets = [full_like(tokens[:, 0], IGNORED)]
    for column in tokens.unbind(1):
        targets.append(column.where(column != 0, targets[-1]))
    return tokens, stack(targets[1:], dim=1)


def associative_recall(
    batch: int,
    pairs: int,
    keys: int,
    values: int,
    queries: int = 1,
    *,
    generator: Generator | None = None,
) -> Task:
    """Look up: key, value, key, value, ..., then keys to ask for; targets are their values.

    Keys are 0 to ``keys`` - 1 and values the ``values`` numbers after these. No key occurs twice
    among the pairs, nor among the queries. Tokens (B, 2 pairs + queries), targets (B, queries):
    with 4 keys, ``[2, 5, 0, 6, 2]`` gives ``[5]``.
    """
    if not queries <= pairs <= keys:
        raise ValueError(
            f"queries <= pairs <= keys is needed, got {queries} queries, {pairs} pairs, {keys} keys"
        )
    chosen = rand(batch, keys, generator=generator).argsort(dim=1)[:, :pairs]
    stored = randint(keys, keys + values, (batch, pairs), generator=generator)
    asked = rand(batch, pairs, generator=generator).argsort(dim=1)[:, :queries]
    table = stack([chosen, stored], dim=2).flatten(1)  # key, value, key, value, ...
    return cat([table, gather(chosen, 1, asked)], dim=1), gather(stored, 1, asked)


def adding(batch: int, length: int, *, generator: Generator | None = None) -> Task:
    """Add the two marked numbers (Hochreiter and Schmidhuber, 1997).

    Inputs (B, T, 2): numbers between 0 and 1, and marks, 1 at one step of each half and 0
    elsewhere. Targets (B): the sum of the two marked numbers.
    """
    if length < 2:
        raise ValueError(f"two numbers are marked, so length is at least 2; got {length}")
    numbers = rand(batch, length, generator=generator)
    half = length // 2
    early = randint(0, half, (batch, 1), generator=generator)
    late = randint(half, length, (batch, 1), generator=generator)
    steps = arange(length)
    marks = ((steps == early) | (steps == late)).float()
    return stack([numbers, marks], dim=2), (numbers * marks).sum(dim=1)


def xor(batch: int, length: int, *, generator: Generator | None = None) -> Task:
    """Whether the two bits of a step differ: inputs (B, T, 2), targets (B, T) 0 or 1."""
    bits = randint(0, 2, (batch, length, 2), generator=generator)
    return bits.float(), (bits[..., 0] != bits[..., 1]).long()
