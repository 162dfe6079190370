"""The engine host as the event loop sees it: futures out, no call that waits.

One thread of its own talks to the service's client, in order, so a request that is cancelled before it was sent
costs nothing. `begin` starts the host and loads the model in the background; a host that went away is started
again by the next `begin`. Everything but that thread's work runs on the loop's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from assistant.errors import TokenleapError
from assistant.service.client import Client, Service
from assistant.service.pending import Pending
from assistant.service.protocol import CompletionRequest, CompletionResult, HostStatus

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
OnProgress = Callable[[str, int, int], None]  # step, done, total (0: unknown)


class State(Enum):
    """How far the engine is from answering."""

    AWAY = "away"  # never asked for, or gone: `begin` brings it
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"  # it cannot be had; `begin` tries again


@dataclass(eq=False)
class Job:
    """One request under way; `answer` is set once, to None when a newer request superseded it."""

    answer: asyncio.Future[CompletionResult | None]
    cancelled: bool = False
    pending: Pending | None = field(default=None, repr=False)


class HostLink:
    """The language server's only way to the engine."""

    def __init__(
        self,
        on_state: Callable[[State, str], None],
        on_progress: OnProgress,
        connect: Callable[[], Service] = Client.connect,
    ) -> None:
        """`on_state` and `on_progress` are called on the loop's thread; the text says what went wrong."""
        self.state = State.AWAY
        self._on_state = on_state
        self._on_progress = on_progress
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._client: Service | None = None
        self._generation = 0
        self._tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="host-link", daemon=True).start()

    def begin(self, request: CompletionRequest) -> None:
        """Reach the host and load the model that `request` (a warm one) names, unless that is under way."""
        self._generation += 1
        self._ready.clear()
        self._set(State.LOADING, "")
        number = self._generation
        self._tasks.put(lambda: self._load(request, number))

    async def ready(self, patience: float | None = None) -> bool:
        """Wait until the engine answers or has failed, at most `patience` seconds. True: it answers."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._ready.wait(), patience)
        return self.state is State.READY

    def submit(self, request: CompletionRequest) -> Job:
        """Send a request. Its answer's future raises the error that answers it."""
        job = Job(self._loop.create_future())
        job.answer.add_done_callback(_seen)
        self._tasks.put(lambda: self._send(job, request))
        return job

    def cancel(self, job: Job) -> None:
        """Nobody waits for the job any more."""
        job.cancelled = True
        self._tasks.put(lambda: job.pending.cancel() if job.pending is not None else None)

    async def status(self) -> HostStatus | None:
        """The host's own state; None when it does not say."""
        return await self._asked(lambda client: client.status())

    async def clear_caches(self) -> bool:
        """Have the host forget stored answers and kept prefixes; False when it does not answer."""

        def clear(client: Service) -> bool:
            client.clear_caches()
            return True

        return await self._asked(clear) is True

    async def _asked(self, question: Callable[[Service], Answer]) -> Answer | None:
        """What the host answers, None when there is none or it does not."""
        found: asyncio.Future[Answer | None] = self._loop.create_future()

        def settle(answer: Answer | None) -> None:
            if not found.done():
                found.set_result(answer)

        def ask() -> None:
            answer = None
            try:
                with contextlib.suppress(TokenleapError):
                    answer = question(self._client) if self._client is not None else None
            finally:
                self._call(settle, answer)

        self._tasks.put(ask)
        return await found

    def look(self) -> None:
        """Notice a host that went away while nobody waited for it."""
        if self.state is State.READY and isinstance(self._client, Client) and self._client.host_pid is None:
            self.lost("the engine host went away and is started again")

    def lost(self, words: str) -> None:
        """The host went away, as a request's error said."""
        if self.state is State.READY:
            self._set(State.AWAY, words)

    def close(self) -> None:
        """Leave the host; it cancels what is under way."""
        if self._client is not None:
            self._client.close()

    def _set(self, state: State, words: str) -> None:
        self.state = state
        if state is not State.LOADING:
            self._ready.set()
        self._on_state(state, words)

    def _settle(self, number: int, state: State, words: str) -> None:
        if number == self._generation:
            self._set(state, words)

    def _finish(self, job: Job, pending: Pending) -> None:
        if job.answer.done():
            return
        try:
            job.answer.set_result(pending.result())
        except TokenleapError as error:
            job.answer.set_exception(error)

    def _fail(self, job: Job, error: TokenleapError) -> None:
        if not job.answer.done():
            job.answer.set_exception(error)

    # The link's own thread, from here on.

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(function, *arguments)

    def _work(self) -> None:
        while True:
            task = self._tasks.get()
            try:
                task()
            except TokenleapError as error:  # a cancel of a request whose host has gone
                log.debug("the engine host: %s", error)
            except Exception:
                log.exception("the link to the engine host failed")

    def _reached(self) -> Service:
        if self._client is None:
            self._client = self._connect()
        return self._client

    def _send(self, job: Job, request: CompletionRequest) -> None:
        if job.cancelled:
            return
        try:
            job.pending = self._reached().submit(
                request, lambda pending: self._call(self._finish, job, pending)
            )
        except TokenleapError as error:
            self._call(self._fail, job, error)

    def _load(self, request: CompletionRequest, number: int) -> None:
        try:
            pending = self._reached().submit(request)
        except TokenleapError as error:
            self._call(self._settle, number, State.FAILED, str(error))
            return
        # Another thread waits, so that requests and cancels pass a load by.
        threading.Thread(target=self._await_load, args=(pending, number), name="loading", daemon=True).start()

    def _await_load(self, pending: Pending, number: int) -> None:
        try:
            pending.result(
                on_progress=lambda step, done, total: self._call(self._on_progress, step, done, total)
            )
        except TokenleapError as error:
            self._call(self._settle, number, State.FAILED, str(error))
        except Exception:
            log.exception("loading failed")
            self._call(self._settle, number, State.FAILED, "the model could not be loaded: see the log")
        else:  # also when superseded: whoever was faster has the engine loaded
            self._call(self._settle, number, State.READY, "")


def _seen(future: asyncio.Future[CompletionResult | None]) -> None:
    """Looks at an error that nobody waits for any more, which asyncio would complain about."""
    if not future.cancelled():
        future.exception()
