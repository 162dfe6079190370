"""Head files: what a trained draft head is on the disk, and everything that can be wrong with one.

safetensors with `mtp.*` names: int8 rows with their largest values (`X.weight`, `X.SCB`, as in weights files), the bias
of the attention, the draft vocabulary (int32, sorted: the ids whose output rows of the base the head scores), and one
JSON text of facts about base, training and measured acceptance. The file ends in a SHA-256 of all before it.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from assistant.errors import HeadError
from assistant.models.rotation import BLOCKS
from assistant.models.stored import StoredModel
from assistant.types import ModelConfig

Array = np.ndarray[Any, np.dtype[Any]]

FORMAT = "tokenleap-head-1"
_DIGEST = 32  # bytes of SHA-256 at the file's end
MATRICES = ("first", "later", "qkv", "out", "gate_up", "down")


@dataclass(frozen=True)
class Facts:
    """What a head was made for and what it is worth.

    taps: the layers whose outputs step 1 reads, the last layer's input first; norm: "pre" states are taken before any
    norm; acceptance: measured at positions 1.. on projects kept aside; down_block: the Hadamard turn of down_proj's
    input that the weights expect (rotation.py).
    """

    format: str
    base: str
    base_sha256: str  # of the file that the base was converted from
    tokenizer_sha256: str
    preparation: int
    precision: str  # whose states it was trained on
    taps: tuple[int, ...]
    norm: str
    draft_length: int
    down_block: int
    training_tokens: int
    acceptance: tuple[float, ...]


@dataclass(frozen=True)
class HeadFile:
    """An opened head: its facts and tensors, the shapes checked against `config`."""

    path: Path
    facts: Facts
    tensors: Mapping[str, Array]


def shapes(config: ModelConfig) -> dict[str, tuple[int, int]]:
    """Of the six matrices."""
    hidden, inner = config.hidden_size, config.intermediate_size
    query = config.heads * config.head_dim
    return {
        "first": (hidden, 4 * hidden),
        "later": (hidden, 3 * hidden),
        "qkv": (query + 2 * config.kv_heads * config.head_dim, hidden),
        "out": (hidden, query),
        "gate_up": (2 * inner, hidden),
        "down": (hidden, inner),
    }


def write(path: Path, facts: Facts, tensors: Mapping[str, Array]) -> None:
    """Writes a head file whole or not at all."""
    about = {"facts": json.dumps(asdict(facts), sort_keys=True)}
    body = save({f"mtp.{name}": np.ascontiguousarray(t) for name, t in tensors.items()}, about)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body + hashlib.sha256(body).digest())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: Path, base: StoredModel) -> HeadFile:
    """Opens the head at `path` for `base`. HeadError says what does not fit: damaged, another base or tokenizer."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise HeadError(f"the draft head {path} cannot be read ({error.strerror}): use --decode lookup") from error
    body, digest = content[:-_DIGEST], content[-_DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        raise HeadError(f"the draft head {path} is damaged (its checksum is wrong): install it again or use lookup")
    try:
        length = int.from_bytes(body[:8], "little")
        about = json.loads(json.loads(body[8 : 8 + length])["__metadata__"]["facts"])
        named = {field.name: about[field.name] for field in fields(Facts)}
        facts = Facts(**named | {"taps": tuple(about["taps"]), "acceptance": tuple(about["acceptance"])})
        tensors = {name.removeprefix("mtp."): tensor for name, tensor in load(body).items()}
    except (ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise HeadError(f"{path} is not a draft head of this version: train one or use --decode lookup") from error
    if facts.format != FORMAT:
        raise HeadError(f"{path} has the format {facts.format!r} and {FORMAT!r} is needed: train a head again")
    _check_base(path, facts, base)
    _check_facts(path, facts, base)
    _check_shapes(path, tensors, base)
    return HeadFile(path, facts, tensors)


def _check_base(path: Path, facts: Facts, base: StoredModel) -> None:
    """A head serves one base alone: on any other its drafts would silently never be accepted."""
    if facts.base_sha256 != base.source_sha256:
        raise HeadError(f"the draft head {path} was trained for {facts.base}, not for {base.id}: use --decode lookup")
    if facts.tokenizer_sha256 != base.tokenizer_sha256:
        raise HeadError(f"the draft head {path} was trained with another tokenizer than {base.id} has: use lookup")
    if facts.preparation != base.preparation:
        raise HeadError(f"the draft head {path} was trained for weights prepared otherwise: train it again")


def _check_facts(path: Path, facts: Facts, base: StoredModel) -> None:
    """What the engine would read beyond the model's layers, or turn in blocks that it cannot."""
    inner = base.config.intermediate_size
    taps = all(type(tap) is int and 0 <= tap < base.config.layers for tap in facts.taps)
    block = facts.down_block == 0 or (facts.down_block in BLOCKS and inner % facts.down_block == 0)
    if len(facts.taps) != 3 or not taps or not block:
        raise HeadError(f"the draft head {path} reads layers or blocks that {base.id} lacks: train it again")


def _check_shapes(path: Path, tensors: Mapping[str, Array], base: StoredModel) -> None:
    config = base.config
    wanted: dict[str, tuple[tuple[int, ...], Any]] = {"qkv.bias": ((shapes(config)["qkv"][0],), np.float32)}
    for name, size in shapes(config).items():
        wanted |= {f"{name}.weight": (size, np.int8), f"{name}.SCB": (size[:1], np.float32)}
    for name, (shape, kind) in wanted.items():
        if name not in tensors or tensors[name].shape != shape or tensors[name].dtype != kind:
            raise HeadError(f"the draft head {path} lacks {name} of shape {list(shape)}: it is for another model shape")
    vocabulary = tensors.get("vocabulary")
    if (
        vocabulary is None
        or vocabulary.dtype != np.int32
        or vocabulary.ndim != 1
        or not len(vocabulary)
        or vocabulary[0] < 0
        or vocabulary[-1] >= config.vocabulary_size
        or (np.diff(vocabulary) <= 0).any()
    ):
        raise HeadError(f"the draft head {path} has a draft vocabulary that {base.id} cannot have: train it again")


def quantised(matrix: Array) -> tuple[Array, Array]:
    """float32 [N, K] -> int8 [N, K] and float32 [N]: bitsandbytes' rows, each by its largest value."""
    largest = np.abs(matrix).max(axis=1).astype(np.float32)
    # as torch divides, which rounds twice (convert.quantise_rows)
    scale = np.float32(1) / np.maximum(largest, np.float32(1e-30)) * np.float32(127)
    return np.rint(matrix * scale[:, None]).astype(np.int8), largest
