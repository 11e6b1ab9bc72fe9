"""What a cell shows, as both processes hold it: texts and pictures, none of them too large."""

LONGEST_TEXT = 100_000  # characters of a cell
LARGEST_PICTURES = 4 * 2**20  # characters, of a cell
LONGEST_ALL, LARGEST_ALL = 20 * LONGEST_TEXT, 2 * LARGEST_PICTURES  # of a notebook
LEAST_OF_AN_ERROR = 5_000  # characters
MOST = 200  # outputs of a cell
SHOWN = ("image/png", "image/jpeg", "text/plain")  # none of them can hold a script
CUT = "\n... (the rest is cut off)\n"


class Room:
    """How much may still be shown. What is too long is cut off, and pictures are left out.

    An output that tells of an error stays, with what fits of its text.
    """

    def __init__(self, text: int = LONGEST_TEXT, pictures: int = LARGEST_PICTURES):
        self.text, self.pictures = text, pictures

    def keep(self, outputs: list[dict]) -> list[dict]:
        """What there is room for of the outputs, in nbformat's form; they are changed."""
        errors = [output for output in outputs[MOST:] if output["output_type"] == "error"]
        return [self._cut(output) for output in outputs[:MOST] + errors[:1]]

    def _cut(self, output):
        kind = output["output_type"]
        if kind == "stream":
            output["text"] = self.cut(output["text"])
        elif kind == "error":
            self.text = max(self.text, LEAST_OF_AN_ERROR)
            output["evalue"] = self.cut(output["evalue"])
            output["traceback"] = [self.cut(line) for line in output["traceback"][:MOST]]
        else:
            output["data"] = self._data(output["data"])
        return output

    def cut(self, text: str) -> str:
        """What there is room for of a text."""
        kept, self.text = text[: max(0, self.text)], self.text - len(text)
        return kept if len(kept) == len(text) else kept + CUT

    def _data(self, data):
        kept = {}
        for kind, content in data.items():
            if not kind.startswith("image"):
                kept[kind] = self.cut(content)
            elif len(content) <= self.pictures:
                self.pictures -= len(content)
                kept[kind] = content
            else:
                kept["text/plain"] = f"(a picture of {len(content) / 1.4e6:.0f} MB is left out)"
                break
        return kept
