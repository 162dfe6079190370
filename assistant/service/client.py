"""The light client of the engine host: requests out, answers in, from any number of threads.

`Client.connect` starts the host when there is none. A host that dies fails the requests in flight with one
HostError each; the next request starts it again. Imports no torch; `local.LocalService` has the same
interface.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol

from assistant.errors import HostError, from_wire
from assistant.service import launch, protocol
from assistant.service.endpoint import Endpoint
from assistant.service.link import GONE, Link
from assistant.service.pending import OnProgress, OnText, Pending
from assistant.service.protocol import CompletionRequest, CompletionResult, Event, HostStatus, Message

__all__ = ["Client", "OnEvent", "OnProgress", "OnText", "Pending", "Service"]

OnEvent = Callable[[Event], None]


class Service(Protocol):
    """What commands, language server and terminal interface may ask of the engine, near or far."""

    def submit(
        self, request: CompletionRequest, on_done: Callable[[Pending], None] | None = None
    ) -> Pending: ...

    def complete(
        self, request: CompletionRequest, on_text: OnText | None = None, on_progress: OnProgress | None = None
    ) -> CompletionResult | None: ...

    def cancel(self, request_id: int) -> None: ...

    def watch(self, on_event: OnEvent, on_end: Callable[[str], None]) -> None: ...

    def status(self) -> HostStatus: ...

    def clear_caches(self) -> None: ...

    def stop(self) -> None: ...

    def close(self) -> None: ...

    def __enter__(self) -> Service: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Client:
    """A connection that renews itself. Close it, or use it in a `with` statement."""

    def __init__(self, endpoint: Endpoint, start: bool, wait: float, arguments: Sequence[str]) -> None:
        self._endpoint = endpoint
        self._start = start
        self._wait = wait
        self._arguments = tuple(arguments)
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._closed = False
        self._startup_ms = 0.0

    @classmethod
    def connect(
        cls,
        start: bool = True,
        wait: float = 30.0,
        started: float | None = None,
        host_arguments: Sequence[str] = (),
        endpoint: Endpoint | None = None,
    ) -> Client:
        """A client of the running host, which is started when there is none.

        `started` is the time.perf_counter() at which the command began, for `startup_ms`. HostError when
        there is no host within `wait` seconds, at once when `start` is False.
        """
        client = cls(endpoint or Endpoint.here(), start, wait, host_arguments)
        client._connected(time.perf_counter() if started is None else started, start)
        return client

    def submit(self, request: CompletionRequest, on_done: Callable[[Pending], None] | None = None) -> Pending:
        """Send a request; `on_done` is called once, by the receiving thread, when it is answered. UsageError
        at once.
        """
        request.check()
        request = request.windowed()
        request_id = next(self._ids)
        for _ in range(2):  # a host found dead before it saw the request is started again
            link = self._connected(time.perf_counter(), self._start)
            with self._lock:
                startup_ms, self._startup_ms = self._startup_ms, 0.0
            pending = Pending(request_id, self.cancel, startup_ms, on_done, check=self.status)
            if link.send(protocol.Complete(request_id, request), pending.deliver):
                return pending
            with self._lock:
                self._startup_ms += startup_ms
        raise HostError(
            "the engine host goes away as soon as it is asked: see its log or run `tokenleap doctor`"
        )

    def complete(
        self, request: CompletionRequest, on_text: OnText | None = None, on_progress: OnProgress | None = None
    ) -> CompletionResult | None:
        """Send a request and wait for its answer, as Pending.result does. HostError when the host has stopped still."""
        return self.submit(request).result(on_text, on_progress)

    def cancel(self, request_id: int) -> None:
        """Cancel a request of this client; unknown and answered ones are ignored."""
        link = self._link
        if link is not None:
            link.send(protocol.Cancel(request_id))

    def watch(self, on_event: OnEvent, on_end: Callable[[str], None]) -> None:
        """What goes on in the running host is told to `on_event`, by the receiving thread, until the connection ends
        and `on_end` is told why. HostError when there is no host; it is not started for this.
        """

        def deliver(message: Message) -> None:
            if isinstance(message, Event):
                on_event(message)
            else:
                on_end(message.message if isinstance(message, protocol.Failure) else GONE)

        link = self._connected(time.perf_counter(), start=False)
        if not link.send(protocol.Watch(next(self._ids)), deliver):
            raise HostError(GONE)

    @property
    def host_pid(self) -> int | None:
        """The process at the other end, None when it has gone."""
        link = self._link
        return link.welcome.pid if link is not None and link.alive else None

    def status(self) -> HostStatus:
        """The host's state. HostError when there is none (it is not started for this) or it does not answer
        in time.
        """
        reply = self._ask(protocol.StatusQuery(next(self._ids)))
        if not isinstance(reply, protocol.StatusReply):
            raise HostError("the engine host did not answer: run `tokenleap host restart`")
        return reply.status

    def clear_caches(self) -> None:
        """Make the host forget stored answers and kept prefixes. HostError as for `status`."""
        if not isinstance(self._ask(protocol.Clear(next(self._ids))), protocol.Cleared):
            raise HostError("the engine host did not answer: run `tokenleap host restart`")

    def stop(self) -> None:
        """Tell the host to leave and wait until it has. HostError when there is none or it does not answer in
        time.
        """
        self._ask(protocol.Stop(next(self._ids)))
        if not launch.wait_gone(self._endpoint, self._wait):
            raise HostError("the engine host did not stop: run `tokenleap host stop` again")

    def close(self) -> None:
        """End the connection; the host cancels what is in flight."""
        with self._lock:
            self._closed = True
            link, self._link = self._link, None
        if link is not None:
            link.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connected(self, started: float, start: bool) -> Link:
        with self._lock:
            if self._closed:
                raise HostError("this client is closed: connect again")
            if self._link is not None and self._link.alive:
                return self._link
            launch.reap()
            reached = launch.reach(self._endpoint, start=start, wait=self._wait, arguments=self._arguments)
            self._link = Link(reached)
            if reached.started:
                self._startup_ms = (time.perf_counter() - started) * 1000
            return self._link

    def _ask(self, message: protocol.StatusQuery | protocol.Clear | protocol.Stop) -> Message:
        link = self._connected(time.perf_counter(), start=False)
        answers: queue.SimpleQueue[Message] = queue.SimpleQueue()
        if not link.send(message, answers.put):
            raise HostError(GONE)
        try:
            reply = answers.get(timeout=self._wait)
        except queue.Empty:
            raise HostError("the engine host does not answer: run `tokenleap host restart`") from None
        if isinstance(reply, protocol.Failure) and not isinstance(message, protocol.Stop):
            raise from_wire(reply.code, reply.message)
        return reply
