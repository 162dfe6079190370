"""What an operator asks of a tensor, and the sentence that says so: one ValueError for all of it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cuda_ops.reference import BLOCK

TURNS = (16, 32, 64, 128, 256)  # lengths that the Hadamard turn knows


def need(name: str, tensor: Tensor, dtype: torch.dtype, shape: Sequence[int], device: torch.device) -> Tensor:
    """The tensor, contiguous, of that type and shape (-1: any length) on that device; else ValueError."""
    wanted, found = tuple(shape), tuple(tensor.shape)
    fits = len(wanted) == len(found) and all(a in (-1, b) for a, b in zip(wanted, found, strict=True))
    if tensor.dtype != dtype or not fits:
        raise ValueError(f"{name}: needs {dtype} of shape {wanted}, got {tensor.dtype} {found}")
    if not tensor.is_contiguous():
        raise ValueError(f"{name}: needs contiguous rows, got strides {tensor.stride()}; call .contiguous() first")
    if tensor.device != device:
        raise ValueError(f"{name}: needs memory of {device}, got {tensor.device}")
    return tensor


def inner_length(k: int) -> int:
    """k, a multiple of BLOCK; else ValueError."""
    if k <= 0 or k % BLOCK:
        raise ValueError(f"the inner length must be a multiple of {BLOCK}, got {k}")
    return k


def turn_length(block: int, k: int) -> int:
    """The Hadamard block: 0 for none, or a known length that divides k; else ValueError."""
    if block and (block not in TURNS or k % block):
        raise ValueError(f"block: needs one of {TURNS} that divides {k}, got {block}")
    return block
