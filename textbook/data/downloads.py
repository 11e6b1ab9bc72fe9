"""Two well-known data sets, fetched when asked for. No chapter needs them to run: links can die.

Where a link is dead, the same files from anywhere else serve as well: put them into the folder that
the error names. A file counts by its checksum, not by where it came from.
"""

import gzip
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from textbook.data.optional import needs

MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
SHAKESPEARE = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/"
SHA256 = {
    "multi30k/train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "multi30k/train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "multi30k/train.fr.gz": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "multi30k/val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "multi30k/val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "multi30k/val.fr.gz": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
    "multi30k/test_2016_flickr.en.gz": (
        "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9"
    ),
    "multi30k/test_2016_flickr.de.gz": (
        "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8"
    ),
    "multi30k/test_2016_flickr.fr.gz": (
        "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56b90987c40c8b90"
    ),
    "tinyshakespeare/input.txt": "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
}
FOLDER = Path(os.path.expanduser("~")) / ".cache" / "minitorch"  # Path.home() fails where none is


def multi30k(
    part: str = "train",
    source: str = "en",
    target: str = "de",
    *,
    folder: str | os.PathLike = FOLDER,
    url: str = MULTI30K,
) -> list[tuple[str, str]]:
    """Captions of pictures in two of "en", "de", "fr" (Elliott et al., 2016).

    ``part`` is "train" (29,000 pairs), "val" (1,014) or "test_2016_flickr" (1,000). ``folder``
    keeps the files; ``url`` is where they are. ConnectionError where they cannot be fetched, and
    ValueError where they are not the known files.
    """
    sides = []
    for language in (source, target):
        name = f"multi30k/{part}.{language}.gz"
        if name not in SHA256:
            raise ValueError(
                "multi30k has the parts 'train', 'val', 'test_2016_flickr' in the languages 'en', "
                f"'de', 'fr'; got {part!r} in {language!r}"
            )
        data = gzip.decompress(_fetch(name, folder, url).read_bytes())
        sides.append([line.strip() for line in data.decode("utf-8").rstrip("\n").split("\n")])
    return list(zip(*sides, strict=True))


def tiny_shakespeare(*, folder: str | os.PathLike = FOLDER, url: str = SHAKESPEARE) -> str:
    """A million characters of Shakespeare's plays (Karpathy, 2015).

    ``folder`` keeps the file; ``url`` is where it is. ConnectionError where it cannot be fetched,
    and ValueError where it is not the known file.
    """
    path = _fetch("tinyshakespeare/input.txt", folder, url)
    return path.read_bytes().decode("utf-8")


def lacking(fetch: Callable[[], object]) -> str | None:
    """Why ``fetch()`` cannot be had on this machine, or None: what an experiment ``lacks``."""
    try:
        fetch()
    except (ConnectionError, ModuleNotFoundError) as error:
        return f"data: {error}"
    return None


def _fetch(name: str, folder: str | os.PathLike, url: str) -> Path:
    """Where the file is, after a download if it was not there."""
    path = Path(folder) / name
    address = url.rstrip("/") + "/" + path.name
    if path.exists():
        if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256[name]:
            raise ValueError(
                f"{path} is not the known file {name} (its checksum differs): remove it and call "
                "again, or put the right file there"
            )
        return path
    with needs("pooch", "a download"):
        import pooch
        import requests
    advice = f"Call again, or put the file at {path} yourself"
    try:
        pooch.retrieve(address, "sha256:" + SHA256[name], path.name, path.parent)
    except requests.HTTPError as error:
        reason = f"the server answered {error.response.status_code}"
        raise ConnectionError(f"{address} could not be fetched: {reason}. {advice}") from None
    except requests.exceptions.ChunkedEncodingError:
        raise ConnectionError(f"{address} was cut off in the middle. {advice}") from None
    except requests.RequestException as error:
        reason = f"there is no connection ({type(error).__name__})"
        raise ConnectionError(f"{address} could not be fetched: {reason}. {advice}") from None
    except ValueError:
        raise ValueError(
            f"{address} gave another file than the known one (its checksum differs). {advice}"
        ) from None
    return path
