"""What runs in a grading kernel before the student's first cell (an IPython startup file).

Tests share their kernel with the student's code. A cell may by accident or in play rebind
`numpy.exp`, a method of `Tensor` or a check, or install a code transformer that drops asserts. So
after each cell this puts back the functions, classes and methods of the guarded packages and says
so, on a line that begins with "grader: ". It also limits the kernel's memory, so that an endless
loop that fills a list ends in a MemoryError of its cell and not in the death of the grader.
"""


def guard():
    import importlib
    import os
    import sys
    import types

    import numpy as np

    packages = ("builtins", "math", "numpy", "minitorch")
    kinds = (types.FunctionType, types.BuiltinFunctionType, np.ufunc, type(np.all), type)
    method_kinds = (types.FunctionType, classmethod, staticmethod, property)
    kernel_owns = {"builtins.input", "builtins.print"}

    def limit_memory():
        try:
            import resource
        except ImportError:  # Windows
            return
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (int(os.environ["GRADING_MEMORY"]), hard))

    def namespaces():
        """Guarded modules and the classes that they define, each with its name."""
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in packages and isinstance(module, types.ModuleType):
                yield name, module, kinds
                for key, value in list(vars(module).items()):
                    if isinstance(value, type) and value.__module__ == name:
                        yield f"{name}.{key}", value, method_kinds

    originals = {}

    def remember():
        for name, owner, wanted in namespaces():
            if name not in originals:
                values = {k: v for k, v in vars(owner).items() if isinstance(v, wanted)}
                originals[name] = owner, values

    def restore():
        changed = []
        for name, (owner, values) in originals.items():
            for key, value in values.items():
                full_name = f"{name}.{key}"
                if vars(owner).get(key) is not value and full_name not in kernel_owns:
                    setattr(owner, key, value)
                    changed.append(full_name)
        return changed

    for name in os.environ["GRADING_MODULES"].split():
        try:
            importlib.import_module(name)
        except ImportError:
            pass
    remember()

    shell = get_ipython()  # noqa: F821 (IPython defines it)
    transformers = {
        "code transformers": (shell.ast_transformers, list(shell.ast_transformers)),
        "input transformers": (
            shell.input_transformers_post,
            list(shell.input_transformers_post),
        ),
    }

    def after_cell(_):
        changed = restore()
        for name, (current, original) in transformers.items():
            if current != original:
                current[:] = original
                changed.append(name)
        if changed:
            print(f"grader: put back {', '.join(sorted(changed))}, changed by this cell")
        remember()

    def leave():
        raise SystemExit("exit() ends this cell only")

    shell.ask_exit = leave  # else the kernel would stop a little later, in another cell
    shell.events.register("post_run_cell", after_cell)
    limit_memory()


guard()
del guard
