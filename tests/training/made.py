"""A tiny head, and sequences with something to learn: each id is followed by the same other one, mostly."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from assistant.training import examples, shards
from assistant.training.fit import Data
from assistant.training.head import Head
from assistant.training.shards import TOP, Reading
from assistant.types import ModelConfig

CONFIG = ModelConfig("llama", 3, 32, 64, 2, 1, 16, 128, 256, 1e4, 1e-6, False)
EMBEDDING = torch.randn(CONFIG.vocabulary_size, CONFIG.hidden_size, generator=torch.Generator().manual_seed(1))
# what the last layer is given for an id: no linear map from its embedding
STATE = torch.randn(CONFIG.vocabulary_size, CONFIG.hidden_size, generator=torch.Generator().manual_seed(3))
FOLLOWING = torch.randperm(CONFIG.vocabulary_size, generator=torch.Generator().manual_seed(2))


def reading(seed: int, length: int = 40, project: str = "some") -> Reading:
    """One sequence; a fifth of its ids is not what the backbone chose."""
    draw = torch.Generator().manual_seed(seed)
    ids = torch.zeros(length, dtype=torch.int64)
    other = torch.rand(length, generator=draw) < 0.2
    random = torch.randint(0, CONFIG.vocabulary_size, (length,), generator=draw)
    for at in range(length):
        ids[at] = random[at] if at == 0 or other[at] else FOLLOWING[ids[at - 1]]
    choices = FOLLOWING[ids]
    top_ids = (choices[:, None] + torch.arange(TOP)) % CONFIG.vocabulary_size
    top_scores = 3.0 * torch.arange(TOP, 0, -1).float().expand(length, TOP)
    noise = torch.randn(3, length, CONFIG.hidden_size, generator=draw)
    states, sizes = shards.packed(3 * STATE[ids] + 0.3 * noise)
    about = {"project": project, "kind": "block", "language": "python"}
    return Reading(ids, 10, choices, top_ids, top_scores, states.float(), sizes, about)


def head(seed: int = 0) -> Head:
    """With random base weights and the whole vocabulary."""
    draw = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, generator=draw) * 0.3 * columns**-0.5

    hidden, inner = CONFIG.hidden_size, CONFIG.intermediate_size
    base = {
        "qkv": matrix(4 * CONFIG.head_dim, hidden),
        "bias": torch.zeros(4 * CONFIG.head_dim),
        "out": matrix(hidden, hidden),
        "gate_up": matrix(2 * inner, hidden),
        "down": matrix(hidden, inner),
        "rows": STATE[FOLLOWING.argsort()].contiguous(),
    }
    return Head(CONFIG, base, torch.arange(CONFIG.vocabulary_size), 3.0)


def data(folder: Path) -> Data:
    """Five shards to train on, one of a project kept aside; written at the first call."""
    if not (folder / "train").exists():
        for number in range(5):
            made = [reading(10 * number + n, length=30 + n) for n in range(4)]
            shards.write(folder / "train" / f"shard-{number:05d}.safetensors", made)
        kept = [reading(1000 + n, project="other") for n in range(4)]
        shards.write(folder / "held-out" / "shard-00000.safetensors", kept)
    return Data(folder / "train", folder / "held-out", lambda ids: EMBEDDING[ids], {"other"})


PLACES = examples.place_of(torch.arange(CONFIG.vocabulary_size), CONFIG.vocabulary_size)
