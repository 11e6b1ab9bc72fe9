"""Mixed precision, by name only: everything is computed in float32, and ``autocast`` says so.

Half precision is there to be fast on a GPU's special units, and the operations here use none. In
an ``autocast`` block PyTorch chooses the type of each operation; here the choice is always that of
its arguments. So numbers are more exact than PyTorch's and their type may differ.
"""

import contextlib
import functools
import warnings

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


def warn_of_float32():
    """Said where a program asks for a block in half precision."""
    told = "autocast: minitorch computes in the types of the arguments, so in float32"
    warnings.warn(told, stacklevel=3)


class autocast(contextlib.ContextDecorator):
    """A block, or a decorated function, that is computed as any other, with a warning."""

    def __init__(self, device_type="cuda", dtype=None, enabled=True, cache_enabled=None):
        if enabled:
            warn_of_float32()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return False


class GradScaler:
    """A scaler that is switched off, as PyTorch's is where there is no GPU: the scale is 1."""

    def __init__(self, device="cuda", **options):
        pass

    def scale(self, outputs):
        """The outputs themselves."""
        return outputs

    def unscale_(self, optimizer):
        """Nothing: gradients are not scaled."""

    def step(self, optimizer, *args, **kwargs):
        """``optimizer.step()``."""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale=None):
        """Nothing: the scale stays 1."""

    def get_scale(self):
        """1."""
        return 1.0

    def is_enabled(self):
        """False."""
        return False

    def state_dict(self):
        """Empty."""
        return {}

    def load_state_dict(self, state_dict):
        """Nothing to take over."""


def custom_fwd(fwd=None, *, device_type=None, cast_inputs=None):
    """``forward`` of an ``autograd.Function`` as it is."""
    return functools.partial(custom_fwd, device_type=device_type) if fwd is None else fwd


def custom_bwd(bwd=None, *, device_type=None):
    """``backward`` of an ``autograd.Function`` as it is."""
    return functools.partial(custom_bwd, device_type=device_type) if bwd is None else bwd


def is_autocast_available(device_type):
    """False: no operation chooses its type."""
    return False
