"""Text for language models: a vocabulary, a part kept aside, windows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from minitorch.creation import tensor
from minitorch.tensor import Tensor
from textbook.data.batches import padding_mask


class Vocabulary:
    """The tokens that a model knows, and their numbers.

    ``specials`` come first; then the tokens that occur at least ``min_count`` times, the most
    frequent first, so that a text always gives the same numbers. A token that it does not know is
    read as ``"<unk>"`` if that is among the specials, and is an error if not. Batches of sequences
    use ``"<pad>"``, ``"<s>"`` (start) and ``"</s>"`` (end)::

        vocabulary = Vocabulary("to be or not to be".split(), specials=["<unk>", "<s>"])
        vocabulary.encode("to be is to do".split())    # tensor([2, 3, 0, 2, 0])
    """

    def __init__(
        self, tokens: Iterable[str], specials: Sequence[str] = (), min_count: int = 1
    ) -> None:
        counts = Counter(tokens)
        known = sorted(
            (token for token, count in counts.items() if count >= min_count),
            key=lambda token: (-counts[token], token),
        )
        self.tokens = list(dict.fromkeys([*specials, *known]))
        self.index = {token: number for number, token in enumerate(self.tokens)}

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        return token in self.index

    def __getitem__(self, token: str) -> int:
        """The number of a token."""
        number = self.index.get(token, self.index.get("<unk>"))
        if number is None:
            raise KeyError(f"{token!r} is not in the vocabulary, and it has no '<unk>' to stand in")
        return number

    def encode(self, tokens: Iterable[str]) -> Tensor:
        """The numbers of tokens, int64 (N); a string is read as its characters."""
        return tensor([self[token] for token in tokens]).long()

    def decode(self, numbers: Iterable[int]) -> list[str]:
        """The tokens of numbers."""
        if isinstance(numbers, Tensor):
            numbers = numbers.tolist()
        return [self.tokens[number] for number in numbers]

    def encode_batch(
        self,
        sequences: Iterable[Iterable[str]],
        *,
        start: bool = False,
        end: bool = False,
        batch_first: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """The numbers of several sequences (T, B), filled up with "<pad>", and the mask (B, T).

        ``start`` puts "<s>" before each and ``end`` "</s>" after it; the mask is True at padding.
        """
        before, after = ["<s>"] * start, ["</s>"] * end
        for special in ["<pad>", *before, *after]:
            if special not in self:
                raise ValueError(f"the vocabulary has no {special!r}: put it among the specials")
        rows = [[self[token] for token in (*before, *each, *after)] for each in sequences]
        if not rows:
            raise ValueError("there is nothing to encode: the list of sequences is empty")
        lengths = [len(row) for row in rows]
        longest = max(lengths)
        padded = tensor([row + [self["<pad>"]] * (longest - len(row)) for row in rows]).long()
        return padded if batch_first else padded.T.contiguous(), padding_mask(lengths)

    def decode_batch(self, numbers: Tensor, batch_first: bool = False) -> list[list[str]]:
        """The tokens of each sequence up to its "</s>", without "<s>" and "<pad>"."""
        sequences = []
        for row in numbers if batch_first else numbers.T:
            tokens = self.decode(row)
            if "</s>" in tokens:
                tokens = tokens[: tokens.index("</s>")]
            sequences.append([token for token in tokens if token not in ("<s>", "<pad>")])
        return sequences


def split(sequence: Sequence, validation: float = 0.1) -> tuple[Sequence, Sequence]:
    """The first part for training, and the last share ``validation`` of it to be kept aside."""
    if not 0 < validation < 1:
        raise ValueError(f"validation is the share kept aside, between 0 and 1; got {validation}")
    cut = round(len(sequence) * (1 - validation))
    return sequence[:cut], sequence[cut:]


def windows(numbers: Tensor, batch_size: int, length: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets for next-token prediction, each (length, batch_size), in text order.

    The text (N) is cut into ``batch_size`` streams that are read side by side, ``length`` tokens
    at a time: column b of a window goes on where column b of the one before stopped, so that a
    recurrent state can be carried over. The target of each token is the next one. What is left
    over at the end is not used.
    """
    per_stream = (len(numbers) - 1) // batch_size
    if per_stream < length:
        raise ValueError(
            f"{len(numbers)} tokens in {batch_size} streams leave {per_stream} a stream, fewer "
            f"than one window of {length}: use fewer streams or shorter windows"
        )
    used = batch_size * per_stream
    inputs = numbers[:used].reshape(batch_size, per_stream).T  # (per_stream, B)
    targets = numbers[1 : used + 1].reshape(batch_size, per_stream).T
    for start in range(0, per_stream - length + 1, length):
        yield inputs[start : start + length], targets[start : start + length]
