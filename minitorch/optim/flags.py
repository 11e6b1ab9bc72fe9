"""Flags by which PyTorch chooses how a step is computed; they change no number."""

INERT = ("foreach", "fused", "capturable")
WITHOUT = ("maximize", "differentiable")


def inert(flags):
    """The flags, for the groups of an optimizer. Those that would change numbers must be False."""
    for name, value in flags.items():
        if name not in INERT + WITHOUT:
            raise TypeError(f"an optimizer got an unexpected option {name!r}")
        if name in WITHOUT and value:
            raise NotImplementedError(f"{name}={value!r} is not part of minitorch's optimizers")
    return flags
