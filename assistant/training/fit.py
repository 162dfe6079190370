"""Trains a head on collected sequences: closed-form begin, then gradient steps, more draft steps as training goes on.

A checkpoint (weights, optimiser, place in the data, record of the run) is written every few minutes under a temporary
name and renamed, so a killed run goes on from the last one. A loss that is not a number, or far above what it was,
rolls back to the checkpoint and halves the rate.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from assistant.training import evaluate, examples, losses, ridge, shards
from assistant.training.head import Head
from assistant.training.shards import Reading

STEP_WEIGHTS = (0.45, 0.27, 0.17, 0.11)  # of the losses at positions 1, 2, ..: later ones matter only if earlier hold


@dataclass(frozen=True)
class Recipe:
    """How to train. minutes: of wall time in all, counted over resumed runs."""

    minutes: float
    draft: int = 4
    rate: float = 1e-4  # of the layer, begun as the backbone's
    rate_projections: float = 3e-4
    warm_up: int = 40
    curriculum: float = 0.35  # share of the time after which all positions are trained
    variation: float = 0.6  # share of the time after which the loss is mostly total variation
    seed: int = 0
    batch: int = 2  # sequences a step
    save_every: float = 120.0  # seconds


@dataclass
class Record:
    """What a run did so far: rows for the table and the curves."""

    steps: int = 0
    seconds: float = 0.0
    tokens: int = 0
    rolled_back: int = 0
    slower: float = 1.0
    rows: list[dict[str, float]] = field(default_factory=list)


class Data:
    """Shards in a seeded order, epoch after epoch, and the sequences kept aside."""

    def __init__(
        self, folder: Path, held_out: Path, embedding: Callable[[Tensor], Tensor], aside: Collection[str] = ()
    ) -> None:
        """aside: projects whose sequences are never trained on, whatever folder they lie in."""
        self._shards = shards.names(folder)
        self._held_out = shards.names(held_out)
        self._embedding = embedding
        self._aside = frozenset(aside)

    def _read(self, path: Path) -> list[Reading]:
        return [reading for reading in shards.read(path) if reading.about["project"] not in self._aside]

    def stream(self, seed: int, skip: int) -> Iterator[tuple[Reading, Tensor]]:
        """Endless, from sequence number `skip` on."""
        epoch = 0
        per_epoch = 0
        while True:
            draw = random.Random(seed * 1000 + epoch)
            order = draw.sample(self._shards, len(self._shards))
            for path in order:
                readings = self._read(path)
                draw.shuffle(readings)
                for reading in readings:
                    per_epoch += 1
                    if per_epoch > skip:
                        yield reading, self._embedding(reading.ids)
            epoch += 1

    def first(self, count: int) -> list[tuple[Reading, Tensor]]:
        """The first sequences, for the closed-form begin and the vocabulary."""
        found: list[tuple[Reading, Tensor]] = []
        for path in self._shards:
            found += [(reading, self._embedding(reading.ids)) for reading in self._read(path)]
            if len(found) >= count:
                break
        return found[:count]

    def held_out(self, count: int) -> list[tuple[Reading, Tensor]]:
        """Sequences of projects that are not trained on."""
        found = [reading for path in self._held_out for reading in shards.read(path)]
        return [(reading, self._embedding(reading.ids)) for reading in found[:count]]


def vocabulary(readings: list[tuple[Reading, Tensor]], size: int, always: list[int], whole: int) -> Tensor:
    """The `size` ids that the backbone chose most often, `always` among them; sorted, int64."""
    counts = torch.zeros(whole)
    for reading, _ in readings:
        counts += torch.bincount(reading.choices, minlength=whole).float()
        counts += 0.25 * torch.bincount(reading.ids, minlength=whole).float()
    counts[always] = math.inf
    # ids never seen: the low ones are the frequent ones of a byte-pair vocabulary
    counts -= torch.arange(whole) / (whole * 1e3)
    return torch.topk(counts, size).indices.sort().values


def train(
    head: Head,
    data: Data,
    places: Tensor,
    recipe: Recipe,
    checkpoint: Path,
    report: Callable[[str], None] = lambda text: None,
    stop: Callable[[], bool] = lambda: False,
) -> Record:
    """Trains until the recipe's minutes are over; resumes from `checkpoint` if there is one."""
    projections = [head.first, head.later]
    layer = [p for p in head.parameters() if all(p is not q for q in projections)]
    optimiser = torch.optim.AdamW(
        [{"params": projections, "rate": recipe.rate_projections}, {"params": layer, "rate": recipe.rate}],
        betas=(0.9, 0.98),
        weight_decay=0.0,
    )
    record = Record()
    aside = data.held_out(48)
    if checkpoint.exists():
        record = _load(checkpoint, head, optimiser)
        report(f"resumed at step {record.steps}, {record.seconds / 60:.1f} min")
    else:
        ridge.begin(head, data.first(96), places)
        _note(record, head, aside, places, recipe, math.nan, report)
        _save(checkpoint, head, optimiser, record)
    stream = data.stream(recipe.seed, record.steps * recipe.batch)
    recent, running, last_save = time.monotonic(), math.nan, time.monotonic()
    while record.seconds < recipe.minutes * 60 and not stop():
        done = record.seconds / (recipe.minutes * 60)
        count = min(recipe.draft, 1 + int(recipe.draft * done / max(recipe.curriculum, 1e-9)))
        warm = min(1.0, (record.steps + 1) / recipe.warm_up)
        rate = record.slower * warm * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))
        for group in optimiser.param_groups:
            group["lr"] = group["rate"] * rate
        value = 0.0
        optimiser.zero_grad(set_to_none=True)
        for _ in range(recipe.batch):
            reading, embeddings = next(stream)
            found = examples.steps(reading, places, count)
            loss = _loss(examples.run(head, reading, embeddings, found), found, done >= recipe.variation)
            (loss / recipe.batch).backward()  # type: ignore[no-untyped-call]
            value += float(loss.detach()) / recipe.batch
            record.tokens += len(reading.ids)
        size = float(torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0))
        if not math.isfinite(value) or not math.isfinite(size) or value > 4 * max(running, 0.5):
            rolled = record.rolled_back + 1
            steps, seconds = record.steps, record.seconds
            record = _load(checkpoint, head, optimiser)
            record.rolled_back, record.slower = rolled, record.slower / 2
            record.steps, record.seconds = steps, seconds
            report(f"step {steps}: the loss went to {value:.3g}; back to the last checkpoint at half the rate")
            if rolled > 8:
                break
            continue
        optimiser.step()
        running = value if math.isnan(running) else 0.95 * running + 0.05 * value
        record.steps += 1
        now = time.monotonic()
        record.seconds += now - recent
        recent = now
        if now - last_save > recipe.save_every:
            _note(record, head, aside, places, recipe, running, report)
            _save(checkpoint, head, optimiser, record)
            recent = last_save = time.monotonic()
    _note(record, head, aside, places, recipe, running, report)
    _save(checkpoint, head, optimiser, record)
    return record


