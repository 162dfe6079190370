"""Plain values that several layers share. Standard library only; no tensors, no text rules."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelConfig:
    """Shape of a decoder of the Qwen2 or Llama family, in Hugging Face's terms.

    Rotary positions are always of the half-split ("NeoX") kind; readers permute weights that are stored otherwise.
    """

    architecture: str  # "qwen2" or "llama"
    layers: int
    hidden_size: int
    intermediate_size: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary_size: int
    context_length: int
    rope_theta: float
    norm_epsilon: float
    attention_bias: bool  # q, k and v have a bias
