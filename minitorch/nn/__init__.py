"""Neural networks: modules, their parameters, losses, initial values."""

from minitorch import missing as _missing
from minitorch.nn import functional, init, utils
from minitorch.nn.attention import *
from minitorch.nn.compat.modules import *
from minitorch.nn.containers import *
from minitorch.nn.layers import *
from minitorch.nn.losses import *
from minitorch.nn.module import Module
from minitorch.nn.normalization import *
from minitorch.nn.parameter import Parameter
from minitorch.nn.recurrent import *
from minitorch.nn.transformer import *

__getattr__ = _missing.in_module(
    __name__,
    {
        "minitorch.nn.compat.adaptive": "AdaptiveLogSoftmaxWithLoss",
        "minitorch.nn.compat.bags": "EmbeddingBag",
        "minitorch.nn.compat.ctc": "CTCLoss",
        "minitorch.nn.compat.more": "Bilinear CosineEmbeddingLoss CosineSimilarity Hardsigmoid"
        " Hardswish MarginRankingLoss PairwiseDistance ParameterDict SELU Tanhshrink"
        " TripletMarginLoss",
        "minitorch.nn.compat.pooling": "AdaptiveAvgPool1d AdaptiveMaxPool1d AvgPool1d MaxPool1d",
        "minitorch.nn.compat.regions": "ConstantPad1d ConstantPad2d ConstantPad3d Dropout1d"
        " Dropout2d Dropout3d ZeroPad1d ZeroPad2d ZeroPad3d",
        "minitorch.nn.modules": "modules",
    },
)
