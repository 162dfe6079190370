"""What was suggested lately, by number: for accepting it, in parts too, for cycling, and for the statistics.

A number belongs to one text of one answer for as long as the server runs; the last LIMIT are known.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from dataclasses import dataclass, field

from lsp.convert import Place
from lsp.ledger import Record

LIMIT = 64


@dataclass(eq=False)
class Given:
    """One suggestion. `accepted` counts characters of `text` that are in the document now."""

    number: int
    uri: str  # canonical
    client_uri: str  # as the client spells it
    revision: int  # of the document when it was made
    place: Place
    text: str  # the model's
    record: Record  # in the statistics
    group: list[Given] = field(default_factory=list, repr=False)  # the alternatives, this one among them
    accepted: int = 0
    shown: bool = False
    ended: bool = False


class Book:
    """The last suggestions."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._given: OrderedDict[int, Given] = OrderedDict()
        self._latest: dict[str, Given] = {}  # document -> what stands there now, perhaps

    def add(
        self, uri: str, client_uri: str, revision: int, place: Place, texts: tuple[str, ...], record: Record
    ) -> list[Given]:
        """One answer's texts, the best first."""
        made = [Given(next(self._numbers), uri, client_uri, revision, place, text, record) for text in texts]
        for given in made:
            given.group = made
            self._given[given.number] = given
        while len(self._given) > LIMIT:
            _, old = self._given.popitem(last=False)
            if self._latest.get(old.uri) is old:
                del self._latest[old.uri]
        if made:
            self._latest[uri] = made[0]
        return made

    def get(self, number: object) -> Given | None:
        """The suggestion with this number, whatever a client sends as one."""
        return self._given.get(number) if isinstance(number, int) else None

    def latest(self, uri: str) -> Given | None:
        """The last answer in a document."""
        return self._latest.get(uri)

    def forget(self, uri: str) -> Given | None:
        """The document was closed; what stood there last."""
        for number in [number for number, given in self._given.items() if given.uri == uri]:
            del self._given[number]
        return self._latest.pop(uri, None)

    @staticmethod
    def following(given: Given, step: int) -> Given:
        """The alternative after (1) or before (-1) one, round and round."""
        return given.group[(given.group.index(given) + step) % len(given.group)]
