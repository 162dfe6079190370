"""The CUDA sources themselves, run on a CPU by an emulation with a race check, against their reference.

Mutated sources (a dropped barrier, a wrong index) must fail, or the checks prove nothing.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cuda_ops import checks, reference
from cuda_ops.compile import KERNELS

HERE = Path(__file__).parent / "emulated"


class Program:
    """One source, maybe mutated, compiled for the emulation."""

    def __init__(self, name: str, old: str = "", new: str = "") -> None:
        text = (KERNELS / f"{name}.cu").read_text()
        assert old in text
        text = text.replace(old, new, 1) if old else text
        for kernel in re.findall(r"^KERNEL\(.*?\) (\w+)\(", text, re.MULTILINE):
            text += f"""
extern "C" const char *run_{kernel}(void **a, unsigned x, unsigned y, int threads, int backwards) {{
  return emu::launch({kernel}, a, {{x, y, 1}}, threads, backwards);
}}
"""
        with tempfile.TemporaryDirectory(prefix="tokenleap-emulated-") as folder:
            source, library = Path(folder) / "program.cpp", Path(folder) / "program.so"
            source.write_text(text)
            flags = ["-O1", "-std=c++17", "-fPIC", "-shared", "-ffp-contract=off", "-DTOKENLEAP_EMULATED"]
            places = ["-I", str(KERNELS), "-I", str(HERE)]
            subprocess.run(["g++", *flags, *places, source, "-o", library], check=True, capture_output=True)
            self._library = ctypes.CDLL(str(library))

    def run(self, kernel: str, grid: tuple[int, int], threads: int, *arguments: Any, backwards: bool = False) -> None:
        held: list[Any] = []
        for value in arguments:
            if isinstance(value, Tensor) or value is None:
                held.append(ctypes.c_void_p(None if value is None else value.data_ptr()))
            else:
                held.append(ctypes.c_float(value) if isinstance(value, float) else ctypes.c_int(value))
        table = (ctypes.c_void_p * len(held))(*(ctypes.addressof(each) for each in held))
        function = getattr(self._library, f"run_{kernel}")
        function.restype = ctypes.c_char_p
        fault = function(table, *grid, threads, int(backwards))
        assert fault is None, fault.decode()


def check_linear(program: Program, rows: int, n: int, k: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    q, s = reference.quantize_rows(torch.randn(rows, k, generator=generator))
    weight = torch.randint(-127, 128, (n, k), generator=generator, dtype=torch.int8)
    scb, bias = torch.rand(n, generator=generator), torch.randn(n, generator=generator)

    def product(first: int, count: int, backwards: bool = False) -> Tensor:
        y = torch.full((count, n), float("nan"))
        part = q[first : first + count].contiguous(), s[first : first + count].contiguous()
        grid = -(-n // 16), -(-count // 8)
        program.run("int8_linear", grid, 256, *part, weight, scb, bias, None, y, count, n, k, backwards=backwards)
        return y

    y = product(0, rows)
    expected = reference.int8_linear(q, s, weight, scb, bias)
    scale = (q.float().abs() * reference.spread(s)) @ weight.float().abs().T * (scb / 127)
    assert ((y - expected).abs() <= 3e-6 * scale + 1e-5).all()
    assert torch.equal(product(rows - 1, 1)[0], y[-1])  # a row has the same bits alone
    assert torch.equal(product(0, rows, backwards=True), y)


def quantised(x: Tensor) -> tuple[Tensor, Tensor]:
    """reference.quantize_rows with the rounding of the C kernels: torch's 127.0 / x multiplies by a reciprocal."""
    largest = reference.grouped(x).abs().amax(-1)
    inverse = torch.where(largest > 0, torch.full_like(largest, 127.0) / largest, 0.0)
    return torch.round(x * reference.spread(inverse)).to(torch.int8), largest / 127.0


