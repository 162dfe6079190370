"""`tokenleap bench decode`: decoding modes against plain decoding on the same prompts, in one run.

Modes take turns prompt by prompt, their order rotated, each from a fresh cache, with the product's prompt
layout and its own end of a completion. "identical_to_plain" compares ids; times count only where they were
measured side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from assistant.bench.intervals import median
from assistant.bench.rows import PromptRow
from assistant.engine.stats import GenerationStats

PLAIN = "plain"

Report = Callable[[str], None]


class Outcome(Protocol):
    """What a run of one prompt gives; `completion.Completed` is the real one."""

    @property
    def ids(self) -> Sequence[int]: ...

    @property
    def stats(self) -> GenerationStats: ...


Run = Callable[[PromptRow, str, int], Outcome]
"""prompt, mode, seed -> its outcome from a fresh cache"""


@dataclass
class _Tally:
    """Runs of one mode over some prompts; plain's figures of the same runs stand beside it."""

    stats: GenerationStats = field(default_factory=GenerationStats)
    tokens_per_pass: list[float] = field(default_factory=list)
    decode_ratios: list[float] = field(default_factory=list)
    total_ratios: list[float] = field(default_factory=list)
    decode_ms: float = 0.0
    total_ms: float = 0.0
    plain_decode_ms: float = 0.0
    plain_total_ms: float = 0.0
    prompts: dict[str, bool] = field(default_factory=dict)  # id -> ids equal to plain's under every seed

    def add(self, prompt: str, run: Outcome, plain: Outcome) -> None:
        """Count one run beside the plain run of the same prompt and seed."""
        mine, other = run.stats, plain.stats
        self.stats.add(mine)
        if mine.passes:
            self.tokens_per_pass.append(mine.tokens_per_pass)
        equal = list(run.ids) == list(plain.ids)
        self.prompts[prompt] = self.prompts.get(prompt, True) and equal
        totals = mine.prefill_ms + mine.decode_ms, other.prefill_ms + other.decode_ms
        self.decode_ms += mine.decode_ms
        self.plain_decode_ms += other.decode_ms
        self.total_ms += totals[0]
        self.plain_total_ms += totals[1]
        if mine.passes and other.passes:
            self.decode_ratios.append(other.decode_ms / mine.decode_ms)
            self.total_ratios.append(totals[1] / totals[0])

    def summary(self) -> dict[str, Any]:
        """The mode's object."""
        return self.stats.summary() | {
            "tokens_per_pass_median": median(self.tokens_per_pass),
            "identical_to_plain": sum(self.prompts.values()),
            "differing": [name for name, equal in self.prompts.items() if not equal],
        }


def _object(tallies: dict[str, _Tally]) -> dict[str, Any]:
    """{"prompts", "modes", "ratios", ...} of the tallies by mode."""
    drafting = {mode: tally for mode, tally in tallies.items() if mode != PLAIN}

    def ratio(ours: float, plain: float) -> float | None:
        return plain / ours if ours else None

    return {
        "prompts": len(tallies[PLAIN].prompts),
        "modes": {mode: tally.summary() for mode, tally in tallies.items()},
        "ratios": {mode: ratio(tally.decode_ms, tally.plain_decode_ms) for mode, tally in drafting.items()},
        "ratios_total": {mode: ratio(tally.total_ms, tally.plain_total_ms) for mode, tally in drafting.items()},
        "ratios_median": {mode: median(tally.decode_ratios) for mode, tally in drafting.items()},
        "ratios_total_median": {mode: median(tally.total_ratios) for mode, tally in drafting.items()},
    }


def measure(
    prompts: Sequence[PromptRow],
    modes: Sequence[str],
    run: Run,
    seeds: Sequence[int] = (0,),
    report: Report | None = None,
    each: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """The object of `bench decode --json`. Plain decoding is run even when `modes` leaves it out.

    With several seeds a prompt is identical when it is under each of them. `each` gets one row for every run.
    """
    order = list(dict.fromkeys([PLAIN, *modes]))
    whole = {mode: _Tally() for mode in order}
    parts: dict[str, dict[str, _Tally]] = {}
    if prompts:
        for mode in order:  # first touch of weights and caches, not counted
            run(prompts[0], mode, seeds[0])
    done, runs = 0, len(prompts) * len(seeds)
    for prompt in prompts:
        for seed in seeds:
            turn = done % len(order)
            outcomes = {mode: run(prompt, mode, seed) for mode in order[turn:] + order[:turn]}
            done += 1
            if report is not None:
                report(f"decode: {done} of {runs}")
            names = dict.fromkeys([prompt.language, prompt.kind])
            groups = [whole, *(parts.setdefault(name, {mode: _Tally() for mode in order}) for name in names)]
            for mode in order:
                for group in groups:
                    group[mode].add(prompt.id, outcomes[mode], outcomes[PLAIN])
                if each is not None:
                    each(_row(prompt, mode, seed, outcomes[mode]))
    return _object(whole) | {
        "runs": done,
        "seeds": list(seeds),
        "by": {name: _object(tallies) for name, tallies in sorted(parts.items())},
    }


def _row(prompt: PromptRow, mode: str, seed: int, outcome: Outcome) -> dict[str, Any]:
    return {
        "id": prompt.id,
        "mode": mode,
        "seed": seed,
        "ids": list(outcome.ids),
        "text": getattr(outcome, "text", None),
        "finish": getattr(outcome, "finish", None),
        **outcome.stats.summary(),
    }
