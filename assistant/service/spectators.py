"""Who watches what goes on, and the latest ended generations, which a new one is told first.

Plain rules like the desk's, called under the worker's lock. Kept are the last KEPT generations that ended, with
their tokens; the text around the cursor is in none of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace

from assistant.service.protocol import Event, Finished, Started

KEPT = 50


class Spectators:
    """Events in, the same to each who watches."""

    def __init__(self) -> None:
        self._sends: dict[Hashable, tuple[int, Callable[[Event], None]]] = {}
        self._begun: dict[int, Started] = {}
        self._ended: OrderedDict[int, tuple[Started, Finished]] = OrderedDict()

    def add(self, key: Hashable, watch_id: int, send: Callable[[Event], None]) -> None:
        """`send` must return at once. It gets what ended lately, and the beginning of what runs."""
        self._sends[key] = (watch_id, send)
        for pair in self._ended.values():
            for event in pair:
                send(replace(event, id=watch_id))
        for started in self._begun.values():
            send(replace(started, id=watch_id))

    def remove(self, key: Hashable) -> None:
        """Unknown keys: nothing."""
        self._sends.pop(key, None)

    def tell(self, event: Event) -> None:
        if isinstance(event, Started):
            self._begun[event.job] = event
        elif isinstance(event, Finished):
            started = self._begun.pop(event.job, None)
            if started is not None:
                self._ended[event.job] = (started, event)
            if len(self._ended) > KEPT:
                self._ended.popitem(last=False)
        for watch_id, send in self._sends.values():
            send(replace(event, id=watch_id))
