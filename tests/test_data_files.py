"""A student's own files, and the two downloads, against a server on this machine."""

import gzip
import hashlib
import http.server
import socket
import sys
import threading

import pytest

from textbook.data import downloads, lacking, multi30k, read_pairs, read_text, tiny_shakespeare


@pytest.fixture
def write(tmp_path):
    def write(content, name="own.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return write


# Text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_marks_at_the_start_tell_the_encoding(write, encoding):
    text = "Grüße, 日本\n"
    assert read_text(write(text.encode(encoding))) == text


def test_both_orders_of_utf_16(write):
    for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        assert read_text(write(mark + "Grüße".encode(encoding))) == "Grüße"


def test_line_ends_of_every_system(write):
    assert read_text(write("a\r\nb\rc\nd\n\n")) == "a\nb\nc\nd\n\n"


def test_nothing_but_line_ends_is_changed(write):
    text = " tab\t, form feed \x0c, \x85, \u2028, no-break\u00a0space, \ufeff inside \n"
    assert read_text(str(write(text))) == text


def test_another_encoding_is_an_error_with_its_place_and_a_way_out(write):
    path = write("first\nna\xefve caf\xe9".encode("latin-1"))
    with pytest.raises(ValueError, match=r"byte 8 \(0xef, line 2\) is not utf-8.*'latin-1'"):
        read_text(path)
    assert read_text(path, encoding="latin-1") == "first\nnaïve café"


def test_utf_16_without_a_mark_is_not_taken_for_text(write):
    path = write("plain".encode("utf-16-le"))
    with pytest.raises(ValueError, match="zero bytes.*encoding='utf-16-le'"):
        read_text(path)
    assert read_text(path, encoding="utf-16-le") == "plain"


def test_half_a_character_at_the_end(write):
    with pytest.raises(ValueError, match=r"byte 2 \(0xc3, line 1\)"):
        read_text(write(b"ab\xc3"))


@pytest.mark.parametrize("content", ["", "\n \n", "\ufeff"])
def test_a_file_without_text(write, content):
    with pytest.raises(ValueError, match="own.txt holds no text"):
        read_text(write(content))


def test_no_file_a_folder_no_such_encoding(write, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file .*nothing.txt"):
        read_text(tmp_path / "nothing.txt")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_text(tmp_path)
    with pytest.raises(ValueError, match="no encoding 'klingon'"):
        read_text(write("a"), encoding="klingon")


# Pairs


def test_pairs_lose_nothing(write):
    path = write("\ufeffa cat\teine Katze\r\n\r\n a dog \tein Hund\r\nno \u2028 end\tx\r\n \n")
    assert read_pairs(path) == [
        ("a cat", "eine Katze"),
        ("a dog", "ein Hund"),
        ("no \u2028 end", "x"),
    ]


def test_two_of_more_columns(write):
    path = write("Go.\tVa !\tby someone\nHi.\tSalut.\tby another\n")
    assert read_pairs(path, columns=(1, 0)) == [("Va !", "Go."), ("Salut.", "Hi.")]
    with pytest.raises(ValueError, match="line 1: 3 columns, not 2 .2 lines.*columns="):
        read_pairs(path)
    with pytest.raises(ValueError, match="line 1: 3 columns, so none has number 3"):
        read_pairs(path, columns=(0, 3))


@pytest.mark.parametrize(
    "content, message",
    [
        ("a\tb\n\nno tab here\n", "line 3: 1 columns, not 2"),
        ("a\tb\nc\td\te\n", "line 2: 3 columns, not 2"),
        ("a\tb\nc\t\n", "line 2: a part is empty"),
        ("\tb\n", "line 1: a part is empty"),
        ("a\tb\nx\ny\n", r"line 2: .*2 lines are wrong in all"),
    ],
)
def test_wrong_lines_are_named(write, content, message):
    with pytest.raises(ValueError, match=message):
        read_pairs(write(content))


# Downloads

ENGLISH = gzip.compress(b"A dog.\nTwo men \n", mtime=0)
GERMAN = gzip.compress("Ein Hund.\nZwei Männer\n".encode(), mtime=0)
PLAY = b"First Citizen:\nSpeak.\n"


class Server(http.server.BaseHTTPRequestHandler):
    """Sends what it is told to, well or badly."""

    files = {"train.en.gz": ENGLISH, "train.de.gz": GERMAN, "input.txt": PLAY}
    asked: list[str] = []

    def do_GET(self):
        _, manner, name = self.path.split("/")
        self.asked.append(name)
        if manner == "broken":
            return self.send_error(503)
        if manner == "empty" or name not in self.files:
            return self.send_error(404)
        content = self.files[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if manner == "cut":
            content = content[: len(content) // 2]
        elif manner == "other":
            content = content[::-1]
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    pytest.importorskip("pooch")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "*")
    names = {
        "train.en.gz": "multi30k/",
        "train.de.gz": "multi30k/",
        "input.txt": "tinyshakespeare/",
    }
    for name, content in Server.files.items():
        digest = hashlib.sha256(content).hexdigest()
        monkeypatch.setitem(downloads.SHA256, names[name] + name, digest)
    monkeypatch.setattr(Server, "asked", [])
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    thread.join()
    running.server_close()


def left(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_the_right_files_are_fetched_once(server, tmp_path):
    for _ in range(2):
        pairs = multi30k(folder=tmp_path, url=f"{server}/well")
        assert pairs == [("A dog.", "Ein Hund."), ("Two men", "Zwei Männer")]
        assert tiny_shakespeare(folder=tmp_path, url=f"{server}/well/") == PLAY.decode()
    assert sorted(Server.asked) == ["input.txt", "train.de.gz", "train.en.gz"]
    assert left(tmp_path) == ["input.txt", "train.de.gz", "train.en.gz"]


@pytest.mark.parametrize(
    "manner, error, message",
    [
        ("other", ValueError, "gave another file than the known one"),
        ("cut", ConnectionError, "was cut off in the middle"),
        ("broken", ConnectionError, "the server answered 503"),
        ("empty", ConnectionError, "the server answered 404"),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_leaves_nothing(
    server, tmp_path, manner, error, message
):
    with pytest.raises(error, match=message) as caught:
        tiny_shakespeare(folder=tmp_path, url=f"{server}/{manner}")
    said = str(caught.value)
    assert f"put the file at {tmp_path / 'tinyshakespeare' / 'input.txt'} yourself" in said
    assert "\n" not in said and len(said) < 400
    assert left(tmp_path) == []
    # The next try is not spoiled by this one.
    assert tiny_shakespeare(folder=tmp_path, url=f"{server}/well") == PLAY.decode()


def test_no_network(server, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        closed = probe.getsockname()[1]
    with pytest.raises(ConnectionError, match="there is no connection"):
        tiny_shakespeare(folder=tmp_path, url=f"http://127.0.0.1:{closed}/")
    assert left(tmp_path) == []


def test_what_is_lacking_is_told_in_a_sentence(server, tmp_path):
    def fetch(manner):
        return tiny_shakespeare(folder=tmp_path, url=f"{server}/{manner}")

    assert "the server answered 503" in lacking(lambda: fetch("broken"))
    assert lacking(lambda: fetch("well")) is None


def test_a_file_put_there_by_hand_needs_no_network_and_no_pooch(server, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    path = tmp_path / "tinyshakespeare" / "input.txt"
    with pytest.raises(ModuleNotFoundError, match="pip install pooch"):
        tiny_shakespeare(folder=tmp_path)
    path.parent.mkdir()
    path.write_bytes(PLAY)
    assert tiny_shakespeare(folder=tmp_path) == PLAY.decode()
    path.write_bytes(PLAY + b"changed")
    with pytest.raises(ValueError, match="is not the known file"):
        tiny_shakespeare(folder=tmp_path)
    assert path.read_bytes() == PLAY + b"changed"  # a student's file is never overwritten
    assert Server.asked == []


def test_parts_and_languages_are_named(tmp_path):
    for part, source in (("training", "en"), ("train", "xx")):
        with pytest.raises(ValueError, match="'train', 'val', 'test_2016_flickr'"):
            multi30k(part, source, folder=tmp_path)
