"""Draft heads for tiny models: of random rows, or fitted in closed form to the model's own text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from assistant.engine.generate import generate
from assistant.engine.prefix import PrefixStore
from assistant.engine.qwen2 import Qwen2
from assistant.engine.sampling import Sampling
from assistant.models.headfile import FORMAT, Array, Facts, quantised, shapes
from assistant.models.store import StoredModel
from assistant.training import collect, examples, ridge, run
from assistant.training.head import Head, base_weights
from assistant.training.shards import as_float


def facts(stored: StoredModel, **other: object) -> Facts:
    """Of a head that fits `stored`."""
    named: dict[str, object] = {
        "format": FORMAT,
        "base": stored.id,
        "base_sha256": stored.source_sha256,
        "tokenizer_sha256": stored.tokenizer_sha256,
        "preparation": stored.preparation,
        "precision": stored.precision,
        "taps": run.taps(stored.config.layers),
        "norm": "pre",
        "draft_length": 4,
        "down_block": stored.rotation.block,
        "training_tokens": 1,
        "acceptance": (0.5, 0.25),
    }
    return Facts(**named | other)  # type: ignore[arg-type]


def random_tensors(stored: StoredModel, seed: int = 0, vocabulary: Sequence[int] | None = None) -> dict[str, Array]:
    """A head file's tensors, of random rows."""
    draw = np.random.default_rng(seed)
    ids = range(0, stored.config.vocabulary_size, 2) if vocabulary is None else vocabulary
    tensors: dict[str, Array] = {"vocabulary": np.array(ids, np.int32)}
    for name, (rows, columns) in shapes(stored.config).items():
        matrix = draw.standard_normal((rows, columns)) * columns**-0.5
        tensors[f"{name}.weight"], tensors[f"{name}.SCB"] = quantised(matrix.astype(np.float32))
    tensors["qkv.bias"] = draw.standard_normal(shapes(stored.config)["qkv"][0]).astype(np.float32)
    return tensors


def fitted(backbone: Qwen2, stored: StoredModel, exact: StoredModel, prompts: Sequence[Sequence[int]]) -> Head:
    """Begun from the model's last layer and fitted to its own continuations; it drafts with some success."""
    table = stored.array("model.embed_tokens.weight")
    size = stored.config.vocabulary_size
    vocabulary = torch.arange(0, size)[torch.arange(size) % 9 != 4]  # some ids cannot be drafted
    readings = []
    for number, prompt in enumerate(prompts):
        sampling = Sampling(temperature=0.8 if number % 2 else 0.0, seed=number)
        kept = PrefixStore(backbone, 1 << 30)
        made = generate(backbone, prompt, store=kept, sampling=sampling, max_new_tokens=120, end_ids=())
        ids = [*prompt, *made.ids]
        reading = collect.read_through(backbone, ids, len(prompt), run.taps(stored.config.layers), {})
        readings.append((reading, as_float(table[np.array(ids)])))
    scale = float(torch.cat([reading.sizes[0][examples.SKIP :] for reading, _ in readings]).median())
    head = Head(exact.config, base_weights(exact, vocabulary), vocabulary, scale)
    places = examples.place_of(vocabulary, size)
    ridge.begin(head, [(reading, e) for reading, e in readings], places)
    return head
