"""save and load: round trips, other programs' files, damaged and malicious files, failing disks."""

import io
import json
import os
import pathlib
import random
import types
from collections import OrderedDict

import numpy as np
import pytest
import safetensors
import safetensors.numpy

import minitorch as mt
from minitorch import nn, optim, serialization
from minitorch.backend import to_numpy

DTYPES = (mt.float64, mt.float32, mt.float16, mt.int64, mt.int32, mt.int16, mt.int8, mt.uint8)


def values(tensor):
    return to_numpy(tensor.array)


def same(first, second):
    """Whether two structures are equal, types and the order of keys included."""
    if isinstance(first, mt.Tensor):
        equal = isinstance(second, mt.Tensor) and first.dtype is second.dtype
        return equal and np.array_equal(values(first), values(second))
    if hasattr(first, "dtype"):
        return first.dtype == second.dtype and bool((first == second).all())
    if isinstance(first, dict):
        keys = list(first) == list(second)
        return keys and all(same(first[key], second[key]) for key in first)
    if isinstance(first, (list, tuple)):
        equal = type(first) is type(second) and len(first) == len(second)
        return equal and all(map(same, first, second))
    return type(first) is type(second) and (first == second or first != first)


def round_trip(obj, **options):
    file = io.BytesIO()
    mt.save(obj, file)
    file.seek(0)
    return mt.load(file, **options)


