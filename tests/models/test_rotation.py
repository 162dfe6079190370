"""Turning a model's hidden states changes its weights and not what it computes; the engine's part has the same bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from assistant.models import layout
from assistant.models.rotation import Prepared, Rotation, hadamard, signs, turn
from assistant.types import ModelConfig
from cuda_ops import reference

Array = np.ndarray[Any, np.dtype[Any]]

# Lengths that are no powers of two: 192 = 3 x 64, 320 = 5 x 64.
SMALL = ModelConfig(
    architecture="qwen2",
    layers=2,
    hidden_size=192,
    intermediate_size=320,
    heads=6,
    kv_heads=2,
    head_dim=32,
    vocabulary_size=50,
    context_length=64,
    rope_theta=1e4,
    norm_epsilon=1e-5,
    attention_bias=True,
)


class Source:
    """A model of random weights, with a few large columns as real ones have them."""

    end_ids: list[int] = []  # noqa: RUF012
    chat_template = None

    def __init__(self, config: ModelConfig, tied: bool = False) -> None:
        random = np.random.default_rng(0)
        self.config = config
        self.weights: dict[str, Array] = {}
        for slot in layout.plan(config, "fp32"):
            if slot.source and not (tied and slot.source == "lm_head.weight"):
                weight = random.normal(0, slot.shape[-1] ** -0.5, slot.shape)
                weight[..., :3] *= 8
                self.weights[slot.source] = weight.astype(np.float32)

    @property
    def names(self) -> list[str]:
        return list(self.weights)

    def tokenizer(self) -> str:
        return ""

    def shape(self, name: str) -> tuple[int, ...] | None:
        return self.weights[name].shape

    def rows(self, name: str, start: int, stop: int) -> Array:
        return self.weights[name][start:stop]


def scores(config: ModelConfig, weight: Callable[[str], Array], ids: list[int], block: int) -> Array:
    """The decoder in float64, written out; position-free attention, which a turn of the values must survive alike."""

    def norm(x: Array, name: str) -> Array:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + config.norm_epsilon) * weight(name)

    def linear(x: Array, name: str) -> Array:
        return x @ weight(f"{name}.weight").T.astype(np.float64)

    x = weight("model.embed_tokens.weight")[ids].astype(np.float64)
    heads, dim = config.heads, config.head_dim
    for layer in range(config.layers):
        at = f"model.layers.{layer}"
        h = norm(x, f"{at}.input_layernorm.weight")
        q, k, v = (
            (linear(h, f"{at}.self_attn.{n}_proj") + weight(f"{at}.self_attn.{n}_proj.bias")).reshape(len(ids), -1, dim)
            for n in "qkv"
        )
        k, v = (np.repeat(part, heads // config.kv_heads, axis=1) for part in (k, v))
        chances = np.exp(np.einsum("rhd,shd->hrs", q, k) / dim**0.5) * np.tri(len(ids))
        mixed = np.einsum("hrs,shd->rhd", chances / chances.sum(-1, keepdims=True), v)
        x = x + linear(mixed.reshape(len(ids), -1), f"{at}.self_attn.o_proj")
        h = norm(x, f"{at}.post_attention_layernorm.weight")
        gate, up = linear(h, f"{at}.mlp.gate_proj"), linear(h, f"{at}.mlp.up_proj")
        inner = gate / (1 + np.exp(-gate)) * up
        inner = hadamard(inner.astype(np.float32), block) if block else inner
        x = x + linear(inner, f"{at}.mlp.down_proj")
    return linear(norm(x, "model.norm.weight"), "lm_head")


@pytest.mark.parametrize("precision", layout.PRECISIONS)
@pytest.mark.parametrize("tied", [False, True])
def test_a_turned_model_computes_what_it_did(precision: str, tied: bool) -> None:
    source = Source(SMALL, tied)
    rotation = Rotation.of(SMALL, precision)
    assert rotation.block == (64 if precision == "int8" else 0)
    turned = Prepared(source, rotation)
    lengths = {slot.source: slot.shape[0] for slot in layout.plan(SMALL, "fp32")}
    plain = dict(source.weights)
    plain.setdefault("lm_head.weight", plain["model.embed_tokens.weight"])
    ids = [3, 1, 4, 1, 5, 9, 2, 6]
    before = scores(SMALL, plain.__getitem__, ids, 0)
    after = scores(SMALL, lambda name: turned.rows(name, 0, lengths[name]), ids, rotation.block)
    assert np.abs(before - after).max() < 1e-4 * np.abs(before).max()


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("embed_tokens.weight", 7),
        ("layers.1.mlp.up_proj.weight", 7),
        ("layers.0.self_attn.v_proj.weight", SMALL.head_dim),
    ],
)
def test_blocks_of_rows_are_the_rows_of_the_whole(name: str, start: int) -> None:
    turned = Prepared(Source(SMALL), Rotation.of(SMALL, "int8"))
    whole = turned.rows(f"model.{name}", 0, 2 * SMALL.head_dim)
    np.testing.assert_array_equal(turned.rows(f"model.{name}", start, 2 * SMALL.head_dim), whole[start:])


@pytest.mark.parametrize("length", [1, 7, 16, 192, 896])
def test_a_turn_keeps_lengths_and_angles(length: int) -> None:
    matrix = turn(np.eye(length, dtype=np.float32), 0)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(length), atol=1e-5)


def test_a_turn_spreads_one_large_number_over_all() -> None:
    assert np.abs(turn(np.eye(896, dtype=np.float32)[17], 0)).max() < 2 * 896**-0.5


def test_signs_are_fixed() -> None:
    """Stored weights of different machines must agree, so these never change."""
    assert signs(0, 24).tolist() == [
        -1, 1, 1, -1, 1, 1, 1, -1, 1, -1, 1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1, -1, -1, 1,
    ]  # fmt: skip
    assert abs(signs(0, 4096).sum()) < 200 and (signs(1, 64) != signs(0, 64)).any()


@given(st.sampled_from([16, 32, 64, 128, 256]), st.integers(1, 3), st.integers(0, 100))
def test_conversion_and_engine_turn_alike_and_twice_is_back(block: int, blocks: int, seed: int) -> None:
    x = np.random.default_rng(seed).normal(0, 1, (2, block * blocks)).astype(np.float32)
    once = hadamard(x, block)
    np.testing.assert_array_equal(once, reference.hadamard(torch.from_numpy(x), block).numpy())
    np.testing.assert_allclose(hadamard(once, block), x, atol=1e-5)


def test_a_length_without_a_power_of_two_is_left_to_the_engine_as_it_is() -> None:
    assert Rotation.of(replace(SMALL, intermediate_size=24), "int8").block == 0
