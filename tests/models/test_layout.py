"""The weights file's form: valid safetensors, aligned, fused tensors side by side, and frozen."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.models import layout
from assistant.types import ModelConfig

REAL = ModelConfig(
    architecture="qwen2",
    layers=24,
    hidden_size=896,
    intermediate_size=4864,
    heads=14,
    kv_heads=2,
    head_dim=64,
    vocabulary_size=151936,
    context_length=32768,
    rope_theta=1e6,
    norm_epsilon=1e-6,
    attention_bias=True,
)

configs = st.builds(
    lambda layers, hidden, inner, kv, groups, half, vocabulary, bias: replace(
        REAL,
        layers=layers,
        hidden_size=hidden,
        intermediate_size=inner,
        heads=kv * groups,
        kv_heads=kv,
        head_dim=2 * half,
        vocabulary_size=vocabulary,
        attention_bias=bias,
    ),
    *(st.integers(1, high) for high in (3, 200, 200, 3, 3, 20, 300)),
    st.booleans(),
)


@given(configs, st.sampled_from(layout.PRECISIONS))
def test_tensors_follow_each_other_and_groups_are_aligned(config: ModelConfig, precision: str) -> None:
    slots = layout.plan(config, precision)
    assert slots[0].offset == 0
    for before, after in pairwise(slots):
        assert before.offset + before.size == after.offset
    where = {slot.name: slot for slot in slots}
    assert len(where) == len(slots)
    for group in layout.groups(config, precision):
        assert where[group[0][0]].offset % layout.ALIGNMENT == 0
        for (before_name, *_), (after_name, *_) in pairwise(group):
            assert where[before_name].offset + where[before_name].size == where[after_name].offset
    header = layout.header(slots)
    assert len(header) % layout.ALIGNMENT == 0
    assert int.from_bytes(header[:8], "little") == len(header) - 8
    assert json.loads(header[8:])["__metadata__"] == {"format": layout.FORMAT}


@pytest.mark.parametrize("precision", layout.PRECISIONS)
def test_every_tensor_of_a_real_shape_is_aligned(precision: str) -> None:
    assert all(slot.offset % layout.ALIGNMENT == 0 for slot in layout.plan(REAL, precision))
    assert not any(slot.name.startswith("pad.") for slot in layout.plan(REAL, precision))


@pytest.mark.parametrize(
    ("precision", "size", "digest"),
    [
        ("int8", 910_035_584, "3119fb74ed0736a0"),
        ("fp32", 2_520_702_208, "ea921187e74b039f"),
    ],
)
def test_the_format_is_frozen(precision: str, size: int, digest: str) -> None:
    """Trained heads and users' files rest on this: another header needs another format name."""
    slots = layout.plan(REAL, precision)
    assert layout.FORMAT == "tokenleap-1"
    assert layout.total_size(slots) == size
    assert hashlib.sha256(layout.header(slots)).hexdigest()[:16] == digest


@pytest.mark.parametrize(
    "change",
    [
        {"layers": 0},
        {"heads": 3},
        {"head_dim": 7},
        {"layers": 10**9},
        {"hidden_size": -1},
        {"context_length": 2**31},
        {"rope_theta": float("nan")},
        {"norm_epsilon": 0.0},
    ],
)
def test_shapes_that_cannot_be_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"."):
        layout.plan(replace(REAL, **change), "int8")  # type: ignore[arg-type]