def file_of(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def refused(data, match=""):
    with pytest.raises(RuntimeError, match="nothing was loaded.*" + match):
        mt.load(data if hasattr(data, "read") else io.BytesIO(data))


def trained():
    mt.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    model(mt.randn(5, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


# What goes in comes out


def test_state_dict(tmp_path):
    model, _ = trained()
    path = tmp_path / "model.safetensors"
    mt.save(model.state_dict(), path)
    loaded = mt.load(path)
    assert same(dict(model.state_dict()), loaded)
    other, _ = trained()
    other.load_state_dict(loaded)
    assert not any(tensor.requires_grad for tensor in loaded.values())
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_checkpoint_of_a_program(tmp_path):
    model, optimizer = trained()
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "loss": 0.5,
        "best": float("inf"),
        "vocab": ["<pad>", "a", 'ü"\n', "\U0001f600"],
        "merges": {("a", "b"): 0, ("ab", "c"): 1},
        "options": {"tied": True, "name": None, 7: (1, [2.5]), "$tensor": "no tensor"},
        "generator": mt.Generator().manual_seed(3).get_state(),
        "empty": [{}, [], ()],
    }
    path = str(tmp_path / "all.pt")
    mt.save(checkpoint, path)
    loaded = mt.load(path, map_location="cpu", weights_only=False)
    assert same({**checkpoint, "model": dict(checkpoint["model"])}, loaded)
    other_model, other_optimizer = trained()
    other_model.load_state_dict(loaded["model"])
    other_optimizer.load_state_dict(loaded["optimizer"])
    other_optimizer.step()


@pytest.mark.parametrize("dtype", [*DTYPES, mt.bool], ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (3, 2)], ids=str)
def test_every_type_and_shape(dtype, shape):
    tensor = (mt.randn(*shape) * 3).to(dtype)
    assert same(tensor, round_trip({"x": tensor})["x"])
    assert same([tensor], round_trip([tensor])) and same(tensor, round_trip(tensor))


def test_tensors_that_are_views_shared_or_need_gradients():
    x = mt.arange(12).float().view(3, 4)
    saved = {"all": x, "T": x.T, "every": x[:, ::2], "wide": x[:, :1].expand(3, 5), "again": x}
    loaded = round_trip(saved | {"parameter": nn.Parameter(mt.ones(2))})
    assert same(saved | {"parameter": mt.ones(2)}, loaded)
    loaded["all"].zero_()
    assert same(loaded["again"], x)


def test_loaded_tensors_can_be_changed():
    loaded = round_trip({"x": mt.ones(3)})["x"]
    loaded += 1
    assert loaded.tolist() == [2, 2, 2]


def test_names_that_collide():
    saved = {"a": {"b": mt.ones(1)}, "a.b": mt.zeros(1), "__metadata__": mt.full((1,), 2.0)}
    saved |= {"": mt.full((1,), 3.0), 1: mt.full((1,), 4.0), "1": mt.full((1,), 5.0)}
    assert same(saved, round_trip(saved))


@pytest.mark.parametrize("saved", [{"$tensor": "x"}, {"$x": 1, "y": 2}, {"$dict": [[1, 2]]}])
def test_keys_that_look_like_marks(saved):
    assert same(saved, round_trip(saved))


def test_numpy_numbers_become_python_numbers():
    loaded = round_trip({"loss": np.float32(0.5), "n": np.int64(3)})
    assert same(loaded, {"loss": 0.5, "n": 3})


@pytest.mark.parametrize(
    ("obj", "path"),
    [
        ({"model": [1, 2, 3, lambda x: x]}, r"obj\['model'\]\[3\] is a lambda"),
        ((1, {2: {1, 2}}), r"obj\[1\]\[2\] is of <class 'set'>"),
        (nn.Linear(1, 1), r"obj is of .*Linear.*save its state_dict\(\)"),
        ({"a": np.array(["x"])}, r"obj\['a'\] is of .*ndarray"),
        ({"a": np.zeros(2, complex)}, r"obj\['a'\] is of .*ndarray"),
        ({b"key": 1}, r"the key b'key' of obj is of <class 'bytes'>"),
        ({"args": types.SimpleNamespace()}, r"obj\['args'\] is of .*SimpleNamespace"),
        ([pathlib.Path("x")], r"obj\[0\] is of "),
    ],
)
def test_what_cannot_be_saved_is_named(tmp_path, obj, path):
    with pytest.raises(TypeError, match=path):
        mt.save(obj, tmp_path / "x")
    assert not os.listdir(tmp_path)


# Files of others


def test_file_made_elsewhere():
    arrays = {"w": np.ones((2, 3), np.float32), "b": np.array(2, np.int64)}
    loaded = mt.load(io.BytesIO(safetensors.numpy.save(arrays, {"format": "pt"})))
    assert loaded["w"].tolist() == [[1, 1, 1], [1, 1, 1]] and loaded["b"].item() == 2
    assert loaded["w"].dtype is mt.float32 and set(loaded) == {"w", "b"}


def test_our_file_read_elsewhere(tmp_path):
    path = tmp_path / "x.safetensors"
    table = mt.randn(4, 2)
    saved = OrderedDict({"out.weight": table, "embed.weight": table, "mask": table.T > 0})
    mt.save({"model": saved, "epoch": 1}, path)
    read = safetensors.numpy.load_file(path)
    assert set(read) == {"model.out.weight", "model.embed.weight", "model.mask"}
    assert np.array_equal(read["model.embed.weight"], values(table))
    assert np.array_equal(read["model.mask"], values(table).T > 0)


def test_types_that_the_library_lacks_are_named():
    header = {"x": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}
    refused(file_of(header, b"\0\0"), "tensor 'x' is of type BF16")


# Damaged and malicious files

F32 = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (b"", "damaged"),
        (b"short", "damaged"),
        (b"x" * 100, "damaged"),
        ((2**63).to_bytes(8, "little") + b"{}", "damaged"),
        ((50).to_bytes(8, "little") + b"{}", "damaged"),
        (b"PK\x03\x04" + bytes(100), "it is a pickle"),
        (b"\x80\x02}q\x00.", "it is a pickle"),
        (file_of(b"[]"), "damaged"),
        (file_of(b"{"), "damaged"),
        (file_of(b"[" * 100_000), "damaged"),
        (file_of(b'{"\xff": 1}'), "damaged"),
        (file_of({"x": F32}), "damaged"),
        (file_of({"x": F32}, bytes(3)), "damaged"),
        (file_of({"x": F32}, bytes(5)), "damaged"),
        (file_of({"x": F32, "y": F32}, bytes(4)), "damaged"),
        (file_of({"x": F32, "y": {**F32, "data_offsets": [2, 6]}}, bytes(6)), "damaged"),
        (file_of({"x": {**F32, "data_offsets": [4, 8]}}, bytes(8)), "damaged"),
        (file_of({"x": {**F32, "data_offsets": [4, 0]}}, bytes(4)), "damaged"),
        (file_of({"x": {**F32, "data_offsets": [0, 2**70]}}, bytes(4)), "damaged"),
        (file_of({"x": {**F32, "data_offsets": [-4, 0]}}, bytes(4)), "damaged"),
        (file_of({"x": {**F32, "shape": [2]}}, bytes(4)), "damaged"),
        (file_of({"x": {**F32, "shape": [2**62, 4]}}, bytes(4)), "damaged"),
        (file_of({"x": {**F32, "shape": [-1]}}, bytes(4)), "damaged"),
        (file_of({"x": {**F32, "dtype": "O"}}, bytes(4)), "damaged"),
        (file_of({"x": {**F32, "dtype": "BOOL", "shape": [4]}}, b"\2\0\0\0"), "boolean"),
        (file_of({"__metadata__": {"minitorch": "[]"}}), "checksum"),
        (file_of({"__metadata__": {"minitorch.checksum": "0"}}), "checksum"),
        (file_of({"__metadata__": [1]}), "damaged"),
    ],
)
def test_bad_file_is_refused(file, message):
    refused(file, message)


