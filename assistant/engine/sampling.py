"""From scores to a token: greedy, or seeded sampling whose noise depends on the place alone.

Noise is hash(seed, candidate, absolute position, id), so a seed gives the same text with drafting, without it
and at every draft length. Each row is judged by itself, on one thread and in one fixed order: nothing beside
it can change its choice.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from assistant.errors import ModelCorruptError, UsageError

Floats = npt.NDArray[np.floating[Any]]
Integers = npt.NDArray[np.integer[Any]]

# The noise comes from 32 bits: it lies between -log(33 log 2) and 33 log 2, so an id this many nats below the
# best never wins.
NOISE_RANGE = 27.0
# Below this temperature the noise cannot lift any other float32 score over the best, and dividing by it would
# overflow.
COLDEST = 1e-6


@dataclass(frozen=True)
class Sampling:
    """How to choose. temperature 0 is greedy; filters run in the order temperature, top-k, top-p, min-p.

    top_k 0, top_p 1 and min_p 0 are off. `candidate` numbers the alternatives drawn with one seed.
    Raises UsageError for values that cannot be.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    candidate: int = 0

    def __post_init__(self) -> None:
        # Written so that NaN, which compares false with everything, is refused too.
        if not (self.temperature >= 0 and math.isfinite(self.temperature)):
            raise UsageError(
                f"The temperature must be 0 (greedy) or a positive number, not {self.temperature}."
            )
        if not (isinstance(self.top_k, int) and self.top_k >= 0):
            raise UsageError(f"top-k must be a whole number, 0 (off) or more, not {self.top_k}.")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"top-p must be above 0 and at most 1 (off), not {self.top_p}.")
        if not 0 <= self.min_p <= 1:
            raise UsageError(f"min-p must be from 0 (off) to 1, not {self.min_p}.")
        if not isinstance(self.seed, int):
            raise UsageError(f"The seed must be a whole number, not {self.seed}.")
        if not (isinstance(self.candidate, int) and self.candidate >= 0):
            raise UsageError(f"The candidate must be a whole number, 0 or more, not {self.candidate}.")


GREEDY = Sampling()


def choose(
    scores: torch.Tensor,
    positions: Sequence[int],
    sampling: Sampling = GREEDY,
    allowed: Sequence[Collection[int] | None] | None = None,
) -> list[int]:
    """The chosen id of every row.

    scores: float32 [rows, vocabulary]; positions[r]: place of the chosen token in prompt + output;
    allowed[r]: the ids to choose from, None for all. Greedy ties go to the lowest id. Raises ValueError when
    a row allows no id.
    """
    if scores.dim() != 2 or scores.shape[0] != len(positions):
        raise ValueError(f"scores must be [{len(positions)}, vocabulary], not {list(scores.shape)}")
    rows: Floats = scores.detach().to("cpu", torch.float32).numpy()
    limits = [None] * len(positions) if allowed is None else allowed
    return [
        _choose(row, position, sampling, limit)
        for row, position, limit in zip(rows, positions, limits, strict=True)
    ]


def log_probability(scores: torch.Tensor, chosen: int) -> float:
    """Log of `chosen`'s share under the plain softmax: no temperature, no filter. scores: [vocabulary]."""
    # log_softmax works a row on one thread, in a fixed order, at half the cost of logsumexp.
    return float(torch.log_softmax(scores.detach().float(), 0)[chosen])


def gumbel(ids: Integers, position: int, sampling: Sampling) -> npt.NDArray[np.float64]:
    """Gumbel noise of `ids` [n] at `position`: a pure function of (seed, candidate, position, id)."""
    key = 0
    for part in (sampling.seed, sampling.candidate, position):
        key = _mix64(key ^ (int(part) & 0xFFFFFFFFFFFFFFFF))
    low, high = np.uint32(key & 0xFFFFFFFF), np.uint32(key >> 32)
    bits = _mix32(_mix32(ids.astype(np.uint32) ^ low) + high)
    noise: npt.NDArray[np.float64] = -np.log(-np.log((bits + 0.5) / 2.0**32))
    return noise


def _choose(row: Floats, position: int, sampling: Sampling, allowed: Collection[int] | None) -> int:
    ids: Integers | None = None
    if allowed is not None:
        ids = np.array(sorted(i for i in allowed if 0 <= i < len(row)), dtype=np.int64)
        if not len(ids):
            raise ValueError("the constraint allows no id of the vocabulary")
        row = row[ids]
    top = int(row.argmax())  # the first of equals
    best = float(row[top])
    if not math.isfinite(best):
        raise ModelCorruptError(
            "The model gave scores that are not numbers; run `tokenleap models verify` to check its file."
        )
    if sampling.temperature == 0:
        return top if ids is None else int(ids[top])
    temperature = max(sampling.temperature, COLDEST)
    kept = _kept(row, best, temperature, sampling)
    names = kept if ids is None else ids[kept]
    heights = (row[kept].astype(np.float64) - best) / temperature + gumbel(names, position, sampling)
    return int(names[heights.argmax()])


def _kept(row: Floats, best: float, temperature: float, sampling: Sampling) -> Integers:
    """Indices of `row` that pass the filters, ascending, without those that no noise can lift to the top."""
    reach = NOISE_RANGE if sampling.min_p == 0 else min(NOISE_RANGE, -math.log(sampling.min_p))
    floor = best - reach * temperature
    if sampling.top_k in range(1, len(row)) or sampling.top_p < 1:
        leading = np.sort(_leading(row, best, temperature, sampling))
        return leading[row[leading] >= floor]
    return np.flatnonzero(row >= floor)


def _leading(row: Floats, best: float, temperature: float, sampling: Sampling) -> Integers:
    """top-k, then top-p: the head of one order (higher score, then lower id), seen no deeper than needed."""
    limited = sampling.top_k in range(1, len(row))
    total = 0.0
    if not limited:
        total = float(np.exp((row - np.float32(best)) / np.float32(temperature)).sum(dtype=np.float64))
    depth = 2.0
    while True:
        depth = min(2 * depth, NOISE_RANGE)
        found = np.flatnonzero(row >= best - depth * temperature)
        mass = np.exp((row[found].astype(np.float64) - best) / temperature)
        enough = len(found) >= sampling.top_k if limited else mass.sum() > sampling.top_p * total
        if not enough and depth < NOISE_RANGE:
            continue
        order = np.argsort(-row[found], kind="stable")
        if limited:
            order = order[: sampling.top_k]
        mass = np.cumsum(mass[order])
        if limited:
            total = float(mass[-1])  # top-p shares out what top-k has left
        leading: Integers = found[order[: int((mass < sampling.top_p * total).sum()) + 1]]
        return leading


def _mix64(value: int) -> int:
    """The finaliser of splitmix64."""
    value = (value + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return value ^ (value >> 31)


def _mix32(bits: Integers) -> Integers:
    """A 32-bit hash of good avalanche (Wellons' lowbias32), wrapping as unsigned integers do."""
    bits = bits ^ (bits >> np.uint32(16))
    bits = bits * np.uint32(0x21F0AAAD)
    bits = bits ^ (bits >> np.uint32(15))
    bits = bits * np.uint32(0x735A2D97)
    mixed: Integers = bits ^ (bits >> np.uint32(15))
    return mixed
