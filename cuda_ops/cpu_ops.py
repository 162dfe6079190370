"""Registers the operators for tensors of the CPU: the C kernels where they can be had, else the reference.

The decoder does not come this way: it calls the C kernels directly, one call a layer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.library import Library

from cuda_ops import cpu, reference
from cuda_ops.compile import CompileError


def register(library: Library, folder: Path) -> str:
    """Registers every operator; gives what runs, e.g. "cpu/avx512-vnni", or "cpu/torch: " and the reason."""
    operators: dict[str, Callable[..., Any]] = {
        "quantize_rows": reference.quantize_rows,
        "rms_norm": reference.rms_norm,
        "rms_norm_quantize": lambda x, w, e: reference.quantize_rows(reference.rms_norm(x, w, e)),
        "silu_mul_quantize": _silu_mul_quantize,
        "int8_linear": _int8_linear,
        "rescore": _rescore,
        "rope_append": reference.rope_append,
        "decode_attention": reference.attend,
        "verify_greedy": reference.verify_greedy,
        "verify_sampled": reference.verify_sampled,
        "cache_compact": reference.cache_compact,
    }
    try:
        kernels = cpu.load(folder)
    except CompileError as error:
        path = f"cpu/torch: {error}"
    else:
        operators |= _compiled(kernels)
        path = f"cpu/{kernels.version}"
    for name, function in operators.items():
        library.impl(name, function, "CPU")  # type: ignore[no-untyped-call]
    return path


def _silu_mul_quantize(gate_up: Tensor, block: int) -> tuple[Tensor, Tensor]:
    product = reference.silu_mul(gate_up)
    return reference.quantize_rows(reference.hadamard(product, block) if block else product)


def _int8_linear(
    q: Tensor, s: Tensor, weight: Tensor, scb: Tensor, bias: Tensor | None, residual: Tensor | None
) -> Tensor:
    y = reference.int8_linear(q, s, weight, scb, bias)
    return y if residual is None else y + residual


def _rescore(y: Tensor, x: Tensor, weight: Tensor, fine: Tensor, scb: Tensor, margin: float) -> None:
    reference.rescore(y, x, weight, fine, scb, margin)


def _compiled(kernels: cpu.Kernels) -> dict[str, Callable[..., Any]]:
    def int8_linear(
        q: Tensor, s: Tensor, weight: Tensor, scb: Tensor, bias: Tensor | None, residual: Tensor | None
    ) -> Tensor:
        return kernels.int8_linear(q, s, kernels.offsets(q, s), weight, scb, bias, residual)

    def rescore(y: Tensor, x: Tensor, weight: Tensor, fine: Tensor, scb: Tensor, margin: float) -> None:
        kernels.rescore(y, x, weight, fine, scb, margin)

    return {
        "quantize_rows": lambda x: kernels.quantize_rows(x)[:2],
        "rms_norm": kernels.rms_norm,
        "rms_norm_quantize": lambda x, weight, epsilon: kernels.rms_norm_quantize(x, weight, epsilon)[:2],
        "silu_mul_quantize": lambda gate_up, block: kernels.silu_mul_quantize(gate_up, block)[:2],
        "int8_linear": int8_linear,
        "rescore": rescore,
        "rope_append": kernels.rope_append,
        "decode_attention": kernels.decode_attention,
    }
