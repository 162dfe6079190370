"""Decoder layers by the C kernels, on int8 weights read in place from the mapped file, shared by processes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from assistant.engine.cache import KeyValueCache
from assistant.engine.quant import MARGIN, matrix
from assistant.engine.qwen2 import MOST_ROWS, HeadLayers, Rows, rotary_tables
from assistant.models.headfile import HeadFile
from assistant.models.store import StoredModel
from assistant.types import ModelConfig
from cuda_ops.cpu import Head, Kernels, Layer, Scratch
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

    @property
    def config(self) -> ModelConfig:
        """The model's shape."""
        return self._config

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

    def head(self, file: HeadFile, stored: StoredModel) -> HeadLayers:
        """As Layers.head."""
        return Int8Head(self, file)

    @property
    def parts(self) -> tuple[Kernels, Scratch, Tensor, Tensor, Tensor, tuple[Tensor, Tensor]]:
        """Kernels, scratch memory, cosine and sine, weights of the last norm, the output head."""
        return self._kernels, self._scratch, self._cosine, self._sine, self._norm, self._head


class Int8Head:
    """A draft head's matrices by the kernels, on the backbone's scratch memory."""

    def __init__(self, layers: Int8Layers, file: HeadFile) -> None:
        self._kernels, self._scratch, self._cosine, self._sine, self._norm, (weight, scb) = layers.parts
        self._config = layers.config
        self._tensors = {name: torch.from_numpy(array) for name, array in file.tensors.items()}
        rows = self._tensors["vocabulary"].long()
        self._weight, self._scb = weight[rows].contiguous(), scb[rows].contiguous()
        self._ones = torch.ones(self._config.hidden_size)
        config, tensors = self._config, self._tensors
        self._projections = {name: (tensors[f"{name}.weight"], tensors[f"{name}.SCB"]) for name in ("first", "later")}
        layer = Layer(
            **{f"{name}_w": tensors[f"{name}.weight"].data_ptr() for name in ("qkv", "out", "gate_up", "down")},
            **{f"{name}_scb": tensors[f"{name}.SCB"].data_ptr() for name in ("qkv", "out", "gate_up", "down")},
            qkv_bias=tensors["qkv.bias"].data_ptr(),
            norm_in=self._ones.data_ptr(),
            norm_post=self._ones.data_ptr(),
            epsilon=config.norm_epsilon,
            heads=config.heads,
            kv_heads=config.kv_heads,
            dim=config.head_dim,
            width=(config.heads + 2 * config.kv_heads) * config.head_dim,
            hidden=config.hidden_size,
            inner=config.intermediate_size,
            block=file.facts.down_block,
        )
        self._head = Head(
            layer=layer,
            norm=self._norm.data_ptr(),
            out_scb=self._scb.data_ptr(),
            out_w=self._weight.data_ptr(),
            vocabulary=len(rows),
        )

    def step(
        self, name: str, parts: Sequence[Tensor], position: int, cache: KeyValueCache
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As HeadLayers.step."""
        last = self._config.layers - 1
        weight, scb = self._projections[name]
        return self._kernels.draft_step(
            self._head,
            self._scratch,
            parts,
            weight,
            scb,
            self._cosine,
            self._sine,
            position,
            cache.keys[last],
            cache.values[last],
        )
