"""Sentence pairs as numbers, in batches that hardly need padding."""

from collections.abc import Iterator, Sequence

from minitorch.creation import tensor
from minitorch.tensor import Tensor
from textbook.data.batches import BatchesByLength, pad
from textbook.data.bpe import BytePairEncoding

Batch = tuple[Tensor, Tensor]


class EncodedPairs:
    """Pairs of sentences in the pieces of an encoding that has "<pad>", "<s>" and "</s>".

    A batch is the source (B, n) and the target (B, T + 1) from "<s>" to "</s>", both filled up with
    "<pad>" at the end. ::

        train = EncodedPairs(pairs, bpe)
        source, target = next(train.batches(64))  # again and again, in random order
    """

    def __init__(self, pairs: Sequence[tuple[str, str]], encoding: BytePairEncoding) -> None:
        start, end = encoding["<s>"], encoding["</s>"]
        self.pairs, self.padding = list(pairs), encoding["<pad>"]
        self.sources = [encoding.encode(source) for source, _ in pairs]
        self.targets = [
            tensor([start, *encoding.encode(target).tolist(), end]).long() for _, target in pairs
        ]

    def __len__(self) -> int:
        return len(self.pairs)

    def batch(self, numbers: Sequence[int]) -> Batch:
        """The pairs with these numbers."""
        sides = ([side[i] for i in numbers] for side in (self.sources, self.targets))
        source, target = (pad(side, self.padding, batch_first=True)[0] for side in sides)
        return source, target

    def batches(self, size: int) -> Iterator[Batch]:
        """Random batches of about equal length, without end."""
        lengths = [len(s) + len(t) for s, t in zip(self.sources, self.targets, strict=True)]
        while True:
            for numbers in BatchesByLength(lengths, size):
                yield self.batch(numbers)

    def by_length(self, size: int) -> Iterator[list[int]]:
        """The numbers of all pairs, each once, from the shortest source to the longest."""
        order = sorted(range(len(self)), key=lambda i: len(self.sources[i]))
        for first in range(0, len(order), size):
            yield order[first : first + size]
