"""Training sequences on the disk: ids, the backbone's own choices and the hidden states that heads read.

A shard is one safetensors file of a few dozen sequences laid end to end, written under a temporary name and renamed, so
a kill leaves whole shards only. States are stored as fp16 rows of unit root mean square beside their size: Qwen2's
states overflow fp16 as they are.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

TOP = 8  # of the backbone's scores are kept for each row


@dataclass(frozen=True)
class Reading:
    """One prompt and what follows it.

    ids int64 [T]; start: index of the first token after the prompt; choices int64 [T]: the backbone's greedy choice at
    each row; top_ids int64 [T, TOP] and top_scores float32 [T, TOP]: its best scores; states float32 [taps, T, hidden]
    with rows of unit size; sizes float32 [taps, T].
    """

    ids: Tensor
    start: int
    choices: Tensor
    top_ids: Tensor
    top_scores: Tensor
    states: Tensor
    sizes: Tensor
    about: dict[str, str]


def packed(states: Tensor) -> tuple[Tensor, Tensor]:
    """float32 [..., hidden] -> rows of unit root mean square, float16, and their sizes, float32 [...]."""
    sizes = states.pow(2).mean(-1).sqrt().clamp_min(1e-6)
    return (states / sizes[..., None]).half(), sizes


def write(path: Path, sequences: Sequence[Reading]) -> None:
    """Writes a shard; there is either the whole file or none. OSError when the disk does not take it."""
    tensors = {
        "ids": torch.cat([s.ids for s in sequences]).to(torch.int32),
        "choices": torch.cat([s.choices for s in sequences]).to(torch.int32),
        "top_ids": torch.cat([s.top_ids for s in sequences]).to(torch.int32),
        "top_scores": torch.cat([s.top_scores for s in sequences]).half(),
        "states": torch.cat([s.states.half() for s in sequences], dim=1),
        "sizes": torch.cat([s.sizes for s in sequences], dim=1),
    }
    about = [{"length": len(s.ids), "start": s.start, **s.about} for s in sequences]
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written by Python, whose errors name what the disk lacks; the library's do not.
    body = save({name: t.contiguous() for name, t in tensors.items()}, {"sequences": json.dumps(about)})
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: Path) -> list[Reading]:
    """The sequences of a shard."""
    with safe_open(path, "pt") as file:
        about = json.loads(file.metadata()["sequences"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    found, at = [], 0
    for each in about:
        length = each.pop("length")
        part = slice(at, at + length)
        found.append(
            Reading(
                ids=tensors["ids"][part].long(),
                start=each.pop("start"),
                choices=tensors["choices"][part].long(),
                top_ids=tensors["top_ids"][part].long(),
                top_scores=tensors["top_scores"][part].float(),
                states=tensors["states"][:, part].float(),
                sizes=tensors["sizes"][:, part],
                about=each,
            )
        )
        at += length
    return found


def names(folder: Path) -> list[Path]:
    """The shards of a folder, in order."""
    return sorted(folder.glob("shard-*.safetensors"))


def clear(folder: Path) -> None:
    """Removes what killed runs left half written; for the one who writes there, as others may read meanwhile."""
    for leftover in folder.glob("*.tmp"):
        leftover.unlink(missing_ok=True)


def as_float(array: npt.NDArray[Any]) -> Tensor:
    """A float32 tensor of its own."""
    return torch.from_numpy(np.array(array, dtype=np.float32))
