"""Rows of both kinds are read as the contract says, and a bad file is named with its line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from assistant.bench import rows
from assistant.errors import UnreadableFileError, UsageError

HUMAN_EVAL = {
    "task_id": "SingleLineInfilling/HumanEval/7/L2",
    "entry_point": "f",
    "prompt": "def f(x):\n",
    "suffix": "    return y\n",
    "canonical_solution": "    y = x\n",
    "test": "def check(candidate):\n    assert candidate(1) == 1\n",
}


def write(path: Path, *values: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path


def test_prompt_rows_of_both_forms(tmp_path: Path) -> None:
    path = write(
        tmp_path / "p.jsonl",
        {"id": "a", "prompt": "def f("},
        {"id": "b", "prefix": "x = ", "suffix": "\n", "language": "rust", "kind": "line", "path": "m.rs"},
    )
    first, second = rows.read_prompts(path)
    assert (first.prefix, first.suffix, first.language) == ("def f(", "", "python")
    assert (second.prefix, second.suffix, second.language, second.kind, second.path) == (
        "x = ",
        "\n",
        "rust",
        "line",
        "m.rs",
    )


def test_a_hole_of_whole_lines_can_leave_its_line_end_behind_the_cursor(tmp_path: Path) -> None:
    path = write(tmp_path / "c.jsonl", HUMAN_EVAL)
    (case,) = rows.read_cases(path, whole_lines=True)
    (raw,) = rows.read_cases(path)
    assert (case.middle, case.suffix) == ("    y = x", "\n    return y\n")
    assert (raw.middle, raw.suffix) == ("    y = x\n", "    return y\n")
    assert case.program(case.middle) == raw.program(raw.middle)
    assert (case.kind, case.group, case.language) == ("single-line", "HumanEval/7", "python")


def test_a_hole_inside_a_line_stays_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "c.jsonl", {"id": "x", "prefix": "a = ", "middle": "1\n", "suffix": "b"})
    (case,) = rows.read_cases(path, whole_lines=True)
    assert (case.middle, case.suffix) == ("1\n", "b")


def test_gzip_is_read_whatever_the_name(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_bytes(gzip.compress(json.dumps(HUMAN_EVAL).encode()))
    assert rows.read_cases(path)[0].id == HUMAN_EVAL["task_id"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", ":1 is not JSON"),
        ('{"id": "a", "prompt": "x"}\n[1]', ":2 is not an object"),
        ("", "holds no rows"),
        ('{"id": "a", "prefix": "x"}', '"suffix"'),
        ('{"id": "a", "prompt": "x"}\n{"id": "a", "prompt": "y"}', "twice"),
    ],
)
def test_a_bad_file_is_one_sentence_that_names_the_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=said):
        rows.read_prompts(path)


def test_a_missing_file_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError):
        rows.read_cases(tmp_path / "none.jsonl")


def test_a_sample_is_seeded_and_keeps_the_order() -> None:
    numbers = list(range(100))
    drawn = rows.sample(numbers, 10, 3)
    assert drawn == sorted(drawn) == rows.sample(numbers, 10, 3)
    assert drawn != rows.sample(numbers, 10, 4)
    assert rows.sample(numbers, None, 3) == numbers


def test_a_line_ends_at_a_newline_alone(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    prompt = "x = '\u2028\x85'"
    line = json.dumps({"id": "a", "prompt": prompt}, ensure_ascii=False)
    path.write_bytes((line + "\r\n").encode("utf-8"))
    (row,) = rows.read_prompts(path)
    assert row.prefix == prompt


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (gzip.compress(b"{}")[:10] + b"\xff" * 20, "Cannot read"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"id": ' + b"9" * 5000 + b"}", "is not JSON"),
    ],
    ids=["gzip", "bytes", "nested", "digits"],
)
def test_odd_bytes_are_one_sentence(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=words) as caught:
        rows.read_prompts(path)
    assert "Errno" not in str(caught.value)
    with pytest.raises(UnreadableFileError, match="No such file") as caught:
        rows.read_prompts(tmp_path / "gone")
    assert "Errno" not in str(caught.value)
