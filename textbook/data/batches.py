"""Sequences of different lengths in one batch."""

from collections.abc import Iterator, Sequence

from minitorch.creation import arange, as_tensor, randperm
from minitorch.generator import Generator
from minitorch.nn.utils.rnn import pad_sequence
from minitorch.tensor import Tensor


def pad(
    sequences: Sequence[Tensor], padding_value: float = 0, batch_first: bool = False
) -> tuple[Tensor, Tensor]:
    """Sequences (T_b, ...) as one tensor (T, B, ...), filled up at the end, and the padding mask.

    With ``batch_first`` the tensor is (B, T, ...). The mask is (B, T) either way; see
    ``padding_mask``.
    """
    if not sequences:
        raise ValueError("there is nothing to pad: the list of sequences is empty")
    padded = pad_sequence(sequences, batch_first, padding_value)
    lengths = [len(sequence) for sequence in sequences]
    return padded, padding_mask(as_tensor(lengths, device=padded.device))


def padding_mask(lengths: Tensor | Sequence[int], total: int | None = None) -> Tensor:
    """True at the padding of sequences with these lengths: (B, T), T the longest or ``total``.

    This is what ``key_padding_mask`` of attention takes.
    """
    lengths = as_tensor(lengths).long()
    if total is None:
        total = int(lengths.max())
    return arange(total, device=lengths.device) >= lengths.unsqueeze(1)


class BatchesByLength:
    """The numbers of examples in batches of about equal length, in random order.

    A ``batch_sampler`` for ``DataLoader``: the examples are shuffled, sorted by length, cut into
    batches, and the batches are shuffled. So little of a batch is padding. Each pass draws anew,
    from ``generator`` or the one that ``manual_seed`` seeds.
    """

    def __init__(
        self, lengths: Sequence[int], batch_size: int, generator: Generator | None = None
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size is a positive integer, got {batch_size}")
        self.lengths = list(lengths)
        self.batch_size = batch_size
        self.generator = generator

    def __iter__(self) -> Iterator[list[int]]:
        order = randperm(len(self.lengths), generator=self.generator).tolist()
        order.sort(key=self.lengths.__getitem__)
        for batch in randperm(len(self), generator=self.generator).tolist():
            yield order[batch * self.batch_size : (batch + 1) * self.batch_size]

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.batch_size)
