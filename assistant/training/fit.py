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
from assistant.training.whiten import Whitened

BEGIN = 500  # sequences for the closed-form begin: far more rows than inputs
ASIDE = 40  # sequences kept aside that each row of the record measures
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
    save_every: float = 240.0  # seconds


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
    """The `size` ids (all of a smaller vocabulary) that the backbone chose most often, `always` among them; sorted,
    int64."""
    counts = torch.zeros(whole)
    for reading, _ in readings:
        counts += torch.bincount(reading.choices, minlength=whole).float()
        counts += 0.25 * torch.bincount(reading.ids, minlength=whole).float()
    counts[always] = math.inf
    # ids never seen: the low ones are the frequent ones of a byte-pair vocabulary
    counts -= torch.arange(whole) / (whole * 1e3)
    return torch.topk(counts, min(size, whole)).indices.sort().values


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
    aside = data.held_out(ASIDE)
    if checkpoint.exists():
        state, record = _load(checkpoint, head)
        report(f"resumed at step {record.steps}, {record.seconds / 60:.1f} min")
    else:
        state, record = _begin(head, data, places), Record()
        _note(record, head, aside, places, recipe, math.nan, report)
        _save(checkpoint, head, state, record)
    # a step that was rolled back has used its sequences too
    stream = data.stream(recipe.seed, (record.steps + record.rolled_back) * recipe.batch)
    begun = record.steps
    recent, running, last_save = time.monotonic(), math.nan, time.monotonic()
    while record.seconds < recipe.minutes * 60 and not stop():
        done = record.seconds / (recipe.minutes * 60)
        count = min(recipe.draft, 1 + int(recipe.draft * done / max(recipe.curriculum, 1e-9)))
        warm = min(1.0, (record.steps + 1) / recipe.warm_up)
        rate = record.slower * warm * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))
        for group, own in zip(state.optimiser.param_groups, (recipe.rate_projections, recipe.rate), strict=True):
            group["lr"] = own * rate
        value = 0.0
        head.zero_grad(set_to_none=True)
        for _ in range(recipe.batch):
            reading, embeddings = next(stream)
            record.tokens += len(reading.ids)
            found = examples.steps(reading, places, count)
            if not found:  # too short to teach anything
                continue
            loss = _loss(examples.run(head, reading, embeddings, found), found, done >= recipe.variation)
            (loss / recipe.batch).backward()  # type: ignore[no-untyped-call]
            value += float(loss.detach()) / recipe.batch
        size = state.gather(head)
        if not math.isfinite(value) or not math.isfinite(size) or value > 4 * max(running, 0.5):
            state, _ = _load(checkpoint, head)  # the weights alone: time, place in the data and rate go on
            record.rolled_back += 1
            record.slower /= 2
            report(f"step {record.steps}: the loss went to {value:.3g}; back to the last checkpoint at half the rate")
            if record.rolled_back > 8:
                break
            continue
        state.step()
        running = value if math.isnan(running) else 0.95 * running + 0.05 * value
        record.steps += 1
        now = time.monotonic()
        record.seconds += now - recent
        recent = now
        if now - last_save > recipe.save_every:
            _note(record, head, aside, places, recipe, running, report)
            _save(checkpoint, head, state, record)
            recent = last_save = time.monotonic()
    if record.steps > begun:
        _note(record, head, aside, places, recipe, running, report)
    _save(checkpoint, head, state, record)
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


class _State:
    """What a run keeps besides the head: the projections in whitened coordinates and the optimiser."""

    def __init__(self, head: Head, projections: list[Whitened]) -> None:
        self.projections = projections
        moved = [head.first, head.later]
        layer = [p for p in head.parameters() if all(p is not q for q in moved)]
        values = [projection.value for projection in projections]
        groups = [{"params": values}, {"params": layer}]
        self.optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.0)

    def gather(self, head: Head) -> float:
        """After backward: clips the gradients and gives their size before."""
        for projection in self.projections:
            projection.take_gradient()
        return float(torch.nn.utils.clip_grad_norm_([p for g in self.optimiser.param_groups for p in g["params"]], 1.0))

    def step(self) -> None:
        """Moves the parameters."""
        self.optimiser.step()
        for projection in self.projections:
            projection.put_back()


def _begin(head: Head, data: Data, places: Tensor) -> _State:
    grams = ridge.begin(head, data.first(BEGIN), places)
    targets = head.first, head.later
    return _State(head, [Whitened.of(target, gram) for target, gram in zip(targets, grams, strict=True)])


def _save(path: Path, head: Head, state: _State, record: Record) -> None:
    temporary = path.with_suffix(".tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    whole: dict[str, Any] = {
        "head": head.state_dict(),
        "white": [projection.white for projection in state.projections],
        "values": [projection.value.detach() for projection in state.projections],
        "optimiser": state.optimiser.state_dict(),
        "record": asdict(record),
    }
    try:
        with temporary.open("wb") as file:
            torch.save(whole, file)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _load(path: Path, head: Head) -> tuple[_State, Record]:
    whole = torch.load(path, weights_only=True)
    head.load_state_dict(whole["head"])
    targets = head.first, head.later
    parts = zip(targets, whole["white"], whole["values"], strict=True)
    state = _State(head, [Whitened(target, white, value) for target, white, value in parts])
    state.optimiser.load_state_dict(whole["optimiser"])
    return state, Record(**whole["record"])
