"""A training of seconds on a tiny model made on the spot: shows that every stage works on this machine, kills included.

The model's layers are random and small; its output says after each byte the one that most often follows it in the
package's own text, so there is something to learn. The last stage takes away what the earlier ones left.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers.pre_tokenizers import ByteLevel

import assistant
from assistant import locations
from assistant.models import store, tokenizer_json
from assistant.models.catalog import Entry
from assistant.training.collect import Source
from assistant.training.fit import Recipe
from assistant.training.run import Plan, Report

HIDDEN, INNER, HEADS, LAYERS, CONTEXT = 128, 256, 2, 3, 1024
ASIDE = "models"  # the part of the package that is not trained on
PARTS = ("engine", "prompt", "service", ASIDE)
SPECIAL = ("<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
SHARPNESS = 0.06  # of the output's rows: the commonest byte leads by some 8 nats


class SmokePlan(Plan):
    """The package's own text, and a model that is written when it is first asked for."""

    def __init__(self, tokens: int = 5000, seconds: float = 2.0) -> None:
        recipe = Recipe(minutes=seconds / 60, warm_up=5, save_every=seconds / 4)
        super().__init__(str(_place() / "model"), tokens, recipe, held_out_tokens=1000)

    @property
    def entry(self) -> Entry:
        """As Plan.entry."""
        model = Path(self.model)
        if not (model / "config.json").exists():
            write(model)
        return super().entry

    @property
    def folder(self) -> Path:
        """As Plan.folder."""
        return _place()

    @property
    def aside(self) -> frozenset[str]:
        """As Plan.aside."""
        return frozenset({ASIDE})

    def fetch(self, report: Report) -> None:
        """Nothing is missing."""

    def sources(self, held_out: bool) -> Iterator[Source]:
        """As Plan.sources, over and over."""
        texts = [source for source in _texts() if (source.project == ASIDE) is held_out]
        while True:
            yield from texts

    def remove(self) -> None:
        """Takes away the model and all that was made of it."""
        for precision in ("int8", "fp32"):
            store.remove(store.folder_of(self.entry.id, precision))
        shutil.rmtree(self.folder)


def write(folder: Path) -> None:
    """Writes the model as a transformers folder, config.json last: with it the model is whole."""
    ids = {char: byte for byte, char in enumerate(sorted(ByteLevel.alphabet()))}
    tokens = [*ids, *SPECIAL]
    draw = np.random.default_rng(0)
    embedding = draw.standard_normal((len(tokens), HIDDEN)).astype(np.float32)
    tensors = {"model.embed_tokens.weight": embedding, "model.norm.weight": np.ones(HIDDEN, np.float32)}
    tensors["lm_head.weight"] = np.float32(SHARPNESS) * (_successors(ids, len(tokens)) @ embedding)
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{at}{name}.weight"] = np.ones(HIDDEN, np.float32)
        shapes = dict.fromkeys((f"self_attn.{name}_proj" for name in "qkvo"), (HIDDEN, HIDDEN))
        shapes |= {"mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN), "mlp.down_proj": (HIDDEN, INNER)}
        for name, shape in shapes.items():
            tensors[f"{at}{name}.weight"] = 0.02 * draw.standard_normal(shape).astype(np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors")
    types = [1] * len(ids) + [3] * len(SPECIAL)
    kind = {"model": "gpt2", "pre": "gpt-2", "tokens": tokens, "token_type": types, "merges": []}
    fields = {f"tokenizer.ggml.{name}": value for name, value in kind.items()}
    (folder / "tokenizer.json").write_text(tokenizer_json.build(fields, "the smoke model"), encoding="utf-8")
    config = {
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "vocab_size": len(tokens),
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-6,
        "eos_token_id": tokens.index(SPECIAL[0]),
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def _successors(ids: dict[str, int], size: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """float32 [size, size]: 1 where the row's token follows the column's most often."""
    counts: dict[str, Counter[str]] = {}
    for source in _texts():
        text = ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(source.text)[0][0]
        for one, other in pairwise(text):
            counts.setdefault(one, Counter())[other] += 1
    found = np.zeros((size, size), np.float32)
    for char, column in ids.items():
        likeliest = counts[char].most_common(1)[0][0] if char in counts else char
        found[ids[likeliest], column] = 1
    return found


def _place() -> Path:
    return locations.data_folder() / "training" / "smoke"


def _texts() -> list[Source]:
    top = Path(assistant.__file__).parent
    return [
        Source(part, "python", str(path.relative_to(top)), path.read_text(encoding="utf-8"))
        for part in PARTS
        for path in sorted((top / part).glob("*.py"))
    ]
