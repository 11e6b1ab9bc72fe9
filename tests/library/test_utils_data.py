"""minitorch.utils.data: datasets, splits, samplers, the loader and its batches, as PyTorch's."""

import collections

import numpy as np
import pytest

import minitorch as torch
from minitorch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    random_split,
)


class Squares(Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return index, index**2


class Countdown(IterableDataset):
    def __iter__(self):
        return iter([4, 3, 2, 1, 0])


def read(loader):
    return [batch.tolist() for batch in loader]


@pytest.fixture
def pairs():
    return TensorDataset(torch.arange(10), torch.arange(10) * 2)


# Datasets


def test_tensor_dataset_gives_rows_of_each(pairs):
    assert len(pairs) == 10
    assert [t.item() for t in pairs[3]] == [3, 6]
    assert [t.tolist() for t in pairs[2:4]] == [[2, 3], [4, 6]]
    with pytest.raises(AssertionError, match=r"shapes \(3, 2\), \(4,\)"):
        TensorDataset(torch.zeros(3, 2), torch.zeros(4))


def test_a_dataset_without_getitem_says_so():
    with pytest.raises(NotImplementedError, match="__getitem__"):
        Dataset()[0]


def test_subset_renumbers(pairs):
    subset = Subset(pairs, [7, 1])
    assert len(subset) == 2
    assert subset[0][1].item() == 14
    assert subset[[1, 0]][0].tolist() == [1, 7]
    with pytest.raises(IndexError):
        subset[2]


def test_concatenated_datasets_follow_each_other():
    both = Squares(3) + Squares(2)
    assert isinstance(both, ConcatDataset) and len(both) == 5
    assert [both[i][0] for i in range(-5, 5)] == [0, 1, 2, 0, 1] * 2
    with pytest.raises(IndexError):
        both[5]
    with pytest.raises(ValueError, match="-6"):
        both[-6]
    with pytest.raises(AssertionError):
        ConcatDataset([])


# Splits


@pytest.mark.parametrize(
    "total, lengths, sizes",
    [
        (10, [7, 3], [7, 3]),
        (10, [0.33, 0.33, 0.34], [4, 3, 3]),
        (2, [0.4, 0.3, 0.3], [1, 1, 0]),
        (10, [0.1] * 10, [1] * 10),
        (4, [1.0], [4]),
        (3, [3, 0], [3, 0]),
    ],
)
def test_random_split_deals_every_example_once(total, lengths, sizes):
    parts = random_split(range(total), lengths)
    assert [len(part) for part in parts] == sizes
    assert sorted(i for part in parts for i in part.indices) == list(range(total))


def test_random_split_is_settled_by_its_generator():
    def draw(seed):
        generator = torch.Generator().manual_seed(seed)
        return [part.indices for part in random_split(range(50), [0.8, 0.2], generator)]

    assert draw(1) == draw(1) != draw(2)
    assert draw(1)[0] != sorted(draw(1)[0])


@pytest.mark.parametrize("lengths", [[3, 3], [0.5, 0.6], [0.5, 0.3], [1.5, -0.5], [11, -1]])
def test_random_split_refuses_lengths_that_do_not_add_up(lengths):
    with pytest.raises(ValueError):
        random_split(range(10), lengths)


# The loader


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("total", [0, 1, 4, 5, 8])
def test_batches_in_order(total, drop_last):
    loader = DataLoader(range(total), batch_size=4, drop_last=drop_last)
    whole = [list(range(total))[i : i + 4] for i in range(0, total, 4)]
    kept = [batch for batch in whole if len(batch) == 4 or not drop_last]
    assert read(loader) == read(loader) == kept
    assert len(loader) == len(kept)


def test_shuffle_visits_each_example_once_in_a_new_order_every_pass():
    loader = DataLoader(range(100), batch_size=8, shuffle=True)
    first, second = (sum(read(loader), []) for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(100))
    assert first != second and first != sorted(first)


def test_shuffle_is_settled_by_the_generator_or_the_seed():
    def with_generator():
        return DataLoader(range(50), shuffle=True, generator=torch.Generator().manual_seed(3))

    assert read(with_generator()) == read(with_generator())
    orders = []
    for _ in range(2):
        torch.manual_seed(5)
        orders.append(read(DataLoader(range(50), shuffle=True)))
    assert orders[0] == orders[1] != read(with_generator())


def test_a_generator_of_its_own_leaves_the_default_one_alone():
    torch.manual_seed(0)
    expected = torch.rand(1).item()
    torch.manual_seed(0)
    read(DataLoader(range(5), shuffle=True, generator=torch.Generator()))
    assert torch.rand(1).item() == expected


def test_samplers_set_the_order():
    assert read(DataLoader(range(10), batch_size=2, sampler=[3, 1, 2])) == [[3, 1], [2]]
    assert read(DataLoader(range(10), batch_sampler=[[0, 9], [4]])) == [[0, 9], [4]]
    assert list(BatchSampler(SequentialSampler("abc"), 2, drop_last=False)) == [[0, 1], [2]]
    assert sorted(RandomSampler("abc")) == [0, 1, 2]
    assert isinstance(DataLoader(range(3)).sampler, SequentialSampler)
    assert isinstance(DataLoader(range(3), shuffle=True).sampler, RandomSampler)


def test_without_batch_size_examples_come_one_by_one():
    examples = [np.ones(1), 2.0, ("a", np.zeros(1))]
    one, two, three = DataLoader(examples, batch_size=None)
    assert torch.is_tensor(one) and one.dtype == torch.float64
    assert two == 2.0
    assert three[0] == "a" and torch.is_tensor(three[1])


def test_iterable_dataset():
    assert read(DataLoader(Countdown(), batch_size=2)) == [[4, 3], [2, 1], [0]]
    assert read(DataLoader(Countdown(), batch_size=2, drop_last=True)) == [[4, 3], [2, 1]]
    assert list(DataLoader(Countdown(), batch_size=None)) == [4, 3, 2, 1, 0]
    with pytest.raises(TypeError, match="no len"):
        len(DataLoader(Countdown()))
    for option in ({"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}):
        with pytest.raises(ValueError, match="IterableDataset"):
            DataLoader(Countdown(), **option)


def test_collate_fn_makes_the_batch():
    loader = DataLoader(Squares(5), batch_size=2, collate_fn=lambda items: [b for _, b in items])
    assert list(loader) == [[0, 1], [4, 9], [16]]


def test_a_training_loop_sees_tensors(pairs):
    for x, y in DataLoader(pairs, batch_size=4, shuffle=True):
        assert torch.equal(2 * x, y)


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0},
        {"batch_size": 1.5},
        {"batch_size": True},
        {"batch_size": None, "drop_last": True},
        {"sampler": [1], "shuffle": True},
        {"batch_sampler": [[1]], "batch_size": 2},
        {"batch_sampler": [[1]], "shuffle": True},
        {"batch_sampler": [[1]], "sampler": [1]},
        {"batch_sampler": [[1]], "drop_last": True},
    ],
)
def test_options_that_contradict_each_other_are_refused(options):
    with pytest.raises(ValueError):
        DataLoader(range(3), **options)


