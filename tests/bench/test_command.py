"""`tokenleap bench`: results on standard output only, one JSON object with --json, errors in one sentence."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from assistant.bench import completion, tables
from assistant.cli import bench
from assistant.cli.main import main
from assistant.engine.stats import GenerationStats


@pytest.fixture(autouse=True)
def quiet_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TOKENLEAP_HOME", str(tmp_path / "home"))


class FakeProduct:
    """Answers every prompt with two tokens."""

    model: Any = None

    def __init__(self) -> None:
        self.model = type("M", (), {"plan": type("P", (), {"path": "here"})})

    @classmethod
    def load(cls, *_: object) -> FakeProduct:
        return cls()

    def decode(self, row: Any, mode: str, seed: int, options: Any) -> completion.Completed:
        stats = GenerationStats(prompt_tokens=3, new_tokens=2, first_tokens=1, passes=1, decode_ms=float("nan"))
        return completion.Completed("ab", (1, 2), stats, "stop", None, 1.0)

    def infiller(self, mode: str, options: Any) -> Any:
        return lambda case, script: self.decode(case, mode, 0, options)


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "a", "prompt": "x"}\n{"id": "b", "prefix": "x", "suffix": "y"}\n')
    return path


def test_decode_prints_one_object_and_keeps_the_runs(
    prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(completion, "Product", FakeProduct)
    out = tmp_path / "deep" / "runs.jsonl"
    command = ["bench", "decode", "--prompts", str(prompts), "--json", "--seeds", "1,2", "--out", str(out)]
    assert main(command) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["prompts"] == 2 and found["seeds"] == [1, 2]
    assert found["modes"]["lookup"]["identical_to_plain"] == 2
    assert found["modes"]["lookup"]["decode_ms"] is None  # JSON knows no NaN
    assert len(out.read_text().splitlines()) == 2 * 2 * 2
    assert main(command[:-2]) == 0


def test_infill_compares_precisions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(completion, "Product", FakeProduct)
    cases = tmp_path / "c.jsonl"
    cases.write_text(json.dumps({"id": "a", "prefix": "x = ", "middle": "ab", "suffix": "\n"}) + "\n")
    assert main(["bench", "infill", "--cases", str(cases), "--precision", "int8,fp32", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["overall"]["exact_match"] == 1.0 and found["overall"]["valid"] == 1.0
    assert found["paired"]["int8 - fp32"]["exact_match"]["difference"] == 0
    assert main(["bench", "infill", "--cases", str(cases), "--no-tests"]) == 0
    assert "edit_similarity" in capsys.readouterr().out


@pytest.mark.parametrize("maker", ["edits", "prompts"])
def test_makers_write_rows_that_decode_reads(maker: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from assistant.bench import rows

    out = tmp_path / "made.jsonl"
    command = ["bench", maker, "--out", str(out), "--count", "4", "--packages", "stdlib", "--json"]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == len(rows.read_prompts(out)) == 4
    assert found["sources"]["stdlib"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["bench"], "required"),
        (["bench", "nonsense"], "nonsense"),
        (["bench", "decode", "--prompts", "none.jsonl"], "none.jsonl"),
        (["bench", "infill"], "--cases"),
        (["bench", "infill", "--cases", "x", "--precision", "int9"], "int9"),
        (["bench", "decode", "--seeds", "one"], "one"),
        (["bench", "edits", "--out", "x", "--packages", "no_such"], "no_such"),
        (["bench", "peers"], "--setup"),
        (["bench", "memory", "--pid", "4194305"], "4194305"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_2(
    command: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(command) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err and len(shown.err.strip().splitlines()) == 1


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux's /proc")
def test_memory_of_a_process(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "memory", "--pid", str(os.getpid()), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["resident_bytes"] > 0


def test_cells_are_short_and_never_fail() -> None:
    shown = [tables.cell(value) for value in (None, float("nan"), 1234567, 0.123456, 123.456, 99999.9, True, "x")]
    assert shown == ["-", "-", "1,234,567", "0.123", "123.5", "100,000", "yes", "x"]
    assert tables.table(("a", "b"), [("xx", 1), ("y", None)]) == "a   b\nxx  1\ny   -"


def test_numbers_that_json_does_not_know_become_null() -> None:
    assert bench._finite({"a": [float("inf"), 1.0, {"b": float("nan")}]}) == {"a": [None, 1.0, {"b": None}]}
