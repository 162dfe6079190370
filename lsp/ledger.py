"""The statistics as the event loop writes them: nothing here waits, the disk is another thread's.

Entries are written in order, so what becomes of a suggestion finds the number of its answer. At the end what is
still to be written is given a moment.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from assistant.service.history import History
from assistant.service.protocol import CompletionResult

log = logging.getLogger(__name__)

_LAST_MOMENT = 0.5  # seconds


@dataclass(eq=False)
class Record:
    """One answer's entry; the writing thread fills in its number."""

    number: int = 0


class Ledger:
    """An open or closed history behind a thread."""

    def __init__(self) -> None:
        self.enabled = False
        self._history = History.open(enabled=False)  # the thread's alone
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="statistics", daemon=True)
        self._thread.start()

    def switch(self, enabled: bool) -> None:
        """Follows the setting `statistics`."""
        if enabled != self.enabled:
            self.enabled = enabled
            self._tasks.put(lambda: self._reopen(enabled))

    def answered(self, result: CompletionResult, **told: Any) -> Record:
        """As History.answered."""
        record = Record()
        self._tasks.put(lambda: setattr(record, "number", self._history.answered(result, **told)))
        return record

    def nothing(self, reason: str, **told: Any) -> Record:
        """As History.nothing."""
        record = Record()
        self._tasks.put(lambda: setattr(record, "number", self._history.nothing(reason, **told)))
        return record

    def shown(self, record: Record) -> None:
        self._tasks.put(lambda: self._history.shown(record.number))

    def partly(self, record: Record, characters: int) -> None:
        self._tasks.put(lambda: self._history.partly(record.number, characters))

    def accepted(self, record: Record) -> None:
        self._tasks.put(lambda: self._history.accepted(record.number))

    def dismissed(self, record: Record) -> None:
        self._tasks.put(lambda: self._history.dismissed(record.number))

    def kept(self, record: Record, characters: int) -> None:
        self._tasks.put(lambda: self._history.kept(record.number, characters))

    async def summary(self) -> dict[str, Any]:
        """All figures, what was told before included."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[dict[str, Any]] = loop.create_future()

        def look() -> None:
            loop.call_soon_threadsafe(_settle, found, self._history.summary(None))

        self._tasks.put(look)
        return await found

    def close(self) -> None:
        """Writes what is left, for half a second at most."""
        self._tasks.put(None)
        self._thread.join(_LAST_MOMENT)

    def _reopen(self, enabled: bool) -> None:
        self._history.close()
        self._history = History.open(enabled=enabled)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except Exception:
                log.exception("statistics could not be written")
        self._history.close()


def _settle(future: asyncio.Future[dict[str, Any]], value: dict[str, Any]) -> None:
    if not future.done():
        future.set_result(value)
