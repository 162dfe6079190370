"""Decoder layers in plain torch: fp32 (the accuracy reference) and, where no kernels can be had, int8 by the reference
operators. Slow but complete. fp32 rows may differ in the last bits when other rows stand beside them; int8 rows do not.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from assistant.engine.cache import KeyValueCache
from assistant.engine.quant import MARGIN, matrix
from assistant.engine.qwen2 import HeadLayers, Rows, rotary_tables
from assistant.models.headfile import MATRICES, HeadFile
from assistant.models.store import StoredModel
from assistant.types import ModelConfig
from cuda_ops import reference

QKV = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]
GATE_UP = ["mlp.gate_proj", "mlp.up_proj"]


class TorchLayers:
    """Layers of a stored model of either precision."""

    def __init__(self, stored: StoredModel) -> None:
        self.path = "cpu/torch"
        self._stored, self._config = stored, stored.config
        self._int8 = stored.precision == "int8"
        tables = rotary_tables(self._config.rope_theta, self._config.head_dim, self._config.context_length)
        self._cosine, self._sine = tables

    def _linear(self, x: Tensor, names: list[str], bias: bool = False) -> Tensor:
        weight = matrix(self._stored, [f"{name}.weight" for name in names])
        offset = matrix(self._stored, [f"{name}.bias" for name in names]) if bias else None
        if not self._int8:
            return functional.linear(x, weight, offset)
        scb = matrix(self._stored, [f"{name}.SCB" for name in names])
        return reference.int8_linear(*reference.quantize_rows(x), weight, scb, offset)

    def _add_fine(self, qkv: Tensor, x: Tensor, names: list[str]) -> None:
        """Adds the second plane of the key and value weights' codes to the last columns of qkv."""
        weight = matrix(self._stored, [f"{name}.fine" for name in names])
        scb = matrix(self._stored, [f"{name}.SCB" for name in names]) / reference.FINE
        qkv[:, -weight.shape[0] :] += reference.int8_linear(*reference.quantize_rows(x), weight, scb)

    def _normed(self, x: Tensor, name: str) -> Tensor:
        weight = matrix(self._stored, [name])
        if not self._int8:
            return functional.rms_norm(x, weight.shape, weight, self._config.norm_epsilon)
        return reference.rms_norm(x, weight, self._config.norm_epsilon)

    def _attention(self, q: Tensor, layer: int, rows: Rows, cache: KeyValueCache) -> Tensor:
        keys, values = cache.keys[layer], cache.values[layer]
        if self._int8:
            seen = [rows.seen(row) for row in range(q.shape[0])]
            return reference.decode_attention(q, keys, values, seen)
        # all rows at once: fp32 is the yardstick for accuracy, not for identity
        end = rows.base + q.shape[0]
        flat = keys.transpose(-1, -2).reshape(keys.shape[0], -1, keys.shape[2])[:, :end]
        shared = q.shape[1] // keys.shape[0]
        out = functional.scaled_dot_product_attention(
            q.transpose(0, 1)[None],
            flat.repeat_interleave(shared, 0)[None],
            values[:, :end].repeat_interleave(shared, 0)[None],
            attn_mask=rows.mask,
        )
        return out[0].transpose(0, 1)

    def run(self, layer: int, x: Tensor, rows: Rows, cache: KeyValueCache) -> Tensor:
        """As Layers.run."""
        config, at, count = self._config, f"model.layers.{layer}.", x.shape[0]
        normed = self._normed(x, f"{at}input_layernorm.weight")
        qkv = self._linear(normed, [at + name for name in QKV], config.attention_bias)
        if self._int8:
            self._add_fine(qkv, normed, [f"{at}{name}" for name in QKV[1:]])
        sizes = [config.heads, config.kv_heads, config.kv_heads]
        q, k, v = torch.split(qkv.view(count, -1, config.head_dim), sizes, dim=1)
        positions = rows.positions.long()
        cosine, sine = self._cosine[positions], self._sine[positions]
        reference.append(cache.keys[layer], cache.values[layer], reference.rotate(k, cosine, sine), v, rows.base)
        attended = self._attention(reference.rotate(q, cosine, sine), layer, rows, cache)
        x = x + self._linear(attended.reshape(count, -1), [at + "self_attn.o_proj"])
        normed = self._normed(x, f"{at}post_attention_layernorm.weight")
        inner = reference.silu_mul(self._linear(normed, [at + name for name in GATE_UP]))
        if self._stored.rotation.block:
            inner = reference.hadamard(inner, self._stored.rotation.block)
        return x + self._linear(inner, [at + "mlp.down_proj"])

    def norm(self, x: Tensor) -> Tensor:
        """As Layers.norm."""
        return self._normed(x, "model.norm.weight")

    def scores(self, hidden: Tensor) -> Tensor:
        """As Layers.scores."""
        scores = self._linear(hidden, ["lm_head"])
        if not self._int8:
            return scores
        weight, fine, scb = (matrix(self._stored, [f"lm_head.{part}"]) for part in ("weight", "fine", "SCB"))
        return reference.rescore(scores, hidden, weight, fine, scb, MARGIN)

    def head(self, file: HeadFile, stored: StoredModel) -> HeadLayers:
        """As Layers.head."""
        rows = torch.from_numpy(file.tensors["vocabulary"]).long()
        weight = matrix(stored, ["lm_head.weight"])[rows].float()
        if self._int8:
            weight = weight * (matrix(stored, ["lm_head.SCB"])[rows] / 127.0)[:, None]
        return TorchHead(self, file, weight)

    def rotary(self, position: int) -> tuple[Tensor, Tensor]:
        """Cosine and sine [1, dim / 2] of a position."""
        return self._cosine[position : position + 1], self._sine[position : position + 1]

    @property
    def config(self) -> ModelConfig:
        """The model's shape."""
        return self._config


