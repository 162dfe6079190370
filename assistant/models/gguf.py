"""Reads a GGUF file: what it says about itself, its shape as a ModelConfig, its tensors as float32 rows.

The header is parsed here, because the `gguf` package's reader takes seconds for a vocabulary and wants one
joined file; the numbers are unpacked by `gguf.quants.dequantize`. A damaged file raises ModelCorruptError, a
sound one of another kind UnsupportedModelError.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from assistant.errors import ModelCorruptError, UnsupportedModelError
from assistant.models import layout, tokenizer_json
from assistant.models.parts import Parts
from assistant.types import ModelConfig

Floats = np.ndarray[Any, np.dtype[np.float32]]

SUPPORTED = ("qwen2", "llama")

_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_NUMPY = {
    0: "u1",
    1: "i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "?",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_STRING, _ARRAY = 8, 9

_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


@dataclass(frozen=True)
class TensorInfo:
    """Where a tensor lies. `shape` is in row-major order: (rows, columns) or (length,)."""

    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    offset: int
    row_bytes: int


class _Cursor:
    """Reads values one after another out of the first bytes of the file, fetching more as needed."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._data = bytearray()
        self.place = 0

    def take(self, size: int) -> bytes:
        end = self.place + size
        if end > len(self._data):
            if end > self._parts.size:
                raise ModelCorruptError(
                    f"{self._parts.name} ends inside its header ({self._parts.size} bytes): fetch the "
                    "file again"
                )
            want = min(self._parts.size, max(end, len(self._data) * 2, 1 << 20))
            self._data += self._parts.read(len(self._data), want - len(self._data))
        out = self._data[self.place : end]
        self.place = end
        return bytes(out)

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self) -> str:
        return self.take(self.number("<Q")).decode("utf-8", errors="replace")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            inner, count = self.number("<I"), self.number("<Q")
            if inner == _ARRAY:
                raise ValueError("an array of arrays")
            if inner in _NUMPY:
                form = np.dtype(_NUMPY[inner])
                return np.frombuffer(self.take(count * form.itemsize), dtype=form)
            return [self.value(inner) for _ in range(count)]
        return self.number(_SCALARS[kind])


