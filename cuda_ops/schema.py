"""Every operator, declared once for torch: its signature and the shapes that it gives (the fake).

`declare` does it on first call, so that importing has no side effect. What an operator means stands in reference.py;
cpu_ops.py and cuda.py only register; ops.py is what to call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.library import Library

from cuda_ops.reference import GROUP

NAMESPACE = "tokenleap"

SCHEMAS = {
    "quantize_rows": "(Tensor x) -> (Tensor, Tensor)",
    "rms_norm": "(Tensor x, Tensor weight, float epsilon) -> Tensor",
    "rms_norm_quantize": "(Tensor x, Tensor weight, float epsilon) -> (Tensor, Tensor)",
    "silu_mul_quantize": "(Tensor gate_up, int block) -> (Tensor, Tensor)",
    "int8_linear": "(Tensor q, Tensor s, Tensor weight, Tensor scb, Tensor? bias, Tensor? residual) -> Tensor",
    "rescore": "(Tensor(a!) y, Tensor x, Tensor weight, Tensor fine, Tensor scb, float margin) -> ()",
    "rope_append": "(Tensor(a!) qkv, Tensor cosine, Tensor sine, Tensor positions, Tensor(b!) keys, Tensor(c!) values, "
    "int base, int heads) -> ()",
    "decode_attention": "(Tensor qkv, Tensor keys, Tensor values, Tensor positions, Tensor? paths, int base, "
    "int heads) -> Tensor",
    "verify_greedy": "(Tensor scores, Tensor ids, Tensor parents) -> (Tensor, Tensor)",
    "verify_sampled": "(Tensor scores, Tensor ids, Tensor parents, Tensor noise, float temperature, float reach) -> "
    "(Tensor, Tensor)",
    "cache_compact": "(Tensor(a!) keys, Tensor(b!) values, Tensor rows, int base) -> ()",
}


def _quantized(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    return x.new_empty((x.shape[0], k), dtype=torch.int8), x.new_empty((x.shape[0], k // GROUP))


def _rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return torch.empty_like(x)


def _rms_norm_quantize(x: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    return _quantized(x, x.shape[1])


def _silu_mul_quantize(gate_up: Tensor, block: int) -> tuple[Tensor, Tensor]:
    return _quantized(gate_up, gate_up.shape[1] // 2)


def _int8_linear(
    q: Tensor, s: Tensor, weight: Tensor, scb: Tensor, bias: Tensor | None, residual: Tensor | None
) -> Tensor:
    return s.new_empty((q.shape[0], weight.shape[0]))


def _decode_attention(
    qkv: Tensor, keys: Tensor, values: Tensor, positions: Tensor, paths: Tensor | None, base: int, heads: int
) -> Tensor:
    return qkv.new_empty((qkv.shape[0], heads * values.shape[-1]))


def _verified(scores: Tensor, ids: Tensor, parents: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(ids), torch.empty_like(ids)


def _in_place(*_: Any) -> None:
    return None


_FAKES: dict[str, Callable[..., Any]] = {
    "quantize_rows": lambda x: _quantized(x, x.shape[1]),
    "rms_norm": _rms_norm,
    "rms_norm_quantize": _rms_norm_quantize,
    "silu_mul_quantize": _silu_mul_quantize,
    "int8_linear": _int8_linear,
    "decode_attention": _decode_attention,
    "verify_greedy": _verified,
    "verify_sampled": _verified,
}


@functools.cache
def declare() -> Library:
    """The library with every operator defined and its fake registered; made once, kept for the process."""
    library = Library(NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]
    for name, schema in SCHEMAS.items():
        library.define(name + schema)  # type: ignore[no-untyped-call]
        torch.library.register_fake(f"{NAMESPACE}::{name}", _FAKES.get(name, _in_place), lib=library)
    return library