class TorchHead:
    """A draft head's matrices as float32, in plain torch."""

    def __init__(self, layers: TorchLayers, file: HeadFile, rows: Tensor) -> None:
        """rows: float32 [V, hidden], the output rows of the draft vocabulary."""
        self._layers, self._config, self._rows = layers, layers.config, rows
        arrays = file.tensors
        self._weights = {
            name: torch.from_numpy(arrays[f"{name}.weight"]).float()
            * (torch.from_numpy(arrays[f"{name}.SCB"]) / 127.0)[:, None]
            for name in MATRICES
        }
        self._bias = torch.from_numpy(arrays["qkv.bias"])
        self._block = file.facts.down_block

    def _norm(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self._config.norm_epsilon)

    def step(
        self, name: str, parts: Sequence[Tensor], position: int, cache: KeyValueCache
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As HeadLayers.step."""
        x = functional.linear(torch.cat([self._norm(part) for part in parts])[None], self._weights[name])
        y = self._layer(x, position, cache)
        return x[0], y[0], functional.linear(self._norm(y), self._rows)[0]

    def _layer(self, x: Tensor, position: int, cache: KeyValueCache) -> Tensor:
        config, weights = self._config, self._weights
        keys, values = cache.keys[config.layers - 1], cache.values[config.layers - 1]
        sizes = [config.heads, config.kv_heads, config.kv_heads]
        qkv = functional.linear(self._norm(x), weights["qkv"], self._bias)
        q, k, v = torch.split(qkv.view(1, sum(sizes), config.head_dim), sizes, dim=1)
        cosine, sine = self._layers.rotary(position)
        reference.append(keys, values, reference.rotate(k, cosine, sine), v, position)
        seen = torch.arange(position + 1)
        mixed = reference.decode_attention(reference.rotate(q, cosine, sine), keys, values, [seen])
        x = x + functional.linear(mixed.reshape(1, -1), weights["out"])
        inner = reference.silu_mul(functional.linear(self._norm(x), weights["gate_up"]))
        if self._block:
            inner = reference.hadamard(inner, self._block)
        return x + functional.linear(inner, weights["down"])
