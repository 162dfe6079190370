"""Reads a transformers folder of the Qwen2 or Llama family: config.json, tokenizer.json, *.safetensors in
F32, F16 or BF16.

The same interface as a GGUF file. `read_config` looks at config.json alone and raises UnsupportedModelError
with the reason why a folder is left to transformers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from assistant.errors import ModelCorruptError, UnsupportedModelError
from assistant.models import layout, tokenizer_json
from assistant.models.parts import Parts
from assistant.types import ModelConfig

Floats = np.ndarray[Any, np.dtype[np.float32]]

_SIZES = {"F32": 4, "F16": 2, "BF16": 2}
_LARGEST_HEADER = 100 << 20


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError
        return found
    except (OSError, ValueError, RecursionError):
        raise ModelCorruptError(f"{path} cannot be read as JSON: fetch the model again") from None


def read_config(folder: Path) -> ModelConfig:
    """The shape that config.json describes.

    Raises UnsupportedModelError for what the native engine does not run.
    """
    raw = _json(folder / "config.json")
    kind = raw.get("model_type")

    def refuse(why: str) -> NoReturn:
        raise UnsupportedModelError(
            f"{folder} cannot be run natively ({why}): use a plain Qwen2 or Llama model"
        )

    if kind not in ("qwen2", "llama"):
        refuse(f"it is a {kind!r} model")
    rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    if not isinstance(rope, dict):
        raise ModelCorruptError(f"{folder / 'config.json'} is damaged (rope_parameters): fetch the model again")
    if rope.get("rope_type", rope.get("type", "default")) != "default":
        refuse("it scales its rotary positions")
    if (
        raw.get("use_sliding_window")
        or raw.get("hidden_act", "silu") != "silu"
        or raw.get("quantization_config")
    ):
        refuse("it uses a sliding window, another activation or quantised weights")
    if kind == "llama" and (raw.get("attention_bias") or raw.get("mlp_bias")):
        refuse("it holds biases")
    try:
        hidden, heads = int(raw["hidden_size"]), int(raw["num_attention_heads"])
        config = ModelConfig(
            architecture=kind,
            layers=int(raw["num_hidden_layers"]),
            hidden_size=hidden,
            intermediate_size=int(raw["intermediate_size"]),
            heads=heads,
            kv_heads=int(raw.get("num_key_value_heads") or heads),
            head_dim=int(raw.get("head_dim") or hidden // heads),
            vocabulary_size=int(raw["vocab_size"]),
            context_length=int(raw["max_position_embeddings"]),
            rope_theta=float(raw.get("rope_theta") or rope.get("rope_theta") or 10000.0),
            norm_epsilon=float(raw["rms_norm_eps"]),
            attention_bias=kind == "qwen2",
        )
        layout.check(config)
        return config
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise ModelCorruptError(
            f"{folder / 'config.json'} is incomplete ({error}): fetch the model again"
        ) from None


class FolderModel:
    """The tensors of all *.safetensors files of a folder. Use as a context manager or call `close`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = read_config(folder)
        self._tensors: dict[str, tuple[Parts, str, tuple[int, ...], int]] = {}
        self._files: list[Parts] = []
        try:
            for path in sorted(folder.glob("*.safetensors")):
                self._files.append(Parts([path]))
                self._index(self._files[-1])
        except BaseException:
            self.close()
            raise

    def _index(self, file: Parts) -> None:
        try:
            length = int.from_bytes(file.read(0, 8), "little")
            if not 2 <= length <= _LARGEST_HEADER:
                raise ValueError("no header")
            entries = json.loads(file.read(8, length))
            for name, item in entries.items():
                if name == "__metadata__" or name.endswith("rotary_emb.inv_freq"):
                    continue
                kind, shape, (start, end) = item["dtype"], tuple(item["shape"]), item["data_offsets"]
                if kind not in _SIZES:
                    raise UnsupportedModelError(
                        f"{file.name} stores {name} as {kind}: only F32, F16 and BF16 can be read"
                    )
                if end - start != _SIZES[kind] * math.prod(shape):
                    raise ValueError(f"{name} has a broken shape")
                if 8 + length + end > file.size:
                    raise ModelCorruptError(
                        f"{file.name} is truncated: {8 + length + end} bytes expected, {file.size} found; "
                        "fetch the model again"
                    )
                self._tensors[name] = (file, kind, shape, 8 + length + start)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ModelCorruptError(
                f"{file.name} has a damaged header ({error}): fetch the model again"
            ) from error

    @property
    def names(self) -> Collection[str]:
        """Names of all tensors."""
        return self._tensors.keys()

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Shape of a tensor, None when the folder has none of that name."""
        return self._tensors[name][2] if name in self._tensors else None

    def rows(self, name: str, start: int, stop: int) -> Floats:
        """Rows [start, stop) of a matrix, or elements of a vector, as float32."""
        file, kind, shape, offset = self._tensors[name]
        row = math.prod(shape[1:])
        raw = file.read(offset + start * row * _SIZES[kind], (stop - start) * row * _SIZES[kind])
        if kind == "BF16":
            out = (np.frombuffer(raw, dtype="<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            out = np.frombuffer(raw, dtype="<f4" if kind == "F32" else "<f2").astype(np.float32, copy=False)
        return out.reshape(stop - start, *shape[1:])

    def tokenizer(self) -> str:
        """tokenizer.json as it is."""
        path = self.folder / "tokenizer.json"
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError):
            raise ModelCorruptError(f"{path} cannot be read: fetch the model again") from None
        tokenizer_json.check(text, str(path))
        return text

    @property
    def end_ids(self) -> list[int]:
        """The tokens that end an answer, of generation_config.json or config.json."""
        for name in ("generation_config.json", "config.json"):
            if (self.folder / name).is_file():
                end = _json(self.folder / name).get("eos_token_id")
                if end is not None:
                    ids = end if isinstance(end, list) else [end]
                    if not all(type(one) is int and one >= 0 for one in ids):
                        raise ModelCorruptError(
                            f"{self.folder / name} is damaged (eos_token_id): fetch the model again"
                        )
                    return ids
        return []

    @property
    def chat_template(self) -> str | None:
        """The folder's own chat template."""
        plain = self.folder / "chat_template.jinja"
        if plain.is_file():
            try:
                return plain.read_text(encoding="utf-8")
            except (OSError, ValueError):
                raise ModelCorruptError(f"{plain} cannot be read: fetch the model again") from None
        described = self.folder / "tokenizer_config.json"
        found = _json(described).get("chat_template") if described.is_file() else None
        return found if isinstance(found, str) else None

    def close(self) -> None:
        """Close the files; a second call does nothing."""
        for file in self._files:
            file.close()
