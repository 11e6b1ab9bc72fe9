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

__getattr__ = _missing.in_module(__name__)
