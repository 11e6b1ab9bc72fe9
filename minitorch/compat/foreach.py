"""The same change in place of each tensor of a list, as optimizers of one's own write it."""

__all__ = ["_foreach_add_", "_foreach_copy_", "_foreach_mul_", "_foreach_zero_"]


def _each(tensors, others):
    """Pairs of a tensor and what belongs to it: one of a list, or the same number for all."""
    same = not isinstance(others, (tuple, list))
    return zip(tensors, [others] * len(tensors) if same else others, strict=True)


def _foreach_add_(self, other, *, alpha=1):
    """Add to each tensor ``alpha`` times its other tensor or number."""
    for tensor, added in _each(self, other):
        tensor.add_(added, alpha=alpha)


def _foreach_mul_(self, other):
    """Multiply each tensor by its other tensor or number."""
    for tensor, factor in _each(self, other):
        tensor.mul_(factor)


def _foreach_copy_(self, src, non_blocking=False):
    """Copy into each tensor the values of its other one."""
    for tensor, source in _each(self, src):
        tensor.copy_(source)


def _foreach_zero_(self):
    """Fill each tensor with zeros."""
    for tensor in self:
        tensor.zero_()
