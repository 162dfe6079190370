"""Which request runs next, and who is answered with what: plain rules without threads, tensors or clocks.

A ticket is one generation that one or more asks wait for. Per document one running and one waiting ticket are
asked for at most, and the newest ask wins. Every key given to `add` comes back exactly once: from `add`,
`cancel` or `finish`.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

INLINE, CHAT, WARM = 0, 1, 2  # priorities; the lower number goes first

Job = TypeVar("Job")


@dataclass(eq=False)
class Ticket(Generic[Job]):
    """One generation. `abandoned` tells a running one that nobody waits for it any more."""

    number: int
    priority: int
    identity: Hashable
    job: Job
    asks: dict[Hashable, Hashable | None] = field(default_factory=dict)  # key -> document, in order of asking
    running: bool = False
    abandoned: bool = False


@dataclass(frozen=True)
class Added(Generic[Job]):
    """What an ask led to: the ticket it waits for, whether that existed, and the keys that it superseded."""

    ticket: Ticket[Job]
    shared: bool
    superseded: tuple[Hashable, ...]


class Tickets(Generic[Job]):
    """The queue. One ticket runs at a time."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._waiting: list[Ticket[Job]] = []
        self._running: Ticket[Job] | None = None
        self._by_key: dict[Hashable, Ticket[Job]] = {}

    @property
    def running(self) -> Ticket[Job] | None:
        return self._running

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def add(
        self, key: Hashable, job: Job, *, priority: int, document: Hashable | None, identity: Hashable
    ) -> Added[Job]:
        """Ask. KeyError when `key` is already being waited for.

        The superseded keys are to be answered with nothing. An equal ticket that nobody has stopped is
        shared.
        """
        if key in self._by_key:
            raise KeyError(key)
        same = next(
            (t for t in self._all() if t.identity == identity and t.priority == priority and not t.abandoned),
            None,
        )
        superseded = self.supersede(document, priority, keep=same)
        if same is None:
            ticket = Ticket(next(self._numbers), priority, identity, job)
            self._waiting.append(ticket)
        else:
            ticket = same
        ticket.asks[key] = document
        self._by_key[key] = ticket
        return Added(ticket, same is not None, superseded)

    def supersede(
        self, document: Hashable | None, priority: int, keep: Ticket[Job] | None = None
    ) -> tuple[Hashable, ...]:
        """A new ask has come: drop what it makes useless and give the keys to answer with nothing.

        That is: asks of the same document with the same or a lower priority, and a running warm-up of
        anybody's when the new ask is no warm-up (the prefix it has computed stays in the store).
        """
        found: list[Hashable] = []
        for ticket in self._all():
            if ticket is keep or ticket.priority < priority:
                continue
            in_the_way = ticket.running and ticket.priority == WARM and priority < WARM
            for key, its_document in list(ticket.asks.items()):
                if in_the_way or (document is not None and its_document == document):
                    self._forget(key)
                    found.append(key)
        return tuple(found)

    def cancel(self, key: Hashable) -> bool:
        """Take one ask back. True: answer `key` as cancelled. False: it is unknown or answered already."""
        if key not in self._by_key:
            return False
        self._forget(key)
        return True

    def next(self) -> Ticket[Job] | None:
        """The ticket to run now, or None; RuntimeError while another one runs."""
        if self._running is not None:
            raise RuntimeError("a ticket is running")
        if not self._waiting:
            return None
        ticket = min(self._waiting, key=lambda t: (t.priority, t.number))
        self._waiting.remove(ticket)
        ticket.running = True
        self._running = ticket
        return ticket

    def finish(self, ticket: Ticket[Job]) -> tuple[Hashable, ...]:
        """The running ticket has ended: the keys to answer with its outcome (none when abandoned)."""
        if ticket is not self._running:
            raise RuntimeError("this ticket does not run")
        self._running = None
        keys = tuple(ticket.asks)
        for key in keys:
            del self._by_key[key]
        ticket.asks.clear()
        return keys

    def clear(self) -> tuple[Hashable, ...]:
        """Drop everything (the host leaves): all keys still waited for."""
        keys = tuple(self._by_key)
        for key in keys:
            self._forget(key)
        return keys

    def _all(self) -> list[Ticket[Job]]:
        return ([self._running] if self._running else []) + self._waiting

    def _forget(self, key: Hashable) -> None:
        ticket = self._by_key.pop(key)
        del ticket.asks[key]
        if not ticket.asks:
            ticket.abandoned = True
            if not ticket.running:
                self._waiting.remove(ticket)
