"""Keys and values of one sequence, allocated once for its capacity; the length says how much of it counts.

Only forward (through `grow`), `truncate` and `select` change the length. Memory is asked of the system when a slot is
first written, so a large capacity costs nothing until it is used.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from assistant.types import ModelConfig

LANES = 16  # keys lie transposed in blocks of this many slots (cuda_ops/kernels/attention.c)


class KeyValueCache:
    """keys: float32 [layers, kv_heads, capacity / 16, dim, 16]; values: float32 [layers, kv_heads, capacity, dim]."""

    def __init__(self, config: ModelConfig, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"a cache needs a capacity of at least 1, got {capacity}")
        self._config = config
        self.capacity = -(-capacity // LANES) * LANES
        self.length = 0
        shape = (config.layers, config.kv_heads, self.capacity // LANES, config.head_dim, LANES)
        self.keys = torch.empty(shape)
        self.values = torch.empty(config.layers, config.kv_heads, self.capacity, config.head_dim)

    @property
    def bytes(self) -> int:
        """Memory of the whole capacity."""
        return self.keys.numel() * 4 + self.values.numel() * 4

    def grow(self, rows: int) -> int:
        """Takes `rows` more slots into the length and gives the first; ValueError when there is no room."""
        base = self.length
        if base + rows > self.capacity:
            raise ValueError(f"the cache holds {self.capacity} tokens: {base} are used, {rows} do not fit")
        self.length = base + rows
        return base

    def truncate(self, length: int) -> None:
        """Forgets the slots from `length` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot cut a cache of {self.length} tokens to {length}")
        self.length = length

    def select(self, base: int, rows: Sequence[int]) -> None:
        """Keeps the first `base` slots and then slots base + r for r in rows, ascending."""
        slots = [base + row for row in rows]
        if slots != sorted(set(slots)) or (slots and (slots[0] < base or slots[-1] >= self.length)):
            raise ValueError(f"rows {list(rows)} are not ascending rows of a cache of {self.length} after {base}")
        for to, slot in enumerate(slots, start=base):
            if to != slot:
                self.values[:, :, to] = self.values[:, :, slot]
                self.keys[:, :, to // LANES, :, to % LANES] = self.keys[:, :, slot // LANES, :, slot % LANES]
        self.length = base + len(slots)

    def copy(self, length: int, capacity: int) -> KeyValueCache:
        """An independent cache of `capacity` slots with the first `length` tokens."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot copy {length} tokens of a cache of {self.length}")
        other = KeyValueCache(self._config, max(capacity, length, 1))
        blocks = -(-length // LANES)
        other.keys[:, :, :blocks] = self.keys[:, :, :blocks]
        other.values[:, :, :length] = self.values[:, :, :length]
        other.length = length
        return other
