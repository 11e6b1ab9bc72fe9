"""Every operation as a method of tensors.

The body of the class reads as a table: ``tanh = elementwise.tanh`` says that ``x.tanh()`` is the
operation of that name, and ``tanh_`` writes its result into ``x``.
"""

import functools

from minitorch.autograd.dispatch import operator
from minitorch.autograd.inplace import in_place
from minitorch.autograd.modes import is_grad_enabled
from minitorch.autograd.tensorbase import TensorBase
from minitorch.axes import sizes_of
from minitorch.backend import array_module
from minitorch.compat import functions
from minitorch.compat.methods import CompatMethods
from minitorch.operations import elementwise, indexing, logic, products, reductions, shapes


def _sizes_first(operation):
    """A method whose sizes (or axes) are given one by one or as one sequence."""

    @functools.wraps(operation)
    def method(self, *sizes, **named):
        return operation(self, sizes_of(sizes), **named) if sizes else operation(self, **named)

    return method


class Methods(CompatMethods):
    """The operations on tensors; ``Tensor`` adds what a tensor holds and how it is converted."""

    __slots__ = ()

    # Arithmetic

    add = elementwise.add
    sub = subtract = elementwise.sub
    mul = multiply = elementwise.mul
    div = divide = true_divide = elementwise.divide
    floor_divide = elementwise.floor_divide
    remainder = elementwise.remainder
    fmod = elementwise.fmod
    pow = elementwise.pow
    neg = negative = elementwise.neg
    abs = absolute = elementwise.abs
    maximum = elementwise.maximum
    minimum = elementwise.minimum

    __add__ = operator(elementwise.add)
    __radd__ = operator(elementwise.add, reflected=True)
    __sub__ = operator(elementwise.sub)
    __rsub__ = operator(elementwise.sub, reflected=True)
    __mul__ = operator(elementwise.mul)
    __rmul__ = operator(elementwise.mul, reflected=True)
    __truediv__ = operator(elementwise.div)
    __rtruediv__ = operator(elementwise.div, reflected=True)
    __floordiv__ = operator(elementwise.floor_divide)
    __rfloordiv__ = operator(elementwise.floor_divide, reflected=True)
    __mod__ = operator(elementwise.remainder)
    __rmod__ = operator(elementwise.remainder, reflected=True)
    __pow__ = operator(elementwise.pow)
    __rpow__ = operator(elementwise.pow, reflected=True)
    __neg__ = elementwise.neg
    __abs__ = elementwise.abs
    __matmul__ = products.matmul

    def __pos__(self):
        return self

    # Functions

    exp = elementwise.exp
    log = elementwise.log
    log10 = elementwise.log10
    square = elementwise.square
    sqrt = elementwise.sqrt
    rsqrt = elementwise.rsqrt
    sin = elementwise.sin
    cos = elementwise.cos
    tanh = elementwise.tanh
    sigmoid = elementwise.sigmoid
    relu = elementwise.relu
    sign = elementwise.sign
    floor = elementwise.floor
    ceil = elementwise.ceil
    trunc = elementwise.trunc
    round = elementwise.round
    clamp = clip = elementwise.clamp
    masked_fill = elementwise.masked_fill

    def where(self, condition, other):
        """This tensor where the condition holds, else other."""
        return elementwise.where(condition, self, other)

    # Comparisons and logic

    eq = logic.eq
    ne = not_equal = logic.ne
    lt = less = logic.lt
    le = less_equal = logic.le
    gt = greater = logic.gt
    ge = greater_equal = logic.ge
    logical_not = logic.logical_not
    logical_and = logic.logical_and
    logical_or = logic.logical_or
    logical_xor = logic.logical_xor
    bitwise_not = logic.bitwise_not
    bitwise_and = logic.bitwise_and
    bitwise_or = logic.bitwise_or
    bitwise_xor = logic.bitwise_xor
    isnan = logic.isnan
    isinf = logic.isinf
    isfinite = logic.isfinite
    isclose = logic.isclose
    allclose = logic.allclose
    equal = logic.equal

    __eq__ = operator(logic.eq)
    __ne__ = operator(logic.ne)
    __lt__ = operator(logic.lt)
    __le__ = operator(logic.le)
    __gt__ = operator(logic.gt)
    __ge__ = operator(logic.ge)
    __and__ = operator(logic.bitwise_and)
    __rand__ = operator(logic.bitwise_and, reflected=True)
    __or__ = operator(logic.bitwise_or)
    __ror__ = operator(logic.bitwise_or, reflected=True)
    __xor__ = operator(logic.bitwise_xor)
    __rxor__ = operator(logic.bitwise_xor, reflected=True)
    __invert__ = logic.bitwise_not
    __hash__ = TensorBase.__hash__

    # Reductions

    sum = reductions.sum
    mean = reductions.mean
    var = reductions.var
    std = reductions.std
    prod = reductions.prod
    max = reductions.max
    min = reductions.min
    amax = reductions.amax
    amin = reductions.amin
    argmax = reductions.argmax
    argmin = reductions.argmin
    all = reductions.all
    any = reductions.any
    count_nonzero = reductions.count_nonzero
    norm = reductions.norm
    cumsum = reductions.cumsum
    cumprod = reductions.cumprod
    logsumexp = reductions.logsumexp
    softmax = reductions.softmax
    log_softmax = reductions.log_softmax
    sort = reductions.sort
    argsort = reductions.argsort
    topk = reductions.topk
    unique = indexing.unique
    bincount = indexing.bincount

    # Shapes

    transpose = swapaxes = swapdims = shapes.transpose
    squeeze = shapes.squeeze
    unsqueeze = shapes.unsqueeze
    flatten = shapes.flatten
    unflatten = shapes.unflatten
    contiguous = shapes.contiguous
    clone = shapes.clone
    tril = shapes.tril
    triu = shapes.triu
    diagonal = shapes.diagonal
    diag_embed = shapes.diag_embed
    diag = indexing.diag
    chunk = shapes.chunk
    split_with_sizes = shapes.split_with_sizes
    unbind = shapes.unbind
    narrow = indexing.narrow
    select = indexing.select
    roll = shapes.roll
    repeat_interleave = indexing.repeat_interleave
    t = shapes.t

    reshape = _sizes_first(shapes.reshape)
    view = _sizes_first(shapes.view)
    permute = _sizes_first(shapes.permute)
    expand = broadcast_to = _sizes_first(shapes.expand)
    repeat = _sizes_first(shapes.repeat)
    tile = _sizes_first(functions.tile)
    flip = _sizes_first(shapes.flip)

    def split(self, split_size, dim=0):
        """Pieces of one size along ``dim``, the last perhaps smaller, or of the given sizes."""
        return shapes.split(self, split_size, dim)

    @property
    def T(self):
        """The axes in reverse order."""
        return shapes.permute(self, tuple(reversed(range(self.array.ndim))))

    @property
    def mT(self):
        """The last two axes exchanged."""
        if self.array.ndim < 2:
            raise RuntimeError(f"mT needs at least 2 axes; got shape {tuple(self.shape)}")
        return shapes.transpose(self, -2, -1)

    # Products

    matmul = products.matmul
    mm = products.mm
    bmm = products.bmm
    dot = products.dot
    outer = products.outer

    # Positions

    gather = indexing.gather
    scatter = indexing.scatter
    scatter_add = indexing.scatter_add
    index_select = indexing.index_select
    index_add = indexing.index_add
    index_copy = indexing.index_copy
    index_fill = indexing.index_fill
    masked_select = indexing.masked_select
    nonzero = indexing.nonzero
    argwhere = indexing.argwhere

    def __getitem__(self, index):
        return indexing.getitem(self, indexing.as_index(index, array_module(self.array)))

    def __setitem__(self, index, value):
        index = indexing.as_index(index, array_module(self.array))
        if not isinstance(value, (TensorBase, int, float)):
            value = self.new_tensor(value)
        if is_grad_enabled() and (
            self._base.requires_grad or getattr(value, "requires_grad", False)
        ):
            self._assign(index, value)
        else:
            indexing.assign(self.array, index, getattr(value, "array", value))
            self._note_change()

    def _assign(self, index, value):
        if not indexing.basic_parts(index):
            self._change_in_place(indexing.setitem(self, value, index))
            return
        view = indexing.getitem(self, index)
        value = value if isinstance(value, TensorBase) else self.new_tensor(value)
        extra = max(0, value.array.ndim - view.array.ndim)
        view.copy_(value.reshape(value.shape[extra:]) if extra else value)

    # In place

    __iadd__ = in_place(elementwise.add)
    sub_ = subtract_ = __isub__ = in_place(elementwise.sub)
    mul_ = multiply_ = __imul__ = in_place(elementwise.mul)
    __itruediv__ = in_place(elementwise.div)
    floor_divide_ = __ifloordiv__ = in_place(elementwise.floor_divide)
    remainder_ = __imod__ = in_place(elementwise.remainder)
    pow_ = __ipow__ = in_place(elementwise.pow)
    neg_ = negative_ = in_place(elementwise.neg)
    abs_ = absolute_ = in_place(elementwise.abs)
    exp_ = in_place(elementwise.exp)
    log_ = in_place(elementwise.log)
    sqrt_ = in_place(elementwise.sqrt)
    sin_ = in_place(elementwise.sin)
    cos_ = in_place(elementwise.cos)
    tanh_ = in_place(elementwise.tanh)
    sigmoid_ = in_place(elementwise.sigmoid)
    relu_ = in_place(elementwise.relu)
    clamp_ = clip_ = in_place(elementwise.clamp)
    masked_fill_ = in_place(elementwise.masked_fill)
    scatter_ = in_place(indexing.scatter)
    scatter_add_ = in_place(indexing.scatter_add)
    index_add_ = in_place(indexing.index_add)
    __iand__ = in_place(logic.bitwise_and)
    __ior__ = in_place(logic.bitwise_or)
    __ixor__ = in_place(logic.bitwise_xor)

    def add_(self, other, alpha=1):
        """alpha * other added; ``add_(alpha, other)``, the order of old programs, is understood."""
        if isinstance(alpha, TensorBase) and not isinstance(other, TensorBase):
            other, alpha = alpha, other
        return self.__iadd__(other, alpha)

    def div_(self, other, *, rounding_mode=None):
        """``div``, written into this tensor."""
        if rounding_mode is None:
            return self.__itruediv__(other)
        return in_place(elementwise.div_rounded)(self, other, rounding_mode)

    divide_ = true_divide_ = div_

    def squeeze_(self, dim=None):
        """``squeeze``, of this tensor itself."""
        return self._change_shape_in_place(shapes.squeeze(self, dim))

    def unsqueeze_(self, dim):
        """``unsqueeze``, of this tensor itself."""
        return self._change_shape_in_place(shapes.unsqueeze(self, dim))

    def transpose_(self, dim0, dim1):
        """``transpose``, of this tensor itself."""
        return self._change_shape_in_place(shapes.transpose(self, dim0, dim1))

    swapaxes_ = swapdims_ = transpose_

    def t_(self):
        """``t``, of this tensor itself."""
        return self._change_shape_in_place(shapes.t(self))
