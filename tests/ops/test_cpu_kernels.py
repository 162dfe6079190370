"""The C kernels against their reference, and their promise: a row's bits depend on that row alone.

Every version that this processor can run is held against the others: all give the same bits.
"""

import functools
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cuda_ops import compile as compiler
from cuda_ops import cpu, reference

NEEDS = {"native": set(), "portable": set(), "avx2": {"avx2", "fma"}, "avx2-vnni": {"avx2", "fma", "avx_vnni"}}
VERSIONS = [name for name, needs in NEEDS.items() if needs <= set(compiler.processor().split())]


@functools.cache
def folder() -> Path:
    import tempfile

    return Path(tempfile.mkdtemp(prefix="tokenleap-kernels-"))


@pytest.fixture(params=VERSIONS)
def kernels(request: pytest.FixtureRequest) -> cpu.Kernels:
    return cpu.load(folder(), request.param)


def random(*shape: int, seed: int = 0, spread: float = 1.0) -> torch.Tensor:
    noise = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return noise * torch.exp(spread * torch.randn(*shape, generator=torch.Generator().manual_seed(seed + 1)))


def weights(n: int, k: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randint(-127, 128, (n, k), generator=generator, dtype=torch.int8)
    return weight, torch.rand(n, generator=generator) + 0.1


def test_versions_that_run_here_are_named() -> None:
    assert {"native", "portable"} <= set(VERSIONS)
    assert cpu.load(folder(), "portable").version == "portable"


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7, 8, 16, 33])
@pytest.mark.parametrize(("n", "k"), [(1, 128), (13, 256), (96, 896), (40, 4864)])
def test_linear_equals_reference(kernels: cpu.Kernels, rows: int, n: int, k: int) -> None:
    x, (weight, scb) = random(rows, k), weights(n, k)
    bias, residual = random(n, seed=3), random(rows, n, seed=4)
    q, s, offset = kernels.quantize_rows(x)
    expected_q, expected_s = reference.quantize_rows(x)
    assert torch.equal(s, expected_s)
    # a product that falls between two integers may round either way: 127 / largest is itself rounded
    assert (q.int() - expected_q.int()).abs().max() <= 1
    expected = reference.int8_linear(q, s, weight, scb, bias) + residual
    scale = (q.float().abs() * reference.spread(s)) @ weight.float().abs().T * (scb / 127)
    got = kernels.int8_linear(q, s, offset, weight, scb, bias, residual)
    assert ((got - expected).abs() <= 3e-6 * scale + 1e-5).all()


def test_zero_rows_and_extremes(kernels: cpu.Kernels) -> None:
    x = torch.zeros(3, 128)
    x[1, 5] = 3e38
    x[2, 70] = -1e-30
    q, s, offset = kernels.quantize_rows(x)
    assert q[0].abs().max() == 0 and s[0].max() == 0 and offset[0].abs().max() == 0
    assert q[1, 5] == 127 and q[1].abs().sum() == 127
    assert q[2, 70] == -127
    weight, scb = weights(8, 128)
    assert torch.equal(kernels.int8_linear(q, s, offset, weight, scb)[0], torch.zeros(8))


def test_row_operators_equal_reference(kernels: cpu.Kernels) -> None:
    x, weight = random(5, 896), random(896, seed=9)
    expected = reference.rms_norm(x, weight, 1e-6)
    assert torch.allclose(kernels.rms_norm(x, weight, 1e-6), expected, rtol=2e-6, atol=1e-6)
    for got, want in zip(
        kernels.rms_norm_quantize(x, weight, 1e-6),
        kernels.quantize_rows(kernels.rms_norm(x, weight, 1e-6)),
        strict=True,
    ):
        assert torch.equal(got, want)
    gate_up = random(5, 2 * 896, seed=11) * 4
    q, s, _ = kernels.silu_mul_quantize(gate_up)
    step = reference.spread(s)
    assert ((q.float() * step - reference.silu_mul(gate_up)).abs() <= 0.51 * step + 1e-6).all()


