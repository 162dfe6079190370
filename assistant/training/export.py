"""Turns a trained head into a head file for the engine: rows in int8, the Hadamard turn of down_proj folded in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from assistant.models import headfile
from assistant.models.headfile import FORMAT, Facts
from assistant.models.rotation import hadamard
from assistant.models.store import StoredModel
from assistant.training.head import Head


def export(
    path: Path,
    head: Head,
    stored: StoredModel,
    model: str,
    *,
    taps: Sequence[int],
    draft_length: int,
    tokens: int,
    acceptance: Sequence[float],
) -> None:
    """Writes the head of `stored`, the model as it runs (whose states it was trained on)."""
    block = stored.rotation.block
    weights = {name: getattr(head, name).detach().numpy() for name in headfile.MATRICES}
    for name in ("first", "later"):
        weights[name] = weights[name] * float(head.scale)
    weights["down"] = hadamard(weights["down"], max(1, block))
    tensors: dict[str, headfile.Array] = {
        "qkv.bias": head.bias.detach().numpy(),
        "vocabulary": head.vocabulary.numpy().astype(np.int32),
    }
    for name, matrix in weights.items():
        tensors[f"{name}.weight"], tensors[f"{name}.SCB"] = headfile.quantised(matrix)
    facts = Facts(
        format=FORMAT,
        base=model,
        base_sha256=stored.source_sha256,
        tokenizer_sha256=stored.tokenizer_sha256,
        preparation=stored.preparation,
        precision=stored.precision,
        taps=tuple(taps),
        norm="pre",
        draft_length=draft_length,
        down_block=block,
        training_tokens=tokens,
        acceptance=tuple(round(share, 4) for share in acceptance),
    )
    headfile.write(path, facts, tensors)
