"""Modules that hold modules or parameters."""

from itertools import groupby
from operator import itemgetter

from minitorch.nn.module import Module

__all__ = ["ModuleDict", "ModuleList", "Sequential"]


class _ListOfModules(Module):
    """Modules by their position; their names are "0", "1" and so on."""

    def __init__(self, modules=()):
        super().__init__()
        self.extend(modules)

    def append(self, module):
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules):
        """Add several modules at the end."""
        for module in tuple(modules):
            self.append(module)
        return self

    __iadd__ = extend

    def __add__(self, modules):
        return self._like({str(i): module for i, module in enumerate([*self, *modules])})

    def insert(self, index, module):
        """Add a module before that at ``index``."""
        modules = list(self)
        modules.insert(index, module)
        return self._filled(modules)

    def pop(self, index):
        """Take the module at ``index`` out and return it."""
        module = self[index]
        del self[index]
        return module

    def _filled(self, modules):
        """This container with these modules in place of its own."""
        self._modules.clear()
        return self.extend(modules)

    def _name(self, index):
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range: there are {len(self)} modules")
        return list(self._modules)[index]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __getitem__(self, index):
        if isinstance(index, slice):
            return self._like(dict(list(self._modules.items())[index]))
        return self._modules[self._name(index)]

    def __setitem__(self, index, module):
        setattr(self, self._name(index), module)

    def __delitem__(self, index):
        modules = list(self)
        del modules[index]
        self._filled(modules)


class Sequential(_ListOfModules):
    """Modules applied one after the other, given one by one or as an ordered dict."""

    def __init__(self, *modules):
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], dict):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            self.extend(modules)

    def forward(self, input):
        for module in self:
            input = module(input)
        return input

    @staticmethod
    def _like(named_modules):
        return Sequential(named_modules)


class ModuleList(_ListOfModules):
    """A list of modules whose parameters are found."""

    def _repr_of_modules(self):
        """Neighbours that look the same are shown once, with their number."""
        for text, run in groupby(super()._repr_of_modules(), key=itemgetter(1)):
            names = [name for name, _ in run]
            if len(names) == 1:
                yield names[0], text
            else:
                yield f"{names[0]}-{names[-1]}", f"{len(names)} x {text}"

    @staticmethod
    def _like(named_modules):
        return ModuleList(named_modules.values())


class ModuleDict(Module):
    """Modules by name, as a dict, whose parameters are found."""

    def __init__(self, modules=None):
        super().__init__()
        self.update(modules or {})

    def update(self, modules):
        """Add the modules of a dict, or of pairs of name and module."""
        for name, module in dict(modules).items():
            self[name] = module

    def keys(self):
        """The names."""
        return self._modules.keys()

    def values(self):
        """The modules."""
        return self._modules.values()

    def items(self):
        """Pairs of name and module."""
        return self._modules.items()

    def pop(self, name):
        """Take a module out and return it."""
        return self._modules.pop(name)

    def clear(self):
        """Take all modules out."""
        self._modules.clear()

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, name):
        return name in self._modules

    def __getitem__(self, name):
        return self._modules[name]

    def __setitem__(self, name, module):
        self.add_module(name, module)

    def __delitem__(self, name):
        del self._modules[name]
