"""One request under way: messages are delivered by the thread that receives, the answer is awaited by the one
that asked.

Both the client of the host and the in-process service hand these out. Times are measured here, from the
sending.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import time
from collections.abc import Callable
from dataclasses import replace

from assistant.errors import HostError, TokenleapError, from_wire
from assistant.service import protocol
from assistant.service.protocol import CompletionResult, Message

QUIET_SECONDS = 20.0  # without any message, then the other end is asked whether it is alive

OnText = Callable[[str], None]
OnProgress = Callable[[str, int, int], None]


class Pending:
    """One request under way."""

    def __init__(
        self,
        request_id: int,
        cancel: Callable[[int], None],
        startup_ms: float = 0.0,
        on_done: Callable[[Pending], None] | None = None,
        check: Callable[[], object] | None = None,
    ) -> None:
        """`check` is called when nothing has come for a while; it raises when the other end is past hope."""
        self.id = request_id
        self._cancel = cancel
        self._startup_ms = startup_ms
        self._on_done = on_done
        self._check = check
        self._sent = time.perf_counter()
        self._first_ms: float | None = None
        self._events: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._final: Message | None = None

    @property
    def done(self) -> bool:
        return self._final is not None

    def cancel(self) -> None:
        """Ask to stop; the request is still answered once, as cancelled unless the answer was on its way."""
        self._cancel(self.id)

    def result(
        self, on_text: OnText | None = None, on_progress: OnProgress | None = None
    ) -> CompletionResult | None:
        """Wait for the answer; None when a newer request superseded it. Callbacks run in the waiting thread.

        Raises the error that answers the request. An exception in the waiting thread (Ctrl-C) cancels the
        request.
        """
        try:
            while True:
                message = self._final if self.done and self._events.empty() else self._next()
                if isinstance(message, protocol.Text) and on_text is not None:
                    on_text(message.text)
                elif isinstance(message, protocol.Progress) and on_progress is not None:
                    on_progress(message.step, message.done, message.total)
                elif isinstance(message, protocol.Failure):
                    raise from_wire(message.code, message.message)
                elif isinstance(message, protocol.Result):
                    return message.result
                elif isinstance(message, protocol.StatusReply | protocol.Cleared | protocol.Stopping):
                    raise HostError(
                        "the engine host answered something else than was asked: run `tokenleap host restart`"
                    )
        except TokenleapError:
            raise
        except BaseException:
            with contextlib.suppress(TokenleapError):
                self.cancel()
            raise

    def _next(self) -> Message:
        while True:
            try:
                return self._events.get(timeout=None if self._check is None else QUIET_SECONDS)
            except queue.Empty:
                if self._check is not None:
                    self._check()

    def deliver(self, message: Message) -> None:
        """Take a message for this request; from the thread that receives."""
        if self.done:
            return
        elapsed = (time.perf_counter() - self._sent) * 1000
        if isinstance(message, protocol.First):
            self._first_ms = elapsed if self._first_ms is None else self._first_ms
            return
        if isinstance(message, protocol.Result) and message.result is not None:
            result = replace(
                message.result,
                first_token_ms=elapsed if self._first_ms is None else self._first_ms,
                total_ms=elapsed,
                startup_ms=self._startup_ms,
            )
            message = protocol.Result(self.id, result)
        final = not isinstance(message, protocol.Text | protocol.Progress)
        self._events.put(message)
        if final:
            self._final = message
            if self._on_done is not None:
                try:
                    self._on_done(self)
                except Exception:  # the receiving thread serves other requests too
                    logging.getLogger(__name__).exception("on_done failed")
