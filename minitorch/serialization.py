"""Save and load: safetensors files, which hold numbers and text but no code.

A file that PyTorch's ``torch.save`` writes is a pickle, a small program that runs when it is
loaded. A safetensors file is a header in JSON (names, types, shapes, places) and then the numbers:
see https://huggingface.co/docs/safetensors. What is saved with the tensors (nested dicts, lists,
numbers, text) stands in the header's metadata, with a checksum over everything.
"""

import hashlib
import json
import os
import uuid

import numpy as np

from minitorch import backend
from minitorch.autograd.tensorbase import TensorBase
from minitorch.tensor import Tensor

FORMAT = "minitorch"
_NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "bool": "BOOL", "uint8": "U8"}
_NAMES |= {"int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8"}
_TYPES = {short: np.dtype(name) for name, short in _NAMES.items()}
_PLAIN = (type(None), bool, int, float, str)


def save(obj, f):
    """Write tensors, and dicts, lists, tuples, numbers and text that hold them, to a file.

    ``f`` is a path or an open binary file. A path is written atomically: if anything fails, a file
    that was there stays as it was. TypeError names what cannot be saved and where in ``obj`` it is.
    In the file, a tensor is called by its keys, joined by dots. Tensors that share memory are
    written once under each name; ``requires_grad`` is not kept. ::

        minitorch.save(model.state_dict(), "model.safetensors")
        minitorch.save({"model": model.state_dict(), "epoch": 3, "vocab": words}, "all.safetensors")
        model.load_state_dict(minitorch.load("model.safetensors"))
    """
    from safetensors.numpy import save as to_bytes

    arrays = {}
    structure = json.dumps(_encoded(obj, "obj", (), arrays), separators=(",", ":"))
    checksum = _checksum(structure, arrays)
    data = to_bytes(arrays, {FORMAT: structure, FORMAT + ".checksum": checksum})
    if hasattr(f, "write"):
        f.write(data)
    else:
        write_atomically(f, data)


def write_atomically(path, data):
    """Write bytes to a file; if anything fails, a file that was there stays as it was."""
    path = os.path.realpath(path)
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise


def load(f, map_location=None, *, weights_only=True):
    """What ``save`` wrote to a path or an open binary file; or any safetensors file, as a dict.

    Tensors come to the device ``map_location``, the default one for None. RuntimeError says what
    is wrong with a file that is truncated, damaged or something else; then nothing is loaded. No
    file can make it run code, so ``weights_only`` changes nothing. ::

        checkpoint = minitorch.load("all.safetensors")
        model.load_state_dict(checkpoint["model"])
        first_epoch = checkpoint["epoch"] + 1
    """
    if hasattr(f, "read"):
        name, data = getattr(f, "name", "this file"), f.read()
    else:
        name = os.fspath(f)
        with open(f, "rb") as file:
            data = file.read()
    try:
        metadata, arrays = _parsed(data)
        structure, checksum = metadata.get(FORMAT), metadata.get(FORMAT + ".checksum")
        ours = structure is not None or checksum is not None
        if ours and (structure is None or checksum != _checksum(structure, arrays)):
            raise ValueError("its checksum is wrong, so it was changed or damaged")
        content = json.loads(structure) if ours else {name: {"$tensor": name} for name in arrays}
        arrays = {name: backend.to_device(x, map_location) for name, x in arrays.items()}
        return _decoded(content, arrays)
    except ValueError as error:
        reason = error
    except (TypeError, KeyError, RecursionError) as error:
        reason = f"its structure is not as save() writes it ({error!r})"
    raise RuntimeError(f"load: nothing was loaded from {name}: {reason}")


def _encoded(obj, where, keys, arrays):
    """``obj`` as JSON knows it, with ``{"$tensor": name}`` for each tensor, put into ``arrays``."""
    kind = type(obj)
    if kind in _PLAIN:
        return obj
    if isinstance(obj, np.generic):
        return _encoded(obj.item(), where, keys, arrays)
    if isinstance(obj, dict):
        names = [_encoded(key, f"the key {key!r} of {where}", keys, arrays) for key in obj]
        values = [
            _encoded(value, f"{where}[{key!r}]", (*keys, str(key)), arrays)
            for key, value in obj.items()
        ]
        if all(isinstance(name, str) and not name.startswith("$") for name in names):
            return dict(zip(names, values, strict=True))
        return {"$dict": list(zip(names, values, strict=True))}
    if isinstance(obj, (list, tuple)):
        values = [_encoded(x, f"{where}[{i}]", (*keys, str(i)), arrays) for i, x in enumerate(obj)]
        return values if isinstance(obj, list) else {"$tuple": values}
    array = obj.array if isinstance(obj, TensorBase) else obj
    if str(getattr(array, "dtype", None)) not in _NAMES:
        hint = ": save its state_dict()" if hasattr(obj, "state_dict") else ""
        named = "a lambda" if getattr(obj, "__name__", "") == "<lambda>" else f"of {kind}"
        raise TypeError(f"save: {where} is {named}, which cannot be saved{hint}")
    name = ".".join(keys) or "tensor"
    while name in arrays or name == "__metadata__":
        name += "_"
    arrays[name] = np.asarray(backend.to_numpy(array), order="C")
    return {"$tensor" if isinstance(obj, TensorBase) else "$array": name}


def _decoded(content, arrays):
    """The inverse of ``_encoded``."""
    if isinstance(content, list):
        return [_decoded(value, arrays) for value in content]
    if not isinstance(content, dict):
        return content
    tag, value = next(iter(content.items()), ("", None))
    if not tag.startswith("$"):
        return {key: _decoded(value, arrays) for key, value in content.items()}
    if tag == "$tensor":
        return Tensor._wrap(arrays[value])
    if tag == "$array":
        return arrays[value]
    if tag == "$tuple":
        return tuple(_decoded(value, arrays))
    if tag == "$dict":
        return {_decoded(key, arrays): _decoded(value, arrays) for key, value in value}
    raise ValueError(f"its structure names {tag!r}, which this version does not know")


def _parsed(data):
    """The metadata and the arrays of a safetensors file, checked by the package of that name."""
    from safetensors import SafetensorError, deserialize

    try:
        tensors = deserialize(data)
    except SafetensorError as error:
        if data.startswith((b"PK\x03\x04", b"\x80")):
            raise ValueError(
                "it is a pickle, as torch.save writes it, and a pickle can run code: write it "
                "again in PyTorch with safetensors.torch.save_file(state_dict, path)"
            ) from None
        raise ValueError(f"it is no safetensors file, or a damaged one ({error})") from None
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return header.get("__metadata__") or {}, {name: _array(name, t) for name, t in tensors}


def _array(name, tensor):
    kind = _TYPES.get(tensor["dtype"])
    if kind is None:
        raise ValueError(f"tensor '{name}' is of type {tensor['dtype']}; known are {[*_TYPES]}")
    values = np.frombuffer(tensor["data"], kind.newbyteorder("<")).astype(kind, copy=False)
    if kind == np.bool_ and (values.view(np.uint8) > 1).any():
        raise ValueError(f"tensor '{name}' is boolean, but holds more than 0 and 1")
    return values.reshape(tensor["shape"])


def _checksum(structure, arrays):
    """A digest of the structure and of every name, type, shape and value."""
    digest = hashlib.sha256(structure.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, _NAMES[array.dtype.name], array.shape]).encode())
        digest.update(array.reshape(-1).view(np.uint8))
    return digest.hexdigest()
