"""One thread owns the engine; requests come in as tickets and leave as messages.

Every submitted key is answered by exactly one Result or Failure, sent while the lock is held, so nothing
follows it. `send` callbacks must return at once and must not call the worker. This module imports no torch:
the factory does, on the worker's thread.
"""

from __future__ import annotations

import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from assistant.errors import HostError, OutOfMemoryError, TokenleapError
from assistant.service import protocol
from assistant.service.answers import Answers
from assistant.service.engine_api import STORE_BYTES, Engine, EngineFactory, Hooks, ProgressHook, Wanted
from assistant.service.protocol import CompletionRequest, CompletionResult, Message
from assistant.service.tickets import INLINE, WARM, Ticket, Tickets
from assistant.service.trouble import described, out_of_memory, understood

log = logging.getLogger(__name__)

Send = Callable[[Message], None]


@dataclass
class _Listener:
    request_id: int
    stream: bool
    send: Send


@dataclass
class _Job:
    request: CompletionRequest
    listeners: dict[Hashable, _Listener] = field(default_factory=dict)
    first: bool = False
    text: str = ""  # streamed so far, for those who join later


class Worker:
    """The queue and its thread. All methods may be called from any thread."""

    def __init__(self, find_factory: Callable[[], EngineFactory], store_bytes: int = STORE_BYTES) -> None:
        self._store_bytes = store_bytes
        self._find_factory = find_factory
        self._factory: EngineFactory | None = None
        self._answers = Answers()
        self._tickets: Tickets[_Job] = Tickets()
        self._jobs: dict[Hashable, _Job] = {}
        self._wake = threading.Condition()
        self._closing = False
        self._engine: Engine | None = None
        self._loaded: Wanted | None = None
        self._state = "idle"
        self._answered = 0
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
        priority = WARM if request.trigger == "warm" else INLINE
        with self._wake:
            if self._closing:
                raise HostError("the engine host is stopping: try again")
            known = self._answers.get(request) if request.trigger == "automatic" else None
            if known is not None:
                self._answer_nothing(self._tickets.supersede(document, priority))
                send(protocol.First(request_id))
                send(protocol.Result(request_id, known))
                self._answered += 1
                return
            job = _Job(request)
            added = self._tickets.add(
                key, job, priority=priority, document=document, identity=request.identity()
            )
            self._answer_nothing(added.superseded)
            job = added.ticket.job
            job.listeners[key] = _Listener(request_id, request.stream, send)
            self._jobs[key] = job
            if job.first:
                send(protocol.First(request_id))
            if job.text and request.stream:
                send(protocol.Text(request_id, job.text))
            self._wake.notify_all()

    def cancel(self, key: Hashable) -> None:
        """Answer `key` as cancelled now; its generation stops when nobody else waits for it. Unknown keys:
        nothing.
        """
        with self._wake:
            if self._tickets.cancel(key):
                self._fail(key, protocol.RequestCancelled("the request was cancelled"))

    def close(self, timeout: float = 5.0) -> bool:
        """Answer all that wait, stop the thread; False when it (a daemon) did not end in time."""
        with self._wake:
            self._closing = True
            self._state = "stopping"
            for key in self._tickets.clear():
                self._fail(key, HostError("the engine host was stopped before it could answer: try again"))
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
                "requests": self._answered,
                "waiting": self._tickets.waiting,
                "prefix_store_bytes": engine.store_bytes() if engine else 0,
                "answer_cache_bytes": self._answers.bytes,
            }

    def _answer_nothing(self, keys: tuple[Hashable, ...]) -> None:
        for key in keys:
            listener = self._jobs.pop(key).listeners.pop(key)
            listener.send(protocol.Result(listener.request_id, None))
            self._answered += 1

    def _fail(self, key: Hashable, error: TokenleapError) -> None:
        listener = self._jobs.pop(key).listeners.pop(key)
        listener.send(protocol.failure(listener.request_id, error))
        self._answered += 1

    # The worker's thread, from here on.

    def _run(self) -> None:
        try:
            self._factory = self._find_factory()
        except Exception as error:
            log.error("the engine cannot be imported: %s", described(error))
        self.ready.set()
        while True:
            with self._wake:
                ticket = None
                while not self._closing and (ticket := self._tickets.next()) is None:
                    self._state = "idle"
                    self._wake.wait()
                if ticket is None:
                    break
                self._state = "busy"
            outcome = self._outcome(ticket)
            with self._wake:
                if isinstance(outcome, CompletionResult):
                    self._answers.put(ticket.job.request, outcome)
                for key in self._tickets.finish(ticket):
                    if isinstance(outcome, TokenleapError):
                        self._fail(key, outcome)
                    else:
                        listener = self._jobs.pop(key).listeners.pop(key)
                        listener.send(protocol.Result(listener.request_id, outcome))
                        self._answered += 1
        self._drop_engine()

    def _outcome(self, ticket: Ticket[_Job]) -> CompletionResult | TokenleapError:
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

    def _complete(self, ticket: Ticket[_Job]) -> CompletionResult:
        job = ticket.job
        engine, load_ms = self._engine_for(job)
        begun = time.perf_counter()
        result = engine.complete(
            job.request,
            Hooks(
                cancelled=lambda: ticket.abandoned or self._closing,
                first=lambda: self._tell_first(job),
                text=lambda text: self._tell_text(job, text),
            ),
        )
        log.info(
            "answered in %.0f ms: %s, %d prompt tokens (%d reused), %d new",
            *((time.perf_counter() - begun) * 1000, result.finish_reason),
            *(result.prompt_tokens, result.reused_tokens, result.new_tokens),
        )
        return replace(result, load_ms=load_ms)

    def _engine_for(self, job: _Job) -> tuple[Engine, float]:
        """The engine for the request and what loading it took, 0 when it was there."""
        asked = job.request
        wanted = Wanted(asked.model, asked.precision, asked.device, asked.threads, self._store_bytes)
        if self._engine is not None and wanted == self._loaded:
            return self._engine, 0.0
        if self._factory is None:
            self._factory = self._find_factory()
        with self._wake:
            self._state = "loading"
        tell = self._teller(job)
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

    def _teller(self, job: _Job) -> ProgressHook:
        def tell(step: str, done: int, total: int) -> None:
            with self._wake:
                for listener in job.listeners.values():
                    listener.send(protocol.Progress(listener.request_id, step, done, total))

        return tell

    def _tell_first(self, job: _Job) -> None:
        with self._wake:
            if not job.first:
                job.first = True
                for listener in job.listeners.values():
                    listener.send(protocol.First(listener.request_id))

    def _tell_text(self, job: _Job, text: str) -> None:
        with self._wake:
            job.text += text
            for listener in job.listeners.values():
                if listener.stream and text:
                    listener.send(protocol.Text(listener.request_id, text))

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
                self._answers.clear()
            gc.collect()
            torch = sys.modules.get("torch")
            if torch is not None and torch.cuda.is_available():
                torch.cuda.empty_cache()