@pytest.mark.parametrize(("block", "k"), [(16, 128), (32, 128), (64, 640), (128, 896), (256, 4864)])
def test_the_turned_product_equals_reference_in_every_version(block: int, k: int) -> None:
    gate_up = random(5, 2 * k, seed=12) * 4
    results = [cpu.load(folder(), version).silu_mul_quantize(gate_up, block) for version in VERSIONS]
    for result in results:
        assert all(torch.equal(got, want) for got, want in zip(result, results[0], strict=True))
    q, s, _ = results[0]
    step = reference.spread(s)
    expected = reference.hadamard(reference.silu_mul(gate_up), block)
    assert ((q.float() * step - expected).abs() <= 0.51 * step + 1e-5).all()
    alone = cpu.load(folder()).silu_mul_quantize(gate_up[3:4], block)
    assert torch.equal(alone[0][0], q[3]) and torch.equal(alone[1][0], s[3])


@pytest.mark.parametrize("n", [5, 16, 75])
def test_rescoring_equals_reference_touches_the_best_alone_and_rows_stand_alone(n: int) -> None:
    x, (weight, scb), (fine, _) = random(4, 128, seed=1), weights(n, 128), weights(n, 128, seed=5)
    scores = random(4, n, seed=2) * 10
    expected = reference.rescore(scores.clone(), x, weight, fine, scb, 2.0)
    chosen = scores >= scores.max(-1, keepdim=True).values - 2.0
    assert torch.equal(expected[~chosen], scores[~chosen]) and (expected[chosen] != scores[chosen]).all()
    results = []
    for version in VERSIONS:
        kernels = cpu.load(folder(), version)
        results.append(kernels.rescore(scores.clone(), x, weight, fine, scb, 2.0))
        alone = [kernels.rescore(scores[r : r + 1].clone(), x[r : r + 1], weight, fine, scb, 2.0) for r in range(4)]
        assert torch.equal(torch.cat(alone), results[-1])
        assert torch.equal(results[-1], results[0])
    scale = (x.abs() @ weight.float().abs().T) * (scb / 127)
    assert ((results[0] - expected).abs() <= 3e-6 * scale + 1e-5).all()


@settings(max_examples=30)
@given(
    rows=st.integers(1, 40),
    n=st.integers(1, 70),
    k=st.integers(1, 6).map(lambda blocks: blocks * reference.BLOCK),
    threads=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_rows_stand_alone_in_every_version(rows: int, n: int, k: int, threads: int, seed: int) -> None:
    x, (weight, scb) = random(rows, k, seed=seed, spread=2.0), weights(n, k, seed)
    results = []
    for version in VERSIONS:
        kernels = cpu.load(folder(), version)
        kernels.threads = threads
        together = kernels.int8_linear(*kernels.quantize_rows(x), weight, scb)
        kernels.threads = 1
        alone = [kernels.int8_linear(*kernels.quantize_rows(x[r : r + 1]), weight, scb) for r in range(rows)]
        assert torch.equal(together, torch.cat(alone))
        results.append(together)
    assert all(torch.equal(result, results[0]) for result in results)


def test_wrong_tensors_are_named() -> None:
    kernels = cpu.load(folder())
    weight, scb = weights(8, 128)
    q, s, offset = kernels.quantize_rows(random(2, 128))
    with pytest.raises(ValueError, match="multiple of 128"):
        kernels.quantize_rows(random(2, 100))
    with pytest.raises(ValueError, match="weight"):
        kernels.int8_linear(q, s, offset, weight.float(), scb)
    with pytest.raises(ValueError, match="block"):
        kernels.silu_mul_quantize(random(2, 2 * 128), 48)
    with pytest.raises(ValueError, match="scb"):
        kernels.int8_linear(q, s, offset, weight, scb[:4])
    with pytest.raises(ValueError, match="weight"):
        kernels.int8_linear(q, s, offset, weight.T.contiguous().T, scb)
