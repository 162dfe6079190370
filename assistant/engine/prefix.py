"""Caches kept between requests, so that a prompt pays only for the tokens after its longest known beginning.

take lends a cache out of the store, give returns it with the ids it holds: what is lent belongs to one request alone.
Caches held never exceed the byte budget; the least recently used go first. One thread at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assistant.errors import OutOfMemoryError

if TYPE_CHECKING:
    from assistant.engine.backbone import Backbone, Cache

# Capacity is rounded up to this many tokens after a quarter of slack: typing on must not copy a cache at every key.
GRAIN = 256


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the longest common beginning."""
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


@dataclass
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
        """A cache for prompt `ids` with space for `room` more tokens, and how many of its tokens it holds already.

        At least one token of the prompt is left to compute, since its scores are wanted. Raises OutOfMemoryError.
        """
        ids = tuple(ids)
        needed = len(ids) + room
        best, reused = None, 0
        for entry in reversed(self._entries):
            length = min(common_prefix(entry.ids, ids), len(ids) - 1)
            if length > reused:
                best, reused = entry, length
        if best is None:
            return self._new(needed), 0
        # Cutting a long cache to a short beginning would throw away another document's prefix.
        if 2 * reused < len(best.ids) and self._fits_beside(best, self._capacity(needed)):
            self._touch(best)
            return self._copy(best, reused, needed), reused
        self._entries.remove(best)
        if best.cache.capacity < needed:
            return self._copy(best, reused, needed), reused
        best.cache.truncate(reused)
        return best.cache, reused

    def give(self, cache: Cache, ids: Sequence[int]) -> None:
        """Keep `cache`, which holds exactly `ids`, if the budget allows. ValueError when the lengths differ."""
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

    def _new(self, needed: int) -> Cache:
        capacity = self._capacity(needed)
        self._make_room(capacity)
        try:
            return self._backbone.new_cache(capacity)
        except (OutOfMemoryError, MemoryError):
            self.clear()
            return self._backbone.new_cache(capacity)

    def _copy(self, entry: _Entry, length: int, needed: int) -> Cache:
        self._make_room(self._capacity(needed), spare=entry)
        return entry.cache.copy(length, self._capacity(needed))

    def _bytes_of(self, capacity: int) -> int:
        """Estimate from a cache held; nothing is held when there is none to estimate from."""
        cache = self._entries[-1].cache
        return cache.bytes * capacity // max(1, cache.capacity)

    def _fits_beside(self, entry: _Entry, capacity: int) -> bool:
        return entry.cache.bytes + self._bytes_of(capacity) <= self._budget

    def _make_room(self, capacity: int, spare: _Entry | None = None) -> None:
        """Let go of old caches before a new one is made, so that held and lent together stay near the budget."""
        if self._entries:
            self._shrink(self._budget - self._bytes_of(capacity), spare)

    def _shrink(self, budget: int, spare: _Entry | None = None) -> None:
        for entry in list(self._entries):
            if self.bytes <= budget:
                return
            if entry is not spare:
                self._entries.remove(entry)

    def _touch(self, entry: _Entry) -> None:
        self._entries.remove(entry)
        self._entries.append(entry)
