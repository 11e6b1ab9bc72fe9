"""Sequences of different lengths: padded to one length, or packed without padding."""

import itertools
from collections import namedtuple

from minitorch.creation import arange, tensor
from minitorch.operations.shapes import cat, stack
from minitorch.tensor import Tensor


class PackedSequence(
    namedtuple(
        "PackedSequence",
        ["data", "batch_sizes", "sorted_indices", "unsorted_indices"],
        defaults=[None, None, None],
    )
):
    """The tokens of several sequences in the order of time: all first ones, all second ones, ...

    ``data`` (N, ...) holds no padding; ``batch_sizes`` (T) counts the sequences that have a token
    at each step. They come longest first, so those that still run are always the first ones.
    ``sorted_indices`` took them into this order, ``unsorted_indices`` takes them back; both are
    None where they were given in this order.
    """

    __slots__ = ()

    def to(self, *args, **kwargs):
        """The same sequences with ``data`` of another type or on another device."""
        data = self.data.to(*args, **kwargs)
        indices = [i if i is None else i.to(data.device) for i in self[2:]]
        return type(self)(data, self.batch_sizes, *indices)


def _lengths(lengths):
    if isinstance(lengths, Tensor):
        if lengths.ndim != 1:
            raise RuntimeError(f"lengths must have one axis, got shape {tuple(lengths.shape)}")
        lengths = lengths.tolist()
    return [int(length) for length in lengths]


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """The tokens of padded sequences (T, B, ...), or (B, T, ...), without the padding.

    ``lengths``, a list or tensor (B), says how many tokens of each count. RuntimeError unless they
    are 1 to T, and in decreasing order; with ``enforce_sorted=False`` they are sorted here.
    """
    lengths = _lengths(lengths)
    if batch_first:
        input = input.transpose(0, 1)
    steps, batch = input.shape[:2]
    if len(lengths) != batch:
        raise RuntimeError(
            f"a batch of {batch} sequences needs {batch} lengths, got {len(lengths)}"
        )
    if not batch:
        raise RuntimeError("cannot pack a batch without sequences")
    if min(lengths) <= 0 or max(lengths) > steps:
        raise RuntimeError(f"lengths must be 1 to {steps}, got {min(lengths)} to {max(lengths)}")
    order = sorted(range(batch), key=lambda b: -lengths[b])
    indices = [None, None]
    if not enforce_sorted:
        back = sorted(range(batch), key=order.__getitem__)
        indices = [tensor(places, device=input.device) for places in (order, back)]
        input, lengths = input.index_select(1, indices[0]), [lengths[b] for b in order]
    elif any(after > before for before, after in zip(lengths, lengths[1:], strict=False)):
        raise RuntimeError(
            f"lengths must be in decreasing order, got {lengths}: sort the batch, or pass "
            "enforce_sorted=False"
        )
    steps = arange(lengths[0], device=input.device).unsqueeze(1)
    running = steps < tensor(lengths, device=input.device)  # (T, B)
    return PackedSequence(input[: lengths[0]][running], running.sum(1).cpu(), *indices)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """The inverse of ``pack_padded_sequence``: padded sequences (T, B, ...) and lengths (B).

    T is the longest length, or ``total_length``.
    """
    data, batch_sizes, _, back = sequence
    sizes = batch_sizes.tolist()
    steps = len(sizes) if total_length is None else total_length
    if steps < len(sizes):
        raise ValueError(
            f"total_length must be at least the longest length {len(sizes)}, got {total_length}"
        )
    sizes += [0] * (steps - len(sizes))
    places = arange(sizes[0], device=data.device)
    padding = places >= tensor(sizes, device=data.device).unsqueeze(1)  # (T, B)
    starts = tensor([0, *itertools.accumulate(sizes[:-1])], device=data.device)
    rows = (starts.unsqueeze(1) + places).masked_fill(padding, 0)
    over = padding.reshape(*padding.shape, *[1] * (data.ndim - 1))
    padded, lengths = data[rows].masked_fill(over, padding_value), (~padding).sum(0).cpu()
    if back is not None:
        padded, lengths = padded.index_select(1, back), lengths[back.cpu()]
    return padded.transpose(0, 1) if batch_first else padded, lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Sequences (T_b, ...) as one tensor (T, B, ...), or (B, T, ...), filled up to the longest."""
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"padding_side must be 'left' or 'right', got {padding_side!r}")
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("pad_sequence needs at least one sequence, got none")
    longest = max(map(len, sequences))
    padded = []
    for sequence in sequences:
        rest = sequence.new_full((longest - len(sequence), *sequence.shape[1:]), padding_value)
        padded.append(cat([sequence, rest] if padding_side == "right" else [rest, sequence]))
    return stack(padded, dim=0 if batch_first else 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The inverse of ``pad_sequence``: a list with the first ``lengths[b]`` tokens of each."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    pairs = zip(padded_sequences.unbind(0), _lengths(lengths), strict=True)
    return [sequence[:length] for sequence, length in pairs]


def pack_sequence(sequences, enforce_sorted=True):
    """Sequences (T_b, ...) packed; see ``pack_padded_sequence``."""
    lengths = [len(sequence) for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The inverse of ``pack_sequence``: a list of sequences (T_b, ...)."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences))
