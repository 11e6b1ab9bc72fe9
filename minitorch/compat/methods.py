"""Methods of tensors that no chapter and no exercise uses; ``Tensor`` has them all."""

from minitorch.autograd.inplace import in_place
from minitorch.autograd.tensorbase import TensorBase
from minitorch.compat import functions, linalg, products
from minitorch.compat.types import bfloat16, strided
from minitorch.operations import shapes


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
