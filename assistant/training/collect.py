"""Collects what heads are trained on: real code in the product's prompt layouts, read by the backbone as it runs.

Each row carries the backbone's own choice and best scores, so a head learns what the backbone would say there, not what
people wrote; rows whose text the backbone would not have chosen are marked by `choices` and left to the trainer.
Sequences are drawn by seed and number, so a killed run goes on where the last whole shard ended.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from assistant.engine.generate import PREFILL_ROWS
from assistant.engine.qwen2 import Qwen2
from assistant.prompt import fim
from assistant.prompt.budget import PromptBudget
from assistant.prompt.tokenizer import Tokenizer
from assistant.training import shards
from assistant.training.shards import TOP, Reading

PER_SHARD = 16
BUDGET = PromptBudget(prefix_tokens=256, suffix_tokens=96)
MIDDLE = {"left-to-right": 256, "block": 128, "line": 48}  # most tokens after the prompt
KINDS = ("left-to-right", "block", "left-to-right", "block", "line")  # in turn: 2/5, 2/5, 1/5
TEXT = 6000  # characters around a hole that are looked at


@dataclass(frozen=True)
class Source:
    """A file's text to cut holes in."""

    project: str
    language: str
    path: str
    text: str


@dataclass(frozen=True)
class Hole:
    """A place in a file: the text before, in and after it."""

    kind: str
    source: Source
    prefix: str
    middle: str
    suffix: str


def holes(sources: Iterable[Source], seed: int) -> Iterator[Hole]:
    """One hole a source, in the kinds' order; sources too short for one are passed over.

    Prefix, middle and suffix join to the file's text around the hole, with newline characters for every line end.
    """
    draw = random.Random(seed)
    number = 0
    for source in sources:
        lines = source.text.replace("\r\n", "\n").splitlines(keepends=True)
        if len(lines) < 12:
            continue
        kind = KINDS[number % len(KINDS)]
        at = draw.randrange(2, len(lines) - 2)
        before, line = "".join(lines[:at])[-TEXT:], lines[at]
        if kind == "line":
            body = line.rstrip("\n")
            cut = draw.choice([len(body) - len(body.lstrip()), draw.randrange(len(body) + 1)])
            if not body[cut:].strip():
                continue
            after = line[len(body) :] + "".join(lines[at + 1 :])[:TEXT]
            hole = Hole(kind, source, before + body[:cut], body[cut:], after)
        elif kind == "block":
            count = draw.randint(2, 12)
            indent = line[: len(line) - len(line.lstrip())]
            block = "".join(lines[at : at + count])[len(indent) :]
            middle = block.rstrip("\n")
            after = block[len(middle) :] + "".join(lines[at + count :])[:TEXT]
            hole = Hole(kind, source, before + indent, middle, after)
        else:
            hole = Hole(kind, source, before, "".join(lines[at:])[:TEXT], "")
        if hole.middle.strip():
            number += 1
            yield hole


def prompt_and_answer(tokenizer: Tokenizer, hole: Hole) -> tuple[list[int], int]:
    """All ids of a hole's sequence, and where the answer begins."""
    prompt = fim.build(tokenizer, hole.prefix, hole.suffix, budget=BUDGET)
    answer = tokenizer.encode(prompt.healed.decode("utf-8", "ignore") + hole.middle)[: MIDDLE[hole.kind]]
    return [*prompt.ids, *answer], len(prompt.ids)


def read_through(backbone: Qwen2, ids: list[int], start: int, taps: tuple[int, ...], about: dict[str, str]) -> Reading:
    """The backbone's states, choices and best scores at every row of `ids`."""
    cache = backbone.new_cache(len(ids))
    states, choices, top_ids, top_scores = [], [], [], []
    for at in range(0, len(ids), PREFILL_ROWS):
        out = backbone.forward(ids[at : at + PREFILL_ROWS], cache, taps=taps)
        states.append(torch.stack([out[tap] for tap in taps]))
        best = torch.topk(backbone.logits(out["final"]), TOP, dim=-1)
        choices.append(best.indices[:, 0])
        top_ids.append(best.indices)
        top_scores.append(best.values)
    rows, sizes = shards.packed(torch.cat(states, dim=1))
    return Reading(
        ids=torch.tensor(ids),
        start=start,
        choices=torch.cat(choices),
        top_ids=torch.cat(top_ids),
        top_scores=torch.cat(top_scores),
        states=rows,
        sizes=sizes,
        about=about,
    )


def collect(
    backbone: Qwen2,
    tokenizer: Tokenizer,
    sources: Iterable[Source],
    folder: Path,
    *,
    seed: int,
    tokens: int,
    taps: tuple[int, ...],
    report: Callable[[str], None] = lambda text: None,
    stop: Callable[[], bool] = lambda: False,
) -> int:
    """Adds shards to `folder` until it holds `tokens` tokens; gives how many it holds. OSError for a full disk."""
    shards.clear(folder)
    done = shards.names(folder)
    held = sum(len(s.ids) for path in done for s in shards.read(path))
    drawn = islice(holes(sources, seed), len(done) * PER_SHARD, None)
    begun, new, number = time.monotonic(), 0, len(done)
    while held + new < tokens and not stop():
        made = []
        for hole in islice(drawn, PER_SHARD):
            ids, start = prompt_and_answer(tokenizer, hole)
            about = {"kind": hole.kind, "language": hole.source.language, "project": hole.source.project}
            made.append(read_through(backbone, ids, start, taps, about))
        if not made:
            break
        shards.write(folder / f"shard-{number:05d}.safetensors", made)
        number += 1
        new += sum(len(s.ids) for s in made)
        rate = new / (time.monotonic() - begun)
        left = max(0, tokens - held - new) / rate
        report(f"{held + new:,} of {tokens:,} tokens, {rate:.0f} tokens/s, {left / 60:.0f} min left")
    return held + new
