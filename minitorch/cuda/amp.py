"""The older place of ``minitorch.amp``."""

from minitorch import amp
from minitorch.amp import GradScaler, custom_bwd, custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(amp.autocast):
    """``amp.autocast``, whose device goes without saying."""

    def __init__(self, enabled=True, dtype=None, cache_enabled=True):
        super().__init__("cuda", dtype, enabled=False)
        if enabled:
            amp.warn_of_float32()
