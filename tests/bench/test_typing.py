"""`bench typing`: recordings are of real text and repeatable, who types ends up with what was wanted, and every
answer has its row.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.bench import keystrokes, typing_replay
from assistant.bench.editor import Asked, Editor, Ghost
from assistant.bench.keystrokes import KINDS, Recording, Text
from assistant.cli.main import main
from assistant.service import history
from tests.lsp_server.conftest import desk  # noqa: F401

PYTHON = Text("python", "bench/typing_replay.py", Path(typing_replay.__file__).read_text(encoding="utf-8"))
TYPESCRIPT = Text(
    "typescript",
    "src/cart.ts",
    """export class Cart {
  private items: Item[] = []

  add(item: Item, count = 1): void {
    for (let index = 0; index < count; index++) {
      this.items.push(item)
    }
    this.changed(item)
  }

  async function total(prices: Map<string, number>): Promise<number> {
    const found = this.items.map((item) => prices.get(item.name) ?? 0)
    const sum = found.reduce((a, b) => a + b, 0)

    return sum
  }
}
""",
)


@pytest.mark.parametrize("file", [PYTHON, TYPESCRIPT], ids=["python", "typescript"])
@pytest.mark.parametrize("seed", range(5))
def test_a_recording_writes_what_stood_there_and_is_the_same_for_a_seed(file: Text, seed: int) -> None:
    made = list(keystrokes.record([file] * 20, KINDS, seed))
    assert made == list(keystrokes.record([file] * 20, KINDS, seed))
    assert [one.kind for one in made] == list(KINDS)
    for one in made:
        assert one.before + one.wanted + one.after == file.text
        assert one.after.startswith("\n") and not one.wanted.endswith("\n")
        assert bool(one.slips) == (one.kind == "fix")
        assert all(0 < place < len(one.wanted) and wrong for place, wrong in one.slips.items())


@given(st.text("ab \n\t"))
def test_keys_put_together_are_the_text(wanted: str) -> None:
    place, typed = 0, ""
    while place < len(wanted):
        typed += keystrokes.key(wanted, place)
        place = len(typed)
    assert typed == wanted


@pytest.mark.parametrize(
    ("suggested", "taken"),
    [
        ("return 1", "return 1"),
        ("return 1\nother", "return 1"),
        ("\n    pass\n", ""),
        ("return 2", ""),
        ("re", ""),
        ("", ""),
    ],
)
def test_what_is_wanted_of_a_suggestion_is_accepted(suggested: str, taken: str) -> None:
    assert typing_replay._worth(Ghost(suggested, {}, 0), "return 1\n\n\nclass A:\n") == taken


def row(**values: Any) -> sqlite3.Row:
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    given = {"characters": 5, "lines": 1, "debounce_ms": 10.0, "prompt_tokens": 100, "reused_tokens": 90, **values}
    names = ", ".join(f":{name} AS {name}" for name in given)
    found: sqlite3.Row = database.execute(f"SELECT {names}", given).fetchone()
    return found


def test_answers_are_told_apart_and_the_pause_is_counted_apart() -> None:
    rows = [
        row(source="cache", debounce_ms=0.0),
        row(source="type_through", debounce_ms=0.0),
        row(source="model"),
        row(source="running", lines=3),
        row(source="model", characters=0, lines=0),
        row(source=None),
        row(source="model", prompt_tokens=900),
    ]
    answers = [Asked(sent=1.0, unit=0, answered=1.0 + 0.05 * number) for number in range(1, 7)]
    answers.append(Asked(sent=1.0, unit=0, cold=True, answered=9.01))
    typist = typing_replay.Typist(None, 0, None)  # type: ignore[arg-type]
    typist.keys, typist.accepted = 6, 20
    found = typing_replay.summary(answers, rows, {"passes": 40, "prompt_tokens": 200, "reused_tokens": 150}, typist)
    expected = {"cached": 50, "type_through": 100, "first_line": 140, "block": 190, "empty": 240, "cold": 8000}
    times = {name: round(found[name]["median_ms"]) for name in expected}
    assert times == expected
    assert {found[name]["n"] for name in times} == {1}
    assert (found["debounce_ms"], found["reused_share"], found["passes_per_accepted_character"]) == (10.0, 0.75, 2.0)
    assert found["new_prompt_tokens_per_keystroke"] == 10
    assert found["new_prompt_tokens_per_keystroke_mean"] == 50 / 6


def test_somebody_types_slips_and_accepts_over_the_language_server(desk: Any, monkeypatch: Any) -> None:  # noqa: F811
    monkeypatch.setattr(keystrokes, "gap", lambda generator, thought: 0.15 if thought else 0.01)
    wanted = "total = price\n    return total"
    desk.script(rules=[{"ends": "\n    ", "say": "return total"}, {"ends": "tot", "say": "al = price"}], say="zzz")
    desk.host()
    recording = Recording("fix", "python", "a.py", "def f(price):\n    ", "\n\n\nf(1)\n", wanted, {2: "xy"})
    editor = Editor({"model": "m"})
    try:
        editor.ready()
        typist = typing_replay.Typist(editor, 0, None)
        typist.play(1, recording)
        assert (editor.before, editor.after) == (recording.before + wanted, recording.after)
    finally:
        editor.close()
    assert editor.process.returncode == 0
    assert len(typing_replay.rows(history.file())) == len(editor.answers)
    assert typist.accepted >= len("return total") and typist.keys > 4


def test_the_command_prints_one_object_and_says_which_language_is_missing(
    own_home: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []

    def measure(recordings: Any, settings: Any, seed: int, most: int | None, report: Any) -> dict[str, Any]:
        asked.append((recordings, settings.model, seed, most))
        return {"cached": {"n": 1, "median_ms": 2.0, "p95_ms": float("nan")}, "debounce_ms": 3.0}

    monkeypatch.setattr(typing_replay, "measure", measure)
    assert main(["bench", "typing", "--json", "--rounds", "2", "--keys", "9", "--seed", "4", "--model", "m"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found == {"cached": {"n": 1, "median_ms": 2.0, "p95_ms": None}, "debounce_ms": 3.0}
    [(recordings, *rest)] = asked
    assert rest == ["m", 4, 9]
    assert [(one.language, one.kind) for one in recordings] == [("python", kind) for kind in KINDS * 2]
    assert "no typescript" in said.err
    assert main(["bench", "typing"]) == 0
    assert "median ms" in capsys.readouterr().out
