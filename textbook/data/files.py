"""A student's own data: a text file, or a file of pairs with a tab between them."""

import codecs
import os
from pathlib import Path

# The marks that some programs write at the start of a file; UTF-32's first, as it begins like
# that of UTF-16.
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def read_text(path: str | os.PathLike, encoding: str | None = None) -> str:
    """The text of a file, with ``"\\n"`` at line ends.

    Without ``encoding`` it is read as UTF-8, or as the mark at its start says (UTF-8, UTF-16 or
    UTF-32). Nothing is guessed and nothing dropped: a byte that does not fit is a ValueError that
    says where it is and which encodings to try. FileNotFoundError, IsADirectoryError; ValueError
    for a file without text.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the path of a file in it")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path} (looked for {path.absolute()})")
    data = path.read_bytes()
    used = encoding or next((MARKS[mark] for mark in MARKS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(used)
    except LookupError:
        raise ValueError(f"there is no encoding {used!r}: try 'utf-8' or 'cp1252'") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}: byte {error.start} (0x{data[error.start]:02x}, line {line}) is not {used}. "
            "Files of older programs are often in encoding='cp1252' (Windows) or 'latin-1'; pass "
            "the one in which the text reads right, or save the file as UTF-8"
        ) from None
    if "\0" in text:
        raise ValueError(
            f"{path}: holds zero bytes, so it is not text in {used}. If it is UTF-16 without a "
            "mark at its start, pass encoding='utf-16-le' or 'utf-16-be'"
        )
    if not text.strip():
        raise ValueError(f"{path} holds no text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_pairs(
    path: str | os.PathLike,
    columns: tuple[int, int] | None = None,
    encoding: str | None = None,
) -> list[tuple[str, str]]:
    """The pairs in a file with one pair a line and a tab between its parts.

    ``columns=(0, 1)`` reads the first two of more columns. Spaces around a part are taken off and
    blank lines skipped. ValueError, with the line, for a line with too few or too many columns or
    an empty part; and all errors of ``read_text``.
    """
    pairs, wrong = [], []
    for number, line in enumerate(read_text(path, encoding).split("\n"), start=1):
        if not line.strip():
            continue
        parts = [part.strip() for part in line.split("\t")]
        if columns is None and len(parts) != 2:
            wrong.append((number, f"{len(parts)} columns, not 2"))
        elif columns is not None and len(parts) <= max(columns):
            wrong.append((number, f"{len(parts)} columns, so none has number {max(columns)}"))
        else:
            pair = tuple(parts[column] for column in columns or (0, 1))
            pairs.append(pair)
            if "" in pair:
                wrong.append((number, "a part is empty"))
    if wrong:
        number, reason = wrong[0]
        more = f" ({len(wrong)} lines are wrong in all)" if len(wrong) > 1 else ""
        raise ValueError(
            f"{path}, line {number}: {reason}{more}. A line holds two parts with a tab between "
            "them; columns=(0, 1) picks two of more"
        )
    return pairs