def check_rows(program: Program, rows: int, k: int, seed: int) -> None:
    x = torch.randn(rows, k, generator=torch.Generator().manual_seed(seed)) * 3
    weight = torch.rand(k, generator=torch.Generator().manual_seed(seed + 1)) + 0.5
    q, s = torch.zeros(rows, k, dtype=torch.int8), torch.full((rows, k // 16), float("nan"))
    program.run("quantize_rows", (rows, 1), 256, x, q, s, k)
    wanted_q, wanted_s = quantised(x)
    assert torch.equal(q, wanted_q) and torch.equal(s, wanted_s)
    y = torch.full_like(x, float("nan"))
    program.run("rms_norm", (rows, 1), 256, x, weight, 1e-6, y, k)
    torch.testing.assert_close(y, reference.rms_norm(x, weight, 1e-6), rtol=2e-6, atol=1e-6)
    program.run("rms_norm_quantize", (rows, 1), 256, x, weight, 1e-6, q, s, k, backwards=True)
    wanted_q, wanted_s = quantised(y)
    assert torch.equal(q, wanted_q) and torch.equal(s, wanted_s)


def check_gated(program: Program, rows: int, k: int, seed: int) -> None:
    gate_up = torch.randn(rows, 2 * k, generator=torch.Generator().manual_seed(seed)) * 4
    for block in [0, *(length for length in checks.TURNS if k % length == 0)]:
        q, s = torch.zeros(rows, k, dtype=torch.int8), torch.full((rows, k // 16), float("nan"))
        scale = block**-0.5 if block else 1.0
        program.run("silu_mul_quantize", (-(-k // 256), rows), 256, gate_up, q, s, block, scale, k)
        expected = reference.silu_mul(gate_up)
        expected = reference.hadamard(expected, block) if block else expected
        step = reference.spread(s)
        assert ((q.float() * step - expected).abs() <= 0.51 * step + 1e-5).all()


def check_verify(program: Program, rows: int, vocabulary: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, 9, (rows, vocabulary), generator=generator).float()  # many equals
    choices, kept, tokens = (torch.full((rows,), -7, dtype=torch.int32) for _ in range(3))
    program.run("best_tokens", (rows, 1), 256, scores, choices, vocabulary)
    wanted = scores.argmax(-1).to(torch.int32)
    assert torch.equal(choices, wanted)
    parents = [-1, *(int(torch.randint(0, r, (), generator=generator)) for r in range(1, rows))]
    right = torch.rand(rows, generator=generator) < 0.8
    ids = torch.tensor([int(wanted[p]) if right[r] else -2 for r, p in enumerate(parents)], dtype=torch.int32)
    above = torch.tensor(parents, dtype=torch.int32)
    program.run("walk", (1, 1), 32, choices, ids, above, kept, tokens, rows)
    expected = reference.walk(choices, ids, above)
    assert torch.equal(kept, expected[0]) and torch.equal(tokens, expected[1])
    keys, values = torch.randn(2, 3, 4, 32, 16, generator=generator), torch.randn(2, 3, 64, 32, generator=generator)
    theirs = keys.clone(), values.clone()
    program.run("cache_compact", (6, 1), 32, keys, values, kept, rows, 30, 32, 64, 16)
    reference.cache_compact(*theirs, kept, 30)
    assert torch.equal(keys, theirs[0]) and torch.equal(values, theirs[1])


def check_rope(program: Program, rows: int, kv_heads: int, dim: int, seed: int, parts: int) -> None:
    generator, heads, base = torch.Generator().manual_seed(seed), 3 * kv_heads, 30
    width = (heads + parts * kv_heads) * dim
    qkv, angles = torch.randn(rows, width, generator=generator), torch.randn(64, dim // 2, generator=generator)
    keys, values = torch.zeros(kv_heads, 4, dim, 16), torch.zeros(kv_heads, 64, dim)
    positions = torch.randint(0, 64, (rows,), generator=generator, dtype=torch.int32)
    mine = qkv.clone(), angles.cos(), angles.sin(), positions, keys.clone(), values.clone()
    theirs = qkv.clone(), *mine[1:4], keys, values
    program.run("rope_append", (rows, 1), 128, *mine, base, heads, kv_heads, dim, width, 64)
    reference.rope_append(*theirs, base, heads)
    for got, want in zip(mine, theirs, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


@settings(max_examples=10, derandomize=True)
@given(
    rows=st.integers(1, 17), kv_heads=st.integers(1, 3), dim=st.sampled_from([16, 64, 128]), seed=st.integers(0, 99),
    parts=st.sampled_from([2, 4]),
)  # fmt: skip
def test_rotating_and_appending_equal_their_reference(
    rope: Program, rows: int, kv_heads: int, dim: int, seed: int, parts: int
) -> None:
    check_rope(rope, rows, kv_heads, dim, seed, parts)


@pytest.fixture(scope="module")
def rope() -> Program:
    return Program("rope")


@pytest.fixture(scope="module")
def verify() -> Program:
    return Program("verify")


@settings(max_examples=15, derandomize=True)
@given(rows=st.integers(1, 17), vocabulary=st.integers(1, 1200), seed=st.integers(0, 99))
def test_verification_and_compaction_equal_their_reference(
    verify: Program, rows: int, vocabulary: int, seed: int
) -> None:
    check_verify(verify, rows, vocabulary, seed)


@pytest.fixture(scope="module")
def gated() -> Program:
    return Program("gated")


@pytest.fixture(scope="module")
def linear() -> Program:
    return Program("linear")


@pytest.fixture(scope="module")
def rows_program() -> Program:
    return Program("rows")


SHAPES = {"rows": st.integers(1, 17), "k": st.integers(1, 10).map(lambda n: n * 128), "seed": st.integers(0, 99)}


@settings(max_examples=12, derandomize=True)
@given(n=st.integers(1, 35), **SHAPES)
def test_the_product_equals_its_reference_and_rows_stand_alone(
    linear: Program, rows: int, n: int, k: int, seed: int
) -> None:
    check_linear(linear, rows, n, k, seed)


@settings(max_examples=12, derandomize=True)
@given(**SHAPES)
def test_norm_and_quantising_equal_their_reference(rows_program: Program, rows: int, k: int, seed: int) -> None:
    check_rows(rows_program, rows, k, seed)


@settings(max_examples=8, derandomize=True)
@given(**SHAPES)
def test_the_gated_product_equals_its_reference_at_every_turn(gated: Program, rows: int, k: int, seed: int) -> None:
    check_gated(gated, rows, k, seed)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("linear", "__syncthreads();", ""),
        ("linear", "place + i / 2 * 8] = sum", "place + i / 2 * 7] = sum"),
        ("linear", "* (BLOCK / 2)", "* (BLOCK / 4)"),
        ("linear", "m0 + 2 * t + i % 2;", "m0 + 2 * t;"),
        ("linear", "w < WARPS", "w < WARPS - 1"),
        ("rows", "    __syncthreads();\n    if", "    if"),
        ("rows", "  __syncthreads();\n  return", "  return"),
        ("rows", "half > 0", "half > 1"),
        ("gated", "    __syncthreads();\n    turned", "    turned"),
        ("gated", "    turned[i] = value;\n    __syncthreads();", "    turned[i] = value;"),
        ("gated", "i ^ step", "i ^ 1"),
        ("rope", "slot % LANES;", "slot % (LANES - 1);"),
        ("rope", "3 * own", "2 * own"),
        ("verify", "    __syncthreads();\n", ""),
        ("verify", "its_token < my_token", "its_token > my_token"),
        ("verify", "base + i, from", "base + i + 1, from"),
        ("gated", "other - value", "value - other"),
    ],
)
def test_a_mutated_source_fails(name: str, old: str, new: str) -> None:
    program = Program(name, old, new)
    with pytest.raises(AssertionError):
        if name == "linear":
            check_linear(program, 9, 20, 1152, 1)
        elif name == "rows":
            check_rows(program, 2, 1152, 1)
        elif name == "rope":
            check_rope(program, 5, 2, 64, 1, 4)
        elif name == "verify":
            check_verify(program, 9, 1000, 1)
        else:
            check_gated(program, 2, 1152 - 128, 1)
