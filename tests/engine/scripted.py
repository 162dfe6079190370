"""A backbone without a model: scores are a hash of a row's history, so a wrong cached token shows at once."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from assistant.engine.draft import Draft, DraftState
from assistant.types import ModelConfig

MASK = 0xFFFFFF  # 24 bits: exact in float32


class ScriptedCache:
    """Remembers the ids themselves."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.slots: list[int] = []

    @property
    def length(self) -> int:
        return len(self.slots)

    @property
    def bytes(self) -> int:
        return 10 * self.capacity

    def truncate(self, length: int) -> None:
        if not 0 <= length <= len(self.slots):
            raise ValueError(length)
        del self.slots[length:]

    def select(self, base: int, rows: Sequence[int]) -> None:
        assert list(rows) == sorted(rows)
        self.slots[base:] = [self.slots[base + row] for row in rows]

    def copy(self, length: int, capacity: int) -> ScriptedCache:
        assert length <= min(capacity, self.length)
        twin = ScriptedCache(capacity)
        twin.slots = self.slots[:length]
        return twin


class ScriptedBackbone:
    """hidden [rows, 2]: hash of the history (of its last `memory` ids: the text then repeats), its length."""

    name, precision = "scripted", "none"

    def __init__(self, vocabulary: int = 12, context: int = 400, memory: int | None = None) -> None:
        self.config = ModelConfig("llama", 1, 2, 2, 1, 1, 2, vocabulary, context, 1e4, 1e-6, False)
        self.memory = memory
        self.calls: list[int] = []  # rows of each forward
        self.fail_at: int | None = None  # index of the forward that breaks half way

    def new_cache(self, capacity: int) -> ScriptedCache:
        return ScriptedCache(capacity)

    def forward(
        self,
        ids: Sequence[int],
        cache: ScriptedCache,
        parents: Sequence[int] | None = None,
        taps: Sequence[int] = (),
    ) -> dict[str | int, torch.Tensor]:
        parents = list(range(-1, len(ids) - 1)) if parents is None else list(parents)
        assert len(parents) == len(ids) and all(-1 <= parent < row for row, parent in enumerate(parents))
        assert all(0 <= token < self.config.vocabulary_size for token in ids)
        if cache.length + len(ids) > cache.capacity:
            raise ValueError("no room")
        self.calls.append(len(ids))
        base = list(cache.slots)
        histories: list[list[int]] = []
        for token, parent in zip(ids, parents, strict=True):
            histories.append((base if parent < 0 else histories[parent]) + [token])
            assert len(histories[-1]) <= self.config.context_length, "a position past the context"
            cache.slots.append(token)
            if self.fail_at == len(self.calls) - 1:
                raise RuntimeError("the device is gone")
        rows = [[float(self.state(history)), float(len(history))] for history in histories]
        result: dict[str | int, torch.Tensor] = {"final": torch.tensor(rows)}
        return result | {tap: result["final"] + tap for tap in taps}

    def state(self, history: Sequence[int]) -> int:
        value = 7
        for token in history if self.memory is None else history[-self.memory :]:
            value = (value * 1000003 + token + 1) & MASK
        return value

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.stack([self.scores(int(state)) for state, _ in hidden.tolist()])

    def scores(self, state: int) -> torch.Tensor:
        noise = random.Random(state)
        return torch.tensor([noise.gauss(0, 2) for _ in range(self.config.vocabulary_size)])


class RandomDrafter:
    """Hostile chains or trees, from a seed: some right (`oracle`), some too long or out of range (`wild`)."""

    name = "random"

    def __init__(
        self,
        seed: int,
        *,
        tree: bool = False,
        oracle: Sequence[int] = (),
        wild: bool = False,
        draft_length: int = 4,
        taps: tuple[int, ...] = (),
    ) -> None:
        self.noise, self.tree, self.oracle, self.wild = random.Random(seed), tree, list(oracle), wild
        self.draft_length, self.taps = draft_length, taps
        self.start = 0
        self.observed: list[tuple[Draft, list[int]]] = []

    def begin(self, prompt: Sequence[int]) -> None:
        self.start = len(prompt)

    def propose(self, state: DraftState, limit: int) -> Draft:
        done = len(state.ids) - self.start
        count = self.noise.randint(0, limit + 3 if self.wild else limit)
        parents = [self.noise.randint(-1, i - 1) if self.tree else i - 1 for i in range(count)]
        depths: list[int] = []
        ids: list[int] = []
        for parent in parents:
            depths.append(depths[parent] + 1 if parent >= 0 else 0)
            place = done + depths[-1]
            if place < len(self.oracle) and self.noise.random() < 0.8:
                ids.append(self.oracle[place])
            else:
                ids.append(self.noise.randint(-2, 14) if self.wild else self.noise.randint(0, 11))
        return Draft(tuple(ids), tuple(parents) if self.tree else None)

    def observe(self, draft: Draft, accepted: Sequence[int]) -> None:
        self.observed.append((draft, list(accepted)))
