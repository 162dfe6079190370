"""The head as a torch module: one decoder layer, begun as the backbone's last, applied again for every drafted token.

Draft step k at position t + k takes the token there and predicts the layer's input; the layer attends to the backbone's
own keys and values of its last layer up to t and to the head's after it; the backbone's last norm and a part of its
output rows give the scores of the token at t + k + 1. The layout follows DeepSeek-V3's recursed module
(arXiv:2412.19437 section 2.2), the three states of step 1 EAGLE-3 (arXiv:2503.01840).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from assistant.engine.qwen2 import rotary_tables
from assistant.models.store import StoredModel
from assistant.training.shards import as_float
from assistant.types import ModelConfig


def norm(x: Tensor, epsilon: float) -> Tensor:
    """RMS norm without weights: the conversion has folded those into the matrices that follow."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon)


class Context:
    """What a head attends to in one sequence: the last layer's true keys and values, float32 [kv_heads, T, dim]."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values = keys, values


class Head(nn.Module):
    """first [H, 4H]: from three states at t and the embedding at t + 1; later [H, 3H]: from the layer's last input and
    output and the embedding. `scale`: the size of the layer's inputs, so that all matrices are of one size."""

    true_kv: Tensor
    true_bias: Tensor
    rows: Tensor
    vocabulary: Tensor
    scale: Tensor
    cosine: Tensor
    sine: Tensor

    def __init__(self, config: ModelConfig, base: dict[str, Tensor], vocabulary: Tensor, scale: float) -> None:
        """base: qkv, bias, out, gate_up, down of the backbone's last layer; `rows`, its output rows of `vocabulary`."""
        super().__init__()
        self.config, self.epsilon = config, config.norm_epsilon
        hidden = config.hidden_size
        self.first = nn.Parameter(torch.zeros(hidden, 4 * hidden))
        self.later = nn.Parameter(torch.zeros(hidden, 3 * hidden))
        self.qkv, self.bias = nn.Parameter(base["qkv"].clone()), nn.Parameter(base["bias"].clone())
        self.out = nn.Parameter(base["out"].clone())
        self.gate_up, self.down = nn.Parameter(base["gate_up"].clone()), nn.Parameter(base["down"].clone())
        self.register_buffer("true_kv", base["qkv"][config.heads * config.head_dim :].clone(), persistent=False)
        self.register_buffer("true_bias", base["bias"][config.heads * config.head_dim :].clone(), persistent=False)
        self.register_buffer("rows", base["rows"], persistent=False)
        self.register_buffer("vocabulary", vocabulary)
        self.register_buffer("scale", torch.tensor(scale))
        cosine, sine = rotary_tables(config.rope_theta, config.head_dim, 4096)
        self.register_buffer("cosine", cosine, persistent=False)
        self.register_buffer("sine", sine, persistent=False)

    def _rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """x [R, heads, dim]."""
        a, b = x.chunk(2, dim=-1)
        cosine, sine = self.cosine[positions][:, None], self.sine[positions][:, None]
        return torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1)

    def context(self, inputs: Tensor) -> Context:
        """The true keys and values at positions 0.., from the last layer's true inputs [T, H]."""
        config = self.config
        both = functional.linear(norm(inputs, self.epsilon), self.true_kv, self.true_bias)
        k, v = both.view(len(inputs), 2, config.kv_heads, config.head_dim).unbind(1)
        k = self._rotate(k, torch.arange(len(inputs)))
        return Context(k.transpose(0, 1).contiguous(), v.transpose(0, 1).contiguous())

    def first_input(self, states: Tensor, embedding: Tensor) -> Tensor:
        """states [R, 3H], each third of unit size; embedding [R, H] -> the layer's input [R, H]."""
        return functional.linear(torch.cat([states, norm(embedding, self.epsilon)], -1), self.first) * self.scale

    def later_input(self, x: Tensor, y: Tensor, embedding: Tensor) -> Tensor:
        """The layer's last input and output and the embedding, all [R, H] -> its next input."""
        parts = torch.cat([norm(part, self.epsilon) for part in (x, y, embedding)], -1)
        return functional.linear(parts, self.later) * self.scale

    def layer(
        self, x: Tensor, at: Tensor, step: int, context: Context, own: Sequence[tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Step `step` (1..) for rows that stand at t = at [R]: the layer's output [R, H] and its own key and value.

        own: the keys and values [R, kv_heads, dim] of the steps before.
        """
        config, rows = self.config, len(x)
        sizes = [config.heads, config.kv_heads, config.kv_heads]
        qkv = functional.linear(norm(x, self.epsilon), self.qkv, self.bias)
        q, k, v = torch.split(qkv.view(rows, sum(sizes), config.head_dim), sizes, dim=1)
        q, k = self._rotate(q, at + step), self._rotate(k, at + step)
        own = [*own, (k, v)]
        shared = config.heads // config.kv_heads
        grouped = q.view(rows, config.kv_heads, shared, -1).permute(1, 2, 0, 3)  # [kv, shared, R, dim]
        length = context.keys.shape[1]
        seen = grouped.reshape(config.kv_heads, shared * rows, -1) @ context.keys.transpose(1, 2)
        seen = seen.view(config.kv_heads, shared, rows, length)
        seen = seen.masked_fill(torch.arange(length) > at[:, None], float("-inf"))
        mine = torch.stack([(grouped * key.transpose(0, 1)[:, None]).sum(-1) for key, _ in own], dim=-1)
        weights = torch.softmax(torch.cat([seen, mine], -1) / config.head_dim**0.5, dim=-1)
        far = weights[..., :length].reshape(config.kv_heads, shared * rows, length) @ context.values
        mixed = far.view(config.kv_heads, shared, rows, -1)
        for n, (_, value) in enumerate(own):
            mixed = mixed + weights[..., length + n, None] * value.transpose(0, 1)[:, None]
        x = x + functional.linear(mixed.permute(2, 0, 1, 3).reshape(rows, -1), self.out)
        gate, up = functional.linear(norm(x, self.epsilon), self.gate_up).chunk(2, -1)
        return x + functional.linear(functional.silu(gate) * up, self.down), (k, v)

    def scores(self, y: Tensor) -> Tensor:
        """The layer's output [R, H] -> scores of the draft vocabulary [R, V]."""
        return functional.linear(norm(y, self.epsilon), self.rows)


def base_weights(stored: StoredModel, vocabulary: Tensor) -> dict[str, Tensor]:
    """The last layer of an fp32 model, and its output rows of `vocabulary`."""
    at = f"model.layers.{stored.config.layers - 1}."

    def matrix(*names: str) -> Tensor:
        return torch.cat([as_float(stored.array(at + name)) for name in names])

    qkv = [f"self_attn.{n}_proj" for n in "qkv"]
    bias = matrix(*[f"{n}.bias" for n in qkv]) if stored.config.attention_bias else None
    weight = matrix(*[f"{n}.weight" for n in qkv])
    return {
        "qkv": weight,
        "bias": torch.zeros(len(weight)) if bias is None else bias,
        "out": matrix("self_attn.o_proj.weight"),
        "gate_up": matrix("mlp.gate_proj.weight", "mlp.up_proj.weight"),
        "down": matrix("mlp.down_proj.weight"),
        "rows": as_float(stored.array("lm_head.weight")[vocabulary.numpy()]),
    }
