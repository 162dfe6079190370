"""`tokenleap bench pass`: what one pass costs for 1 to 16 rows, beside the speed at which this machine reads
memory.

All row counts take turns within each round and memory is read in every round too, so that a noisy machine
disturbs all alike. Every figure is a median over rounds, "read_gb_s" that of the best number of threads.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from assistant.bench import model, sources
from assistant.bench.intervals import median
from assistant.bench.stream import Stream
from assistant.engine.backbone import Backbone, Cache
from assistant.engine.draft import DraftState
from assistant.engine.mtp import DRAFT_LENGTH, MtpDrafter, MtpHead
from assistant.engine.sampling import GREEDY

CONTEXT = 512
ROWS = tuple(range(1, 17))
CHUNK = 128  # rows of one prefill chunk, as the worker cuts them

Report = Callable[[str], None]


def code_ids(encode: Callable[[str], list[int]], count: int, seed: int = 0) -> list[int]:
    """`count` token ids of real Python text from the standard library."""
    ids: list[int] = []
    for source in sources.drawn([sources.STDLIB], seed):
        ids.extend(encode(source.text[:8_000]))
        if len(ids) >= count:
            break
    return ids[:count]


def prefill(backbone: Backbone, cache: Cache, ids: Sequence[int]) -> float:
    """Append `ids` in chunks and score the next token as a request would; milliseconds."""
    start = time.perf_counter()
    hidden = None
    for at in range(0, len(ids), CHUNK):
        hidden = backbone.forward(ids[at : at + CHUNK], cache)["final"]
    if hidden is not None:
        backbone.logits(hidden[-1:])
    return (time.perf_counter() - start) * 1e3


def one_pass(backbone: Backbone, cache: Cache, ids: Sequence[int]) -> float:
    """One pass of `len(ids)` rows, every row scored, after what the cache holds; milliseconds. The cache is
    as before.
    """
    length = cache.length
    start = time.perf_counter()
    try:
        scores = backbone.logits(backbone.forward(ids, cache)["final"])
        scores.argmax(dim=-1).tolist()
    finally:
        cache.truncate(length)
    return (time.perf_counter() - start) * 1e3


def draft_step(backbone: Backbone, head: MtpHead, cache: Cache, ids: Sequence[int]) -> float:
    """Milliseconds of one draft step, over a chain of DRAFT_LENGTH after `ids`."""
    drafter = MtpDrafter(head)
    cache.truncate(len(ids) - 1)  # its last row again, with the states that the head reads
    out = backbone.forward(ids[-1:], cache, taps=head.taps)
    state = DraftState([*ids, ids[0]], {key: rows[-1] for key, rows in out.items()}, cache, GREEDY)
    start = time.perf_counter()
    drafter.propose(state, DRAFT_LENGTH)
    return (time.perf_counter() - start) * 1e3 / DRAFT_LENGTH


def measure(
    loaded: model.Model,
    rounds: int = 15,
    seed: int = 0,
    report: Report | None = None,
    stream: Stream | None = None,
) -> dict[str, Any]:
    """The object of `bench pass --json`."""
    backbone = loaded.backbone
    ids = code_ids(loaded.tokenizer.encode, CONTEXT + max(ROWS), seed)
    context, following = ids[:CONTEXT], ids[CONTEXT:]
    stream = stream or Stream()
    threads = range(1, loaded.plan.threads + 1)
    cache = backbone.new_cache(CONTEXT + max(ROWS))
    prefill(backbone, cache, context)  # not counted: first touch of weights, scratch and cache
    for rows in (1, max(ROWS)):
        one_pass(backbone, cache, following[:rows])
    times: dict[int, list[float]] = {rows: [] for rows in ROWS}
    reads: dict[int, list[float]] = {count: [] for count in threads}
    prefills: list[float] = []
    drafts = None if not isinstance(loaded.head, MtpHead) else [draft_step(backbone, loaded.head, cache, context)]
    order = list(ROWS)
    generator = random.Random(seed)
    for number in range(rounds):
        if report is not None:
            report(f"pass: round {number + 1} of {rounds}")
        generator.shuffle(order)
        for rows in order:
            times[rows].append(one_pass(backbone, cache, following[:rows]))
        for count in threads:
            reads[count].append(stream.gb_s(count))
        # One row is the yardstick of everything else: taken a second time, right beside the reading of
        # memory.
        times[1].append(one_pass(backbone, cache, following[:1]))
        if drafts is not None and isinstance(loaded.head, MtpHead):
            drafts.append(draft_step(backbone, loaded.head, cache, context))
        if number % 3 == 0:
            fresh = backbone.new_cache(CONTEXT + max(ROWS))
            prefills.append(prefill(backbone, fresh, context))
    rows_ms = {rows: median(values) for rows, values in times.items()}
    weight_bytes = model.pass_bytes(loaded.stored)
    read_gb_s = max(median(values) for values in reads.values())
    one_row_gb_s = weight_bytes / rows_ms[1] / 1e6
    return {
        "rows_ms": {str(rows): round(value, 3) for rows, value in rows_ms.items()},
        "prefill_tokens_per_second": round(CONTEXT / median(prefills) * 1e3, 1),
        "weight_bytes": weight_bytes,
        "read_gb_s": round(read_gb_s, 2),
        "draft_ms": None if drafts is None else round(median(drafts), 3),
        "context": CONTEXT,
        "one_row_gb_s": round(one_row_gb_s, 2),
        "read_share": round(one_row_gb_s / read_gb_s, 4),
        "five_rows_to_one": round(rows_ms[5] / rows_ms[1], 4),
        "read_gb_s_by_threads": {str(count): round(median(values), 2) for count, values in reads.items()},
        "read_bytes": stream.bytes,
        "rounds": rounds,
        "threads": loaded.plan.threads,
        "engine": loaded.plan.path,
        "model": backbone.name,
        "precision": backbone.precision,
    }
