"""Messages between the grader and a student's process: JSON and the bytes of arrays.

A message is a JSON object and a list of byte strings. Nothing in it is code, and reading it runs
none: what does not fit is an error of the sender.
"""

import json
import socket
import struct
import time

HEADER = struct.Struct("!II")  # length of the JSON text, of all arrays together
LARGEST = 32 * 2**20  # bytes of arrays; a set's own answers have 12 MB
LONGEST_TEXT = 8 * 2**20  # of which lists of lists take twenty times as much memory
BETWEEN_LOOKS = 1.0  # seconds
PART = 2**16  # bytes that are read at once
to_json = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode


class Lost(BaseException):
    """The other process ended, sends what is no message, or is too slow.

    No ``Exception``, so that nothing on the way which catches those takes it for an answer's error.
    """


class Wire:
    """A socket over which messages go; ``deadline`` is the time at which waiting ends.

    Then ``grant`` says how many seconds more there are. ``watch`` is called every second.
    """

    def __init__(self, link: socket.socket):
        self.link = link
        self.deadline: float | None = None
        self.grant = lambda: 0.0
        self.watch = lambda: None
        self.watched = time.monotonic()
        self.arrived = bytearray()  # and not read yet

    def send(self, message: dict, arrays: list[bytes]) -> None:
        text = to_json(message | {"sizes": [len(array) for array in arrays]}).encode()
        size = sum(map(len, arrays))
        if len(text) > LONGEST_TEXT or size > LARGEST:
            raise ValueError(f"{(len(text) + size) // 2**20} MB are too much to be handed over")
        self._limit_waiting(at_least=5)
        try:
            self.link.sendall(b"".join([HEADER.pack(len(text), size), text, *arrays]))
        except TimeoutError:
            raise Lost("too slow") from None
        except OSError:
            raise Lost("ended") from None

    def receive(self) -> tuple[dict, list[bytes]]:
        length, size = HEADER.unpack(self._read(HEADER.size))
        if length > LONGEST_TEXT or size > LARGEST:
            raise Lost("sent too much")
        text, rest = self._read(length), memoryview(self._read(size))
        try:
            message = json.loads(text.decode())
            arrays, start = [], 0
            for one in message.pop("sizes"):
                arrays.append(rest[start : start + one])
                start += one
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, MemoryError):
            raise Lost("sent what is no message") from None
        return message, arrays

    def _read(self, size):
        arrived = self.arrived
        while len(arrived) < size:
            self._limit_waiting()
            try:
                part = self.link.recv(PART)
            except TimeoutError:
                continue
            except OSError:
                part = b""
            if not part:
                raise Lost("ended")
            arrived += part
        found = bytes(memoryview(arrived)[:size])
        del arrived[:size]
        return found

    def _limit_waiting(self, at_least=0.0):
        if self.deadline is None:
            return
        now = time.monotonic()
        if now >= self.watched + BETWEEN_LOOKS:
            self.watched = now
            self.watch()
        if self.deadline <= now:
            self.deadline += self.grant()
        left = self.deadline - now
        if left <= 0:
            raise Lost("too slow")
        self.link.settimeout(max(left, at_least) if at_least else min(left, BETWEEN_LOOKS))
