"""A whole training: corpus, collected sequences, head, record and file, each stage resumed where a kill left it.

Everything lies in one folder of the data directory: `train/` and `held-out/` (shards), `checkpoint.pt`, `record.json`
and the finished head file. Text of the corpus is never stored in shards, only ids and states.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from assistant import locations
from assistant.engine import device
from assistant.engine.qwen2 import Qwen2
from assistant.errors import UsageError
from assistant.models import catalog, store
from assistant.models.catalog import Entry
from assistant.models.store import StoredModel
from assistant.prompt.tokenizer import Tokenizer
from assistant.training import collect, corpus, evaluate, examples, export, fit
from assistant.training.collect import Source
from assistant.training.fit import Data, Recipe, Record
from assistant.training.head import Head, base_weights
from assistant.training.shards import as_float

Report = Callable[[str], None]
VOCABULARY = 8192
HELD_OUT_TOKENS = 20_000
CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True)
class Plan:
    """What to train: a model as the user names it, tokens to collect, and how."""

    model: str
    tokens: int
    recipe: Recipe
    seed: int = 1
    held_out_tokens: int = HELD_OUT_TOKENS

    @property
    def entry(self) -> Entry:
        """The model's. UnknownModelError."""
        return catalog.find(self.model)

    @property
    def folder(self) -> Path:
        """Of this model's training."""
        return locations.data_folder() / "training" / self.entry.id

    @property
    def aside(self) -> frozenset[str]:
        """Projects that are never trained on."""
        return frozenset(package.project for package in corpus.manifest() if package.held_out)

    def fetch(self, report: Report) -> None:
        """Brings the texts that sequences are cut from."""
        missing = corpus.fetch(corpus.default_folder(), report)
        if missing:
            report(f"{len(missing)} packages cannot be had here and are left out")

    def sources(self, held_out: bool) -> Iterator[Source]:
        """The texts, of projects kept aside or of all others, in the seed's order."""
        for file in corpus.sample(corpus.files(corpus.default_folder(), held_out), self.seed):
            yield Source(file.project, file.language, file.path, file.read())


def taps(layers: int) -> tuple[int, int, int]:
    """The layers whose outputs a head reads: the last layer's input, and two from the lower thirds."""
    return layers - 2, 2 * layers // 3 - 1, max(0, layers // 3 - 1)


def gather(plan: Plan, report: Report) -> int:
    """Fetches the corpus and collects sequences; gives how many tokens there are."""
    stored, backbone, tokenizer = _open(plan)
    plan.fetch(report)
    held = 0
    for name, held_out, tokens in (("held-out", True, plan.held_out_tokens), ("train", False, plan.tokens)):
        report(f"collecting {name} into {plan.folder / name}")
        held = collect.collect(
            backbone,
            tokenizer,
            plan.sources(held_out),
            plan.folder / name,
            seed=plan.seed,
            tokens=tokens,
            taps=taps(stored.config.layers),
            report=report,
        )
    return held


def train(plan: Plan, report: Report) -> Record:
    """Trains on what was collected. UsageError when nothing was."""
    torch.set_num_threads(device.default_threads())
    head, data, places = _head(plan)
    record = fit.train(head, data, places, plan.recipe, plan.folder / CHECKPOINT, report)
    (plan.folder / "record.json").write_text(json.dumps(asdict(record), indent=1) + "\n", encoding="utf-8")
    return record


def finish(plan: Plan, path: Path, report: Report) -> evaluate.Acceptance:
    """Measures the trained head on projects kept aside and writes its file."""
    head, data, places = _head(plan)
    state = torch.load(plan.folder / CHECKPOINT, weights_only=True)
    head.load_state_dict(state["head"])
    found = evaluate.acceptance(head, data.held_out(10**6), places, plan.recipe.draft)
    stored = store.open_model(store.ensure(plan.entry, "int8"))
    export.export(
        path,
        head,
        stored,
        plan.entry.id,
        taps=taps(stored.config.layers),
        draft_length=plan.recipe.draft,
        tokens=int(state["record"]["tokens"]),
        acceptance=found.shares,
    )
    report(f"{path}: {found.tokens_per_pass:.3f} tokens a pass on projects kept aside")
    return found


def _open(plan: Plan) -> tuple[StoredModel, Qwen2, Tokenizer]:
    stored = store.open_model(store.ensure(plan.entry, "int8"))
    backbone, _ = device.load(stored)
    return stored, backbone, Tokenizer(stored.tokenizer_path)


def _head(plan: Plan) -> tuple[Head, Data, Tensor]:
    """The head as it begins, the data, and each id's place in the draft vocabulary."""
    stored = store.open_model(store.ensure(plan.entry, "int8"))
    exact = store.open_model(store.ensure(plan.entry, "fp32"))
    table = stored.array("model.embed_tokens.weight")
    folders = plan.folder / "train", plan.folder / "held-out"
    data = Data(*folders, lambda ids: as_float(table[ids.numpy()]), plan.aside)
    begin = data.first(400)
    if not begin:
        raise UsageError(f"nothing is collected in {plan.folder}: run `tokenleap train --only collect` first")
    if (plan.folder / CHECKPOINT).exists():  # data collected since must not change what a run began with
        begun = torch.load(plan.folder / CHECKPOINT, weights_only=True)["head"]
        vocabulary, scale = begun["vocabulary"], float(begun["scale"])
    else:
        vocabulary = fit.vocabulary(begin, VOCABULARY, list(stored.end_ids), stored.config.vocabulary_size)
        scale = float(torch.cat([reading.sizes[0][examples.SKIP :] for reading, _ in begin]).median())
    head = Head(exact.config, base_weights(exact, vocabulary), vocabulary, scale)
    return head, data, examples.place_of(vocabulary, stored.config.vocabulary_size)
