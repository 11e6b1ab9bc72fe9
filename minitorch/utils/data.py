"""Datasets and the loader that makes batches of them, as ``torch.utils.data``.

Everything runs in the process of the caller. The order of a shuffle is settled by the seed, but it
is not the order that PyTorch draws from the same seed.
"""

import bisect
import itertools
import math
from collections.abc import Mapping
from typing import Generic, TypeVar

import numpy as np

from minitorch import backend
from minitorch.creation import as_tensor, multinomial, randint, randperm, tensor
from minitorch.operations.shapes import stack
from minitorch.tensor import Tensor

T = TypeVar("T", covariant=True)


class Dataset(Generic[T]):
    """Examples by number: a subclass defines ``__getitem__`` and, for most uses, ``__len__``."""

    def __getitem__(self, index):
        raise NotImplementedError("a subclass of Dataset has to define __getitem__")

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """Examples one after another: a subclass defines ``__iter__``."""


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors of equal length, side by side: example i is row i of each."""

    def __init__(self, *tensors):
        if len({len(t) for t in tensors}) > 1:
            shapes = ", ".join(str(tuple(t.shape)) for t in tensors)
            raise AssertionError(f"the tensors need equally many rows, got shapes {shapes}")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(t[index] for t in self.tensors)

    def __len__(self):
        return len(self.tensors[0])


class Subset(Dataset[T]):
    """The examples of a dataset whose numbers are given."""

    def __init__(self, dataset, indices):
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index):
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self):
        return len(self.indices)


class ConcatDataset(Dataset[T]):
    """Several datasets, one after the other."""

    def __init__(self, datasets):
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset needs at least one dataset")
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __len__(self):
        return self.cumulative_sizes[-1]

    def __getitem__(self, index):
        if index < -len(self):
            raise ValueError(f"index {index} is out of range for {len(self)} examples")
        if index >= len(self):
            raise IndexError(f"index {index} is out of range for {len(self)} examples")
        index %= len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        start = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - start]


def random_split(dataset, lengths, generator=None):
    """Subsets of the given lengths, drawn at random without overlap.

    Lengths that add up to 1 are shares; what rounding down leaves over goes to the first ones.
    ValueError where lengths do not add up to the length of the dataset, or shares to more than 1.
    """
    total = len(dataset)
    if math.isclose(sum(lengths), 1):
        if min(lengths) < 0:
            raise ValueError(f"shares are between 0 and 1, got {list(lengths)}")
        shares = lengths
        lengths = [math.floor(total * share) for share in shares]
        for i in range(total - sum(lengths)):
            lengths[i % len(lengths)] += 1
    if sum(lengths) != total or min(lengths) < 0:
        raise ValueError(
            f"the lengths {list(lengths)} do not add up to the length of the dataset, {total}"
        )
    order = iter(randperm(total, generator=generator).tolist())
    return [Subset(dataset, list(itertools.islice(order, int(length)))) for length in lengths]


class Sampler(Generic[T]):
    """An order in which to visit a dataset: a subclass defines ``__iter__`` over its numbers."""


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ..."""

    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Every number once, in an order that is drawn anew each time.

    ``num_samples`` numbers where that is given, again from the start after all; each drawn anew
    from all with ``replacement``.
    """

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        self.data_source, self.replacement = data_source, replacement
        self.num_samples = len(data_source) if num_samples is None else num_samples
        self.generator = generator
        if not len(data_source) or self.num_samples <= 0:
            raise ValueError(
                f"there is nothing to shuffle: {self.num_samples} of {len(data_source)} numbers, "
                "an empty dataset or no num_samples"
            )

    def __iter__(self):
        total, left = len(self.data_source), self.num_samples
        while left > 0:
            if self.replacement:
                numbers = randint(total, (left,), generator=self.generator)
            else:
                numbers = randperm(total, generator=self.generator)[:left]
            yield from numbers.tolist()
            left -= len(numbers)

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given numbers, in an order that is drawn anew each time."""

    def __init__(self, indices, generator=None):
        self.indices, self.generator = indices, generator

    def __iter__(self):
        for i in randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """``num_samples`` numbers, each drawn with a probability proportional to its weight."""

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        if isinstance(num_samples, bool) or not isinstance(num_samples, int) or num_samples <= 0:
            raise ValueError(f"num_samples is a positive integer, got {num_samples!r}")
        self.weights = as_tensor(weights, dtype=backend.float64)
        if self.weights.ndim != 1:
            raise ValueError(f"weights have one axis, got shape {tuple(self.weights.shape)}")
        self.num_samples, self.replacement = num_samples, replacement
        self.generator = generator

    def __iter__(self):
        draw = multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        return iter(draw.tolist())

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """The numbers that a sampler gives, in lists of ``batch_size``."""

    def __init__(self, sampler, batch_size, drop_last):
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size <= 0:
            raise ValueError(f"batch_size is a positive integer, got {batch_size!r}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last is True or False, got {drop_last!r}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self):
        items = iter(self.sampler)
        while batch := list(itertools.islice(items, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self):
        total, size = len(self.sampler), self.batch_size
        return total // size if self.drop_last else -(-total // size)


def _is_number_array(data):
    return isinstance(data, (np.ndarray, np.generic)) and data.dtype.kind in "biuf"


def _rebuild(like, parts):
    """Collated parts in a container of the same kind; a plain tuple becomes a list."""
    if hasattr(like, "_fields"):
        return type(like)(*parts)
    return list(parts) if isinstance(like, tuple) else type(like)(parts)


def default_convert(data):
    """``data`` with the NumPy arrays in it as tensors."""
    if _is_number_array(data):
        return as_tensor(np.asarray(data))
    if isinstance(data, Mapping):
        return type(data)({key: default_convert(value) for key, value in data.items()})
    if isinstance(data, (tuple, list)):
        return _rebuild(data, [default_convert(value) for value in data])
    return data


def default_collate(batch):
    """A list of examples as one batch.

    Tensors, arrays and numbers are stacked along a new first axis (Python's floats become float64,
    as in PyTorch); tuples, lists and dicts are collated part by part; strings stay a list.
    RuntimeError for lists of unequal lengths, and for tensors of unequal shapes: pad these in a
    ``collate_fn`` of your own. TypeError for anything else.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch))
    if _is_number_array(first):
        return stack([as_tensor(np.asarray(item)) for item in batch])
    if isinstance(first, float):
        return tensor(batch, dtype=backend.float64)
    if isinstance(first, int):
        return tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return type(first)({key: default_collate([item[key] for item in batch]) for key in first})
    if not isinstance(first, (tuple, list)):
        raise TypeError(
            "default_collate takes tensors, arrays, numbers, strings, tuples, lists and dicts; "
            f"got {type(first).__name__}: pass a collate_fn that makes a batch of these"
        )
    sizes = [len(item) for item in batch]
    if len(set(sizes)) > 1:
        raise RuntimeError(f"parts of sizes {sizes} do not make a batch: pad them in a collate_fn")
    return _rebuild(first, [default_collate(part) for part in zip(*batch, strict=True)])


class DataLoader(Generic[T]):
    """Batches of a dataset, in order or shuffled anew in every pass.

    ``collate_fn`` makes a batch of a list of examples; ``drop_last`` leaves out a last batch that
    is not full; ``batch_size=None`` gives single examples; ``batch_sampler`` gives the numbers of
    each batch itself. The numbers of a shuffle come from ``generator``, or from the one that
    ``manual_seed`` seeds. Worker processes and pinned memory do not exist here, so ``num_workers``
    and ``pin_memory`` take 0 and False only. ValueError for options that contradict each other.
    """

    def __init__(
        self,
        dataset,
        batch_size=1,
        shuffle=None,
        sampler=None,
        batch_sampler=None,
        num_workers=0,
        collate_fn=None,
        pin_memory=False,
        drop_last=False,
        *,
        generator=None,
    ):
        if num_workers or pin_memory:
            raise NotImplementedError(
                "this DataLoader works in its own process: leave out num_workers and pin_memory, "
                f"got num_workers={num_workers}, pin_memory={pin_memory}"
            )
        if sampler is not None and shuffle:
            raise ValueError("a sampler sets the order: leave out shuffle")
        iterable = isinstance(dataset, IterableDataset)
        if iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError(
                "an IterableDataset sets its own order: leave out shuffle and samplers"
            )
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "a batch_sampler sets the batches: leave out batch_size, shuffle, sampler and "
                    "drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None makes no batches: leave out drop_last")
        if sampler is None and not iterable:
            sampler = (
                RandomSampler(dataset, generator=generator)
                if shuffle
                else SequentialSampler(dataset)
            )
        if batch_size is not None:
            batch_sampler = BatchSampler(dataset if iterable else sampler, batch_size, drop_last)
        if collate_fn is None:
            collate_fn = default_convert if batch_sampler is None else default_collate
        self.dataset = dataset
        self.batch_size = batch_size
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.drop_last = drop_last
        self.generator = generator

    def __iter__(self):
        iterable = isinstance(self.dataset, IterableDataset)
        if self.batch_sampler is None:
            items = self.dataset if iterable else (self.dataset[i] for i in self.sampler)
            return map(self.collate_fn, items)
        if iterable:
            return map(self.collate_fn, self.batch_sampler)
        return (self.collate_fn([self.dataset[i] for i in batch]) for batch in self.batch_sampler)

    def __len__(self):
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
