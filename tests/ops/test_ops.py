"""The operators as torch sees them: sound schemas and fakes, results by their meaning, clear errors at the door."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from assistant.engine import sampling
from cuda_ops import cpu, ops, reference, schema

HEADS, KV_HEADS, DIM, CAPACITY = 4, 2, 16, 48


@functools.cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="tokenleap-ops-"))


@pytest.fixture(autouse=True)
def prepared() -> None:
    assert ops.prepare(folder()).cpu.startswith("cpu/")


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def codes(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(-127, 128, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int8)


def ints(values: list[Any]) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


def arguments() -> dict[str, tuple[Any, ...]]:
    """Fresh, fitting arguments of every operator: three rows, a draft tree of two branches after 20 slots."""
    x, gate_up, weight = noise(3, 256), noise(3, 512, seed=1), codes(10, 256)
    q, s = reference.quantize_rows(x)
    scb, qkv = noise(10, seed=2).abs(), noise(3, (HEADS + 4 * KV_HEADS) * DIM, seed=3)
    keys, values = noise(KV_HEADS, CAPACITY // 16, DIM, 16, seed=4), noise(KV_HEADS, CAPACITY, DIM, seed=5)
    positions, paths = ints([20, 21, 21]), ints([[0, 0, 0], [0, 1, 0], [0, 2, 0]])
    angles = noise(CAPACITY, DIM // 2, seed=6)
    scores, ids, parents = noise(3, 50, seed=7), ints([0, 3, 4]), ints([-1, 0, 0])
    return {
        "quantize_rows": (x,),
        "rms_norm": (x, noise(256), 1e-6),
        "rms_norm_quantize": (x, noise(256), 1e-6),
        "silu_mul_quantize": (gate_up, 256),
        "int8_linear": (q, s, weight, scb, noise(10), noise(3, 10)),
        "rescore": (noise(3, 10), x, weight, codes(10, 256, seed=1), scb, 1.0),
        "rope_append": (qkv, angles.cos(), angles.sin(), positions, keys, values, 20, HEADS),
        "decode_attention": (qkv, keys, values, positions, paths, 20, HEADS),
        "verify_greedy": (scores, ids, parents),
        "verify_sampled": (scores, ids, parents, torch.tensor([5, -6, 7]), 0.8, 27.0),
        "cache_compact": (noise(2, *keys.shape), noise(2, *values.shape), ints([0, 2, -1]), 20),
    }


@pytest.mark.parametrize("name", schema.SCHEMAS)
def test_schema_fake_and_mutation_are_what_torch_expects(name: str) -> None:
    torch.library.opcheck(getattr(torch.ops.tokenleap, name).default, arguments()[name])


@pytest.mark.parametrize("name", ["rope_append", "decode_attention", "rms_norm", "int8_linear"])
def test_operators_equal_their_reference(name: str) -> None:
    mine, theirs = arguments()[name], arguments()[name]
    got = getattr(ops, name)(*mine)
    if name == "rope_append":
        reference.rope_append(*theirs)
        for a, b in zip(mine[:6], theirs[:6], strict=True):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)
        return
    meaning: dict[str, Callable[..., Tensor]] = {
        "decode_attention": reference.attend,
        "rms_norm": reference.rms_norm,
        "int8_linear": lambda q, s, w, scb, bias, residual: reference.int8_linear(q, s, w, scb, bias) + residual,
    }
    torch.testing.assert_close(got, meaning[name](*theirs), rtol=1e-5, atol=1e-3)


def test_offsets_of_rows_quantised_elsewhere_have_the_kernels_bits() -> None:
    kernels = cpu.load(folder())
    q, s, offset = kernels.quantize_rows(noise(5, 896) * 3)
    assert torch.equal(kernels.offsets(q, s), offset)


@pytest.mark.parametrize("seed", range(20))
def test_sampled_verification_chooses_as_the_engine_does(seed: int) -> None:
    wanted = sampling.Sampling(temperature=0.8, seed=seed)
    scores, positions = noise(4, 300, seed=seed) * 3, [7, 8, 9, 10]
    choices = sampling.choose(scores, positions, wanted)
    keys = []
    for position in positions:
        key = 0
        for part in (wanted.seed, wanted.candidate, position):
            key = sampling._mix64(key ^ part)
        keys.append(key - (1 << 64) if key >> 63 else key)
    # a draft that agrees with the first two choices and then does not
    ids = ints([0, choices[0], choices[1], (choices[2] + 1) % 300])
    rows, tokens = ops.verify_sampled(
        scores, ids, ints([-1, 0, 1, 2]), torch.tensor(keys), 0.8, sampling.NOISE_RANGE
    )
    assert rows.tolist() == [0, 1, 2, -1] and tokens.tolist() == [*choices[:3], -1]


def test_greedy_verification_follows_the_branch_that_is_right_and_ties_go_low() -> None:
    scores = torch.zeros(5, 9)
    scores[0, 4] = scores[2, 6] = scores[4, 8] = 1.0
    ids, parents = ints([0, 3, 4, 5, 6]), ints([-1, 0, 0, 1, 2])
    rows, tokens = ops.verify_greedy(scores, ids, parents)
    assert rows.tolist() == [0, 2, 4, -1, -1] and tokens.tolist() == [4, 6, 8, -1, -1]
    scores[0] = 0.0  # all equal: token 0, which nobody drafted
    assert ops.verify_greedy(scores, ids, parents)[1].tolist() == [0, -1, -1, -1, -1]


def test_compaction_moves_the_accepted_rows_and_nothing_before_them() -> None:
    keys, values = noise(2, KV_HEADS, 3, DIM, 16), noise(2, KV_HEADS, CAPACITY, DIM)
    slots = keys.transpose(-1, -2).reshape(2, KV_HEADS, CAPACITY, DIM).clone()
    old = values.clone()
    ops.cache_compact(keys, values, ints([0, 2, 5, -1]), 14)
    wanted = [*range(14), 14, 16, 19]
    assert torch.equal(values[:, :, :17], old[:, :, wanted])
    assert torch.equal(keys.transpose(-1, -2).reshape(slots.shape)[:, :, :17], slots[:, :, wanted])


def changed(name: str, place: int, value: Any) -> tuple[Any, ...]:
    found = list(arguments()[name])
    found[place] = value
    return tuple(found)


@pytest.mark.parametrize(
    ("name", "place", "value", "words"),
    [
        ("quantize_rows", 0, noise(3, 100), "multiple of 128"),
        ("quantize_rows", 0, noise(256), "x: needs torch.float32 of shape"),
        ("rms_norm", 1, noise(128), "weight: needs"),
        ("rms_norm", 0, noise(3, 256).double(), "got torch.float64"),
        ("silu_mul_quantize", 1, 48, "block: needs one of"),
        ("int8_linear", 2, codes(256, 10).T, "weight: needs contiguous rows, got strides"),
        ("int8_linear", 2, codes(10, 256).to("meta"), "weight: needs memory of cpu, got meta"),
        ("int8_linear", 1, noise(3, 8), "s: needs"),
        ("rescore", 0, noise(3, 11), "y: needs"),
        ("rope_append", 6, CAPACITY, "do not fit"),
        ("rope_append", 7, 3, "heads: needs a multiple"),
        ("decode_attention", 4, ints([[0]]), "paths: needs"),
        ("verify_greedy", 1, ints([1]), "ids: needs"),
        ("verify_sampled", 4, 0.0, "temperature: needs"),
        ("cache_compact", 3, CAPACITY - 1, "do not fit"),
    ],
)
def test_what_does_not_fit_is_named(name: str, place: int, value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        getattr(ops, name)(*changed(name, place, value))
