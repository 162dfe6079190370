"""The engine in this very process, behind the client's interface: for `--in-process`, tests and odd
platforms.

Requests of several threads still go through the one queue and the worker's one thread.
"""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Callable
from types import TracebackType

from assistant.errors import HostError
from assistant.service import protocol
from assistant.service.engine_api import STORE_BYTES, EngineFactory, named_factory
from assistant.service.memory import resident
from assistant.service.pending import OnProgress, OnText, Pending
from assistant.service.protocol import CompletionRequest, CompletionResult, Event, HostStatus, Message
from assistant.service.worker import Worker


class LocalService:
    """As client.Client, without a host. `factory` replaces the real engine."""

    def __init__(
        self,
        factory: EngineFactory | None = None,
        started: float | None = None,
        store_bytes: int = STORE_BYTES,
    ) -> None:
        """`started`: time.perf_counter() at the command's begin. Returns when the engine's modules are
        imported.
        """
        begun = time.perf_counter() if started is None else started
        logging.getLogger("assistant").addHandler(logging.NullHandler())
        self._worker = Worker(named_factory(None) if factory is None else lambda: factory, store_bytes)
        self._worker.start()
        self._worker.ready.wait()
        self._begun = time.monotonic()
        self._startup_ms = (time.perf_counter() - begun) * 1000
        self._ids = itertools.count(1)

    def submit(self, request: CompletionRequest, on_done: Callable[[Pending], None] | None = None) -> Pending:
        """As Client.submit; `on_done` must not call the service."""
        request_id = next(self._ids)
        startup_ms, self._startup_ms = self._startup_ms, 0.0
        pending = Pending(request_id, self.cancel, startup_ms, on_done)
        self._worker.submit(request_id, request_id, request, request.document, pending.deliver)
        return pending

    def complete(
        self, request: CompletionRequest, on_text: OnText | None = None, on_progress: OnProgress | None = None
    ) -> CompletionResult | None:
        return self.submit(request).result(on_text, on_progress)

    def cancel(self, request_id: int) -> None:
        self._worker.cancel(request_id)

    def watch(self, on_event: Callable[[Event], None], on_end: Callable[[str], None]) -> None:
        """As Client.watch; the callbacks must not call the service. It never ends."""

        def send(message: Message) -> None:
            if isinstance(message, Event):
                on_event(message)

        number = next(self._ids)
        self._worker.watch(number, number, send)

    def status(self) -> HostStatus:
        rss, peak = resident()
        return HostStatus(
            pid=os.getpid(),
            protocol=protocol.PROTOCOL,
            build=protocol.build_hash(),
            uptime_s=time.monotonic() - self._begun,
            rss_bytes=rss,
            peak_rss_bytes=peak,
            clients=1,
            log="",
            **self._worker.status(),
        )

    def clear_caches(self) -> None:
        """As Client.clear_caches."""
        self._worker.clear_caches()

    def stop(self) -> None:
        """End the worker. HostError when the engine does not stop."""
        if not self._worker.close():
            raise HostError("the engine did not stop in time: end the process")

    def close(self) -> None:
        self._worker.close()

    def __enter__(self) -> LocalService:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
