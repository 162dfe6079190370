"""A converted model on the disk: its description, quick checks, and read-only zero-copy views of its tensors.

`open_model` takes about a millisecond: it trusts a weights file whose size and header are those that the
description implies. The map is shared between processes. What is wrong is a ModelCorruptError that names the
file and says what to run.
"""

from __future__ import annotations

import errno
import json
import math
import mmap
import os
import shlex
from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from assistant import system_errors
from assistant.errors import ModelCorruptError, TokenleapError, UnsupportedModelError
from assistant.models import layout
from assistant.models.rotation import Rotation
from assistant.types import ModelConfig

WEIGHTS, TOKENIZER, DESCRIPTION = "weights.safetensors", "tokenizer.json", "model.json"

Array = np.ndarray[Any, np.dtype[Any]]

_DTYPES = {"I8": np.int8, "U8": np.uint8, "F16": np.float16, "F32": np.float32}


class StoredModel:
    """One opened model. Arrays are read-only views on the shared map and keep it alive.

    `sha256` is the weights file's, `source_sha256` that of what it was converted from. `rotation` is what was done
    to the weights and what of it the engine has to do.
    """

    def __init__(self, folder: Path, description: dict[str, Any], config: ModelConfig, data: mmap.mmap) -> None:
        slots = layout.plan(config, description["precision"])
        self.folder = folder
        self.id: str = description["id"]
        self.precision: str = description["precision"]
        self.config = config
        self.rotation = Rotation.read(description)
        self.preparation: int = description.get("preparation", 0)
        self.sha256: str = description["weights"]["sha256"]
        self.tokenizer_sha256: str = description["tokenizer"]["sha256"]
        self.source_sha256: str = description["source"]["sha256"]
        self.licence: str = description["licence"]
        self.end_ids: tuple[int, ...] = tuple(description["end_ids"])
        self.chat_template: str | None = description["chat_template"]
        self.tokenizer_path = folder / TOKENIZER
        self.advice = repair(folder, description.get("pull"))  # what to run when a file of it turns out damaged
        self._slots = {slot.name: slot for slot in slots}
        self._start = len(layout.header(slots))
        self._map = data

    def names(self) -> list[str]:
        """Tensor names in the order of the file, gaps left out."""
        return [name for name, slot in self._slots.items() if slot.source]

    def array(self, name: str) -> Array:
        """The tensor, not copied. KeyError when there is none of that name."""
        return self._view(self._slots[name], self._slots[name].shape)

    def fused(self, names: Sequence[str]) -> Array:
        """Tensors that lie side by side as one, first axes summed, not copied.

        ValueError when they do not.
        """
        slots = [self._slots[name] for name in names]
        for before, after in pairwise(slots):
            adjacent = before.offset + before.size == after.offset
            if not adjacent or before.kind != after.kind or before.shape[1:] != after.shape[1:]:
                raise ValueError(f"{before.name} and {after.name} do not lie side by side")
        return self._view(slots[0], (sum(slot.shape[0] for slot in slots), *slots[0].shape[1:]))

    def _view(self, slot: layout.Slot, shape: tuple[int, ...]) -> Array:
        count = int(np.prod(shape, dtype=np.int64))
        flat: Array = np.frombuffer(self._map, dtype=_DTYPES[slot.kind], count=count, offset=self._start + slot.offset)
        return flat.reshape(shape)


def describe(folder: Path) -> dict[str, Any]:
    """What model.json says. Raises ModelCorruptError when it is missing or damaged."""
    path = folder / DESCRIPTION
    damaged = ModelCorruptError(f"{path} is missing or damaged: {repair(folder)}")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _refused(error) or damaged from None
    except (ValueError, RecursionError):
        raise damaged from None
    try:
        if not _is_whole(found):
            raise damaged
    except (KeyError, TypeError, AttributeError):
        raise damaged from None
    return dict(found)


def _is_whole(found: dict[str, Any]) -> bool:
    """Whether every value that is used has its kind. KeyError, TypeError or AttributeError: it does not."""
    strings = [found[name] for name in ("format", "id", "precision", "licence")]
    strings += [found[part]["sha256"] for part in ("weights", "tokenizer", "source")]
    sizes = [found[part]["size"] for part in ("weights", "tokenizer", "source")]
    numbers = [*sizes, *found["end_ids"]]
    kinds = {field.name: str(field.type) for field in fields(ModelConfig)}
    shape = {name: found["config"][name] for name in kinds}
    strings += [shape[name] for name, kind in kinds.items() if kind == "str"]
    numbers += [shape[name] for name, kind in kinds.items() if kind == "int"]
    factors = [shape[name] for name, kind in kinds.items() if kind == "float"]
    return (
        all(isinstance(text, str) for text in strings)
        and isinstance(found["chat_template"], str | None)
        and isinstance(found.get("pull"), str | None)
        and all(type(number) is int and number >= 0 for number in numbers)
        and all(isinstance(factor, float) and math.isfinite(factor) and factor > 0 for factor in factors)
        and isinstance(shape["attention_bias"], bool)
        and shape["context_length"] > 0
    )


def _refused(error: OSError) -> TokenleapError | None:
    """What to raise where the system, not the model, is at fault: no rights, no memory, too many open files."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR):
        return None
    return system_errors.understood(error)


def repair(folder: Path, pull: object = None) -> str:
    """What to run to get a sound model in place of the one in `folder`."""
    name = folder.parent.name
    return f"run `tokenleap models rm {name}` then `tokenleap models pull {shlex.quote(str(pull or name))}`"


def open_model(folder: Path) -> StoredModel:
    """Maps a ready model.

    Raises ModelCorruptError (truncated, edited, missing), UnsupportedModelError (another format).
    """
    description = describe(folder)
    advice = repair(folder, description.get("pull"))
    if description["format"] != layout.FORMAT or description["precision"] not in layout.PRECISIONS:
        raise UnsupportedModelError(
            f"{folder} has the format {description['format']!r} and {layout.FORMAT!r} is needed: {advice}"
        )
    try:
        config = ModelConfig(**description["config"])
        Rotation.read(description).check(config)
        slots = layout.plan(config, description["precision"])
        header, whole = layout.header(slots), layout.total_size(slots)
    except (TypeError, ValueError, AttributeError):
        raise ModelCorruptError(f"{folder / DESCRIPTION} is damaged: {advice}") from None
    _check_size(folder / TOKENIZER, description["tokenizer"]["size"], advice)
    _check_size(folder / WEIGHTS, description["weights"]["size"], advice)
    path = folder / WEIGHTS
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise _refused(error) or ModelCorruptError(f"{path} cannot be mapped ({error}): {advice}") from error
    except ValueError as error:
        raise ModelCorruptError(f"{path} cannot be mapped ({error}): {advice}") from error
    if data[: len(header)] != header or len(data) != whole:
        raise ModelCorruptError(f"{path} has a header that {folder / DESCRIPTION} does not describe: {advice}")
    return StoredModel(folder, description, config, data)


def _check_size(path: Path, expected: int, advice: str) -> None:
    try:
        found = os.stat(path).st_size
    except OSError as error:
        raise _refused(error) or ModelCorruptError(f"{path} cannot be read ({error.strerror}): {advice}") from error
    if found != expected:
        state = "truncated" if found < expected else "altered"
        raise ModelCorruptError(f"{path} is {state}: {expected} bytes expected, {found} found; {advice}")
