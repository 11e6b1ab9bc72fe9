"""Optimizers, and schedules of their learning rate."""

from minitorch.missing import in_module
from minitorch.optim import lr_scheduler
from minitorch.optim.adam import Adam, AdamW
from minitorch.optim.compat import Adagrad, RMSprop
from minitorch.optim.optimizer import Optimizer
from minitorch.optim.sgd import SGD

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]

__getattr__ = in_module(
    __name__,
    {
        "minitorch.optim.compat_optimizers": "ASGD Adadelta Adamax NAdam RAdam",
        "minitorch.optim.compat_lbfgs": "LBFGS",
    },
)
