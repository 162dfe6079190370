"""The engine host: one process per user, data folder and build that serves every client over a local socket.

`python -m assistant.service.host` becomes the host, or ends with 0 when another one answers. The main thread
runs the sockets, the worker thread the engine. It leaves after an idle time without clients, by SIGTERM, or
by a Stop message, and takes its socket and lock with it; after a kill the next host cleans up.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hmac
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assistant import system_errors
from assistant.errors import HostError, TokenleapError, UsageError
from assistant.service import protocol, wire
from assistant.service.endpoint import TRANSPORTS, Endpoint, HostLock
from assistant.service.engine_api import named_factory
from assistant.service.launch import LOG_LIMIT
from assistant.service.memory import resident
from assistant.service.protocol import Message
from assistant.service.worker import Worker
from assistant.settings.load import load

log = logging.getLogger("assistant.service.host")

_GREETING_SECONDS = 10.0  # for a client to say who it is
_CLOSING_SECONDS = 2.0  # for the engine to stop within its pass
_UNREAD_LIMIT = 8 * 1024 * 1024  # bytes that a client may leave unread before it is let go
_OPEN_LIMIT = 256  # requests of one client in flight


class Connection:
    """One client. Used on the loop's thread, except `send`."""

    def __init__(self, number: int, writer: asyncio.StreamWriter, loop: asyncio.AbstractEventLoop) -> None:
        self.number = number
        self.open: set[int] = set()
        self.asked = False
        self._writer = writer
        self._loop = loop

    def send(self, message: Message) -> None:
        """From any thread, at once; nothing happens when the client or the loop has gone."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.write, message)

    def write(self, message: Message) -> None:
        if isinstance(message, protocol.Result | protocol.Failure):
            self.open.discard(message.id)
        if self._writer.is_closing():
            return
        try:
            data = protocol.encode(message)
        except wire.WireError as error:
            data = protocol.encode(protocol.failure(getattr(message, "id", 0), error))
        self._writer.write(data)
        if self._writer.transport.get_write_buffer_size() > _UNREAD_LIMIT:
            log.info("client %d does not read, let go", self.number)
            self._writer.transport.abort()

    def close(self) -> None:
        self._writer.close()


class Host:
    """Serves the endpoint until told to stop. The caller holds the endpoint's lock."""

    def __init__(
        self,
        endpoint: Endpoint,
        lock: HostLock,
        worker: Worker,
        idle_seconds: float = 900.0,
        look_seconds: float = 5.0,
    ) -> None:
        self._endpoint = endpoint
        self._lock = lock
        self._worker = worker
        self._idle_seconds = idle_seconds
        self._look_seconds = look_seconds
        self._connections: dict[int, Connection] = {}
        self._greeted: set[int] = set()
        self._numbers = 0
        self._begun = time.monotonic()
        self._idle: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Listen, serve, leave."""
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                self._loop.add_signal_handler(number, self._stop.set)
            except NotImplementedError:  # Windows
                signal.signal(number, lambda *_: self._loop.call_soon_threadsafe(self._stop.set))
        listening, self._token = self._endpoint.listen()
        self._place = self._endpoint.inode()
        server = await self._open(listening)
        self._worker.start()
        self._count_down()
        self._look()
        log.info("host %d serves build %s", os.getpid(), protocol.build_hash())
        try:
            await self._stop.wait()
        finally:
            server.close()
            if self._endpoint.inode() == self._place:
                self._endpoint.remove()
            await asyncio.to_thread(self._worker.close, _CLOSING_SECONDS)
            await asyncio.sleep(0)  # what the worker sent while closing is written now
            for connection in list(self._connections.values()):
                connection.close()
            log.info("host %d leaves", os.getpid())

    async def _open(self, listening: socket.socket) -> asyncio.Server:
        if self._endpoint.transport == "unix":
            return await asyncio.start_unix_server(self._serve, sock=listening)
        return await asyncio.start_server(self._serve, sock=listening)

    def _count_down(self) -> None:
        """Start or stop the idle clock by the number of clients."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if not self._greeted and self._idle_seconds > 0:
            self._idle = self._loop.call_later(self._idle_seconds, self._stop.set)

    def _look(self) -> None:
        """Leave when socket or lock were removed or replaced: nobody could find or end this host any more."""
        if self._endpoint.inode() != self._place or not self._lock.intact():
            log.warning("the socket or the lock has gone, so does the host")
            self._stop.set()
        self._loop.call_later(self._look_seconds, self._look)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._numbers += 1
        connection = Connection(self._numbers, writer, self._loop)
        self._connections[connection.number] = connection
        try:
            await self._converse(connection, reader)
        except TokenleapError as error:
            log.info("client %d let go: %s", connection.number, type(error).__name__)
            connection.write(protocol.failure(0, error))
        except (OSError, asyncio.TimeoutError, asyncio.CancelledError):
            pass
        finally:
            for request_id in tuple(connection.open):
                self._worker.cancel((connection.number, request_id))
            self._worker.unwatch(connection.number)
            if connection.asked:
                self._worker.relax()
            del self._connections[connection.number]
            self._greeted.discard(connection.number)
            connection.close()
            self._count_down()

    async def _converse(self, connection: Connection, reader: asyncio.StreamReader) -> None:
        frames = wire.Frames()
        deadline = self._loop.time() + _GREETING_SECONDS
        while True:
            if connection.number in self._greeted:
                data = await reader.read(65536)
            else:
                data = await asyncio.wait_for(reader.read(65536), max(0.0, deadline - self._loop.time()))
            if not data:
                return
            for value in frames.feed(data):
                message = protocol.decode(value)
                if connection.number in self._greeted:
                    self._handle(connection, message)
                else:
                    self._greet(connection, message)

    def _greet(self, connection: Connection, message: Message) -> None:
        if not isinstance(message, protocol.Hello):
            raise wire.WireError("the first message must be Hello")
        if not hmac.compare_digest(message.token.encode("utf-8", "replace"), self._token.encode()):
            raise HostError("the engine host does not know this client's token: run `tokenleap host restart`")
        if (message.protocol, message.build) != (protocol.PROTOCOL, protocol.build_hash()):
            raise HostError(
                "the running engine host is of another version of tokenleap: run `tokenleap host restart`, "
                "then restart the editor"
            )
        self._greeted.add(connection.number)
        self._count_down()
        connection.write(protocol.Welcome(protocol.PROTOCOL, protocol.build_hash(), os.getpid()))

    def _handle(self, connection: Connection, message: Message) -> None:
        if isinstance(message, protocol.Complete):
            self._complete(connection, message)
        elif isinstance(message, protocol.Cancel):
            self._worker.cancel((connection.number, message.id))
        elif isinstance(message, protocol.StatusQuery):
            connection.write(protocol.StatusReply(message.id, self._status()))
        elif isinstance(message, protocol.Watch):
            self._worker.watch(connection.number, message.id, connection.send)
        elif isinstance(message, protocol.Clear):
            self._worker.clear_caches()
            connection.write(protocol.Cleared(message.id))
        elif isinstance(message, protocol.Stop):
            connection.write(protocol.Stopping(message.id))
            self._stop.set()
        else:
            raise wire.WireError(f"a client does not send {type(message).__name__}")

    def _complete(self, connection: Connection, message: protocol.Complete) -> None:
        if message.id < 1 or message.id in connection.open:
            raise wire.WireError("a request's id must be positive and not in use")
        document = message.request.document
        try:
            if len(connection.open) >= _OPEN_LIMIT:
                raise UsageError(
                    f"more than {_OPEN_LIMIT} requests wait: wait for answers before asking more"
                )
            connection.open.add(message.id)
            connection.asked = True
            self._worker.submit(
                (connection.number, message.id),
                message.id,
                message.request,
                None if document is None else (connection.number, document),
                connection.send,
            )
        except TokenleapError as error:
            connection.write(protocol.failure(message.id, error))

    def _status(self) -> protocol.HostStatus:
        known: dict[str, Any] = self._worker.status()
        rss, peak = resident()
        return protocol.HostStatus(
            pid=os.getpid(),
            protocol=protocol.PROTOCOL,
            build=protocol.build_hash(),
            uptime_s=time.monotonic() - self._begun,
            rss_bytes=rss,
            peak_rss_bytes=peak,
            clients=len(self._greeted),
            log=str(self._endpoint.log),
            **known,
        )


