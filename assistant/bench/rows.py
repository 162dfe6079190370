"""Reading what a bench runs on: prompt rows and infilling cases, JSON lines, plain or gzip.

Prompt rows: `{"id", "prompt"}` or `{"id", "prefix", "suffix"}`, optional "language", "kind", "path". Cases:
`{"id","language","path","kind","prefix","middle","suffix"}` or HumanEval-Infilling's own rows with their
tests. A row that fits neither raises UsageError naming the file and the line.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from assistant.errors import UnreadableFileError, UsageError

Row = TypeVar("Row")


@dataclass(frozen=True)
class PromptRow:
    """One prompt: text before the cursor, text after it (empty: left to right)."""

    id: str
    prefix: str
    suffix: str
    language: str
    kind: str
    path: str | None


@dataclass(frozen=True)
class Case:
    """One hole in a file with the text that stood there, and the tests that judge an answer, if any."""

    id: str
    prefix: str
    middle: str
    suffix: str
    language: str
    kind: str
    path: str | None
    group: str  # what the hole was cut from: holes of one function are not independent
    test: str | None = None
    entry_point: str | None = None

    def program(self, answer: str) -> str:
        """The whole file with `answer` in the hole."""
        return self.prefix + answer + self.suffix


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """All rows of a JSON lines file (`.gz` by its first bytes). Raises UnreadableFileError or UsageError."""
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else getattr(error, "strerror", None) or error
        raise UnreadableFileError(f"Cannot read {path} ({reason}); name a JSON lines file.") from error
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(text.split("\n"), start=1):  # a string may hold what splitlines takes for an end
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
            raise UsageError(f"{path}:{number} is not JSON ({reason}); write one object a line.") from error
        if not isinstance(row, dict):
            raise UsageError(f"{path}:{number} is not an object; write one object a line.")
        rows.append(row)
    if not rows:
        raise UsageError(f"{path} holds no rows; write one object a line.")
    return rows


def write_jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Write rows, one object a line; returns how many."""
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    return count


def read_prompts(path: Path) -> list[PromptRow]:
    """Prompt rows of a file, in its order. Ids must be different from each other."""
    prompts = [prompt(row, f"{path}: row {number}") for number, row in enumerate(read_jsonl(path), start=1)]
    _different([row.id for row in prompts], path)
    return prompts


def read_cases(path: Path, *, whole_lines: bool = False) -> list[Case]:
    """Infilling cases of a file, in its order.

    HumanEval-Infilling cuts whole lines together with their line end, so the cursor stands before the next
    line's first character. With `whole_lines` such a hole is shown as an editor has it while somebody types:
    the cursor on a line of its own, whose line end follows.
    """
    cases = [_case(row, f"{path}: row {number}") for number, row in enumerate(read_jsonl(path), start=1)]
    _different([case.id for case in cases], path)
    return [at_line(case) for case in cases] if whole_lines else cases


def at_line(case: Case) -> Case:
    """`case` with the line end of a hole of whole lines moved from the middle to the front of the suffix."""
    whole_lines = case.middle.endswith("\n") and (case.prefix.endswith("\n") or not case.prefix)
    if not whole_lines:
        return case
    return Case(**{**case.__dict__, "middle": case.middle[:-1], "suffix": "\n" + case.suffix})


def sample(rows: Sequence[Row], limit: int | None, seed: int) -> list[Row]:
    """At most `limit` rows drawn with `seed`, kept in file order; all of them without a limit."""
    if limit is None or limit >= len(rows):
        return list(rows)
    picks = sorted(random.Random(seed).sample(range(len(rows)), limit))
    return [rows[index] for index in picks]


def _different(ids: Sequence[str], path: Path) -> None:
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise UsageError(f"{path} has the id {name!r} twice; give every row its own.")
        seen.add(name)


def _text(row: dict[str, Any], key: str, where: str) -> str:
    value = row.get(key)
    if not isinstance(value, str):
        raise UsageError(f'{where} has no text in "{key}"; see `tokenleap bench --help` for the fields.')
    return value


def _optional(row: dict[str, Any], key: str, default: str) -> str:
    value = row.get(key)
    return value if isinstance(value, str) and value else default


def prompt(row: dict[str, Any], where: str = "the row") -> PromptRow:
    """The prompt that one JSON object describes. Raises UsageError, naming `where`."""
    if "prompt" in row:
        prefix, suffix = _text(row, "prompt", where), ""
    else:
        prefix, suffix = _text(row, "prefix", where), _text(row, "suffix", where)
    return PromptRow(
        id=str(row.get("id", where)),
        prefix=prefix,
        suffix=suffix,
        language=_optional(row, "language", "python"),
        kind=_optional(row, "kind", "prompt" if "prompt" in row else "infill"),
        path=row.get("path") if isinstance(row.get("path"), str) else None,
    )


def _case(row: dict[str, Any], where: str) -> Case:
    if "task_id" in row:
        return _human_eval(row, where)
    language = _optional(row, "language", "python")
    path = row.get("path") if isinstance(row.get("path"), str) else None
    identity = str(row.get("id", where))
    return Case(
        id=identity,
        prefix=_text(row, "prefix", where),
        middle=_text(row, "middle", where),
        suffix=_text(row, "suffix", where),
        language=language,
        kind=_optional(row, "kind", "infill"),
        path=path,
        group=path or identity,
        test=row.get("test") if isinstance(row.get("test"), str) else None,
        entry_point=row.get("entry_point") if isinstance(row.get("entry_point"), str) else None,
    )


def _human_eval(row: dict[str, Any], where: str) -> Case:
    task = _text(row, "task_id", where)
    family, _, rest = task.partition("/")
    words = re.findall(r"[A-Z][a-z]+", family.removesuffix("Light").removesuffix("Infilling"))
    return Case(
        id=task,
        prefix=_text(row, "prompt", where),
        middle=_text(row, "canonical_solution", where),
        suffix=_text(row, "suffix", where),
        language="python",
        kind="-".join(words).lower() or "infill",
        path=None,
        group="/".join(rest.split("/")[:2]),
        test=_text(row, "test", where),
        entry_point=_text(row, "entry_point", where),
    )
