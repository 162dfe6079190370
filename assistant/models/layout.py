"""The order and kind of the tensors in a weights file, and its safetensors header.

Tensors that the engine fuses lie side by side in one group without a gap (q, k, v; gate, up), so a fused
matrix is one view. Groups start at multiples of 64 bytes; a `pad.N` tensor fills the gap, so the file stays
valid safetensors. The frozen format "tokenleap-1" is what this module says.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from assistant.types import ModelConfig

FORMAT = "tokenleap-1"
PREPARATION = 3  # what conversion does to the weights before it stores them; models of another are made anew
PRECISIONS = ("int8", "fp32")
ALIGNMENT = 64
LARGEST_LAYERS = 1000
LARGEST_CONTEXT = 1 << 24
FINE = 224  # steps of a code of `X.fine` in one step of a code of `X.weight`

SIZES = {"I8": 1, "U8": 1, "F16": 2, "F32": 4}


@dataclass(frozen=True)
class Slot:
    """One tensor of the file.

    `offset` counts from the start of the data section; `source` is the tensor it is made of.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    offset: int
    source: str

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * SIZES[self.kind]


Group = list[tuple[str, str, tuple[int, ...], str]]


def _linear(
    names: Sequence[str], shapes: Sequence[tuple[int, int]], int8: bool, fine: Sequence[str] = ()
) -> Iterator[Group]:
    kind = "I8" if int8 else "F32"
    weights: Group = [(f"{n}.weight", kind, s, f"{n}.weight") for n, s in zip(names, shapes, strict=True)]
    if int8:
        weights += [(f"{n}.fine", "I8", s, f"{n}.weight") for n, s in zip(names, shapes, strict=True) if n in fine]
    yield weights
    if int8:
        yield [(f"{n}.SCB", "F32", (s[0],), f"{n}.weight") for n, s in zip(names, shapes, strict=True)]


def groups(config: ModelConfig, precision: str) -> Iterator[Group]:
    """All tensors in the order of the file, those that are fused together in one group."""
    int8 = precision == "int8"
    hidden, inner = config.hidden_size, config.intermediate_size
    query, key = config.heads * config.head_dim, config.kv_heads * config.head_dim
    vocabulary = (config.vocabulary_size, hidden)
    embedding = "model.embed_tokens.weight"
    yield [(embedding, "F16" if int8 else "F32", vocabulary, embedding)]

    def vector(name: str, length: int) -> Group:
        return [(name, "F32", (length,), name)]

    for layer in range(config.layers):
        at = f"model.layers.{layer}"
        qkv = [f"{at}.self_attn.{n}_proj" for n in "qkv"]
        yield vector(f"{at}.input_layernorm.weight", hidden)
        # keys and values are read by every later token: a second plane of codes holds what the first rounds off
        yield from _linear(qkv, [(query, hidden), (key, hidden), (key, hidden)], int8, fine=qkv[1:])
        if config.attention_bias:
            yield [
                (f"{n}.bias", "F32", (length,), f"{n}.bias") for n, length in zip(qkv, (query, key, key), strict=True)
            ]
        yield from _linear([f"{at}.self_attn.o_proj"], [(hidden, query)], int8)
        yield vector(f"{at}.post_attention_layernorm.weight", hidden)
        yield from _linear([f"{at}.mlp.gate_proj", f"{at}.mlp.up_proj"], [(inner, hidden)] * 2, int8)
        yield from _linear([f"{at}.mlp.down_proj"], [(hidden, inner)], int8)
    yield vector("model.norm.weight", hidden)
    yield from _linear(["lm_head"], [vocabulary], int8)
    if int8:
        yield [("lm_head.fine", "I8", vocabulary, "lm_head.weight")]


def check(config: ModelConfig) -> None:
    """Raises ValueError for a shape that no decoder has."""
    counts = (
        config.hidden_size,
        config.intermediate_size,
        config.heads,
        config.kv_heads,
        config.vocabulary_size,
    )
    if min(counts) < 1 or config.heads % config.kv_heads or config.head_dim < 2 or config.head_dim % 2:
        raise ValueError("a size that cannot be")
    if not 1 <= config.layers <= LARGEST_LAYERS:
        raise ValueError(f"{config.layers} layers")
    if not 1 <= config.context_length <= LARGEST_CONTEXT:
        raise ValueError(f"a context of {config.context_length} tokens")
    if not (0 < config.rope_theta < math.inf and 0 < config.norm_epsilon < math.inf):
        raise ValueError(f"rope theta {config.rope_theta}, norm epsilon {config.norm_epsilon}")


def plan(config: ModelConfig, precision: str) -> list[Slot]:
    """The slots of the file, gaps included, ordered by offset. ValueError for an impossible shape."""
    check(config)
    slots: list[Slot] = []
    place = pads = 0
    for group in groups(config, precision):
        gap = -place % ALIGNMENT
        if gap:
            slots.append(Slot(f"pad.{pads}", "U8", (gap,), place, ""))
            place, pads = place + gap, pads + 1
        for name, kind, shape, source in group:
            slots.append(Slot(name, kind, shape, place, source))
            place += slots[-1].size
    return slots


def total_size(slots: Sequence[Slot]) -> int:
    """Bytes of the whole file."""
    return len(header(slots)) + slots[-1].offset + slots[-1].size


def header(slots: Iterable[Slot]) -> bytes:
    """The first bytes of the file: length, JSON, spaces up to a multiple of 64."""
    entries: dict[str, object] = {"__metadata__": {"format": FORMAT}}
    for slot in slots:
        entries[slot.name] = {
            "dtype": slot.kind,
            "shape": list(slot.shape),
            "data_offsets": [slot.offset, slot.offset + slot.size],
        }
    text = json.dumps(entries, separators=(",", ":")).encode("ascii")
    text += b" " * (-(len(text) + 8) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text
