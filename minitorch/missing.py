"""What is said when a name is looked up that the library does not have."""

import sys


def missing(owner, name, namespace):
    """The AttributeError for ``name``, which tells what is nearest to it in ``namespace``."""
    told = f"{owner} has no {name!r}"
    if not name.startswith("_"):
        from difflib import get_close_matches  # here, since it is seldom needed

        known = [other for other in dir(namespace) if not other.startswith("_")]
        near = get_close_matches(name.lower(), {other.lower() for other in known})
        if near:
            told += "; nearest: " + ", ".join(n for low in near for n in known if n.lower() == low)
    return AttributeError(told, name=name, obj=namespace)


def in_module(module_name):
    """The ``__getattr__`` of a module: it raises the AttributeError of ``missing``."""

    def __getattr__(name):
        raise missing(module_name, name, sys.modules[module_name])

    return __getattr__
