"""Writes a weights file from a source model, in one pass and with little memory.

`write_weights` prepares blocks of rows (rotation.py), turns them into their final bytes on two threads and writes
them in the order of the file, hashing as it goes. `quantise_rows` is bitsandbytes 0.50's int8: weight to fp16,
SCB = absmax of the row, CB = round(w * (127 / SCB)).
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections import deque
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from assistant.errors import ModelCorruptError, UnsupportedModelError
from assistant.models import layout
from assistant.models.layout import Slot, header, plan
from assistant.models.parts import Progress
from assistant.models.rotation import Prepared, Rotation
from assistant.types import ModelConfig

Array = np.ndarray[Any, np.dtype[Any]]

_BLOCK_ELEMENTS = 1 << 20
_WORKERS = 2


class SourceModel(Protocol):
    """A model to convert: a GGUF file or a folder of safetensors. Tensor names are Hugging Face's."""

    config: ModelConfig

    @property
    def names(self) -> Collection[str]: ...

    @property
    def end_ids(self) -> list[int]: ...

    @property
    def chat_template(self) -> str | None: ...

    def tokenizer(self) -> str: ...

    def shape(self, name: str) -> tuple[int, ...] | None: ...

    def rows(self, name: str, start: int, stop: int) -> Array: ...


def quantise_rows(rows: Array) -> tuple[Array, Array]:
    """float32 [n, columns] -> (CB int8 [n, columns], SCB float32 [n]).

    Raises UnsupportedModelError for weights beyond fp16's range.
    """
    with np.errstate(over="ignore"):
        half = rows.astype(np.float16).astype(np.float32)
    absmax = np.maximum(half.max(axis=1), -half.min(axis=1))
    _check_range(absmax)
    # torch computes 127 / x as reciprocal(x) * 127, which rounds twice; one division would differ in a few
    # codes of a matrix. A row of zeros: any finite factor gives the zeros that bitsandbytes stores there.
    factor = np.float32(1) / np.where(absmax == 0, np.float32(1), absmax) * np.float32(127)
    half *= factor[:, None]
    np.rint(half, out=half)
    return half.astype(np.int8), absmax


def fine_codes(rows: Array) -> Array:
    """float32 [n, columns] -> int8 [n, columns]: what `quantise_rows` rounds off, in steps of 1 / FINE of a code.

    Codes are rounded after fp16, so up to half a code and 2^-11 of 127 are missing: 126 steps.
    """
    codes, absmax = quantise_rows(rows)
    factor = np.float32(127) / np.where(absmax == 0, np.float32(1), absmax)
    missing = (rows * factor[:, None] - codes) * np.float32(layout.FINE)
    fine: Array = np.clip(np.rint(missing), -127, 127).astype(np.int8)
    return fine


def _check_range(values: Array) -> None:
    if not np.isfinite(values).all():
        raise UnsupportedModelError("a weight is beyond the range of fp16: use --precision fp32 with this model")


def _as_bytes(array: Array) -> memoryview:
    return np.ascontiguousarray(array).data.cast("B")


def _make(source: Prepared, slot: Slot, start: int, stop: int) -> tuple[memoryview, Array | None]:
    rows = source.rows(slot.source, start, stop)
    if slot.name.endswith(".fine"):
        return _as_bytes(fine_codes(rows)), None
    if slot.kind == "I8":
        codes, scale = quantise_rows(rows)
        return _as_bytes(codes), scale
    if slot.kind == "F16":
        with np.errstate(over="ignore"):
            rows = rows.astype(np.float16)
        _check_range(rows)
    return _as_bytes(rows), None


def _blocks(source: Prepared, slot: Slot) -> Iterator[tuple[int, int]]:
    if len(slot.shape) == 1 or source.whole(slot.source):
        yield 0, slot.shape[0]
        return
    head = source.config.head_dim
    step = max(head, _BLOCK_ELEMENTS // slot.shape[1] // head * head)
    for start in range(0, slot.shape[0], step):
        yield start, min(start + step, slot.shape[0])


def check_tensors(source: SourceModel, slots: list[Slot]) -> None:
    """Every tensor must be there in its shape (ModelCorruptError), no other may (UnsupportedModelError)."""
    wanted = {slot.source: slot.shape for slot in slots if slot.source and not slot.name.endswith(".SCB")}
    for name, shape in wanted.items():
        found = source.shape(_stored_name(source, name))
        if found != shape:
            raise ModelCorruptError(
                f"tensor {name} should have the shape {shape} and has {found}: fetch the model again"
            )
    more = set(source.names) - wanted.keys()
    if more:
        raise UnsupportedModelError(
            f"the model has a tensor that this engine does not know ({min(more)}): use another model"
        )


def _stored_name(source: SourceModel, name: str) -> str:
    # A tied model has no output matrix of its own.
    return "model.embed_tokens.weight" if name == "lm_head.weight" and name not in source.names else name


def write_weights(source: SourceModel, precision: str, path: Path, progress: Progress | None = None) -> tuple[str, int]:
    """Writes `path` (it must not exist) and flushes it to the disk.

    Returns (SHA-256 of the file, its size in bytes). OSError passes through.
    """
    slots = plan(source.config, precision)
    check_tensors(source, slots)
    first = header(slots)
    total = len(first) + slots[-1].offset + slots[-1].size
    digest = hashlib.sha256(first)
    scales: dict[str, list[Array]] = {}
    with path.open("xb", buffering=0) as file:
        _reserve(file.fileno(), total)
        _write_all(file.fileno(), first)
        done = len(first)
        prepared = Prepared(source, Rotation.of(source.config, precision))
        for slot, data, scale in _results(prepared, slots, scales):
            if scale is not None:
                scales.setdefault(slot.source, []).append(scale)
            digest.update(data)
            _write_all(file.fileno(), data)
            done += len(data)
            if progress is not None:
                progress("convert", done, total)
        os.fsync(file.fileno())
    return digest.hexdigest(), total


def _results(
    source: Prepared, slots: list[Slot], scales: dict[str, list[Array]]
) -> Iterator[tuple[Slot, memoryview | bytes, Array | None]]:
    """(slot, bytes, scales of these rows or None) in the order of the file; a few blocks are made ahead."""
    pending: deque[tuple[Slot, Future[tuple[memoryview, Array | None]] | None]] = deque()

    def finish() -> tuple[Slot, memoryview | bytes, Array | None]:
        slot, future = pending.popleft()
        if future is not None:
            data, scale = future.result()
            return slot, data, scale
        if slot.name.endswith(".SCB"):
            return slot, _as_bytes(np.concatenate(scales.pop(slot.source)).astype(np.float32)), None
        return slot, bytes(slot.size), None

    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="convert") as pool:
        try:
            for slot in slots:
                if not slot.source or slot.name.endswith(".SCB"):
                    pending.append((slot, None))
                else:
                    for start, stop in _blocks(source, slot):
                        pending.append((slot, pool.submit(_make, source, slot, start, stop)))
                        if len(pending) > 2 * _WORKERS:
                            yield finish()
            while pending:
                yield finish()
        finally:
            for _, future in pending:
                if future is not None:
                    future.cancel()


def _reserve(descriptor: int, size: int) -> None:
    # Asking for the room at once makes a full disk show before minutes of work, where the system can do it.
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
                raise


def _write_all(descriptor: int, data: bytes | memoryview) -> None:
    view = memoryview(data).cast("B")
    while view:
        view = view[os.write(descriptor, view) :]
