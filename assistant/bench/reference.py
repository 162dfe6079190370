"""`tokenleap bench accuracy --transformers`: our fp32 decoder against transformers on the same weights.

transformers reads the very file that we map, through a temporary folder with a config of its own making, so
what is compared is the arithmetic: every score of whole prompts, then greedy tokens, each engine going its
own way.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assistant.bench import accuracy, model
from assistant.engine.hf import HfBackbone
from assistant.errors import UnsupportedError
from assistant.models.store import StoredModel
from assistant.models.stored import WEIGHTS
from assistant.types import ModelConfig

PROMPTS = 5
TOKENS = 320  # of each prompt
STEPS = 64

_CLASSES = {"qwen2": "Qwen2ForCausalLM", "llama": "LlamaForCausalLM"}

Report = Callable[[str], None]


def config(shape: ModelConfig) -> dict[str, Any]:
    """config.json of a model of this shape, as transformers has it."""
    return {
        "architectures": [_CLASSES[shape.architecture]],
        "model_type": shape.architecture,
        "num_hidden_layers": shape.layers,
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocabulary_size,
        "max_position_embeddings": shape.context_length,
        "rope_theta": shape.rope_theta,
        "rms_norm_eps": shape.norm_epsilon,
        "attention_bias": shape.attention_bias,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
    }


@contextmanager
def folder(stored: StoredModel) -> Iterator[Path]:
    """A transformers folder around the stored fp32 weights; UnsupportedError for another precision."""
    if stored.precision != "fp32":
        raise UnsupportedError(
            f"transformers reads our fp32 weights only, not {stored.precision}; use --precision fp32."
        )
    with tempfile.TemporaryDirectory(prefix="tokenleap-reference-") as name:
        made = Path(name)
        (made / "config.json").write_text(json.dumps(config(stored.config)), encoding="utf-8")
        (made / "model.safetensors").symlink_to(stored.folder / WEIGHTS)
        yield made


def measure(
    name: str, packages: Sequence[str], seed: int = 0, threads: int = 0, report: Report | None = None
) -> dict[str, Any]:
    """The object of `bench accuracy --transformers --json`."""
    ours = model.load(name, "fp32", threads)
    texts = accuracy.windows(ours.tokenizer.encode, packages, PROMPTS * (TOKENS - 1), TOKENS, seed)
    with folder(ours.stored) as place:
        reference = HfBackbone(place)
        found = accuracy.against(ours.backbone, reference, texts[:PROMPTS], STEPS, report)
    return found | {"model": ours.backbone.name, "seed": seed, "packages": list(packages)}
