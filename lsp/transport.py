"""The channel to the editor: framed JSON-RPC messages over byte streams, and nothing else.

`claim_stdio` takes the process's real standard input and output for the protocol and points everybody else's at
nothing and at standard error: whatever a library, a child process or a stray print writes cannot reach the editor.
Language Server Protocol 3.17, "Base Protocol".
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator

from assistant.errors import UsageError

LONGEST_HEADER = 4096  # bytes
LONGEST_BODY = 512 << 20
_BLOCK = 1 << 18
_SEPARATOR = b"\r\n\r\n"


class FramingError(Exception):
    """What came is no message, and where the next one begins cannot be known."""


class Frames:
    """Cuts a stream of bytes into message bodies."""

    def __init__(self) -> None:
        self._header = b""
        self._body: list[bytes] = []  # the parts of the body under way
        self._wanted = -1  # bytes that it still needs, -1: its header has not come

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The bodies that are whole with `data`. FramingError when the stream cannot be read any further."""
        while True:
            if self._wanted < 0:
                self._header += data
                header, separator, data = self._header.partition(_SEPARATOR)
                if not separator:
                    if len(header) > LONGEST_HEADER:
                        raise FramingError("a header without an end")
                    return
                self._header, self._wanted = b"", _content_length(header)
            part, data = data[: self._wanted], data[self._wanted :]
            self._body.append(part)
            self._wanted -= len(part)
            if self._wanted > 0:
                return
            body, self._body, self._wanted = b"".join(self._body), [], -1
            yield body


def _content_length(header: bytes) -> int:
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            length = int(value)
            if length <= LONGEST_BODY:
                return length
    raise FramingError("a header without a usable Content-Length")


def frame(body: bytes) -> bytes:
    """One message as it goes over the wire."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class StreamWriter:
    """Writes whole messages to a file descriptor, as pygls wants to. OSError when the reader has gone."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._descriptor)


def claim_stdio() -> tuple[int, int]:
    """Descriptors of the real standard input and output, which nobody else can reach from now on.

    UsageError when the process has none.
    """
    try:
        source, sink = os.dup(0), os.dup(1)
    except OSError:
        raise UsageError("the language server speaks over standard input and output: start it from an editor") from None
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # no standard error either
        os.dup2(nothing, 1)
    os.close(nothing)
    if sys.stdout is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()  # what was printed before this, which now goes to standard error
    sys.stdout = sys.stderr
    return source, sink


def read_in_thread(
    descriptor: int, on_data: Callable[[bytes], None], on_end: Callable[[], None]
) -> threading.Thread:
    """Reads until the end in a thread of its own, so that the loop never waits for the editor to write."""

    def read() -> None:
        # One buffer for all reads: a new one for each, mostly empty, tears the heap.
        buffer = memoryview(bytearray(_BLOCK))
        with contextlib.suppress(OSError, RuntimeError), io.FileIO(descriptor, closefd=False) as file:
            while count := file.readinto(buffer):
                on_data(bytes(buffer[:count]))  # RuntimeError: the loop is closed
        with contextlib.suppress(RuntimeError):
            on_end()

    thread = threading.Thread(target=read, name="editor-reader", daemon=True)
    thread.start()
    return thread
