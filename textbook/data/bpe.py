"""Byte-pair encoding: a vocabulary of pieces of words, learned from text."""

import heapq
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from minitorch.creation import tensor
from minitorch.serialization import write_atomically
from minitorch.tensor import Tensor

# Words, runs of other signs, and white space; a space belongs to what follows it. Nothing is lost.
CHUNK = re.compile(r" ?\w+| ?[^\w\s]+|\s")
LONGEST = 2**20  # bytes in a token: a file of merges that double each other would fill the memory
Pair = tuple[int, int]


class BytePairEncoding:
    """Text as numbers of frequent pieces (Sennrich, Haddow and Birch, 2016), and back.

    Start from single bytes, and merge again and again the pair of neighbours that is most frequent
    in the words of a text; the merged pair is a new token. New text is cut into words, and the
    merges are made in it in the order in which they were learned. The paper starts from characters
    and marks the ends of words; we start from bytes, so that no text is unknown (Radford et al.,
    2019), and let a space belong to the word that follows.

    ::

        bpe = BytePairEncoding.learn(text, merges=500, specials=["<pad>", "<s>", "</s>"])
        bpe.encode("any text")              # tensor of int64
        bpe.decode(bpe.encode("any text"))  # "any text", exactly
        bpe.pieces("any text")              # ["any", " te", "xt"], say

    The numbers of the specials come first, then the 256 bytes, then the merged tokens.
    ``bpe["<s>"]`` is the number of a special; no text is ever encoded as one.
    """

    def __init__(self, merges: Iterable[Pair], specials: Sequence[str] = ()) -> None:
        self.specials = list(specials)
        self.merges = [tuple(pair) for pair in merges]
        first = len(self.specials)
        self.tokens = [b""] * first + [bytes([byte]) for byte in range(256)]
        self._merged = {}
        self._known: dict[str, list[int]] = {}  # the words that were encoded before
        for left, right in self.merges:
            if not first <= min(left, right) <= max(left, right) < len(self.tokens):
                raise ValueError(f"the merge ({left}, {right}) names a token that is not there yet")
            self._merged[left, right] = len(self.tokens)
            self.tokens.append(self.tokens[left] + self.tokens[right])
            if len(self.tokens[-1]) > LONGEST:
                raise ValueError(f"the merge ({left}, {right}) makes a token of a million bytes")

    @classmethod
    def learn(cls, text: str, merges: int, specials: Sequence[str] = ()) -> "BytePairEncoding":
        """Learn up to ``merges`` merges; fewer where no pair occurs twice any more.

        Of pairs that are equally frequent, the one with the lowest numbers is merged first, so
        that a text always gives the same merges.
        """
        first = len(specials)
        counted = Counter(CHUNK.findall(text))
        words = [[first + byte for byte in word.encode()] for word in counted]
        times = list(counted.values())
        counts: Counter[Pair] = Counter()
        places = defaultdict(set)  # the words in which a pair occurs
        for i, word in enumerate(words):
            for pair in pairwise(word):
                counts[pair] += times[i]
                places[pair].add(i)
        queue = [(-count, pair) for pair, count in counts.items()]
        heapq.heapify(queue)
        learned = []
        while len(learned) < merges and queue:
            count, best = heapq.heappop(queue)
            if -count != counts[best] or -count < 2:
                continue  # the pair was counted anew since, or is not worth a token
            change: Counter[Pair] = Counter()
            for i in places.pop(best):
                for pair in pairwise(words[i]):
                    change[pair] -= times[i]
                words[i] = _merge(words[i], best, first + 256 + len(learned))
                for pair in pairwise(words[i]):
                    change[pair] += times[i]
                    places[pair].add(i)
            for pair, difference in change.items():
                if difference:
                    counts[pair] += difference
                    heapq.heappush(queue, (-counts[pair], pair))
            learned.append(best)
        return cls(learned, specials)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, special: str) -> int:
        """The number of a special token."""
        if special not in self.specials:
            raise KeyError(f"{special!r} is not among the special tokens {self.specials}")
        return self.specials.index(special)

    def encode(self, text: str) -> Tensor:
        """The numbers of the pieces of a text, int64 (N)."""
        return tensor(self._numbers(text)).long()

    def decode(self, numbers: Iterable[int]) -> str:
        """The text of numbers, without specials; bytes that make no character become U+FFFD."""
        if isinstance(numbers, Tensor):
            numbers = numbers.tolist()
        data = b"".join(self.tokens[number] for number in numbers)
        return data.decode("utf-8", errors="replace")

    def pieces(self, text: str) -> list[str]:
        """The pieces of a text, to look at; bytes that make no character are shown as ``\\xc3``."""
        tokens = (self.tokens[number] for number in self._numbers(text))
        return [token.decode("utf-8", errors="backslashreplace") for token in tokens]

    def _numbers(self, text: str) -> list[int]:
        chunks = CHUNK.findall(text)
        for chunk in chunks:
            if chunk not in self._known:
                self._known[chunk] = self._encode_chunk(chunk)
        return [number for chunk in chunks for number in self._known[chunk]]

    def _encode_chunk(self, chunk: str) -> list[int]:
        numbers = [len(self.specials) + byte for byte in chunk.encode()]
        while pairs := [pair for pair in pairwise(numbers) if pair in self._merged]:
            earliest = min(pairs, key=self._merged.__getitem__)
            numbers = _merge(numbers, earliest, self._merged[earliest])
        return numbers

    def save(self, path: str | os.PathLike) -> None:
        """Write the specials and the merges as JSON; a file that was there is replaced at once."""
        stored = {"specials": self.specials, "merges": self.merges}
        write_atomically(path, json.dumps(stored).encode())

    @classmethod
    def load(cls, path: str | os.PathLike) -> "BytePairEncoding":
        """Read what ``save`` wrote; ValueError for anything else."""
        with open(path, encoding="utf-8") as file:
            try:
                stored = json.load(file)
                return cls(stored["merges"], stored["specials"])
            except (ValueError, TypeError, KeyError, IndexError) as error:
                raise ValueError(f"{path} does not hold a byte-pair encoding: {error}") from None


def _merge(numbers: list[int], pair: Pair, merged: int) -> list[int]:
    """The numbers with each occurrence of the pair, from left to right, as one number."""
    result = []
    for number in numbers:
        if result and (result[-1], number) == pair:
            result[-1] = merged
        else:
            result.append(number)
    return result
