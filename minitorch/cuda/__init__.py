"""The GPU: whether there is one, and waiting for it. Computing on it is ``tensor.to("cuda")``."""

from minitorch import backend
from minitorch.generator import manual_seed
from minitorch.missing import in_module

__all__ = [
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "is_available",
    "is_bf16_supported",
    "manual_seed",
    "manual_seed_all",
    "memory_allocated",
    "synchronize",
]

manual_seed_all = manual_seed
_initialized = False  # no random state on a GPU: all numbers come from NumPy's generators


def is_available():
    """Whether ``device="cuda"`` works: CuPy, a GPU with its driver, and the CUDA libraries."""
    try:
        backend.load_cupy()
    except RuntimeError:
        return False
    return True


def is_bf16_supported():
    """False: ``bfloat16`` is read as float32."""
    return False


def device_count():
    """The number of GPUs, 0 where ``is_available()`` is False."""
    return backend.load_cupy().cuda.runtime.getDeviceCount() if is_available() else 0


def current_device():
    """The number of the GPU that ``"cuda"`` means."""
    return backend.load_cupy().cuda.Device().id


def get_device_name(device=None):
    """The name of a GPU."""
    index = backend.device("cuda" if device is None else device).index
    properties = backend.load_cupy().cuda.runtime.getDeviceProperties(index or current_device())
    return properties["name"].decode()


def synchronize():
    """Wait until the GPU has done all that it was told. Call it before reading a clock."""
    backend.load_cupy().cuda.Device().synchronize()


def memory_allocated():
    """Bytes on the GPU that arrays hold now."""
    return backend.load_cupy().get_default_memory_pool().used_bytes()


def empty_cache():
    """Give memory that is kept for the next arrays back to the GPU."""
    backend.load_cupy().get_default_memory_pool().free_all_blocks()


__getattr__ = in_module(__name__, {"minitorch.cuda.amp": "amp"})
