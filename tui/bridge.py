"""Everything that waits, away from the interface's thread: the host's events, requests, errands, files.

Each kind of waiting has a daemon thread of its own; results come back as messages through `post`, which may be called
from any thread. `connect(start)` gives a Service and is the only way to the engine; no host is started but for a
request. A host that goes away is looked for again every `interval` seconds.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from textual.message import Message

from assistant.errors import HostError, TokenleapError
from assistant.service.client import Client, Service
from assistant.service.errands import Errand, OnStep
from assistant.service.pending import Pending
from assistant.service.protocol import CompletionRequest, Event
from tui import messages
from tui.logfile import Tail

Connect = Callable[[bool], Service]
_MOST_WAITING = 4000  # events; when the interface cannot follow, the oldest are dropped


class Running(Protocol):
    """An errand under way."""

    def run(self, on_step: OnStep = ...) -> Any: ...

    def stop(self) -> None: ...


class Bridge:
    """Made with the app, begun when it is mounted, closed when it ends. Methods return at once."""

    def __init__(
        self,
        post: Callable[[Message], object],
        connect: Connect = lambda start: Client.connect(start=start),
        errand: Callable[[str, Sequence[str]], Running] = Errand,
        interval: float = 1.0,
    ) -> None:
        self._post, self._connect, self._errand, self._interval = post, connect, errand, interval
        self._closing = threading.Event()
        self._look = threading.Event()
        self._asked: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._service: Service | None = None  # for requests; used by the asking thread
        self._pending: dict[str, Pending] = {}
        self._errands: dict[str, Running] = {}
        self._events: deque[tuple[int, Event]] = deque(maxlen=_MOST_WAITING)
        self._events_lock = threading.Lock()

    def begin(self) -> None:
        for work in (self._watch, self._ask):
            threading.Thread(target=work, name=f"tui{work.__name__}", daemon=True).start()

    def close(self) -> None:
        """Stop what runs for us. Threads that wait are left to the process's end."""
        self._closing.set()
        self._look.set()
        for errand in list(self._errands.values()):
            errand.stop()
        if self._service is not None:
            with contextlib.suppress(TokenleapError):
                self._service.close()

    # Requests.

    def submit(self, tag: str, request: CompletionRequest) -> None:
        """Ask; Streamed and one Answered come back with `tag`. The host is started when there is none."""
        self._asked.put(lambda: self._submit(tag, request))

    def cancel(self, tag: str) -> None:
        """The request is still answered, as cancelled."""
        self._asked.put(lambda: self._cancel(tag))

    # Errands and files.

    def errand(self, name: str, words: Sequence[str] = ()) -> None:
        """Do it; ErrandStep and one ErrandDone come back. One of a name at a time, a second is not begun."""
        if name not in self._errands:
            made = self._errands[name] = self._errand(name, words)
            self._thread(lambda: self._run_errand(name, made))

    def stop_errand(self, name: str) -> None:
        running = self._errands.get(name)
        if running is not None:
            running.stop()

    def work(self, function: Callable[[], Message]) -> None:
        """Run `function` on a thread of its own and post what it returns."""
        self._thread(lambda: self._tell(function()))

    def follow_log(self, path: Path) -> None:
        """Post the file's lines, and what is added to it until the bridge is closed."""
        self._thread(lambda: self._follow(Tail(path)))

    def _thread(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, daemon=True).start()

    # Other threads, from here on.

    def _tell(self, message: Message) -> None:
        if not self._closing.is_set():
            self._post(message)

    def _watch(self) -> None:
        while not self._closing.is_set():
            service = None
            try:
                service = self._connect(False)
                self._stay(service)
            except HostError as error:
                plain = "no engine host is running" in str(error)
                self._tell(messages.HostSeen(None, "" if plain else str(error)))
            except TokenleapError as error:
                self._tell(messages.HostSeen(None, str(error)))
            finally:
                if service is not None:
                    with contextlib.suppress(TokenleapError):
                        service.close()
            self._pause()

    def _stay(self, service: Service) -> None:
        """Watch until the host goes away."""
        status = service.status()
        over = threading.Event()
        service.watch(lambda event: self._happened(status.pid, event), lambda words: self._over(over))
        while not self._closing.is_set() and not over.is_set():
            self._tell(messages.HostSeen(status))
            self._pause()
            if not self._closing.is_set() and not over.is_set():
                status = service.status()

    def _over(self, over: threading.Event) -> None:
        over.set()
        self._look.set()

    def _pause(self) -> None:
        self._look.wait(self._interval)
        if not self._closing.is_set():
            self._look.clear()

    def _happened(self, host: int, event: Event) -> None:
        """One message for all events that came since the interface looked last."""
        with self._events_lock:
            first = not self._events
            self._events.append((host, event))
        if first:
            self._tell(messages.Happened([]))

    def taken(self) -> list[tuple[int, Event]]:
        """The events since the last call; for whoever is told that something Happened."""
        with self._events_lock:
            events = list(self._events)
            self._events.clear()
        return events

    def _ask(self) -> None:
        while not self._closing.is_set():
            self._asked.get()()

    def _submit(self, tag: str, request: CompletionRequest) -> None:
        try:
            if self._service is None:
                self._service = self._connect(True)
                self._look.set()
            pending = self._service.submit(request)
        except TokenleapError as error:
            self._tell(messages.Answered(tag, None, error))
            return
        self._pending[tag] = pending
        self._thread(lambda: self._await(tag, pending))

    def _await(self, tag: str, pending: Pending) -> None:
        try:
            answered = messages.Answered(
                tag, pending.result(on_text=lambda text: self._tell(messages.Streamed(tag, text)))
            )
        except TokenleapError as error:
            answered = messages.Answered(tag, None, error)
        if self._pending.get(tag) is pending:
            del self._pending[tag]
        self._tell(answered)

    def _cancel(self, tag: str) -> None:
        pending = self._pending.get(tag)
        if pending is not None:
            with contextlib.suppress(TokenleapError):
                pending.cancel()

    def _run_errand(self, name: str, errand: Running) -> None:
        try:
            done = messages.ErrandDone(
                name, errand.run(lambda step, at, of: self._tell(messages.ErrandStep(name, step, at, of)))
            )
        except TokenleapError as error:
            done = messages.ErrandDone(name, None, error)
        del self._errands[name]
        self._tell(done)

    def _follow(self, tail: Tail) -> None:
        while not self._closing.is_set():
            lines = tail.read()
            if lines:
                self._tell(messages.Logged(lines))
            self._closing.wait(self._interval)
