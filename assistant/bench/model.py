"""The model that a bench measures: found, converted if need be and opened, with its tokenizer, in this
process.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import cast

from assistant import locations
from assistant.engine import device, mtp
from assistant.engine.backbone import Backbone
from assistant.errors import HeadError
from assistant.models import catalog, store
from assistant.models.parts import Progress
from assistant.prompt.tokenizer import Tokenizer
from cuda_ops import cpu
from cuda_ops.compile import CompileError


@dataclass(frozen=True)
class Model:
    """An opened model: `plan` says how it runs here."""

    backbone: Backbone
    tokenizer: Tokenizer
    stored: store.StoredModel
    plan: device.Plan
    head: mtp.MtpHead | HeadError | None = None


def load(name: str, precision: str, threads: int = 0, progress: Progress | None = None) -> Model:
    """Open a model by catalog name or path. Raises what models.store and engine.device raise."""
    entry = catalog.find(name)
    stored = store.open_model(store.ensure(entry, precision, progress))
    backbone, plan = device.load(stored, threads=threads)
    head = mtp.load_head(backbone, stored, entry.id)
    return Model(cast(Backbone, backbone), Tokenizer(stored.tokenizer_path), stored, plan, head)


def set_threads(count: int) -> None:
    """Let the kernels share their work among `count` threads from now on."""
    with contextlib.suppress(CompileError):  # no kernels here: torch runs everything
        cpu.load(locations.cache_folder() / "kernels").threads = count


def pass_bytes(stored: store.StoredModel) -> int:
    """Bytes of weights that a pass of one row reads: all but the embedding, of which it reads one row, and the output
    head's second plane, of which it reads a few.
    """
    embedding = "model.embed_tokens.weight"
    seldom = (embedding, "lm_head.fine")
    total = sum(stored.array(name).nbytes for name in stored.names() if name not in seldom)
    return int(total + stored.array(embedding)[0].nbytes)
