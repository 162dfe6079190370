"""Decoder layers by the C kernels, on int8 weights read in place from the mapped file, shared by processes."""

from __future__ import annotations

import torch
from torch import Tensor

from assistant.engine.cache import KeyValueCache
from assistant.engine.quant import MARGIN, matrix
from assistant.engine.qwen2 import MOST_ROWS, Rows, rotary_tables
from assistant.models.store import StoredModel
from cuda_ops.cpu import Kernels, Layer, Scratch
from cuda_ops.reference import FINE, GROUP, LANES


class Int8Layers:
    """Layers of a stored int8 model on loaded kernels."""

    def __init__(self, stored: StoredModel, kernels: Kernels) -> None:
        """The stored model's inner lengths are multiples of reference.BLOCK."""
        config = stored.config
        widest = max(config.hidden_size, config.intermediate_size, config.heads * config.head_dim)
        self.path = f"cpu/{kernels.version}"
        self._kernels, self._config = kernels, config
        self._held: list[Tensor] = []  # what the address tables below point into
        self._layers = [self._layer(stored, n) for n in range(config.layers)]
        self._norm = matrix(stored, ["model.norm.weight"])
        self._head = matrix(stored, ["lm_head.weight"]), matrix(stored, ["lm_head.SCB"])
        self._fine = matrix(stored, ["lm_head.fine"])
        self._cosine, self._sine = rotary_tables(config.rope_theta, config.head_dim, config.context_length)
        wide = max((config.heads + 4 * config.kv_heads) * config.head_dim, 2 * config.intermediate_size)
        self._scratch = Scratch(
            q=self._hold(torch.empty(MOST_ROWS, widest, dtype=torch.int8)),
            s=self._hold(torch.empty(MOST_ROWS, widest // GROUP)),
            offset=self._hold(torch.empty(MOST_ROWS, LANES)),
            wide=self._hold(torch.empty(MOST_ROWS, wide)),
            attended=self._hold(torch.empty(MOST_ROWS, config.heads * config.head_dim)),
        )

    def _hold(self, tensor: Tensor) -> int:
        self._held.append(tensor)
        return tensor.data_ptr()

    def _layer(self, stored: StoredModel, n: int) -> Layer:
        at = f"model.layers.{n}."

        def address(names: list[str], kind: str) -> int:
            return self._hold(matrix(stored, [f"{at}{name}.{kind}" for name in names]))

        qkv = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]
        qkv_w = [f"{at}{name}.weight" for name in qkv] + [f"{at}{name}.fine" for name in qkv[1:]]
        qkv_scb = matrix(stored, [f"{at}{name}.SCB" for name in qkv])
        fine_scb = matrix(stored, [f"{at}{name}.SCB" for name in qkv[1:]]) / FINE
        out, gate_up, down = ["self_attn.o_proj"], ["mlp.gate_proj", "mlp.up_proj"], ["mlp.down_proj"]
        config = self._config
        return Layer(
            qkv_w=self._hold(matrix(stored, qkv_w)),
            out_w=address(out, "weight"),
            gate_up_w=address(gate_up, "weight"),
            down_w=address(down, "weight"),
            qkv_scb=self._hold(torch.cat([qkv_scb, fine_scb])),
            out_scb=address(out, "SCB"),
            gate_up_scb=address(gate_up, "SCB"),
            down_scb=address(down, "SCB"),
            qkv_bias=self._hold(self._bias(stored, [f"{at}{name}.bias" for name in qkv], len(fine_scb))),
            norm_in=address(["input_layernorm"], "weight"),
            norm_post=address(["post_attention_layernorm"], "weight"),
            epsilon=config.norm_epsilon,
            heads=config.heads,
            kv_heads=config.kv_heads,
            dim=config.head_dim,
            width=(config.heads + 4 * config.kv_heads) * config.head_dim,
            hidden=config.hidden_size,
            inner=config.intermediate_size,
            block=stored.rotation.block,
        )

    def _bias(self, stored: StoredModel, names: list[str], fine: int) -> Tensor:
        if not self._config.attention_bias:
            return torch.zeros((self._config.heads + 4 * self._config.kv_heads) * self._config.head_dim)
        return torch.cat([matrix(stored, names), torch.zeros(fine)])

    def run(self, layer: int, x: Tensor, rows: Rows, cache: KeyValueCache) -> Tensor:
        """As Layers.run, in place."""
        self._kernels.decoder_layer(
            self._layers[layer],
            self._scratch,
            x,
            self._cosine,
            self._sine,
            rows.positions,
            rows.paths,
            cache.keys[layer],
            cache.values[layer],
            rows.base,
        )
        return x

    def norm(self, x: Tensor) -> Tensor:
        """As Layers.norm."""
        return self._kernels.rms_norm(x, self._norm, self._config.norm_epsilon)

    def scores(self, hidden: Tensor) -> Tensor:
        """As Layers.scores."""
        hidden, (weight, scb) = hidden.contiguous(), self._head
        scores = self._kernels.int8_linear(*self._kernels.quantize_rows(hidden), weight, scb)
        return self._kernels.rescore(scores, hidden, weight, self._fine, scb, MARGIN)
