"""The figures that a history's rows add up to, as JSON values: counts, shares from 0 to 1 (None: of nothing) and
times in milliseconds.

Every figure counts answers given in the span asked for, with all that became of them later.
"""

from __future__ import annotations

import sqlite3
from typing import Any

# Stages in the order in which they pass; their columns are the names with "_ms".
STAGES = ("debounce", "load", "prefill", "first_token", "decode", "total", "answer")
_SUMS = {
    "answers": "count(*)",
    "suggestions": "sum(characters > 0)",
    "shown": "sum(shown_at IS NOT NULL)",
    "accepted": "sum(ended = 'accepted')",
    "partly_accepted": "sum(accepted_characters > 0 AND ended IS NOT 'accepted')",
    "dismissed": "sum(ended = 'dismissed')",
    "kept": "sum(kept_characters > 0 AND kept_characters = accepted_characters)",
    "kept_looked_at": "sum(kept_characters IS NOT NULL)",
}
_CHARACTERS = {
    "shown": "sum(CASE WHEN shown_at IS NOT NULL THEN characters END)",
    "accepted": "sum(accepted_characters)",
    "looked_at": "sum(CASE WHEN kept_characters IS NOT NULL THEN accepted_characters END)",
    "kept": "sum(kept_characters)",
}
_TOKENS = ("prompt_tokens", "reused_tokens", "new_tokens", "passes", "drafted", "accepted")


def summary(database: sqlite3.Connection, since: float) -> dict[str, Any]:
    """Everything from `since` (seconds since 1970) on."""
    made: dict[str, Any] = _sums(database, since, _SUMS)
    characters = _sums(database, since, _CHARACTERS)
    tokens = _sums(database, since, {name: f"sum({name})" for name in _TOKENS})
    taken = made["accepted"] + made["partly_accepted"]
    return {
        **made,
        "accepted_share": _share(taken, made["shown"]),
        "kept_share": _share(characters["kept"], characters["looked_at"]),
        "characters": characters,
        "by_source": {
            name: _spread(database, since, "total_ms", "source = ?", name)
            for name in _names(database, since, "source")
        },
        "by_language": {
            name: _sums(database, since, {key: _SUMS[key] for key in ("answers", "shown", "accepted")}, name)
            for name in _names(database, since, "language")
        },
        "empty": _counts(database, since, "reason"),
        "stages_ms": {name: _spread(database, since, f"{name}_ms", f"{name}_ms > 0") for name in STAGES},
        "tokens": tokens,
        "tokens_accepted_share": _share(tokens["accepted"], tokens["drafted"]),
        "tokens_reused_share": _share(tokens["reused_tokens"], tokens["prompt_tokens"]),
    }


def _sums(
    database: sqlite3.Connection, since: float, sums: dict[str, str], language: str | None = None
) -> dict[str, int]:
    only = "" if language is None else " AND language = :language"
    row = database.execute(
        f"SELECT {', '.join(sums.values())} FROM answers WHERE at >= :since{only}",
        {"since": since, "language": language},
    ).fetchone()
    return {name: int(value or 0) for name, value in zip(sums, row, strict=True)}


def _counts(database: sqlite3.Connection, since: float, column: str) -> dict[str, int]:
    """How often each value of a column comes, the most frequent first."""
    return dict(
        database.execute(
            f"SELECT {column}, count(*) FROM answers WHERE at >= ? AND {column} IS NOT NULL"
            " GROUP BY 1 ORDER BY 2 DESC, 1",
            (since,),
        ).fetchall()
    )


def _names(database: sqlite3.Connection, since: float, column: str) -> tuple[str, ...]:
    return tuple(_counts(database, since, column))


def _spread(
    database: sqlite3.Connection, since: float, column: str, where: str, *values: str
) -> dict[str, Any]:
    """Number, median and 95th percentile (nearest rank) of a column's values."""
    rest = f"FROM answers WHERE at >= ? AND {where}"
    (count,) = database.execute(f"SELECT count(*) {rest}", (since, *values)).fetchone()
    found: dict[str, Any] = {"n": count}
    for name, share in (("median_ms", 50), ("p95_ms", 95)):
        rank = max(0, -(-count * share // 100) - 1)
        row = database.execute(
            f"SELECT {column} {rest} ORDER BY 1 LIMIT 1 OFFSET ?", (since, *values, rank)
        ).fetchone()
        found[name] = None if row is None else round(row[0], 3)
    return found


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
