"""A tiny deterministic backbone with real cache rules, for benches that only need ids in and scores out."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from assistant.types import ModelConfig

SIZE = 32


def config() -> ModelConfig:
    return ModelConfig(
        architecture="qwen2",
        layers=1,
        hidden_size=SIZE,
        intermediate_size=SIZE,
        heads=1,
        kv_heads=1,
        head_dim=SIZE,
        vocabulary_size=SIZE,
        context_length=4096,
        rope_theta=1e4,
        norm_epsilon=1e-6,
        attention_bias=False,
    )


class FakeCache:
    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.ids: list[int] = []

    @property
    def length(self) -> int:
        return len(self.ids)

    @length.setter
    def length(self, value: int) -> None:
        del self.ids[value:]

    @property
    def bytes(self) -> int:
        return self.capacity

    def truncate(self, length: int) -> None:
        assert 0 <= length <= len(self.ids)
        del self.ids[length:]

    def select(self, base: int, rows: Sequence[int]) -> None:
        self.ids = self.ids[:base] + [self.ids[base + row] for row in rows]

    def copy(self, length: int, capacity: int) -> FakeCache:
        other = FakeCache(capacity)
        other.ids = self.ids[:length]
        return other


class FakeBackbone:
    """Scores depend on the last two tokens alone; `noise` moves them a little, as another precision does."""

    name = "fake"

    def __init__(self, precision: str = "int8", noise: float = 0.0, seed: int = 0) -> None:
        self.precision = precision
        self.config = config()
        generator = torch.Generator().manual_seed(seed)
        self._table = torch.randn(SIZE, SIZE, SIZE, generator=generator) * 3
        if noise:
            self._table = self._table + noise * torch.randn(SIZE, SIZE, SIZE, generator=generator)
        self.rows: list[int] = []

    def new_cache(self, capacity: int) -> FakeCache:
        return FakeCache(capacity)

    def forward(
        self,
        ids: Sequence[int],
        cache: FakeCache,
        parents: Sequence[int] | None = None,
        taps: Sequence[int] = (),
    ) -> dict[str | int, torch.Tensor]:
        assert parents is None or list(parents) == list(range(-1, len(ids) - 1))
        if cache.length + len(ids) > cache.capacity:
            raise ValueError("full")
        self.rows.append(len(ids))
        hidden = []
        for token in ids:
            before = cache.ids[-1] if cache.ids else 0
            cache.ids.append(token)
            hidden.append(self._table[before, token])
        return {"final": torch.stack(hidden)}

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden
