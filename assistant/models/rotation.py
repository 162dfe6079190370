"""Prepares a model for int8 by turning its hidden states, which leaves what it computes the same.

Rounding hurts where a few large numbers set the scale of many small ones; in turned coordinates all are alike (QuaRot,
arXiv:2404.00456). The residual stream is turned by R = signs x DCT x Hadamard, values by a Hadamard of each head; the
weights of the RMS norms go into the matrices that follow. All of it is done to the weights here. One turn is left to
the engine: the input of down_proj by a Hadamard in blocks of `Rotation.block` (0: none; only int8 needs it).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from assistant.types import ModelConfig

if TYPE_CHECKING:
    from assistant.models.convert import SourceModel

Array = np.ndarray[Any, np.dtype[Any]]

SEED = 0
BLOCKS = (16, 32, 64, 128, 256)  # lengths that the engine turns
_COLUMNS = 256  # of a matrix turned at once: temporaries that stay in a cache

_EMBEDDING, _LAST_NORM, _HEAD = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"
_NORM_OF = {
    "self_attn.q_proj.weight": "input_layernorm.weight",
    "self_attn.k_proj.weight": "input_layernorm.weight",
    "self_attn.v_proj.weight": "input_layernorm.weight",
    "mlp.gate_proj.weight": "post_attention_layernorm.weight",
    "mlp.up_proj.weight": "post_attention_layernorm.weight",
}


@dataclass(frozen=True)
class Rotation:
    """What was done to the weights: the seed of the signs, and the block that the engine turns (0: none)."""

    seed: int
    block: int

    @classmethod
    def of(cls, config: ModelConfig, precision: str) -> Rotation:
        """The rotation that a conversion to `precision` makes."""
        block = math.gcd(config.intermediate_size, BLOCKS[-1])
        return cls(SEED, block if precision == "int8" and block in BLOCKS else 0)

    @classmethod
    def read(cls, description: dict[str, Any]) -> Rotation:
        """What model.json says; a model that says nothing was not turned. TypeError for what cannot be one."""
        return cls(**(description.get("rotation") or {"seed": 0, "block": 0}))

    def check(self, config: ModelConfig) -> None:
        """ValueError when the engine cannot turn blocks of that length."""
        if self.block and (self.block not in BLOCKS or config.intermediate_size % self.block):
            raise ValueError(f"blocks of {self.block}")


def signs(seed: int, count: int) -> Array:
    """float32 [count] of -1 and 1: the top bits of SplitMix64's first `count` numbers after `seed`."""
    step = 0x9E3779B97F4A7C15
    counters = [(seed + (i + 1) * step) % 2**64 for i in range(count)]
    state = np.array(counters, dtype=np.uint64)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    state ^= state >> np.uint64(31)
    found: Array = np.where(state >> np.uint64(63), np.float32(-1), np.float32(1))
    return found


def hadamard(x: Array, block: int) -> Array:
    """float32 [..., n] -> the same, each `block` (a power of two that divides n) turned by the Hadamard matrix.

    The matrix is symmetric and its own inverse. Butterflies in the order of the engine, then one multiplication.
    """
    y: Array = np.ascontiguousarray(x, dtype=np.float32)
    step = 1
    while step < block:
        pairs = y.reshape(-1, 2, step)
        y = np.empty_like(pairs)
        np.add(pairs[:, 0], pairs[:, 1], out=y[:, 0])
        np.subtract(pairs[:, 0], pairs[:, 1], out=y[:, 1])
        step *= 2
    y = y.reshape(x.shape)
    if block > 1:
        y = y * np.float32(block**-0.5)
    return y


def _dct(count: int) -> Array:
    """The orthonormal cosine matrix [count, count]: it mixes the odd factor of a length, as no Hadamard can."""
    places: Array = (np.arange(count)[:, None] + 0.5) * np.arange(count)[None]
    matrix: Array = np.cos(np.pi * places / count) * math.sqrt(2 / count)
    matrix[:, 0] /= math.sqrt(2)
    return matrix.astype(np.float32)


def turn(x: Array, seed: int) -> Array:
    """float32 [..., n] -> x R, R orthogonal [n, n] for n = odd x 2^k: signs, then DCT (odd) x Hadamard (2^k).

    Sums run in a fixed order: no matrix product of a library, whose bits depend on the machine.
    """
    n = x.shape[-1]
    power = n & -n
    y = hadamard(x * signs(seed, n), power).reshape(-1, n // power, power)
    out: Array = y
    if power < n:
        out, basis, term = np.empty_like(y), _dct(n // power), np.empty_like(y[:, 0])
        for j in range(out.shape[1]):
            np.multiply(y[:, 0], basis[0, j], out=out[:, j])
            for i in range(1, y.shape[1]):
                np.multiply(y[:, i], basis[i, j], out=term)
                out[:, j] += term
    turned: Array = out.reshape(x.shape)
    return turned


class Prepared:
    """A source model as it is after the rotation; itself a source model.

    `whole` names the matrices whose rows are mixed: they cost the same to read in part as in whole.
    """

    def __init__(self, source: SourceModel, rotation: Rotation) -> None:
        self._source, self.rotation = source, rotation
        self.config = source.config
        head = source.config.head_dim
        self._head = head & -head
        self._norms: dict[str, Array] = {}

    @property
    def names(self) -> Collection[str]:
        """As the source's."""
        return self._source.names

    @property
    def end_ids(self) -> list[int]:
        """As the source's."""
        return self._source.end_ids

    @property
    def chat_template(self) -> str | None:
        """As the source's."""
        return self._source.chat_template

    def tokenizer(self) -> str:
        """As the source's."""
        return self._source.tokenizer()

    def shape(self, name: str) -> tuple[int, ...] | None:
        """As the source's."""
        return self._source.shape(name)

    def whole(self, name: str) -> bool:
        """Whether the rows of `name` should be read in one go."""
        return name.endswith(("o_proj.weight", "down_proj.weight"))

    def rows(self, name: str, start: int, stop: int) -> Array:
        """Rows [start, stop) of a matrix (whole heads of a value matrix), or elements of a vector, as float32."""
        if name.endswith("norm.weight"):
            return np.ones(stop - start, dtype=np.float32)
        tied = name == _HEAD and _HEAD not in self._source.names
        rows = self._source.rows(_EMBEDDING if tied else name, start, stop)
        if name.endswith("v_proj.bias"):
            return hadamard(rows, self._head)
        if name.endswith(".bias"):
            return rows
        if name.endswith("o_proj.weight"):
            return self._turn_outputs(hadamard(rows, self._head))
        if name.endswith("down_proj.weight"):
            return hadamard(self._turn_outputs(rows), max(1, self.rotation.block))
        norm = self._norm_before(name)
        if norm is not None:
            rows = rows * norm
        if name.endswith("v_proj.weight"):
            rows = hadamard(rows.T, self._head).T
        return turn(rows, self.rotation.seed)

    def _turn_outputs(self, matrix: Array) -> Array:
        out = np.empty_like(matrix)
        for at in range(0, matrix.shape[1], _COLUMNS):
            out[:, at : at + _COLUMNS] = turn(matrix[:, at : at + _COLUMNS].T, self.rotation.seed).T
        return out

    def _norm_before(self, name: str) -> Array | None:
        pieces = name.split(".", 3)
        norm = _LAST_NORM if name == _HEAD else None
        if len(pieces) == 4 and pieces[3] in _NORM_OF:
            norm = ".".join([*pieces[:3], _NORM_OF[pieces[3]]])
        if norm is None:
            return None
        if norm not in self._norms:
            self._norms[norm] = self._source.rows(norm, 0, self.config.hidden_size)
        return self._norms[norm]