def test_an_empty_dataset_cannot_be_shuffled():
    with pytest.raises(ValueError, match="empty"):
        DataLoader([], shuffle=True)


def test_workers_and_pinned_memory_are_refused_unless_they_are_none():
    assert read(DataLoader(range(1), num_workers=0, pin_memory=False)) == [[0]]
    for option in ({"num_workers": 2}, {"pin_memory": True}):
        with pytest.raises(NotImplementedError, match="leave out num_workers and pin_memory"):
            DataLoader(range(3), **option)


# Collating


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "batch, values, dtype",
    [
        ([1, 2], [1, 2], torch.int64),
        ([1.0, 2.0], [1.0, 2.0], torch.float64),
        ([True, False], [True, False], torch.bool),
        ([np.float32(1), np.float32(2)], [1.0, 2.0], torch.float32),
        ([np.ones(2, np.int32), np.zeros(2, np.int32)], [[1, 1], [0, 0]], torch.int32),
        ([torch.tensor(1.5), torch.tensor(2.5)], [1.5, 2.5], torch.float32),
    ],
)
def test_collated_numbers(batch, values, dtype):
    collated = default_collate(batch)
    assert collated.tolist() == values
    assert collated.dtype == dtype


def test_collated_parts():
    numbers, names = default_collate([(1, "a"), (2, "b")])
    assert numbers.tolist() == [1, 2] and list(names) == ["a", "b"]
    nested = default_collate([{"n": 1, "m": [2, 3]}, {"n": 4, "m": [5, 6]}])
    assert nested["n"].tolist() == [1, 4]
    assert [m.tolist() for m in nested["m"]] == [[2, 5], [3, 6]]
    point = default_collate([Point(1, 2), Point(3, 4)])
    assert isinstance(point, Point) and point.y.tolist() == [2, 4]
    ordered = default_collate([collections.OrderedDict(a=1)])
    assert isinstance(ordered, collections.OrderedDict)


