"""bench decode compares ids and times of the same prompt and seed, mode against plain, and sums what it
counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from assistant.bench import decode, tables
from assistant.bench.rows import PromptRow
from assistant.engine.stats import GenerationStats


@dataclass
class Outcome:
    ids: list[int]
    stats: GenerationStats
    text: str = ""
    finish: str = "stop"


@dataclass
class Product:
    """Plain decoding takes one pass a token at 10 ms; the drafting mode half as many, and errs on some
    prompts.
    """

    wrong: frozenset[tuple[str, int]] = frozenset()
    asked: list[tuple[str, str, int]] = field(default_factory=list)

    def __call__(self, row: PromptRow, mode: str, seed: int) -> Outcome:
        self.asked.append((row.id, mode, seed))
        ids = [1, 2, 3, 4, len(row.prefix)]
        if mode != "plain" and (row.id, seed) in self.wrong:
            ids = [*ids[:2], 9]
        passes = len(ids) - 1 if mode == "plain" else 2
        stats = GenerationStats(
            prompt_tokens=10,
            new_tokens=len(ids),
            first_tokens=1,
            passes=passes,
            prefill_ms=5.0,
            decode_ms=10.0 * passes,
        )
        return Outcome(ids, stats)


PROMPTS = [
    PromptRow("a", "x", "", "python", "rename", None),
    PromptRow("b", "xy", "", "python", "repeat", None),
    PromptRow("c", "xyz", "", "cpp", "repeat", None),
]


def test_shape_and_ratios() -> None:
    found = decode.measure(PROMPTS, ["plain", "lookup"], Product())
    assert found["prompts"] == found["runs"] == 3
    assert found["ratios"] == {"lookup": pytest.approx(2.0)}
    assert found["ratios_total"] == {"lookup": pytest.approx((3 * 45) / (3 * 25))}
    plain, lookup = found["modes"]["plain"], found["modes"]["lookup"]
    assert plain["identical_to_plain"] == lookup["identical_to_plain"] == 3
    assert (plain["passes"], lookup["passes"], plain["new_tokens"]) == (12, 6, 15)
    assert (plain["tokens_per_pass"], lookup["tokens_per_pass_median"]) == (1.0, 2.0)
    assert plain["tokens_per_second"] == pytest.approx(100.0)
    assert set(found["by"]) == {"python", "cpp", "rename", "repeat"}
    assert found["by"]["repeat"]["prompts"] == 2
    assert found["by"]["cpp"]["modes"]["lookup"]["passes"] == 2
    assert "lookup" in tables.decode(found)


def test_a_prompt_is_identical_only_under_every_seed() -> None:
    found = decode.measure(PROMPTS, ["lookup"], Product(frozenset({("b", 2)})), seeds=[1, 2, 3])
    assert (found["prompts"], found["runs"]) == (3, 9)
    assert found["modes"]["lookup"]["identical_to_plain"] == 2
    assert found["modes"]["lookup"]["differing"] == ["b"]
    assert found["modes"]["plain"]["identical_to_plain"] == 3


def test_modes_take_turns_in_a_rotating_order() -> None:
    product = Product()
    decode.measure(PROMPTS, ["lookup"], product)
    counted = product.asked[2:]  # the first two are warming up
    assert [mode for _, mode, _ in counted] == ["plain", "lookup", "lookup", "plain", "plain", "lookup"]
    assert [prompt for prompt, _, _ in counted] == ["a", "a", "b", "b", "c", "c"]


def test_every_single_run_is_given_out() -> None:
    rows: list[dict[str, Any]] = []
    decode.measure(PROMPTS[:2], ["lookup"], Product(), seeds=[0, 1], each=rows.append)
    assert len(rows) == 8
    assert {(row["id"], row["mode"], row["seed"]) for row in rows} == {
        (name, mode, seed) for name in "ab" for mode in ("plain", "lookup") for seed in (0, 1)
    }
