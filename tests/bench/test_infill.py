"""bench infill: measures by their definitions, tests run for pass@1, and drafting from an answer never
changes one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assistant.bench import infill, tables
from assistant.bench.rows import Case
from assistant.engine.generate import generate
from assistant.engine.prefix import PrefixStore
from tests.bench.fakes import SIZE, FakeBackbone


@dataclass
class Answer:
    text: str
    ids: list[int]
    total_ms: float = 10.0
    finish: str = "stop"
    empty_reason: str | None = None


def case(name: str, middle: str, language: str = "python", kind: str = "line", test: str | None = None) -> Case:
    return Case(name, "def f(x):\n    ", middle, "\n", language, kind, None, name[0], test, "f" if test else None)


CHECK = "def check(candidate):\n    assert candidate(2) == 4\n"
CASES = [
    case("a1", "return x * x", test=CHECK),
    case("a2", "return x + x", kind="lines", test=CHECK),
    case("b1", "return 5", language="rust"),
    case("b2", "return 6"),
]


def runs(answers: dict[str, str]) -> infill.Run:
    def run(case: Case, script: Sequence[int] | None) -> Answer:
        text = answers[case.id]
        return Answer(text, [1] if script is None else list(script), empty_reason=None if text else "too-short")

    return run


RIGHT = {"a1": "return x * x", "a2": "return x * 2  ", "b1": "return 5", "b2": ""}


def test_measures() -> None:
    found = infill.measure(CASES, {"int8": runs(RIGHT)})
    overall = found["overall"]
    assert overall["cases"] == 4
    assert overall["shown"] == 0.75
    assert overall["exact_match"] == overall["first_line_match"] == 0.5
    assert overall["pass_at_1"] == 1.0  # two cases have tests, and x * 2 passes them too
    assert overall["valid"] == pytest.approx(2 / 3)  # an empty hole leaves a function without a body
    assert overall["median_ms"] == 10.0
    assert found["by_language"]["rust"]["valid"] is None
    assert found["by_language"]["rust"]["pass_at_1"] is None
    assert set(found["by_kind"]) == {"line", "lines"}
    assert found["empty_reasons"] == {"too-short": 1}
    low, high = overall["intervals"]["shown"]
    assert low < 0.75 < high
    assert "pass_at_1" in tables.infill(found)


def test_two_precisions_are_paired_case_by_case() -> None:
    wrong = RIGHT | {"a1": "return x", "b1": "return 6"}
    rows: list[dict[str, object]] = []
    found = infill.measure(CASES, {"int8": runs(wrong), "fp32": runs(RIGHT)}, each=rows.append)
    assert found["precision"] == "int8"
    assert found["overall"]["pass_at_1"] == 0.5
    pair = found["paired"]["int8 - fp32"]
    assert pair["pass_at_1"]["difference"] == -0.5
    assert pair["pass_at_1"]["theirs_better"] == 1
    assert pair["exact_match"]["difference"] == -0.5
    assert pair["same_answer"] == 2
    assert set(found["precisions"]) == {"int8", "fp32"}
    assert len(rows) == 8
    assert "int8 - fp32" in tables.infill(found)


def test_without_tests_nothing_is_run() -> None:
    found = infill.measure(CASES, {"int8": runs(RIGHT)}, tests=False)
    assert found["overall"]["pass_at_1"] is None


@settings(max_examples=40, deadline=None)
@given(
    prompt=st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=12),
    script=st.lists(st.integers(0, SIZE - 1), max_size=30),
    limit=st.integers(1, 24),
    noise=st.sampled_from([0.0, 0.2, 2.0]),
)
def test_a_scripted_draft_never_changes_the_answer(
    prompt: list[int], script: list[int], limit: int, noise: float
) -> None:
    plain_backbone, other = FakeBackbone(), FakeBackbone("fp32", noise=noise)

    def answer(backbone: FakeBackbone, drafter: infill.Scripted | None) -> list[int]:
        made = generate(
            backbone,
            prompt,
            store=PrefixStore(backbone, 0),
            max_new_tokens=limit,
            end_ids={0},
            drafter=drafter,
        )
        return made.ids

    expected = answer(other, None)
    assert answer(other, infill.Scripted(script)) == expected
    assert answer(other, infill.Scripted(answer(plain_backbone, None))) == expected


def test_an_equal_answer_costs_one_pass() -> None:
    backbone = FakeBackbone()
    first = generate(backbone, [3, 4], store=PrefixStore(backbone, 0), max_new_tokens=20, end_ids=set())
    again = generate(
        backbone,
        [3, 4],
        store=PrefixStore(backbone, 0),
        max_new_tokens=20,
        end_ids=set(),
        drafter=infill.Scripted(first.ids),
    )
    assert again.ids == first.ids
    assert (first.stats.passes, again.stats.passes) == (19, 1)
