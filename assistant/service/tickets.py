"""Which request runs next, and who is answered with what: plain rules without threads, tensors or clocks.

A ticket is one generation that one or more asks wait for, or that goes on unattended, at low priority and only
until somebody asks for something. Per document one running and one waiting ticket are asked for at most, and
the newest ask wins. Every key given to `add` comes back exactly once: from `add`, `supersede`, `release`,
`cancel`, `finish` or `clear`.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

INLINE, CHAT, AHEAD, WARM = 0, 1, 2, 3  # priorities; the lower number goes first

Job = TypeVar("Job")


@dataclass(eq=False)
class Ticket(Generic[Job]):
    """One generation. `abandoned` tells a running one that its end is of no use any more."""

    number: int
    priority: int
    identity: Hashable
    job: Job
    asks: dict[Hashable, Hashable | None] = field(default_factory=dict)  # key -> document, in order of asking
    running: bool = False
    abandoned: bool = False

    @property
    def unattended(self) -> bool:
        return not self.asks and not self.abandoned


@dataclass(frozen=True)
class Added(Generic[Job]):
    """What an ask led to: the ticket it waits for, whether that existed, and the keys that it superseded."""

    ticket: Ticket[Job]
    shared: bool
    superseded: tuple[Hashable, ...]


class Tickets(Generic[Job]):
    """The queue. One ticket runs at a time, and one unattended ticket waits at most."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._waiting: list[Ticket[Job]] = []
        self._running: Ticket[Job] | None = None
        self._by_key: dict[Hashable, Ticket[Job]] = {}
        self._identities: dict[Hashable, Hashable] = {}  # what each key asked for; other than its ticket's if it joined

    @property
    def running(self) -> Ticket[Job] | None:
        return self._running

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def add(
        self,
        key: Hashable,
        job: Job,
        *,
        priority: int,
        document: Hashable | None,
        identity: Hashable,
        join: Ticket[Job] | None = None,
    ) -> Added[Job]:
        """Ask. KeyError when `key` is already being waited for.

        The superseded keys are to be answered with nothing. An equal ticket that nobody has stopped is shared,
        and so is `join`, a live one that answers this ask as well.
        """
        if key in self._by_key:
            raise KeyError(key)
        ticket = shared = self._equal(identity, priority) or join
        if ticket is None:
            ticket = Ticket(next(self._numbers), priority, identity, job)
            self._waiting.append(ticket)
        ticket.priority = min(ticket.priority, priority)
        ticket.asks[key] = document
        self._by_key[key] = ticket
        self._identities[key] = identity
        superseded = self.supersede(document, priority, identity)
        if priority < AHEAD:
            self.drop_unattended()
        return Added(ticket, shared is not None, superseded)

    def supersede(
        self, document: Hashable | None, priority: int, identity: Hashable, served: bool = False
    ) -> tuple[Hashable, ...]:
        """A new ask has come: drop what it makes useless and give the keys to answer with nothing.

        That is: asks of the same document for something else with the same or a lower priority, and a running
        warm-up of anybody's when the new ask is no warm-up (the prefix it has computed stays in the store), but
        not when the new ask is `served` without the engine.
        """
        found: list[Hashable] = []
        for ticket in self._all():
            if ticket.priority < priority:
                continue
            in_the_way = ticket.running and ticket.priority == WARM and priority < WARM and not served
            for key, its_document in list(ticket.asks.items()):
                same = document is not None and its_document == document
                if in_the_way or (same and self._identities[key] != identity):
                    self._forget(key)
                    found.append(key)
        return tuple(found)

    def add_unattended(self, job: Job, identity: Hashable) -> bool:
        """Run this when nothing else is to be done; False when an equal ticket is there. Replaces the
        unattended ticket that waits.
        """
        if any(ticket.identity == identity and not ticket.abandoned for ticket in self._all()):
            return False
        self._waiting = [ticket for ticket in self._waiting if not ticket.unattended]
        self._waiting.append(Ticket(next(self._numbers), AHEAD, identity, job))
        return True

    def drop_unattended(self) -> None:
        """Stop what nobody asked for."""
        for ticket in self._all():
            if ticket.unattended:
                self._abandon(ticket)

    def release(self, key: Hashable) -> None:
        """`key` is answered before its running ticket ends, which goes on, unattended if nobody else waits.
        KeyError.
        """
        ticket = self._by_key[key]
        if not ticket.running:
            raise KeyError(key)
        self._take_out(key)
        if not ticket.asks:
            ticket.priority = AHEAD

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
        """The running ticket has ended: the keys to answer with its outcome (none when abandoned or unattended)."""
        if ticket is not self._running:
            raise RuntimeError("this ticket does not run")
        self._running = None
        keys = tuple(ticket.asks)
        for key in keys:
            self._take_out(key)
        return keys

    def clear(self) -> tuple[Hashable, ...]:
        """Drop everything (the host leaves): all keys still waited for."""
        keys = tuple(self._by_key)
        for key in keys:
            self._forget(key)
        self.drop_unattended()
        return keys

    def _equal(self, identity: Hashable, priority: int) -> Ticket[Job] | None:
        for ticket in self._all():
            fits = ticket.priority == priority or ticket.unattended
            if ticket.identity == identity and fits and not ticket.abandoned:
                return ticket
        return None

    def _all(self) -> list[Ticket[Job]]:
        return ([self._running] if self._running else []) + self._waiting

    def _take_out(self, key: Hashable) -> Ticket[Job]:
        ticket = self._by_key.pop(key)
        del ticket.asks[key], self._identities[key]
        return ticket

    def _forget(self, key: Hashable) -> None:
        ticket = self._take_out(key)
        if not ticket.asks:
            self._abandon(ticket)

    def _abandon(self, ticket: Ticket[Job]) -> None:
        ticket.abandoned = True
        if not ticket.running:
            self._waiting.remove(ticket)
