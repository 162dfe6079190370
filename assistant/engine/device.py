"""One plan of how a model is run on this machine, with its reason; and the loader that follows it."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch

from assistant.engine.int8_layers import Int8Layers
from assistant.engine.qwen2 import Layers, Qwen2
from assistant.engine.torch_layers import TorchLayers
from assistant.errors import UnsupportedError, UnsupportedModelError
from assistant.locations import cache_folder
from assistant.models.store import StoredModel
from cuda_ops import cpu, reference
from cuda_ops.compile import CompileError


@dataclass(frozen=True)
class Plan:
    """path: what runs, e.g. "cpu/avx512-vnni"; reason: why, one sentence for people; "slow ..." is worth a warning."""

    path: str
    reason: str
    threads: int


def default_threads() -> int:
    """The cores this process may use, eight at most: decoding is bound by memory, more threads only wait."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return max(1, min(8, len(allowed)))


def _check(precision: str, device: str) -> None:
    if device not in ("auto", "cpu"):
        raise UnsupportedError(
            f"device {device} is not supported by this version: use --device cpu, which runs int8 kernels"
        )
    if precision not in ("int8", "fp32"):
        raise UnsupportedError(
            f"precision {precision} needs an NVIDIA GPU, which this version does not use: "
            "choose --precision int8 (8-bit weights on the CPU) or fp32"
        )


def _kernels() -> cpu.Kernels:
    return cpu.load(cache_folder() / "kernels")


def plan(precision: str, device: str = "auto", threads: int = 0) -> Plan:
    """What would run. UnsupportedError for a precision or device that cannot be served here."""
    _check(precision, device)
    count = threads or default_threads()
    if precision == "fp32":
        return Plan("cpu/torch", "fp32 is the accuracy reference and runs in plain torch", count)
    try:
        version = _kernels().version
    except CompileError as error:
        return Plan("cpu/torch", f"slow path without compiled kernels: {error}", count)
    return Plan(f"cpu/{version}", "the best kernels this processor can run", count)


def _check_widths(stored: StoredModel) -> None:
    config = stored.config
    for width in (config.hidden_size, config.intermediate_size, config.heads * config.head_dim):
        if stored.precision == "int8" and width % reference.BLOCK:
            raise UnsupportedModelError(
                f"int8 needs layers whose widths are multiples of {reference.BLOCK} and this model has {width}: "
                "use --precision fp32"
            )


def load(stored: StoredModel, device: str = "auto", threads: int = 0) -> tuple[Qwen2, Plan]:
    """The stored model as a backbone, and how it runs. UnsupportedModelError for widths that int8 cannot do."""
    chosen = plan(stored.precision, device, threads)
    _check_widths(stored)
    layers: Layers
    if chosen.path == "cpu/torch":
        torch.set_num_threads(chosen.threads)
        layers = TorchLayers(stored)
    else:
        # What is left to torch is small; its idle threads would spin on the cores that the kernels need.
        torch.set_num_threads(1)
        kernels = _kernels()
        kernels.threads = chosen.threads
        layers = Int8Layers(stored, kernels)
    return Qwen2(stored, layers), chosen
