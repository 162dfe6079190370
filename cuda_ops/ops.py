"""The operators to call: typed, checked at the door (ValueError names the tensor and what it needs), then dispatched.

`prepare` declares and registers everything once and says what runs; calling an operator before it is a RuntimeError.
Shapes: rows R, inputs K (a multiple of BLOCK), outputs N. What each operator means stands in reference.py.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cuda_ops import checks, cpu_ops, schema
from cuda_ops.checks import inner_length, turn_length
from cuda_ops.reference import GROUP, LANES

F32, I8, I32, I64 = torch.float32, torch.int8, torch.int32, torch.int64
Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Paths:
    """What runs on each device, with the reason where it is not the fastest."""

    cpu: str


@functools.cache
def prepare(folder: Path) -> Paths:
    """Declares and registers all operators; `folder` keeps what is compiled."""
    library = schema.declare()
    return Paths(cpu_ops.register(library, folder))


def _call(name: str, *arguments: Any) -> Any:
    if not hasattr(torch.ops.tokenleap, name):
        raise RuntimeError(f"{name}: call cuda_ops.ops.prepare(folder) once before any operator")
    return getattr(torch.ops.tokenleap, name)(*arguments)


def _rows(name: str, x: Tensor) -> tuple[int, int]:
    checks.need(name, x, F32, (-1, -1), x.device)
    return x.shape[0], x.shape[1]


def quantize_rows(x: Tensor) -> Pair:
    """x float32 [R, K] -> q int8 [R, K], s float32 [R, K / GROUP]."""
    inner_length(_rows("x", x)[1])
    result: Pair = _call("quantize_rows", x)
    return result


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """x float32 [R, K], weight float32 [K] -> float32 [R, K]."""
    k = inner_length(_rows("x", x)[1])
    checks.need("weight", weight, F32, (k,), x.device)
    result: Tensor = _call("rms_norm", x, weight, epsilon)
    return result


def rms_norm_quantize(x: Tensor, weight: Tensor, epsilon: float) -> Pair:
    """quantize_rows(rms_norm(x, weight, epsilon))."""
    k = inner_length(_rows("x", x)[1])
    checks.need("weight", weight, F32, (k,), x.device)
    result: Pair = _call("rms_norm_quantize", x, weight, epsilon)
    return result


def silu_mul_quantize(gate_up: Tensor, block: int = 0) -> Pair:
    """gate_up float32 [R, 2 K] -> quantize_rows(hadamard(silu_mul(gate_up), block)); block 0 for no turn."""
    turn_length(block, inner_length(_rows("gate_up", gate_up)[1] // 2))
    result: Pair = _call("silu_mul_quantize", gate_up, block)
    return result


def int8_linear(
    q: Tensor, s: Tensor, weight: Tensor, scb: Tensor, bias: Tensor | None = None, residual: Tensor | None = None
) -> Tensor:
    """q int8 [R, K], s float32 [R, K / GROUP], weight int8 [N, K], scb, bias float32 [N], residual, result [R, N]."""
    device = checks.need("q", q, I8, (-1, -1), q.device).device
    rows, k = q.shape[0], inner_length(q.shape[1])
    n = checks.need("weight", weight, I8, (-1, k), device).shape[0]
    checks.need("s", s, F32, (rows, k // GROUP), device)
    checks.need("scb", scb, F32, (n,), device)
    if bias is not None:
        checks.need("bias", bias, F32, (n,), device)
    if residual is not None:
        checks.need("residual", residual, F32, (rows, n), device)
    result: Tensor = _call("int8_linear", q, s, weight, scb, bias, residual)
    return result


def rescore(y: Tensor, x: Tensor, weight: Tensor, fine: Tensor, scb: Tensor, margin: float) -> Tensor:
    """y float32 [R, N] in place, x float32 [R, K], weight and fine int8 [N, K], scb float32 [N]."""
    rows, k = _rows("x", x)
    n = checks.need("weight", weight, I8, (-1, inner_length(k)), x.device).shape[0]
    checks.need("fine", fine, I8, (n, k), x.device)
    checks.need("scb", scb, F32, (n,), x.device)
    checks.need("y", y, F32, (rows, n), x.device)
    _call("rescore", y, x, weight, fine, scb, margin)
    return y


def _cache(keys: Tensor, values: Tensor, device: torch.device, leading: int) -> tuple[int, int, int]:
    """kv_heads, capacity and dim of a cache laid out as in reference.append, behind `leading` more axes."""
    checks.need("values", values, F32, (-1,) * (leading + 3), device)
    kv_heads, capacity, dim = values.shape[-3:]
    if capacity % LANES or dim % LANES or dim > 256:
        raise ValueError(
            f"values: needs a capacity and a head length (at most 256) that are multiples of {LANES}, "
            f"got {capacity} and {dim}"
        )
    shape = (*values.shape[:leading], kv_heads, capacity // LANES, dim, LANES)
    checks.need("keys", keys, F32, shape, device)
    return kv_heads, capacity, dim


def _heads(qkv: Tensor, positions: Tensor, keys: Tensor, values: Tensor, base: int, heads: int) -> int:
    rows, width = _rows("qkv", qkv)
    kv_heads, capacity, dim = _cache(keys, values, qkv.device, 0)
    checks.need("positions", positions, I32, (rows,), qkv.device)
    if heads < 1 or heads % kv_heads:
        raise ValueError(f"heads: needs a multiple of the cache's {kv_heads}, got {heads}")
    if width not in ((heads + 2 * kv_heads) * dim, (heads + 4 * kv_heads) * dim):
        raise ValueError(
            f"qkv: needs rows of {heads} + 2 x {kv_heads} (or 4 x {kv_heads}) heads of {dim}, got {width} columns"
        )
    if not 0 <= base <= capacity - rows:
        raise ValueError(f"base: {rows} rows after {base} do not fit into a cache of {capacity}")
    return dim


def rope_append(
    qkv: Tensor, cosine: Tensor, sine: Tensor, positions: Tensor, keys: Tensor, values: Tensor, base: int, heads: int
) -> None:
    """qkv float32 [R, width] in place; appends at slots base.. of one layer's keys and values."""
    dim = _heads(qkv, positions, keys, values, base, heads)
    checks.need("cosine", cosine, F32, (-1, dim // 2), qkv.device)
    checks.need("sine", sine, F32, tuple(cosine.shape), qkv.device)
    _call("rope_append", qkv, cosine, sine, positions, keys, values, base, heads)


def decode_attention(
    qkv: Tensor, keys: Tensor, values: Tensor, positions: Tensor, paths: Tensor | None, base: int, heads: int
) -> Tensor:
    """qkv float32 [R, width], positions int32 [R], paths int32 [R, R] or None for a chain -> float32 [R, heads * dim].

    positions[r] < base + R.
    """
    _heads(qkv, positions, keys, values, base, heads)
    if paths is not None:
        checks.need("paths", paths, I32, (len(qkv), len(qkv)), qkv.device)
    result: Tensor = _call("decode_attention", qkv, keys, values, positions, paths, base, heads)
    return result


def _draft(scores: Tensor, ids: Tensor, parents: Tensor) -> int:
    rows, vocabulary = _rows("scores", scores)
    if not rows or not vocabulary:
        raise ValueError(f"scores: needs a row and a token, got {tuple(scores.shape)}")
    checks.need("ids", ids, I32, (rows,), scores.device)
    checks.need("parents", parents, I32, (rows,), scores.device)
    return rows


def verify_greedy(scores: Tensor, ids: Tensor, parents: Tensor) -> Pair:
    """scores float32 [R, V], ids and parents int32 [R] -> rows walked and tokens committed, int32 [R], then -1."""
    _draft(scores, ids, parents)
    result: Pair = _call("verify_greedy", scores, ids, parents)
    return result


def verify_sampled(
    scores: Tensor, ids: Tensor, parents: Tensor, noise: Tensor, temperature: float, reach: float
) -> Pair:
    """As verify_greedy, by shared noise: noise int64 [R], a temperature above 0, reach in units of it."""
    checks.need("noise", noise, I64, (_draft(scores, ids, parents),), scores.device)
    if not temperature > 0 or not reach >= 0:
        raise ValueError(f"temperature: needs more than 0, and a reach of at least 0; got {temperature} and {reach}")
    result: Pair = _call("verify_sampled", scores, ids, parents, noise, temperature, reach)
    return result


def cache_compact(keys: Tensor, values: Tensor, rows: Tensor, base: int) -> None:
    """Moves slots base + rows[i] to base + i in all layers; rows int32 [R], ascending, then -1."""
    _, capacity, _ = _cache(keys, values, values.device, 1)
    checks.need("rows", rows, I32, (-1,), values.device)
    if not 0 <= base <= capacity - len(rows):
        raise ValueError(f"base: {len(rows)} rows after {base} do not fit into a cache of {capacity}")
    _call("cache_compact", keys, values, rows, base)