def test_what_cannot_be_collated_is_refused():
    with pytest.raises(RuntimeError, match=r"sizes \[2, 1\].*collate_fn"):
        default_collate([[1, 2], [3]])
    with pytest.raises(RuntimeError, match=r"\(2,\), \(3,\)"):
        default_collate([torch.ones(2), torch.ones(3)])
    for item in (None, {1, 2}, np.array("a")):
        with pytest.raises(TypeError, match="collate_fn"):
            default_collate([item, item])
    with pytest.raises(KeyError):
        default_collate([{"a": 1}, {"b": 2}])


def test_samplers_draw_what_they_are_given():
    repeated = list(RandomSampler("abc", replacement=True, num_samples=50))
    assert len(repeated) == 50 and set(repeated) == {0, 1, 2}
    more = list(RandomSampler("abc", num_samples=7))
    assert len(more) == 7 and sorted(more[:3]) == sorted(more[3:6]) == [0, 1, 2]
    assert len(RandomSampler("abc", False, 2)) == len(list(RandomSampler("abc", False, 2))) == 2
    subset = SubsetRandomSampler([5, 3, 8])
    orders = {tuple(subset) for _ in range(50)}
    assert (
        len(subset) == 3 and len(orders) > 1 and {*map(frozenset, orders)} == {frozenset((3, 5, 8))}
    )
    counts = collections.Counter(WeightedRandomSampler([1.0, 0, 3], 400))
    assert counts[1] == 0 and 250 < counts[2] < 350
    assert sorted(WeightedRandomSampler(torch.ones(4), 4, replacement=False)) == [0, 1, 2, 3]
    generator = torch.Generator()
    for sampler in (
        RandomSampler("abc", True, 9, generator),
        SubsetRandomSampler("abcdef", generator),
        WeightedRandomSampler([1, 2, 3], 9, generator=generator),
    ):
        generator.manual_seed(3)
        first = list(sampler)
        generator.manual_seed(3)
        assert list(sampler) == first != list(sampler)
    loader = DataLoader(torch.arange(10), batch_size=2, sampler=SubsetRandomSampler([1, 7]))
    assert [sorted(batch.tolist()) for batch in loader] == [[1, 7]]
    for wrong in (0, -1, True, 2.0):
        with pytest.raises(ValueError, match="num_samples is a positive integer"):
            WeightedRandomSampler([1.0], wrong)
    with pytest.raises(ValueError, match="one axis"):
        WeightedRandomSampler([[1.0]], 1)
    with pytest.raises(ValueError, match="0 of 3"):
        RandomSampler("abc", num_samples=0)