class BoundedLog(logging.StreamHandler[Any]):
    """Writes to standard error, which is the log file; empties the file when it grows over its limit."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError, ValueError):
            if os.fstat(2).st_size > LOG_LIMIT:
                os.ftruncate(2, 0)
        super().emit(record)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m assistant.service.host", description=__doc__)
    parser.add_argument("--build", help="the build that the client expects")
    parser.add_argument("--transport", choices=TRANSPORTS)
    parser.add_argument("--engine", metavar="MODULE:FACTORY", help="another engine (tests)")
    parser.add_argument(
        "--idle-seconds", type=float, help="instead of the setting idle_minutes; 0 stays for ever"
    )
    parser.add_argument(
        "--look-seconds", type=float, default=5.0, help="how often the socket is looked after"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    options = _arguments(argv)
    os.umask(0o077)
    logging.basicConfig(
        level=logging.INFO,
        handlers=[BoundedLog()],
        format="%(asctime)s %(process)d %(levelname)s %(message)s",
    )
    try:
        if options.build is not None and options.build != protocol.build_hash():
            raise HostError(
                "the program's files changed while it ran: run the command again or restart the editor"
            )
        endpoint = Endpoint.here(options.transport)
        lock = HostLock(endpoint.lock)
        if not lock.acquire_or_yield(endpoint):
            return 0
        settings = load(
            target=Path(os.sep), strict=False
        ).settings  # no project's file: the host serves them all
        worker = Worker(named_factory(options.engine), store_bytes=settings.prefix_cache_mb * 1024 * 1024)
        idle = settings.idle_minutes * 60 if options.idle_seconds is None else options.idle_seconds
        try:
            asyncio.run(Host(endpoint, lock, worker, idle, options.look_seconds).run())
        finally:
            ended = worker.close(0)
            lock.release()
    except (TokenleapError, OSError, MemoryError, RuntimeError) as error:
        known = system_errors.understood(error)
        if known is None:
            log.exception("the host ends")
        sys.stderr.write(f"{known or error}\n")
        return 3
    if not ended:  # the engine is deep in a pass: leave without it
        logging.shutdown()
        os._exit(0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