def _loss(made: list[tuple[Tensor, Tensor, Tensor]], found: list[examples.Step], variation: bool) -> Tensor:
    total = torch.zeros(())
    for k, (step, (_, _, scores)) in enumerate(zip(found, made, strict=True)):
        each = losses.cross_entropy(scores, step)
        if variation:
            each = 0.1 * each + 0.9 * losses.total_variation(scores, step)
        weight = STEP_WEIGHTS[k] if k < len(STEP_WEIGHTS) else STEP_WEIGHTS[-1]
        total = total + weight * each.mean()
    return total


def _note(
    record: Record,
    head: Head,
    aside: list[tuple[Reading, Tensor]],
    places: Tensor,
    recipe: Recipe,
    loss: float,
    report: Callable[[str], None],
) -> None:
    """Adds a row of the record: acceptance on what is kept aside."""
    found = evaluate.acceptance(head, aside, places, recipe.draft)
    row = {"step": record.steps, "minutes": record.seconds / 60, "tokens": record.tokens, "loss": loss}
    row |= {f"position_{k}": share for k, share in enumerate(found.shares, start=1)}
    row["tokens_per_pass"] = found.tokens_per_pass
    record.rows.append(row)
    shares = " / ".join(f"{100 * share:.1f}" for share in found.shares)
    report(
        f"{row['minutes']:.1f} min, step {record.steps}, {record.tokens:,} tokens, loss {loss:.3f}: "
        f"acceptance {shares}%, {found.tokens_per_pass:.3f} tokens a pass"
    )


def _save(path: Path, head: Head, optimiser: torch.optim.Optimizer, record: Record) -> None:
    temporary = path.with_suffix(".tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    state: dict[str, Any] = {"head": head.state_dict(), "optimiser": optimiser.state_dict(), "record": asdict(record)}
    torch.save(state, temporary)
    os.replace(temporary, path)


def _load(path: Path, head: Head, optimiser: torch.optim.Optimizer) -> Record:
    state = torch.load(path, weights_only=True)
    head.load_state_dict(state["head"])
    optimiser.load_state_dict(state["optimiser"])
    return Record(**state["record"])
