"""The places where PyTorch keeps its modules: ``nn.modules.loss.NLLLoss`` is ``nn.NLLLoss``.

Each place, ``nn.modules.rnn`` or another, offers all names of ``nn``, and base classes.
"""

import sys
from types import ModuleType

from minitorch import nn
from minitorch.nn import losses

PLACES = """
activation batchnorm container conv distance dropout linear loss module normalization padding
pooling rnn sparse transformer
""".split()
BASES = {"_Loss": losses._Loss, "_WeightedLoss": losses._WeightedLoss}


def __getattr__(name):
    return BASES[name] if name in BASES else getattr(nn, name)


def __dir__():
    return sorted({*PLACES, *dir(nn)})


for _name in PLACES:
    _place = ModuleType(f"{__name__}.{_name}", f"What PyTorch keeps in nn.modules.{_name}.")
    _place.__getattr__ = __getattr__
    sys.modules[_place.__name__] = globals()[_name] = _place
