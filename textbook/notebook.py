"""Whether a notebook is running."""


def notebook_display():
    """IPython's ``display`` where a notebook is running, else None."""
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        return None
    return display if get_ipython() is not None else None
