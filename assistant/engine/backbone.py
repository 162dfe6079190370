"""What the decoding loop asks of a model: ids in, hidden states and scores out, one cache that grows and is cut back.

Every implementation keeps this promise: a row's result depends only on the row's own history (the cached tokens and its
ancestors in the same call), bit for bit, never on how many rows stand beside it or how the prompt was cut into chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from assistant.types import ModelConfig


class Cache(Protocol):
    """Keys and values of `length` tokens. Only forward (append), truncate and select change the length."""

    length: int
    capacity: int

    @property
    def bytes(self) -> int:
        """Memory held, whatever the length."""
        ...

    def truncate(self, length: int) -> None:
        """Forget every slot from `length` on; ValueError unless 0 <= length <= self.length."""
        ...

    def select(self, base: int, rows: Sequence[int]) -> None:
        """Keep the first `base` slots and then slots base + r for r in rows (ascending): a tree's accepted path."""
        ...

    def copy(self, length: int, capacity: int) -> Cache:
        """An independent cache of `capacity` slots that holds the first `length` tokens."""
        ...


class Backbone(Protocol):
    """A causal language model."""

    name: str
    precision: str
    config: ModelConfig

    def new_cache(self, capacity: int) -> Cache:
        """An empty cache with room for `capacity` tokens."""
        ...

    def forward(
        self,
        ids: Sequence[int],
        cache: Cache,
        parents: Sequence[int] | None = None,
        taps: Sequence[int] = (),
    ) -> dict[str | int, torch.Tensor]:
        """Run rows `ids` after what the cache holds and append them to it.

        parents[i] is the row of this call that row i follows (less than i), or -1 for the last cached token;
        None is a chain. Gives "final": float32 [rows, hidden] after the last norm, and for each tap n the output of
        layer n, float32 [rows, hidden]. ValueError when the cache has no room.
        """
        ...

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Scores of the next token: float32 [rows, hidden] -> float32 [rows, vocabulary]."""
        ...
