"""int8 is bitsandbytes' own, code for code: both tensors, on edge cases and on rows of the real model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from assistant.errors import UnsupportedModelError
from assistant.models.convert import quantise_rows
from assistant.models.rotation import hadamard
from assistant.models.store import open_model

Array = np.ndarray[Any, np.dtype[Any]]


def theirs(rows: Array) -> tuple[Array, Array]:
    """What a Linear8bitLt of these weights would hold."""
    from bitsandbytes.nn import Int8Params

    weight = Int8Params(torch.from_numpy(rows.copy()), requires_grad=False)._quantize("cpu")
    return weight.CB.numpy(), weight.SCB.numpy()


def assert_equal(rows: Array) -> None:
    codes, scale = quantise_rows(rows)
    their_codes, their_scale = theirs(rows)
    assert codes.dtype == np.int8 and scale.dtype == np.float32
    np.testing.assert_array_equal(scale, their_scale)
    np.testing.assert_array_equal(codes, their_codes)


@pytest.mark.parametrize("seed", range(5))
def test_random_rows_of_all_magnitudes(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = random.normal(0, 1, (200, 128)) * 10.0 ** random.uniform(-7, 4, (200, 1))
    assert_equal(rows.astype(np.float32))


def test_zero_rows_single_values_and_subnormals() -> None:
    rows = np.zeros((7, 64), dtype=np.float32)
    rows[1, 5] = -3.0
    rows[2] = -0.0
    rows[3] = 6e-8  # the smallest that fp16 holds
    rows[4] = 1e-9  # nothing in fp16
    rows[5] = 65504
    rows[6, 0], rows[6, 1] = 1e-7, -65504
    assert_equal(rows)


def test_values_that_fall_between_two_codes_round_as_torch_rounds() -> None:
    halves = (np.arange(-253, 254, 2) / 254).astype(np.float16).astype(np.float32)
    rows = np.stack([np.append(halves, scale) * scale for scale in (1.0, 0.5, 0.15283203, 0.0392456)])
    assert_equal(rows.astype(np.float32))


def test_weights_beyond_fp16_are_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="--precision fp32"):
        quantise_rows(np.full((1, 4), 1e6, dtype=np.float32))


def test_the_real_model_holds_what_bitsandbytes_makes(real_model: Path, real_model_in: Callable[[str], Path]) -> None:
    ours, exact = open_model(real_model), open_model(real_model_in("fp32"))
    random = np.random.default_rng(7)
    for name in (
        "layers.0.self_attn.q_proj",
        "layers.3.self_attn.v_proj",
        "layers.23.mlp.down_proj",
        "lm_head",
    ):
        name = name if name == "lm_head" else f"model.{name}"
        weight = exact.array(f"{name}.weight")
        chosen = np.sort(random.choice(weight.shape[0], 120, replace=False))
        rows = hadamard(weight[chosen], ours.rotation.block) if "down" in name else weight[chosen]
        codes, scale = theirs(rows)
        np.testing.assert_array_equal(ours.array(f"{name}.weight")[chosen], codes)
        np.testing.assert_array_equal(ours.array(f"{name}.SCB")[chosen], scale)
    embedding = "model.embed_tokens.weight"
    np.testing.assert_array_equal(ours.array(embedding)[:500], exact.array(embedding)[:500].astype(np.float16))
