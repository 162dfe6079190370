"""One connection to the host: a reader thread hands every message to the request that it is for.

When the connection ends, for whatever reason, every request still open is answered with one HostError.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import replace

from assistant.errors import HostError
from assistant.service import launch, protocol, wire
from assistant.service.protocol import Message

_BLOCK = 65536  # bytes
GONE = "the engine host went away while it worked on this request: try again, it starts by itself"


class Link:
    """One connection: a reader thread hands every message to the request that it is for."""

    def __init__(self, reached: launch.Reached) -> None:
        self.welcome = reached.welcome
        self._socket = reached.socket
        self._frames = reached.frames
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._open: dict[int, Callable[[Message], None]] | None = {}
        self._thread = threading.Thread(target=self._read, name="host-reader", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._open is not None

    def send(self, message: Message, deliver: Callable[[Message], None] | None = None) -> bool:
        """Send; False when the host was gone before it could have seen the message."""
        data = protocol.encode(message)
        request_id: int = getattr(message, "id", 0)
        with self._lock:
            if self._open is None:
                return False
            if deliver is not None:
                self._open[request_id] = deliver
        try:
            with self._sending:
                self._socket.sendall(data)
        except OSError:
            self._shut()
            if deliver is None:
                return False
            with self._lock:  # whoever takes the entry out answers: we by False, or the reader by a failure
                return self._open is None or self._open.pop(request_id, None) is None
        return True

    def close(self) -> None:
        self._shut()
        if threading.current_thread() is not self._thread:
            self._thread.join(5)

    def _shut(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _read(self) -> None:
        reason = protocol.failure(0, HostError(GONE))
        try:
            for value in self._frames.feed(b""):
                self._hand_over(protocol.decode(value))
            # One buffer for all reads: a new one for each, mostly empty, tears the heap.
            buffer = memoryview(bytearray(_BLOCK))
            while count := self._socket.recv_into(buffer):
                for value in self._frames.feed(bytes(buffer[:count])):
                    message = protocol.decode(value)
                    if isinstance(message, protocol.Failure) and message.id == 0:
                        reason = message
                    else:
                        self._hand_over(message)
        except OSError:
            pass
        except wire.WireError as error:
            reason = protocol.failure(0, error)
        with self._lock:
            left, self._open = self._open or {}, None
        self._socket.close()
        for request_id, deliver in left.items():
            deliver(replace(reason, id=request_id))

    def _hand_over(self, message: Message) -> None:
        request_id: int = getattr(message, "id", 0)
        final = not isinstance(message, protocol.Text | protocol.Progress | protocol.First | protocol.Event)
        with self._lock:
            known = self._open if self._open is not None else {}
            deliver = known.pop(request_id, None) if final else known.get(request_id)
        if deliver is not None:
            deliver(message)
