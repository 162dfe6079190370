"""Tiny random models for tests: GGUF files written with the `gguf` package, two layers, a small vocabulary.

`write(path, ...)` returns the float32 weights by their name in the file: what must come out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Kind = gguf.GGMLQuantizationType

LAYERS, HIDDEN, INNER, HEADS, KV_HEADS = 2, 256, 512, 4, 2
HEAD = HIDDEN // HEADS
SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
]
MERGES = ["Ġ Ġ", "d e", "de f", "Ġ x", "r e", "re t", "u r", "ur n", "ret urn"]


def byte_alphabet() -> list[str]:
    """The 256 characters that stand for bytes in a byte-level vocabulary."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    spare = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(spare)) for byte in range(256)]


def vocabulary() -> tuple[list[str], list[int]]:
    """(tokens, their types): bytes, merged pieces, control tokens, one user-defined, three unused."""
    tokens = [*byte_alphabet(), *(merge.replace(" ", "") for merge in MERGES)]
    types = [1] * len(tokens) + [3] * len(SPECIAL) + [4] + [5] * 3
    return [*tokens, *SPECIAL, "<tool_call>", "[PAD0]", "[PAD1]", "[PAD2]"], types


def shapes(vocabulary_size: int, *, biased: bool = True, tied: bool = False) -> dict[str, tuple[int, ...]]:
    """Every tensor's name in the file and its shape, row-major."""
    out: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (vocabulary_size, HIDDEN),
        "output_norm.weight": (HIDDEN,),
    }
    if not tied:
        out["output.weight"] = (vocabulary_size, HIDDEN)
    for layer in range(LAYERS):
        at = f"blk.{layer}"
        out |= {
            f"{at}.attn_norm.weight": (HIDDEN,),
            f"{at}.ffn_norm.weight": (HIDDEN,),
            f"{at}.attn_q.weight": (HIDDEN, HIDDEN),
            f"{at}.attn_k.weight": (KV_HEADS * HEAD, HIDDEN),
            f"{at}.attn_v.weight": (KV_HEADS * HEAD, HIDDEN),
            f"{at}.attn_output.weight": (HIDDEN, HIDDEN),
            f"{at}.ffn_gate.weight": (INNER, HIDDEN),
            f"{at}.ffn_up.weight": (INNER, HIDDEN),
            f"{at}.ffn_down.weight": (HIDDEN, INNER),
        }
        if biased:
            out |= {
                f"{at}.attn_q.bias": (HIDDEN,),
                f"{at}.attn_k.bias": (KV_HEADS * HEAD,),
                f"{at}.attn_v.bias": (KV_HEADS * HEAD,),
            }
    return out


def random_blocks(kind: Kind, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Random bytes of a block format whose fp16 scales are small finite numbers."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = random.integers(0, 256, (int(np.prod(shape)) // block, size), dtype=np.uint8)
    places = {Kind.Q4_K: (0, 2), Kind.Q6_K: (size - 2,), Kind.Q5_K: (0, 2)}[kind]
    for place in places:
        scale = random.uniform(1e-4, 1e-2, raw.shape[0]).astype(np.float16)
        raw[:, place : place + 2] = scale.view(np.uint8).reshape(-1, 2)
    return raw.reshape(*shape[:-1], shape[-1] // block * size)


def write(
    path: Path,
    *,
    architecture: str = "qwen2",
    kinds: Mapping[str, Kind] | None = None,
    tied: bool = False,
    pre: str = "qwen2",
    model: str = "gpt2",
    seed: int = 0,
    numbers: Mapping[str, Any] | None = None,
    extra: Mapping[str, tuple[int, ...]] | None = None,
    drop: str = "",
) -> dict[str, Array]:
    """Writes a model. Returns name in the file -> what it holds, as float32.

    `kinds`: number format by the end of a tensor's name, F32 else; `numbers`: header values to set; `extra`:
    more tensors; `drop`: a tensor to leave out.
    """
    random = np.random.default_rng(seed)
    tokens, types = vocabulary()
    writer = gguf.GGUFWriter(path, architecture)
    defaults: dict[str, Any] = {
        "context_length": 512,
        "embedding_length": HIDDEN,
        "block_count": LAYERS,
        "feed_forward_length": INNER,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "rope.freq_base": 10000.0,
        "attention.layer_norm_rms_epsilon": 1e-6,
    }
    for name, value in (defaults | dict(numbers or {})).items():
        if isinstance(value, str):
            writer.add_string(f"{architecture}.{name}", value)
        elif isinstance(value, float):
            writer.add_float32(f"{architecture}.{name}", value)
        elif value is not None:
            writer.add_uint32(f"{architecture}.{name}", value)
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(MERGES)
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_chat_template("{{ messages }}")
    out: dict[str, Array] = {}
    every = shapes(len(tokens), biased=architecture == "qwen2", tied=tied) | dict(extra or {})
    for name, shape in every.items():
        if name == drop:
            continue
        kind = next((kind for end, kind in (kinds or {}).items() if name.endswith(end)), Kind.F32)
        if kind in (Kind.Q4_K, Kind.Q5_K, Kind.Q6_K):
            data = random_blocks(kind, shape, random)
        else:
            data = gguf.quants.quantize(random.normal(0, 0.1, shape).astype(np.float32), kind)
        writer.add_tensor(name, data, raw_dtype=kind)
        out[name] = np.array(gguf.quants.dequantize(data, kind), dtype=np.float32).reshape(shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out
