"""One thread owns the engine and runs what the desk says is next; the desk answers, while the lock is held.

Every submitted key is answered by exactly one Result or Failure and nothing follows it. `send` callbacks must
return at once and must not call the worker. This module imports no torch: the factory does, on the worker's
thread.
"""

from __future__ import annotations

import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

from assistant.errors import HostError, OutOfMemoryError, TokenleapError
from assistant.service import protocol
from assistant.service.desk import Desk, Job, Send
from assistant.service.engine_api import STORE_BYTES, Engine, EngineFactory, Hooks, Wanted
from assistant.service.protocol import CompletionRequest, CompletionResult
from assistant.service.spectators import Spectators
from assistant.service.tickets import Ticket
from assistant.service.trouble import described, out_of_memory, understood

log = logging.getLogger(__name__)

_TOTALS = ("passes", "prompt_tokens", "reused_tokens")


class Worker:
    """The queue and its thread. All methods may be called from any thread."""

    def __init__(self, find_factory: Callable[[], EngineFactory], store_bytes: int = STORE_BYTES) -> None:
        self._store_bytes = store_bytes
        self._find_factory = find_factory
        self._factory: EngineFactory | None = None
        self._spectators = Spectators()
        self._desk = Desk(tell=self._spectators.tell)
        self._totals = dict.fromkeys(_TOTALS, 0)
        self._wake = threading.Condition()
        self._closing = False
        self._engine: Engine | None = None
        self._loaded: Wanted | None = None
        self._stale = False  # the engine's caches are to be dropped
        self._state = "idle"
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self.ready = threading.Event()  # the engine's modules are imported, or could not be

    def start(self) -> None:
        self._thread.start()

    def submit(
        self,
        key: Hashable,
        request_id: int,
        request: CompletionRequest,
        document: Hashable | None,
        send: Send,
    ) -> None:
        """Ask for a completion; the answer comes by `send`. UsageError, HostError or KeyError when it is
        refused.
        """
        request.check()
        request = request.windowed()
        with self._wake:
            if self._closing:
                raise HostError("the engine host is stopping: try again")
            self._desk.submit(key, request_id, request, document, send)
            self._wake.notify_all()

    def cancel(self, key: Hashable) -> None:
        """As Desk.cancel."""
        with self._wake:
            self._desk.cancel(key)

    def watch(self, key: Hashable, watch_id: int, send: Send) -> None:
        """Tell `send` what goes on until `unwatch`, as a Watch says."""
        with self._wake:
            self._spectators.add(key, watch_id, send)

    def unwatch(self, key: Hashable) -> None:
        with self._wake:
            self._spectators.remove(key)

    def relax(self) -> None:
        """Stop what is being prepared without anybody having asked, as when a client has gone."""
        with self._wake:
            self._desk.tickets.drop_unattended()

    def clear_caches(self) -> None:
        """Forget stored answers now, and kept prefixes before the next generation."""
        with self._wake:
            self._desk.answers.clear()
            self._stale = True
            self._wake.notify_all()

    def close(self, timeout: float = 5.0) -> bool:
        """Answer all that wait, stop the thread; False when it (a daemon) did not end in time."""
        with self._wake:
            self._closing = True
            self._state = "stopping"
            self._desk.close(HostError("the engine host was stopped before it could answer: try again"))
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def status(self) -> dict[str, Any]:
        """The fields of HostStatus that the worker knows."""
        with self._wake:
            engine = self._engine
            return {
                "state": self._state,
                "model": engine.model if engine else None,
                "precision": engine.precision if engine else None,
                "engine": engine.path if engine else None,
                "engine_reason": engine.reason if engine else None,
                "requests": self._desk.answered,
                "waiting": self._desk.tickets.waiting,
                "prefix_store_bytes": engine.store_bytes() if engine else 0,
                "answer_cache_bytes": self._desk.answers.bytes,
                "prepared": self._desk.prepared,
                **self._totals,
            }

    # The worker's thread, from here on.

    def _run(self) -> None:
        try:
            self._factory = self._find_factory()
        except Exception as error:
            log.error("the engine cannot be imported: %s", described(error))
        self.ready.set()
        while (ticket := self._next()) is not None:
            outcome = self._outcome(ticket)
            with self._wake:
                if isinstance(outcome, CompletionResult):
                    for name in _TOTALS:
                        self._totals[name] += getattr(outcome, name)
                self._state = "stopping" if self._closing else "idle"
                self._desk.finish(ticket, outcome)
        self._drop_engine()

    def _next(self) -> Ticket[Job] | None:
        """Waits for something to run; None when the worker closes."""
        while True:
            with self._wake:
                ticket = None
                while not self._closing and not self._stale and (ticket := self._desk.next()) is None:
                    self._wake.wait()
                stale, self._stale = self._stale, False
                if not stale:
                    self._state = "stopping" if ticket is None else "busy"
                    return ticket
            self._recover(drop=False)

    def _outcome(self, ticket: Ticket[Job]) -> CompletionResult | TokenleapError:
        """Runs the ticket. Nothing that the engine raises gets further than this."""
        try:
            if ticket.abandoned:
                return protocol.RequestCancelled("the request was cancelled")
            return self._complete(ticket)
        except BaseException as error:
            failure = understood(error)
            refused = failure is error and not isinstance(error, OutOfMemoryError)
            # Tracebacks hold the tensors of every frame: they must go before memory can come back.
            error.__traceback__ = error.__context__ = error.__cause__ = None
        if not refused:
            self._recover(isinstance(failure, OutOfMemoryError))
        return failure

    def _complete(self, ticket: Ticket[Job]) -> CompletionResult:
        job = ticket.job
        engine, load_ms = self._engine_for(job)
        begun = time.perf_counter()
        result = engine.complete(
            job.request,
            Hooks(
                cancelled=lambda: self._stopped(ticket),
                first=lambda: self._tell(self._desk.told_first, job),
                text=lambda text: self._tell(self._desk.told_text, job, text),
                so_far=lambda state: self._tell(self._desk.told_so_far, job, state),
            ),
        )
        log.info(
            "answered in %.0f ms: %s, %d prompt tokens (%d reused), %d new",
            *((time.perf_counter() - begun) * 1000, result.finish_reason),
            *(result.prompt_tokens, result.reused_tokens, result.new_tokens),
        )
        return replace(result, load_ms=load_ms)

    def _engine_for(self, job: Job) -> tuple[Engine, float]:
        """The engine for the request and what loading it took, 0 when it was there."""
        asked = job.request
        wanted = Wanted(asked.model, asked.precision, asked.device, asked.threads, self._store_bytes)
        if self._engine is not None and wanted == self._loaded:
            return self._engine, 0.0
        if self._factory is None:
            self._factory = self._find_factory()
        with self._wake:
            self._state = "loading"

        def tell(step: str, done: int, total: int) -> None:
            self._tell(self._desk.told_progress, job, step, done, total)

        try:
            engine = self._factory(wanted, tell)
        except BaseException as error:
            if self._engine is None or not out_of_memory(error):
                raise
            engine = None
        if engine is None:  # two models at once are too much: let go of the old one first
            self._drop_engine()
            engine = self._factory(wanted, tell)
        self._drop_engine()
        with self._wake:
            self._engine, self._loaded, self._state = engine, wanted, "busy"
        log.info("loaded %s %s in %.0f ms: %s", engine.model, engine.precision, engine.load_ms, engine.path)
        return engine, engine.load_ms

    def _stopped(self, ticket: Ticket[Job]) -> bool:
        with self._wake:
            return self._desk.stopped(ticket) or self._closing

    def _tell(self, told: Callable[..., None], *what: object) -> None:
        with self._wake:
            told(*what)

    def _drop_engine(self) -> None:
        with self._wake:
            engine, self._engine, self._loaded = self._engine, None, None
        if engine is not None:
            engine.close()
            del engine
            gc.collect()

    def _recover(self, drop: bool) -> None:
        """After a failure: no cache of a broken run stays; after too little memory, what can be freed is
        freed.
        """
        try:
            if self._engine is not None:
                self._engine.drop_caches()
        except Exception as error:
            log.error("caches could not be dropped, the engine goes: %s", described(error))
            self._drop_engine()
        if drop:
            with self._wake:
                self._desk.answers.clear()
            gc.collect()
            torch = sys.modules.get("torch")
            if torch is not None and torch.cuda.is_available():
                torch.cuda.empty_cache()
