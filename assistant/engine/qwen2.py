"""The native decoder of the Qwen2 and Llama families: embedding, layers, last norm, output head.

The layers themselves are run by one of two engines behind the Layers protocol: C kernels on the mapped int8 weights
(int8_layers.py), or plain torch (torch_layers.py: fp32, the accuracy reference, and int8 without a compiler).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from assistant.engine.backbone import Cache
from assistant.engine.cache import KeyValueCache
from assistant.models.headfile import HeadFile
from assistant.models.store import StoredModel

MOST_ROWS = 128  # rows of one pass; longer calls are worked in parts of this size


class Rows:
    """Where the rows of one pass stand: slots base.. of the cache, positions, and for a tree what each row sees."""

    def __init__(self, base: int, count: int, parents: Sequence[int] | None) -> None:
        """parents as in Backbone.forward; ValueError when a row does not follow an earlier one."""
        self.base = base
        # int32 [rows, rows]: row r sees slots base + paths[r][:positions[r] - base + 1]
        self.paths: Tensor | None = None
        if parents is None or list(parents) == list(range(-1, count - 1)):
            self.positions = torch.arange(base, base + count, dtype=torch.int32)
            return
        if len(parents) != count or any(not -1 <= parent < row for row, parent in enumerate(parents)):
            raise ValueError(f"parents {list(parents)} do not make a tree of {count} rows")
        lines: list[list[int]] = []
        for row, parent in enumerate(parents):
            lines.append([*(lines[parent] if parent >= 0 else []), row])
        self.positions = torch.tensor([base + len(line) - 1 for line in lines], dtype=torch.int32)
        self.paths = torch.tensor([line + [0] * (count - len(line)) for line in lines], dtype=torch.int32)

    def seen(self, row: int) -> Tensor:
        """The slots that `row` sees, int64, in order of position."""
        depth = int(self.positions[row]) - self.base + 1
        own = torch.arange(depth) if self.paths is None else self.paths[row, :depth].long()
        return torch.cat([torch.arange(self.base), own + self.base])

    @functools.cached_property
    def mask(self) -> Tensor:
        """bool [rows, base + rows]: which slots each row sees."""
        slots = torch.arange(self.base + len(self.positions))
        if self.paths is None:
            return slots <= self.positions[:, None]
        return torch.stack([torch.isin(slots, self.seen(row)) for row in range(len(self.positions))])


class Layers(Protocol):
    """Runs decoder layers on hidden states float32 [rows, hidden], rows <= MOST_ROWS."""

    path: str

    def run(self, layer: int, x: Tensor, rows: Rows, cache: KeyValueCache) -> Tensor:
        """The layer's output; may reuse x."""
        ...

    def norm(self, x: Tensor) -> Tensor:
        """The norm after the last layer."""
        ...

    def scores(self, hidden: Tensor) -> Tensor:
        """The output head: float32 [rows, hidden] -> float32 [rows, vocabulary]."""
        ...

    def head(self, file: HeadFile, stored: StoredModel) -> HeadLayers:
        """The parts of a draft head, run by this engine."""
        ...


class HeadLayers(Protocol):
    """Runs a draft head's matrices on one row."""

    def step(
        self, name: str, parts: Sequence[Tensor], position: int, cache: KeyValueCache
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The layer's input and output, float32 [hidden], and the draft vocabulary's scores [V].

        The parts [hidden] at unit size, joined, times the matrix `name` ("first", "later") are the input. The layer's
        key and value go to slot `position` of the cache's last layer, beyond the cache's length, where the backbone's
        next pass writes its own.
        """
        ...


def rotary_tables(theta: float, dim: int, length: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine, float32 [length, dim / 2], made in one go: a position's bits must not depend on the request."""
    inverse = 1.0 / theta ** (torch.arange(0, dim, 2, dtype=torch.int64).float() / dim)
    angles = torch.arange(length).float()[:, None] * inverse[None]
    return angles.cos().contiguous(), angles.sin().contiguous()


class Qwen2:
    """A stored model as a Backbone."""

    def __init__(self, stored: StoredModel, layers: Layers) -> None:
        self.config = stored.config
        self.precision = stored.precision
        self.name = stored.folder.parent.name
        self._embedding = stored.array("model.embed_tokens.weight")
        self._layers = layers

    @property
    def path(self) -> str:
        """Which engine runs the layers, for people."""
        return self._layers.path

    def new_cache(self, capacity: int) -> KeyValueCache:
        """An empty cache; capacities beyond the model's context are ValueErrors at the first token that passes it."""
        return KeyValueCache(self.config, capacity)

    @property
    def layers(self) -> Layers:
        """What runs the layers."""
        return self._layers

    def embed(self, ids: Sequence[int]) -> Tensor:
        """float32 [rows, hidden]; ValueError for ids outside the vocabulary."""
        wanted = np.asarray(ids, dtype=np.int64)
        if wanted.min() < 0 or wanted.max() >= self._embedding.shape[0]:
            raise ValueError(f"ids must lie in 0..{self._embedding.shape[0] - 1}")
        return torch.from_numpy(self._embedding[wanted].astype(np.float32))

    def forward(
        self,
        ids: Sequence[int],
        cache: Cache,
        parents: Sequence[int] | None = None,
        taps: Sequence[int] = (),
    ) -> dict[str | int, Tensor]:
        """As Backbone.forward. After an exception the cache has its old length."""
        if not isinstance(cache, KeyValueCache):
            raise TypeError("this backbone works on the caches that it makes")
        if cache.length + len(ids) > self.config.context_length:
            raise ValueError(f"the model's context ends at {self.config.context_length} tokens")
        if not ids:
            raise ValueError("a pass needs at least one row")
        if parents is not None and len(ids) > MOST_ROWS:
            raise ValueError(f"a draft tree has at most {MOST_ROWS} rows")
        before = cache.length
        parts: list[dict[str | int, Tensor]] = []
        try:
            for start in range(0, len(ids), MOST_ROWS):
                parts.append(self._pass(ids[start : start + MOST_ROWS], cache, parents, taps))
        except BaseException:
            cache.truncate(before)
            raise
        if len(parts) == 1:
            return parts[0]
        return {key: torch.cat([part[key] for part in parts]) for key in parts[0]}

    def _pass(
        self, ids: Sequence[int], cache: KeyValueCache, parents: Sequence[int] | None, taps: Sequence[int]
    ) -> dict[str | int, Tensor]:
        x = self.embed(ids)
        rows = Rows(cache.grow(len(ids)), len(ids), parents)
        out: dict[str | int, Tensor] = {}
        for layer in range(self.config.layers):
            x = self._layers.run(layer, x, rows, cache)
            if layer in taps:
                out[layer] = x.clone()
        out["final"] = self._layers.norm(x)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """As Backbone.logits."""
        return self._layers.scores(hidden)