@pytest.mark.parametrize(
    "structure",
    [
        "",
        "[" * 100_000,
        '{"a":' * 100_000,
        "9" * 5000,
        '{"$tensor":"y"}',
        '{"$tensor":["x"]}',
        '{"$tensor":{}}',
        '{"$tuple":1}',
        '{"$dict":[1]}',
        '{"$dict":[[[],1]]}',
        '{"$dict":[[1,2,3]]}',
        '{"$dict":{"a":1}}',
        '{"$python":"os.system"}',
    ],
)
def test_malicious_structure_with_a_right_checksum_is_refused(structure):
    arrays = {"x": np.ones(1, np.float32)}
    metadata = {"minitorch": structure}
    metadata["minitorch.checksum"] = serialization._checksum(structure, arrays)
    refused(safetensors.numpy.save(arrays, metadata))


def test_header_may_begin_as_a_pickle_does():
    """The first byte of a file is the lowest of the header's length: here 0x80 or "PK"."""
    for length in (0x80, 0x280, 0x4B50):
        text = b"{}" + b" " * (length - 2)
        assert mt.load(io.BytesIO(length.to_bytes(8, "little") + text)) == {}


@pytest.fixture(scope="module")
def checkpoint():
    model, optimizer = trained()
    file = io.BytesIO()
    mt.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "vocab": ["a", "b"]},
        file,
    )
    return file.getvalue()


def test_every_truncation_is_refused(checkpoint):
    for length in range(len(checkpoint)):
        refused(checkpoint[:length])
    refused(checkpoint + b"\0")


def test_every_changed_byte_is_noticed(checkpoint):
    """Refused, or loaded as it was: a change of blank space within the header changes nothing."""
    draw = random.Random(0)
    right = mt.load(io.BytesIO(checkpoint))
    unnoticed = 0
    for place in range(len(checkpoint)):
        damaged = bytearray(checkpoint)
        damaged[place] ^= draw.choice([1, 2, 4, 8, 16, 32, 64, 128, 255])
        try:
            loaded = mt.load(io.BytesIO(bytes(damaged)))
        except RuntimeError as error:
            assert "nothing was loaded" in str(error)
        else:
            unnoticed += 1
            assert same(right, loaded), f"byte {place}"
    assert unnoticed < 10


def test_a_changed_type_is_noticed(checkpoint):
    assert checkpoint.count(b'"F32"') > 1
    refused(checkpoint.replace(b'"F32"', b'"I32"', 1), "checksum")


def test_random_damage_is_noticed(checkpoint):
    draw = random.Random(1)
    for _ in range(300):
        damaged = bytearray(checkpoint)
        start = draw.randrange(len(damaged))
        stop = start + draw.randrange(1, 50)
        damaged[start:stop] = draw.randbytes(draw.randrange(50))
        if damaged != checkpoint:
            refused(bytes(damaged))


# Writing


class Full(io.RawIOBase):
    """A disk that is full."""

    def write(self, data):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_failing_write_leaves_the_old_file(tmp_path, monkeypatch, broken):
    path = tmp_path / "model.safetensors"
    mt.save({"x": mt.ones(2)}, path)

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(OSError, match="No space"):
        mt.save({"x": mt.zeros(2)}, path)
    assert os.listdir(tmp_path) == ["model.safetensors"]
    assert mt.load(path)["x"].tolist() == [1, 1]


def test_write_into_a_missing_folder_or_a_failing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        mt.save({}, tmp_path / "nowhere" / "x")
    with pytest.raises(FileNotFoundError):
        mt.load(tmp_path / "nowhere")
    with pytest.raises(OSError, match="No space"):
        mt.save({}, Full())


def test_link_is_followed(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    mt.save(1, target)
    try:
        link.symlink_to(target)
    except OSError:
        pytest.skip("no symbolic links here")
    mt.save(2, link)
    assert link.is_symlink() and mt.load(target) == 2
