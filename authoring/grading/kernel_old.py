"""What runs in a grading kernel before the student's first cell (an IPython extension).

Tests share their kernel with the student's code. A cell may by accident or in play rebind
`numpy.exp`, a method of `Tensor` or a check, or install a code transformer that drops asserts. So
after each cell this puts back the functions, classes and methods of the guarded packages and says
so, in an output that only the grader's own kind of message can be (see `note_kind`). Before a test
it puts back the library's modes, such as gradients that a cell has switched off. It also limits the
kernel's memory, so that an endless loop that fills a list ends in a MemoryError of its cell and not
in the death of the grader.

All of this lives in this module, and with builtins of its own: what the student calls `list` or
`print`, or makes of Python's, changes nothing here.
"""

import builtins
import importlib
import os
import sys
import types

__builtins__ = vars(builtins).copy()

TEST_MARK = "# (a test of the grader)"  # the last line of each test cell as it runs
GUARDED = ("builtins", "math", "numpy", "minitorch", "textbook")
KERNEL_OWNS = {"builtins.input", "builtins.print"}
METHOD_KINDS = (types.FunctionType, classmethod, staticmethod, property)


def note_kind(nonce):
    """The MIME type of the guard's remarks; `nonce` is new for each notebook and hidden from it."""
    return f"application/x-grader-{nonce}"


def load_ipython_extension(shell):
    """Guard this kernel from its first cell on."""
    say = shell.display_pub.publish
    kind = note_kind(os.environ.pop("GRADING_NONCE"))
    import_given_modules()
    restore_names = remembered_names()
    restore_modes = remembered_modes()
    transformers = {
        "code transformers": (shell.ast_transformers, list(shell.ast_transformers)),
        "input transformers": (
            shell.input_transformers_post,
            list(shell.input_transformers_post),
        ),
    }

    def before_cell(info):
        if info.raw_cell.endswith(TEST_MARK):
            restore_modes()

    def after_cell(_):
        changed = restore_names()
        for name, (current, original) in transformers.items():
            if current != original:
                current[:] = original
                changed.append(name)
        if changed:
            say({kind: f"put back {', '.join(sorted(changed))}, changed by this cell"})

    def leave():
        raise SystemExit("exit() ends this cell only")

    shell.ask_exit = leave  # else the kernel would stop a little later, in another cell
    shell.events.register("pre_run_cell", before_cell)
    shell.events.register("post_run_cell", after_cell)
    limit_memory()


def import_given_modules():
    for name in os.environ["GRADING_MODULES"].split():
        try:
            importlib.import_module(name)
        except ImportError:
            pass


def limit_memory():
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (int(os.environ["GRADING_MEMORY"]), hard))


def remembered_names():
    """A function that puts back what was rebound in guarded modules, and returns the names.

    Each call also takes in the guarded modules that were imported since.
    """
    import numpy as np

    kinds = (types.FunctionType, types.BuiltinFunctionType, np.ufunc, type(np.all), type)
    originals = {}

    def namespaces():
        """Guarded modules and the classes that they define, each with its name."""
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in GUARDED and isinstance(module, types.ModuleType):
                yield name, module, kinds
                for key, value in list(vars(module).items()):
                    if isinstance(value, type) and value.__module__ == name:
                        yield f"{name}.{key}", value, METHOD_KINDS

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
                if vars(owner).get(key) is not value and full_name not in KERNEL_OWNS:
                    setattr(owner, key, value)
                    changed.append(full_name)
        remember()
        return changed

    remember()
    return restore


def remembered_modes():
    """A function that puts back the library's modes, which checks take over from the notebook."""
    import minitorch as mt

    modes = [
        (mt.set_grad_enabled, mt.is_grad_enabled()),
        (mt.set_default_dtype, mt.get_default_dtype()),
        (mt.set_default_device, mt.get_default_device()),
    ]

    def restore():
        for switch, value in modes:
            switch(value)

    return restore
