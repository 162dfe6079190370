"""The real engine: a model's name becomes a loaded backbone, its tokenizer and a Completer around them.

Importing this module imports torch; the worker does so on its own thread. What is missing is converted first
(never downloaded); only the mapping of the weights until they can be used counts as load time.
"""

from __future__ import annotations

import time

from assistant import system_errors
from assistant.engine import device, mtp
from assistant.errors import ModelCorruptError
from assistant.models import catalog, store
from assistant.models.catalog import Entry
from assistant.prompt.tokenizer import Tokenizer
from assistant.service.engine_api import ProgressHook, Wanted
from assistant.service.pipeline import Completer, LoadedEngine


def load(wanted: Wanted, progress: ProgressHook) -> Completer:
    """The engine that `wanted` names. Raises what catalog, store and device raise."""
    entry = catalog.find(wanted.model)
    if entry.kind == "transformers":
        return Completer(_foreign(entry, wanted), wanted.store_bytes)
    # Before anything is converted: refuses what this machine cannot run, and compiles the operators where
    # needed.
    device.plan(wanted.precision, wanted.device, wanted.threads)
    folder = store.ensure(entry, wanted.precision, progress)
    begun = time.perf_counter()
    stored = store.open_model(folder)
    backbone, plan = device.load(stored, wanted.device, wanted.threads)
    head = mtp.load_head(backbone, stored, entry.id)
    try:
        tokenizer = Tokenizer(stored.tokenizer_path)
    except ModelCorruptError as error:
        refused = system_errors.understood(error.__cause__) if isinstance(error.__cause__, OSError) else None
        raise refused or ModelCorruptError(f"{stored.tokenizer_path} is damaged: {stored.advice}") from error
    loaded = LoadedEngine(
        backbone,
        tokenizer,
        end_ids=tokenizer.end_ids | frozenset(stored.end_ids),
        model=entry.id,
        precision=wanted.precision,
        path=plan.path,
        reason=plan.reason,
        head=head,
        load_ms=(time.perf_counter() - begun) * 1000,
    )
    return Completer(loaded, wanted.store_bytes)


def _foreign(entry: Entry, wanted: Wanted) -> LoadedEngine:
    """A model of another family, run by transformers as it is."""
    from assistant.engine.hf import HfBackbone

    # Such a model has no int8 form; the default precision is read as "what there is", any other must be
    # served.
    device.plan("fp32" if wanted.precision == "int8" else wanted.precision, wanted.device)
    assert entry.path is not None
    begun = time.perf_counter()
    backbone = HfBackbone(entry.path)
    tokenizer = Tokenizer(entry.path)
    return LoadedEngine(
        backbone,
        tokenizer,
        end_ids=tokenizer.end_ids,
        model=entry.id,
        precision=backbone.precision,
        path="cpu/transformers",
        reason=f"only transformers can run this family of models, in {backbone.precision}",
        load_ms=(time.perf_counter() - begun) * 1000,
    )
