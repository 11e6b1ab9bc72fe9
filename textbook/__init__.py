"""What the chapters and exercises import beside the library, ``minitorch``.

``data`` (texts, tasks, batches), ``decoding`` (tokens out of a model), ``plot`` (pictures in the
book's style), ``look`` (a window into a model's attention), ``experiments`` (recorded runs)
and ``checks`` (of the exercises). All of it is built on the library, which knows nothing of it.
"""
