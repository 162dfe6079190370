"""Caches kept between requests, so that a prompt pays only for the tokens after its longest known beginning.

take lends a cache out of the store, give returns it with the ids it holds: what is lent belongs to one
request alone. Caches held never exceed the byte budget; the least recently used go first. One thread at a
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assistant.errors import OutOfMemoryError

if TYPE_CHECKING:
    from assistant.engine.backbone import Backbone, Cache

# Capacity is rounded up to this many tokens after a quarter of slack: typing on must not copy a cache at
# every key.
GRAIN = 256


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the longest common beginning."""
    left, right = tuple(left), tuple(right)
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    # Slices compare at C speed; the first difference lies in [low, high).
    while high - low > 1:
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low


@dataclass(eq=False)
class _Entry:
    ids: tuple[int, ...]
    cache: Cache


class PrefixStore:
    """Caches of one backbone, the most recently used last."""

    def __init__(self, backbone: Backbone, byte_budget: int) -> None:
        self._backbone = backbone
        self._budget = byte_budget
        self._entries: list[_Entry] = []

    @property
    def bytes(self) -> int:
        """Memory of the caches held; lent ones do not count."""
        return sum(entry.cache.bytes for entry in self._entries)

    @property
    def held(self) -> list[tuple[int, ...]]:
        """The ids of the caches held, least recently used first."""
        return [entry.ids for entry in self._entries]

    def clear(self) -> None:
        """Forget every cache held."""
        self._entries.clear()

    def take(self, ids: Sequence[int], room: int = 0) -> tuple[Cache, int]:
        """A cache for prompt `ids` with space for `room` more tokens, and how many of `ids` it holds already.

        At least one token of the prompt is left to compute, since its scores are wanted. Raises
        OutOfMemoryError.
        """
        ids = tuple(ids)
        needed = len(ids) + room
        best, reused = None, 0
        for entry in reversed(self._entries):
            length = min(common_prefix(entry.ids, ids), len(ids) - 1)
            if length > reused:
                best, reused = entry, length
        try:
            return self._lend(best, reused, needed), reused
        # torch reports a failed allocation as a RuntimeError.
        except (OutOfMemoryError, MemoryError, RuntimeError):
            self.clear()
            return self._backbone.new_cache(needed), 0

    def give(self, cache: Cache, ids: Sequence[int]) -> None:
        """Keep `cache`, which holds exactly `ids`, if the budget allows. ValueError if the lengths differ."""
        ids = tuple(ids)
        if cache.length != len(ids):
            raise ValueError(f"a cache of {cache.length} tokens was returned with {len(ids)} ids")
        for entry in self._entries:
            if entry.ids[: len(ids)] == ids:
                self._touch(entry)  # it holds all that the returned one does
                return
        self._entries = [entry for entry in self._entries if ids[: len(entry.ids)] != entry.ids]
        if ids and cache.bytes <= self._budget:
            self._entries.append(_Entry(ids, cache))
            self._shrink(self._budget)

    def _capacity(self, needed: int) -> int:
        grains = -(-(needed + needed // 4) // GRAIN)
        return max(needed, min(grains * GRAIN, self._backbone.config.context_length))

    def _lend(self, best: _Entry | None, reused: int, needed: int) -> Cache:
        capacity = self._capacity(needed)
        if best is None:
            self._make_room(capacity)
            return self._backbone.new_cache(capacity)
        # Cutting a long cache to a short beginning would throw away another document's prefix.
        if 2 * reused < len(best.ids) and self._fits_beside(best, capacity):
            self._touch(best)
            self._make_room(capacity)
            return best.cache.copy(reused, capacity)
        self._entries.remove(best)
        if best.cache.capacity >= needed:
            best.cache.truncate(reused)
            return best.cache
        self._make_room(capacity)
        return best.cache.copy(reused, capacity)

    def _bytes_of(self, capacity: int) -> int:
        """Estimated from a cache held; only asked when there is one."""
        cache = self._entries[-1].cache
        return cache.bytes * capacity // max(1, cache.capacity)

    def _fits_beside(self, entry: _Entry, capacity: int) -> bool:
        return entry.cache.bytes + self._bytes_of(capacity) <= self._budget

    def _make_room(self, capacity: int) -> None:
        """Let old caches go before a new one is made, so that held and lent together stay near the budget."""
        if self._entries:
            self._shrink(self._budget - self._bytes_of(capacity))

    def _shrink(self, budget: int) -> None:
        while self._entries and self.bytes > budget:
            del self._entries[0]

    def _touch(self, entry: _Entry) -> None:
        self._entries.remove(entry)
        self._entries.append(entry)
