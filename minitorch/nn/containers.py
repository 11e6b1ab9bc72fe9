"""Modules that hold modules."""

from minitorch.nn.module import Module


class Sequential(Module):
    """Modules applied one after the other, given one by one or as an ordered dict."""

    def __init__(self, *modules):
        super().__init__()
        named = enumerate(modules)
        if len(modules) == 1 and isinstance(modules[0], dict):
            named = modules[0].items()
        for name, module in named:
            self.add_module(str(name), module)

    def forward(self, input):
        for module in self.children():
            input = module(input)
        return input

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return self.children()

    def __getitem__(self, index):
        modules = list(self.children())
        return Sequential(*modules[index]) if isinstance(index, slice) else modules[index]


class ModuleList(Module):
    """A list of modules whose parameters are found."""

    def __init__(self, modules=()):
        super().__init__()
        self.extend(modules)

    def append(self, module):
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules):
        """Add several modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return self.children()

    def __getitem__(self, index):
        modules = list(self.children())
        return ModuleList(modules[index]) if isinstance(index, slice) else modules[index]

    def __setitem__(self, index, module):
        self._modules[str(range(len(self))[index])] = module
