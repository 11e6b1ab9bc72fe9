"""Methods of tensors that the book does not teach; ``Tensor`` has them all."""

from minitorch.autograd.dispatch import operator
from minitorch.autograd.inplace import in_place
from minitorch.autograd.tensorbase import TensorBase
from minitorch.compat import functions, linalg, products
from minitorch.compat.types import bfloat16, strided
from minitorch.operations import elementwise, indexing, logic, reductions, shapes


class CompatMethods(TensorBase):
    """What ``methods.Methods`` adds to."""

    __slots__ = ()

    addcmul = functions.addcmul
    addcdiv = functions.addcdiv
    lerp = functions.lerp
    logaddexp = functions.logaddexp
    exp2 = functions.exp2
    expm1 = functions.expm1
    log2 = functions.log2
    log1p = functions.log1p
    reciprocal = functions.reciprocal
    tan = functions.tan
    asin = arcsin = functions.asin
    acos = arccos = functions.acos
    atan = arctan = functions.atan
    sinh = functions.sinh
    cosh = functions.cosh
    erf = functions.erf
    erfinv = functions.erfinv
    nan_to_num = functions.nan_to_num
    median = functions.median
    dist = functions.dist
    trace = functions.trace
    ravel = functions.ravel
    movedim = moveaxis = functions.movedim
    tensor_split = functions.tensor_split
    take_along_dim = functions.take_along_dim
    masked_scatter = functions.masked_scatter
    index_put = functions.index_put
    is_complex = functions.is_complex
    mv = products.mv
    ger = products.ger
    inner = products.inner
    addmm = products.addmm
    addmv = products.addmv
    addr = products.addr
    baddbmm = products.baddbmm

    reciprocal_ = in_place(functions.reciprocal)
    erfinv_ = in_place(functions.erfinv)
    exp2_ = in_place(functions.exp2)
    addmm_ = in_place(products.addmm)
    addmv_ = in_place(products.addmv)
    addr_ = in_place(products.addr)
    baddbmm_ = in_place(products.baddbmm)
    addcmul_ = in_place(functions.addcmul)
    addcdiv_ = in_place(functions.addcdiv)
    lerp_ = in_place(functions.lerp)
    masked_scatter_ = in_place(functions.masked_scatter)
    acos_ = arccos_ = in_place(functions.acos)
    asin_ = arcsin_ = in_place(functions.asin)
    atan_ = arctan_ = in_place(functions.atan)
    tan_ = in_place(functions.tan)
    sinh_ = in_place(functions.sinh)
    cosh_ = in_place(functions.cosh)
    erf_ = in_place(functions.erf)
    expm1_ = in_place(functions.expm1)
    log2_ = in_place(functions.log2)
    log1p_ = in_place(functions.log1p)
    nan_to_num_ = in_place(functions.nan_to_num)
    sign_ = in_place(elementwise.sign)
    square_ = in_place(elementwise.square)
    rsqrt_ = in_place(elementwise.rsqrt)
    floor_ = in_place(elementwise.floor)
    ceil_ = in_place(elementwise.ceil)
    round_ = in_place(elementwise.round)
    cumsum_ = in_place(reductions.cumsum)
    tril_ = in_place(shapes.tril)
    triu_ = in_place(shapes.triu)
    index_copy_ = in_place(indexing.index_copy)
    index_fill_ = in_place(indexing.index_fill)
    log10_ = in_place(elementwise.log10)
    trunc_ = in_place(elementwise.trunc)
    fmod_ = in_place(elementwise.fmod)
    cumprod_ = in_place(reductions.cumprod)
    eq_ = in_place(logic.eq)
    ne_ = not_equal_ = in_place(logic.ne)
    lt_ = less_ = in_place(logic.lt)
    le_ = less_equal_ = in_place(logic.le)
    gt_ = greater_ = in_place(logic.gt)
    ge_ = greater_equal_ = in_place(logic.ge)
    logical_not_ = in_place(logic.logical_not)
    logical_and_ = in_place(logic.logical_and)
    logical_or_ = in_place(logic.logical_or)
    logical_xor_ = in_place(logic.logical_xor)
    bitwise_not_ = in_place(logic.bitwise_not)
    bitwise_and_ = in_place(logic.bitwise_and)
    bitwise_or_ = in_place(logic.bitwise_or)
    bitwise_xor_ = in_place(logic.bitwise_xor)
    bitwise_left_shift_ = __ilshift__ = in_place(functions.bitwise_left_shift)
    bitwise_right_shift_ = __irshift__ = in_place(functions.bitwise_right_shift)

    bitwise_left_shift = functions.bitwise_left_shift
    bitwise_right_shift = functions.bitwise_right_shift
    __lshift__ = operator(functions.bitwise_left_shift)
    __rlshift__ = operator(functions.bitwise_left_shift, reflected=True)
    __rshift__ = operator(functions.bitwise_right_shift)
    __rrshift__ = operator(functions.bitwise_right_shift, reflected=True)

    def clamp_min(self, min):
        """At least ``min``."""
        return elementwise.clamp(self, min)

    def clamp_max(self, max):
        """At most ``max``."""
        return elementwise.clamp(self, None, max)

    def clamp_min_(self, min):
        """At least ``min``, written into this tensor."""
        return self.clamp_(min)

    def clamp_max_(self, max):
        """At most ``max``, written into this tensor."""
        return self.clamp_(None, max)

    def index_put_(self, indices, values, accumulate=False):
        """``index_put``, written into this tensor."""
        return self._change_in_place(functions.index_put(self, indices, values, accumulate))

    def fill_diagonal_(self, fill_value):
        """The same number everywhere on the diagonal of a matrix."""
        places = range(min(self.array.shape))
        self[list(places), list(places)] = fill_value
        return self

    def reshape_as(self, other):
        """The same elements in the shape of another tensor."""
        return shapes.reshape(self, other.array.shape)

    def view_as(self, other):
        """Viewed in the shape of another tensor."""
        return shapes.view(self, other.array.shape)

    def expand_as(self, other):
        """Expanded to the shape of another tensor."""
        return shapes.expand(self, other.array.shape)

    @property
    def is_sparse(self):
        """False: a tensor holds all its elements."""
        return False

    @property
    def layout(self):
        """``strided``: a tensor holds all its elements."""
        return strided

    def bfloat16(self):
        """The tensor in float32, as which ``bfloat16`` is read."""
        return shapes.to_dtype(self, bfloat16.numpy)

    def svd(self, some=True):
        """U, S, V with U diag(S) V^T = this matrix; without gradient. See ``linalg.svd``."""
        u, s, vh = linalg.svd(self, not some)
        return u, s, shapes.transpose(vh, -2, -1)

    def qr(self):
        """Q and R; see ``linalg.qr``."""
        return linalg.qr(self)
