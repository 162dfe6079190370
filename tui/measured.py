"""What passes cost on this machine, as `bench pass` measured it, and the draft length that follows from it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assistant import locations

HOPE = 0.6  # share of drafted tokens that stand at each position, where nothing was seen yet
LONGEST = 8


def file() -> Path:
    return locations.data_folder() / "measured.json"


def load() -> dict[str, Any] | None:
    """The latest measurement, None when there is none to read."""
    try:
        found = json.loads(file().read_text(encoding="utf-8"))
        return found if isinstance(found, dict) and "rows_ms" in found else None
    except (OSError, ValueError):
        return None


def keep(measured: Mapping[str, Any]) -> None:
    """Written whole or not at all. OSError."""
    file().parent.mkdir(parents=True, exist_ok=True)
    draft = file().with_suffix(".new")
    draft.write_text(json.dumps(measured), encoding="utf-8")
    os.replace(draft, file())


def speeds(measured: Mapping[str, Any], acceptance: Sequence[tuple[int, int]]) -> dict[int, float]:
    """Tokens per second by draft length (0: without). acceptance: (accepted, tried) by position, as far as seen."""
    rows, step = measured["rows_ms"], float(measured.get("draft_ms") or 0.0)
    found: dict[int, float] = {}
    share, expected = 1.0, 1.0
    for length in range(LONGEST + 1):
        if length:
            accepted, tried = acceptance[length - 1] if length <= len(acceptance) else (0, 0)
            share *= accepted / tried if tried >= 20 else HOPE
            expected += share
        ms = rows.get(str(length + 1))
        if ms:
            found[length] = 1000 * expected / (float(ms) + step * length)
    return found


def recommended(measured: Mapping[str, Any], acceptance: Sequence[tuple[int, int]]) -> int:
    """The draft length of most tokens per second."""
    by_length = speeds(measured, acceptance)
    return max(by_length, key=lambda length: by_length[length]) if by_length else 0
