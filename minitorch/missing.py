"""What is said of a name that the library does not have, and names that are imported when asked."""

import importlib
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


def in_module(module_name, rooms=None):
    """The ``__getattr__`` of a module: it raises the AttributeError of ``missing``.

    ``rooms`` are modules with the names in them that this one offers too, or with their own last
    name; one is imported when a name of it is first asked for.
    """
    rooms = rooms or {}
    homes = {name: room for room, names in rooms.items() for name in names.split()}

    def __getattr__(name):
        module = sys.modules[module_name]
        if name not in homes:
            raise missing(module_name, name, module)
        room = importlib.import_module(homes[name])
        value = room if homes[name].endswith(f".{name}") else getattr(room, name)
        setattr(module, name, value)
        return value

    __getattr__.homes = homes
    if homes:
        sys.modules[module_name].__dir__ = lambda: sorted({*vars(sys.modules[module_name]), *homes})
    return __getattr__