class GgufModel:
    """A GGUF file of the Qwen2 or Llama family. Tensor names are Hugging Face's."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.fields: dict[str, Any] = {}
        self.tensors: dict[str, TensorInfo] = {}
        self._unknown: list[str] = []
        try:
            self._read_header(_Cursor(parts))
            self.config = self._config()
            layout.check(self.config)
        except (ValueError, KeyError, TypeError, IndexError, OverflowError, ZeroDivisionError) as error:
            # Whatever a damaged header trips over below is the same to the user.
            raise ModelCorruptError(
                f"{parts.name} has a damaged header ({error}): fetch the file again"
            ) from error

    def _read_header(self, cursor: _Cursor) -> None:
        name = self._parts.name
        if self._parts.size < 24 or cursor.take(4) != b"GGUF":
            raise ModelCorruptError(
                f"{name} ({self._parts.size} bytes) is not a GGUF file: fetch it again or name another"
            )
        version = cursor.number("<I")
        if version not in (2, 3):
            raise UnsupportedModelError(
                f"{name} is of a GGUF version or byte order that cannot be read (little-endian 2 and 3 can): "
                "convert it again with a current llama.cpp"
            )
        tensor_count, field_count = cursor.number("<Q"), cursor.number("<Q")
        for _ in range(field_count):
            key = cursor.text()
            self.fields[key] = cursor.value(cursor.number("<I"))
        architecture = self.fields.get("general.architecture", "?")
        if architecture not in SUPPORTED:
            raise UnsupportedModelError(
                f"{name} is a {architecture!r} model: only {' and '.join(SUPPORTED)} GGUF files can be run"
            )
        self._read_tensors(cursor, tensor_count)

    def _read_tensors(self, cursor: _Cursor, count: int) -> None:
        found = []
        for _ in range(count):
            name, dims = cursor.text(), cursor.number("<I")
            if not 1 <= dims <= 4:
                raise ValueError(f"tensor {name} has {dims} dimensions")
            shape = tuple(cursor.number("<Q") for _ in range(dims))[::-1]
            found.append((name, shape, cursor.number("<I"), cursor.number("<Q")))
        alignment = int(self.fields.get("general.alignment", 32)) or 32
        start = -(-cursor.place // alignment) * alignment
        for name, shape, raw_kind, offset in found:
            try:
                kind = GGMLQuantizationType(raw_kind)
            except ValueError:
                raise UnsupportedModelError(
                    f"{self._parts.name} stores {name} in an unknown number format ({raw_kind}): "
                    "use a Q4_K_M, Q8_0 or F16 file"
                ) from None
            block, size = GGML_QUANT_SIZES[kind]
            if shape[-1] % block:
                raise ValueError(f"tensor {name} has a broken shape {shape}")
            info = TensorInfo(shape, kind, start + offset, shape[-1] // block * size)
            end = info.offset + info.row_bytes * math.prod(shape[:-1])
            if end > self._parts.size:
                raise ModelCorruptError(
                    f"{self._parts.name} is truncated: {end} bytes are needed for {name}, "
                    f"{self._parts.size} are there; "
                    "fetch the file again"
                )
            own = _own_name(name)
            if own is None:
                self._unknown.append(name)
            else:
                self.tensors[own] = info

    def _config(self) -> ModelConfig:
        architecture = self.fields["general.architecture"]

        def field(name: str, default: Any = None) -> Any:
            value = self.fields.get(f"{architecture}.{name}", default)
            if value is None:
                raise ValueError(f"no {architecture}.{name}")
            return value

        embedding = self.tensors.get("model.embed_tokens.weight")
        if embedding is None or len(embedding.shape) != 2:
            raise ValueError("no token embedding")
        hidden, heads = int(field("embedding_length")), int(field("attention.head_count"))
        head_dim = int(field("attention.key_length", hidden // heads))
        biased = "model.layers.0.self_attn.q_proj.bias" in self.tensors
        scaling = field("rope.scaling.type", "none")
        rotary = int(field("rope.dimension_count", head_dim))
        if scaling not in ("none", "") or any(name.startswith("rope_freqs") for name in self._unknown):
            self._refuse("it scales its rotary positions")
        if rotary != head_dim or head_dim % 2 or int(field("attention.value_length", head_dim)) != head_dim:
            self._refuse(f"it rotates {rotary} of {head_dim} dimensions of a head")
        if int(field("expert_count", 0)):
            self._refuse("it is a mixture of experts")
        if self._unknown or (biased and architecture == "llama"):
            self._refuse(f"it holds {(self._unknown or ['biases'])[0]}")
        return ModelConfig(
            architecture=architecture,
            layers=int(field("block_count")),
            hidden_size=hidden,
            intermediate_size=int(field("feed_forward_length")),
            heads=heads,
            kv_heads=int(field("attention.head_count_kv", heads)),
            head_dim=head_dim,
            vocabulary_size=embedding.shape[0],
            context_length=int(field("context_length")),
            rope_theta=float(field("rope.freq_base", 10000.0)),
            norm_epsilon=float(field("attention.layer_norm_rms_epsilon")),
            attention_bias=biased,
        )

    def _refuse(self, why: str) -> NoReturn:
        raise UnsupportedModelError(
            f"{self._parts.name} cannot be run ({why}): use a plain Qwen2 or Llama model"
        )

    @property
    def names(self) -> Collection[str]:
        """Names of all tensors."""
        return self.tensors.keys()

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Shape of a tensor, None when the file has none of that name."""
        info = self.tensors.get(name)
        return info.shape if info else None

    def rows(self, name: str, start: int, stop: int) -> Floats:
        """Rows [start, stop) of a matrix, or elements of a vector, as float32."""
        info = self.tensors[name]
        if len(info.shape) == 1:
            return self._unpack(info, info.offset, 1).reshape(-1)[start:stop]
        if self.config.architecture == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
            return self._half_split(info, start, stop)
        return self._unpack(info, info.offset + start * info.row_bytes, stop - start)

    def tokenizer(self) -> str:
        """The tokenizer as JSON. UnsupportedModelError for a kind that is not known, ModelCorruptError for a bad."""
        try:
            text = tokenizer_json.build(self.fields, self._parts.name)
        except (ValueError, TypeError, AttributeError, IndexError) as error:
            raise ModelCorruptError(
                f"{self._parts.name} has a damaged vocabulary ({error}): fetch the file again"
            ) from error
        tokenizer_json.check(text, self._parts.name)
        return text

    @property
    def end_ids(self) -> list[int]:
        """The tokens that end an answer."""
        ids = [self.fields.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot")]
        return sorted({int(end) for end in ids if end is not None})

    @property
    def chat_template(self) -> str | None:
        """The file's own chat template."""
        found = self.fields.get("tokenizer.chat_template")
        return found if isinstance(found, str) else None

    def _unpack(self, info: TensorInfo, offset: int, rows: int) -> Floats:
        raw = np.frombuffer(self._parts.read(offset, rows * info.row_bytes), dtype=np.uint8)
        try:
            out = dequantize(raw.reshape(rows, info.row_bytes), info.kind)
        except NotImplementedError:
            self._refuse(f"numbers of the kind {info.kind.name} cannot be unpacked")
        return np.asarray(out, dtype=np.float32).reshape(rows, info.shape[-1])

    def _half_split(self, info: TensorInfo, start: int, stop: int) -> Floats:
        # llama.cpp stores q and k of this family with the two halves of each head interleaved; whole heads
        # are read and put back, so a block of rows must not cut one.
        half = self.config.head_dim // 2
        first, last = start - start % (2 * half), -(-stop // (2 * half)) * 2 * half
        stored = self._unpack(info, info.offset + first * info.row_bytes, last - first)
        heads: Floats = stored.reshape(-1, half, 2, info.shape[-1]).swapaxes(1, 2)
        return heads.reshape(last - first, info.shape[-1])[start - first : stop - first]


def _own_name(name: str) -> str | None:
    if name in _TOP_NAMES:
        return _TOP_NAMES[name]
    pieces = name.split(".")
    if (
        len(pieces) == 4
        and pieces[0] == "blk"
        and pieces[2] in _LAYER_NAMES
        and pieces[3] in ("weight", "bias")
    ):
        return f"model.layers.{pieces[1]}.{_LAYER_NAMES[pieces[2]]}.{pieces[3]}"
    return None
