"""The student's process: it runs the cells of a notebook, and what they define when asked to.

It holds no reference, no case and no test. What the set calls ``check`` is a stand-in here.
"""

import base64
import builtins
import gc
import io
import os
import signal
import socket
import sys
import types

from IPython.core.display_functions import display
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from authoring.grading import kernel
from authoring.grading.outputs import LONGEST_TEXT, MOST, SHOWN, Room
from authoring.grading.peer import Peer
from authoring.grading.wire import Lost, Wire


class Outputs:
    """What the running cell has shown, in nbformat's form."""

    def __init__(self):
        self.shown, self.left = [], LONGEST_TEXT + 1  # one more shows that there was more

    def write(self, text):
        text = text[: self.left]
        self.left -= len(text)
        if not text:
            return
        if self.shown and self.shown[-1]["output_type"] == "stream":
            self.shown[-1]["text"] += text
        else:
            self.add({"output_type": "stream", "name": "stdout", "text": text})

    def add(self, output):
        if len(self.shown) < MOST or output["output_type"] == "error":
            self.shown.append(plain(output))


class Stream(io.TextIOBase):
    """Standard output, or the stream of errors, of the student's cells."""

    encoding = "utf-8"

    def __init__(self, outputs):
        self.outputs = outputs

    def writable(self):
        return True

    def fileno(self):
        return 1  # as at home there is a file: faulthandler and other programs ask for it

    def write(self, text):
        self.outputs().write(str(text))
        return len(text)


class Shown(DisplayPublisher):
    def publish(self, data, metadata=None, **_):
        self.shell.outputs.add({"output_type": "display_data", "data": data, "metadata": {}})


class LastValue(DisplayHook):
    def __call__(self, result=None):
        if result is not None and not self.quiet():
            data, _ = self.compute_format_data(result)
            self.update_user_ns(result)
            self.shell.outputs.add(
                {
                    "output_type": "execute_result",
                    "data": data,
                    "metadata": {},
                    "execution_count": self.prompt_count,
                }
            )


class Shell(InteractiveShell):
    """IPython without a terminal and without a memory beyond its process."""

    outputs = Outputs()

    def enable_gui(self, gui=None):
        pass

    def ask_exit(self):
        raise SystemExit("exit() ends this cell only")

    def _showtraceback(self, etype, evalue, stb):
        try:
            text = str(evalue)
        except Exception:  # an error of the student's own
            text = ""
        self.outputs.add(
            {
                "output_type": "error",
                "ename": etype.__name__,
                "evalue": text[:LONGEST_TEXT],
                "traceback": [str(line)[:LONGEST_TEXT] for line in stb],
            }
        )

    def run(self, source):
        """The outputs of a cell."""
        self.outputs = Outputs()
        self.run_cell(source, store_history=True)
        end_alarms()
        return Room().keep(self.outputs.shown)


def plain(output):
    """An output with texts alone: what shows itself may give anything."""
    if "data" in output:
        output["data"] = {
            str(kind): base64.b64encode(value).decode() if type(value) is bytes else str(value)
            for kind, value in output["data"].items()
            if kind in SHOWN
        }
    return output


class Chapter(types.ModuleType):
    """What a set imports as ``check``: its exercises are checked elsewhere."""

    def __init__(self, name, ask):
        super().__init__(name)
        self._ask = ask

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        told = self._ask("helper", chapter=self.__name__, name=name)
        return _said if told is None else told[0]


def _said(*_, **__):
    print("the grader runs its own check of this")


def install_checks(chapters, ask):
    """Let ``from textbook.checks import chapter_01 as check`` give stand-ins."""
    import textbook

    package = textbook.checks = types.ModuleType("textbook.checks")
    package.__path__ = []
    progress = types.ModuleType("textbook.checks.progress")
    progress.show = _nothing
    modules = {"progress": progress}
    modules |= {name: Chapter(f"textbook.checks.{name}", ask) for name in chapters}
    sys.modules["textbook.checks"] = package
    for name, module in modules.items():
        setattr(package, name, module)
        sys.modules[f"textbook.checks.{name}"] = module


def _nothing(*_, **__):
    pass


def main():
    """Serve the grader, over the socket of the number given, until it ends."""
    link, memory, *chapters = sys.argv[1:]
    kernel.limit_memory(int(memory))
    kernel.refuse_calls()
    peer = Peer(Wire(socket.socket(fileno=int(link))), trusting=True)
    if hasattr(os, "register_at_fork"):  # what a cell forks has no word with the grader
        os.register_at_fork(after_in_child=peer.wire.link.close)
    if chapters:
        install_checks(chapters, peer.ask)
    settings = Config()
    settings.HistoryManager.enabled = False
    settings.InteractiveShell.colors = "NoColor"
    shell = Shell.instance(config=settings, display_pub_class=Shown, displayhook_class=LastValue)
    sys.stdout = sys.stderr = Stream(lambda: shell.outputs)
    give_builtins_of_its_own(shell)
    peer.extra |= {"run": shell.run, "name": lambda name: shell.user_ns[name], "tidy": tidy}
    gc.freeze()
    try:
        peer.serve()
    except Lost:
        pass
    os._exit(0)  # whatever threads a cell has left


def tidy():
    """Let go of what only refers to itself, so that it need not be kept in step any longer."""
    end_alarms()
    gc.collect()


def end_alarms():
    """An alarm that a cell has set ends with it, else it would ring in another exercise."""
    if hasattr(signal, "setitimer"):
        for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)


def give_builtins_of_its_own(shell):
    """What a cell makes of Python's names changes nothing for us."""
    own = types.ModuleType("builtins")
    vars(own).update(vars(builtins), get_ipython=shell.get_ipython, display=display)
    shell.user_ns["__builtins__"] = sys.modules["builtins"] = own


if __name__ == "__main__":
    main()
