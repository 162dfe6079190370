"""The C kernels as functions on torch tensors. Nothing is compiled or loaded before `load`.

Every function checks type, shape and contiguity at the door (ValueError) and then passes addresses; the kernels
themselves check nothing.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from cuda_ops import compile as compiler
from cuda_ops.checks import inner_length, need, turn_length
from cuda_ops.reference import GROUP, LANES

CPU = torch.device("cpu")


class Layer(ctypes.Structure):
    """Addresses and sizes of one decoder layer, as kernels.h has them."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("qkv_w", "out_w", "gate_up_w", "down_w")),
        *((name, ctypes.c_void_p) for name in ("qkv_scb", "out_scb", "gate_up_scb", "down_scb", "qkv_bias")),
        *((name, ctypes.c_void_p) for name in ("norm_in", "norm_post")),
        ("epsilon", ctypes.c_float),
        *((name, ctypes.c_int32) for name in ("heads", "kv_heads", "dim", "width", "hidden", "inner", "block")),
    )


class Scratch(ctypes.Structure):
    """Addresses of a pass's scratch memory, as kernels.h has them."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("q", "s", "offset", "wide", "attended"))


class Head(ctypes.Structure):
    """Addresses and sizes of a draft head, as kernels.h has them."""

    _fields_ = (
        ("layer", Layer),
        *((name, ctypes.c_void_p) for name in ("norm", "out_scb", "out_w")),
        ("vocabulary", ctypes.c_int64),
    )


def _check(name: str, tensor: Tensor, dtype: torch.dtype, shape: Sequence[int]) -> int:
    return need(name, tensor, dtype, shape, CPU).data_ptr()


class Kernels:
    """One loaded version of the kernels."""

    def __init__(self, path: Path) -> None:
        """Loads the library at `path`; OSError when it is not a sound one."""
        self._library = ctypes.CDLL(str(path))
        pointer, long, number = ctypes.c_void_p, ctypes.c_long, ctypes.c_float
        signatures = {
            "tl_rms_norm": (pointer, pointer, number, pointer, long, long),
            "tl_quantize_rows": (pointer, pointer, pointer, pointer, long, long),
            "tl_offsets": (pointer, pointer, pointer, long, long),
            "tl_rms_norm_quantize": (pointer, pointer, number, pointer, pointer, pointer, long, long),
            "tl_silu_mul_quantize": (pointer, pointer, pointer, pointer, long, long, long),
            "tl_int8_linear": (*[pointer] * 8, long, long, long),
            "tl_rescore": (*[pointer] * 4, number, pointer, long, long, long),
            "tl_rope_append": (*[pointer] * 6, *[long] * 7),
            "tl_decode_attention": (*[pointer] * 6, *[long] * 7),
            "tl_decoder_layer": (*[pointer] * 9, long, long, long),
            "tl_draft_step": (*[pointer] * 3, long, *[pointer] * 6, ctypes.c_int32, pointer, pointer, long, pointer),
            "tl_set_threads": (ctypes.c_int,),
        }
        for name, arguments in signatures.items():
            function = getattr(self._library, name)
            function.argtypes, function.restype = arguments, None
        self._library.tl_get_threads.restype = ctypes.c_int
        self._library.tl_version.restype = ctypes.c_char_p
        self.version: str = self._library.tl_version().decode()

    @property
    def threads(self) -> int:
        """How many threads share one operator's work."""
        return int(self._library.tl_get_threads())

    @threads.setter
    def threads(self, count: int) -> None:
        self._library.tl_set_threads(count)

    def rms_norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        """As reference.rms_norm."""
        rows, k = x.shape[0], inner_length(x.shape[-1])
        y = torch.empty_like(x)
        arguments = _check("x", x, torch.float32, (rows, k)), _check("weight", weight, torch.float32, (k,))
        self._library.tl_rms_norm(*arguments, epsilon, y.data_ptr(), rows, k)
        return y

    def _quantized(self, rows: int, k: int) -> tuple[Tensor, Tensor, Tensor]:
        return (
            torch.empty(rows, k, dtype=torch.int8),
            torch.empty(rows, k // GROUP),
            torch.empty(rows, LANES),
        )

    def quantize_rows(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As reference.quantize_rows, and the float32 [R, LANES] offsets that int8_linear starts its sums from."""
        rows, k = x.shape[0], inner_length(x.shape[-1])
        q, s, offset = self._quantized(rows, k)
        address = _check("x", x, torch.float32, (rows, k))
        self._library.tl_quantize_rows(address, q.data_ptr(), s.data_ptr(), offset.data_ptr(), rows, k)
        return q, s, offset

    def offsets(self, q: Tensor, s: Tensor) -> Tensor:
        """The offsets float32 [R, LANES] of rows that were quantised elsewhere, to the bit what quantize_rows gives."""
        rows, k = q.shape[0], inner_length(q.shape[-1])
        offset = torch.empty(rows, LANES)
        arguments = _check("q", q, torch.int8, (rows, k)), _check("s", s, torch.float32, (rows, k // GROUP))
        self._library.tl_offsets(*arguments, offset.data_ptr(), rows, k)
        return offset

    def rms_norm_quantize(self, x: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
        """quantize_rows(rms_norm(x, weight, epsilon))."""
        rows, k = x.shape[0], inner_length(x.shape[-1])
        q, s, offset = self._quantized(rows, k)
        arguments = _check("x", x, torch.float32, (rows, k)), _check("weight", weight, torch.float32, (k,))
        self._library.tl_rms_norm_quantize(*arguments, epsilon, q.data_ptr(), s.data_ptr(), offset.data_ptr(), rows, k)
        return q, s, offset

    def silu_mul_quantize(self, gate_up: Tensor, block: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """quantize_rows(hadamard(silu_mul(gate_up), block)); block 0 for no turn."""
        rows, k = gate_up.shape[0], inner_length(gate_up.shape[-1] // 2)
        turn_length(block, k)
        q, s, offset = self._quantized(rows, k)
        address = _check("gate_up", gate_up, torch.float32, (rows, 2 * k))
        self._library.tl_silu_mul_quantize(address, q.data_ptr(), s.data_ptr(), offset.data_ptr(), block, rows, k)
        return q, s, offset

    def int8_linear(
        self,
        q: Tensor,
        s: Tensor,
        offset: Tensor,
        weight: Tensor,
        scb: Tensor,
        bias: Tensor | None = None,
        residual: Tensor | None = None,
    ) -> Tensor:
        """As reference.int8_linear on what quantize_rows gave, plus residual float32 [R, N]."""
        rows, k, n = q.shape[0], inner_length(q.shape[-1]), weight.shape[0]
        y = torch.empty(rows, n)
        self._library.tl_int8_linear(
            _check("q", q, torch.int8, (rows, k)),
            _check("s", s, torch.float32, (rows, k // GROUP)),
            _check("offset", offset, torch.float32, (rows, LANES)),
            _check("weight", weight, torch.int8, (n, k)),
            _check("scb", scb, torch.float32, (n,)),
            None if bias is None else _check("bias", bias, torch.float32, (n,)),
            None if residual is None else _check("residual", residual, torch.float32, (rows, n)),
            y.data_ptr(),
            rows,
            n,
            k,
        )
        return y

    def rescore(self, y: Tensor, x: Tensor, weight: Tensor, fine: Tensor, scb: Tensor, margin: float) -> Tensor:
        """As reference.rescore, in place."""
        rows, k, n = x.shape[0], inner_length(x.shape[-1]), weight.shape[0]
        self._library.tl_rescore(
            _check("x", x, torch.float32, (rows, k)),
            _check("weight", weight, torch.int8, (n, k)),
            _check("fine", fine, torch.int8, (n, k)),
            _check("scb", scb, torch.float32, (n,)),
            margin,
            _check("y", y, torch.float32, (rows, n)),
            rows,
            n,
            k,
        )
        return y

    def rope_append(
        self, qkv: Tensor, cosine: Tensor, sine: Tensor, positions: Tensor, keys: Tensor, values: Tensor, base: int,
        heads: int,
    ) -> None:  # fmt: skip
        """As reference.rope_append, in place. The caller owns the checks."""
        kv_heads, capacity, dim = values.shape
        tensors = (qkv, cosine, sine, positions, keys, values)
        sizes = (base, qkv.shape[0], heads, kv_heads, dim, qkv.shape[1], capacity)
        self._library.tl_rope_append(*(tensor.data_ptr() for tensor in tensors), *sizes)

    def decode_attention(
        self, qkv: Tensor, keys: Tensor, values: Tensor, positions: Tensor, paths: Tensor | None, base: int, heads: int
    ) -> Tensor:
        """As reference.attend. The caller owns the checks."""
        kv_heads, capacity, dim = values.shape
        out = torch.empty(qkv.shape[0], heads * dim)
        self._library.tl_decode_attention(
            qkv.data_ptr(),
            keys.data_ptr(),
            values.data_ptr(),
            positions.data_ptr(),
            None if paths is None else paths.data_ptr(),
            out.data_ptr(),
            *(base, qkv.shape[0], heads, kv_heads, dim, qkv.shape[1], capacity),
        )
        return out

    def decoder_layer(
        self,
        layer: Layer,
        scratch: Scratch,
        x: Tensor,
        cosine: Tensor,
        sine: Tensor,
        positions: Tensor,
        paths: Tensor | None,
        keys: Tensor,
        values: Tensor,
        base: int,
    ) -> None:
        """One decoder layer in place on x float32 [R, hidden]; appends to keys and values at slots base...

        positions int32 [R]; paths int32 [R, R] or None for a chain: row r sees slots base + paths[r][:depth + 1] beside
        the first `base`. The caller owns the checks (once a pass, not once a layer).
        """
        self._library.tl_decoder_layer(
            ctypes.addressof(layer),
            ctypes.addressof(scratch),
            x.data_ptr(),
            cosine.data_ptr(),
            sine.data_ptr(),
            positions.data_ptr(),
            None if paths is None else paths.data_ptr(),
            keys.data_ptr(),
            values.data_ptr(),
            base,
            x.shape[0],
            values.shape[1],
        )

    def draft_step(
        self,
        head: Head,
        scratch: Scratch,
        parts: Sequence[Tensor],
        weight: Tensor,
        scb: Tensor,
        cosine: Tensor,
        sine: Tensor,
        position: int,
        keys: Tensor,
        values: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """A draft head's step: the layer's input and output float32 [hidden], and scores [V] of the draft vocabulary.

        parts: float32 [hidden] each, as many as weight int8 [hidden, parts * hidden] takes. Writes keys and values at
        slot `position`. The caller owns the checks of what stays the same from step to step.
        """
        hidden = head.layer.hidden
        addresses = [_check("part", part, torch.float32, (hidden,)) for part in parts]
        x, y, scores = torch.empty(hidden), torch.empty(hidden), torch.empty(head.vocabulary)
        self._library.tl_draft_step(
            ctypes.addressof(head),
            ctypes.addressof(scratch),
            (ctypes.c_void_p * len(parts))(*addresses),
            len(parts),
            _check("weight", weight, torch.int8, (hidden, len(parts) * hidden)),
            scb.data_ptr(),
            x.data_ptr(),
            y.data_ptr(),
            cosine.data_ptr(),
            sine.data_ptr(),
            position,
            keys.data_ptr(),
            values.data_ptr(),
            values.shape[1],
            scores.data_ptr(),
        )
        return x, y, scores


@functools.cache
def load(folder: Path, version: str = "native") -> Kernels:
    """The kernels of `version` (compile.VERSIONS), compiled into `folder` if need be.

    compile.CompileError when they cannot be compiled or loaded.
    """
    path = compiler.shared_library(folder, version)
    try:
        return Kernels(path)
    except (OSError, AttributeError) as error:
        raise compiler.CompileError(f"the compiled kernels cannot be loaded: {error}") from error
