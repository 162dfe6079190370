"""What became of the suggestions: local statistics in one SQLite file of the data folder, off by one setting.

Only counts, times, lengths and names of languages, models and reasons are written, never a character of the
user's code. Several processes may write and read at once, and a process that is killed loses nothing that it
had written. Nothing here raises or waits long: statistics never stand in the editor's way. Light: standard
library only.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

from assistant import locations
from assistant.errors import TokenleapError
from assistant.service import figures
from assistant.service.protocol import CompletionResult

log = logging.getLogger(__name__)

LIMIT = 100_000  # answers kept, the newest; about 25 MB
KEPT_SECONDS = 30.0  # after which what still stands of an accepted suggestion counts as kept
_PRUNE_EVERY = 500  # answers
_OPEN_SECONDS = 2.0  # for a lock of another process to go, at the start and afterwards
_BUSY_SECONDS = 0.1
_VERSION = 1
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9+#_-]{0,31}")
_TEXTS = ("trigger", "source", "language", "model", "precision", "decode", "reason")
_TIMES = ("debounce_ms", "answer_ms", "first_token_ms", "total_ms", "load_ms", "prefill_ms", "decode_ms")
_COUNTS = ("characters", "lines", "prompt_tokens", "reused_tokens", "new_tokens", "passes", "drafted", "accepted")
_FATE = ("shown_at REAL", "ended TEXT", "accepted_characters INTEGER", "kept_characters INTEGER")


class History:
    """An open file of statistics, or none at all (then every call does nothing). From any thread."""

    def __init__(self, database: sqlite3.Connection | None, clock: Callable[[], float], limit: int) -> None:
        self._database = database
        self._clock = clock
        self._limit = limit
        self._lock = threading.Lock()
        self._told = False

    @classmethod
    def open(
        cls,
        path: Path | None = None,
        *,
        enabled: bool = True,
        clock: Callable[[], float] = time.time,
        limit: int = LIMIT,
    ) -> History:
        """The user's history. `enabled` is the setting `statistics`: False touches no file. A file that is no
        database of ours is set aside; one that cannot be written is done without.
        """
        if not enabled:
            return cls(None, clock, limit)
        try:
            path = path or file()
            try:
                database = _connect(path)
            except sqlite3.OperationalError:  # locked, read-only, no space: nothing that a new file would mend
                raise
            except sqlite3.DatabaseError:
                _set_aside(path)
                database = _connect(path)
        except (sqlite3.Error, OSError, TokenleapError) as error:
            log.warning("no statistics are kept: %s", error)
            return cls(None, clock, limit)
        made = cls(database, clock, limit)
        made._prune()
        return made

    @property
    def enabled(self) -> bool:
        return self._database is not None

    def answered(
        self,
        result: CompletionResult,
        *,
        trigger: str,
        language: str | None = None,
        debounce_ms: float = 0.0,
        answer_ms: float = 0.0,
    ) -> int:
        """The host gave this answer. Its number, for telling what becomes of it; 0 when nothing is kept.

        debounce_ms: waited on purpose before it was asked; answer_ms: from the editor's request to its
        answer, all included.
        """
        text = result.completion
        return self._add(
            trigger=trigger,
            source=result.source,
            language=language,
            model=PurePath(result.model).name[:80],
            precision=result.precision,
            decode=result.decode,
            reason=None if text else result.empty_reason or "unknown",
            characters=len(text),
            lines=text.count("\n") + 1 if text else 0,
            debounce_ms=debounce_ms,
            answer_ms=answer_ms,
            **{name: getattr(result, name) for name in _TIMES[2:] + _COUNTS[2:]},
        )

    def nothing(
        self,
        reason: str,
        *,
        trigger: str,
        language: str | None = None,
        debounce_ms: float = 0.0,
        answer_ms: float = 0.0,
    ) -> int:
        """An answer that was empty without the host being asked, or because it failed; `reason` is a code."""
        return self._add(
            trigger=trigger,
            reason=reason,
            language=language,
            debounce_ms=debounce_ms,
            answer_ms=answer_ms,
        )

    def shown(self, number: int) -> None:
        """The editor has drawn the suggestion."""
        self._set(number, "shown_at = coalesce(shown_at, :now)")

    def partly(self, number: int, characters: int) -> None:
        """So many characters of it were accepted up to now."""
        self._set(
            number,
            "shown_at = coalesce(shown_at, :now),"
            " accepted_characters = min(characters, max(coalesce(accepted_characters, 0), :characters))",
            characters=max(0, characters),
        )

    def accepted(self, number: int) -> None:
        """All of it was accepted."""
        self._set(
            number,
            "shown_at = coalesce(shown_at, :now), ended = 'accepted', accepted_characters = characters",
        )

    def dismissed(self, number: int) -> None:
        """It was shown and then went away; what was accepted before stays accepted."""
        self._set(number, "shown_at = coalesce(shown_at, :now), ended = coalesce(ended, 'dismissed')")

    def kept(self, number: int, characters: int) -> None:
        """So many of the accepted characters still stand after KEPT_SECONDS."""
        self._set(
            number,
            "kept_characters = min(coalesce(accepted_characters, 0), :characters)",
            characters=max(0, characters),
        )

    def summary(self, since: float | None = None) -> dict[str, Any]:
        """All figures of the answers given since `since` (seconds since 1970), of all that are kept without it."""
        start = 0.0 if since is None else since
        with self._lock:
            if self._database is not None:
                try:
                    return figures.summary(self._database, start)
                except sqlite3.Error as error:
                    self._failed(error)
        with contextlib.closing(sqlite3.connect(":memory:")) as nothing:
            return figures.summary(_with_table(nothing), start)

    def close(self) -> None:
        with self._lock:
            database, self._database = self._database, None
            if database is not None:
                with contextlib.suppress(sqlite3.Error):
                    database.close()

    def _add(self, **values: Any) -> int:
        values = {
            name: _name(value) if name in _TEXTS and name != "model" else value for name, value in values.items()
        }
        values["at"] = self._clock()
        names = ", ".join(values)
        number = self._write(
            f"INSERT INTO answers ({names}) VALUES ({', '.join(':' + name for name in values)})", values
        )
        if number and number % _PRUNE_EVERY == 0:
            self._prune()
        return number

    def _set(self, number: int, change: str, **values: Any) -> None:
        if number > 0:
            self._write(
                f"UPDATE answers SET {change} WHERE id = :id", {"id": number, "now": self._clock(), **values}
            )

    def _prune(self) -> None:
        self._write(
            "DELETE FROM answers WHERE id <= (SELECT max(id) FROM answers) - :limit", {"limit": self._limit}
        )

    def _write(self, statement: str, values: dict[str, Any]) -> int:
        """Runs it; the number of the new row, if any. What cannot be written is left out."""
        with self._lock:
            if self._database is None:
                return 0
            try:
                return self._database.execute(statement, values).lastrowid or 0
            except sqlite3.Error as error:
                self._failed(error)
                return 0

    def _failed(self, error: sqlite3.Error) -> None:
        if not self._told:
            self._told = True
            log.warning("statistics are incomplete: %s", error)


def file() -> Path:
    """Where the statistics are."""
    return locations.data_folder() / "history.sqlite"


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite's other files get the same mode
    database = sqlite3.connect(path, timeout=_OPEN_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")  # a crash of the machine may lose the last answers
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version not in (0, _VERSION):
            raise sqlite3.DatabaseError("a file of another version")
        _with_table(database)
        database.execute(f"PRAGMA busy_timeout = {int(_BUSY_SECONDS * 1000)}")
        return database
    except BaseException:
        database.close()
        raise


def _with_table(database: sqlite3.Connection) -> sqlite3.Connection:
    columns = (
        "id INTEGER PRIMARY KEY AUTOINCREMENT",
        "at REAL",
        *(f"{name} TEXT" for name in _TEXTS),
        *(f"{name} REAL" for name in _TIMES),
        *(f"{name} INTEGER NOT NULL DEFAULT 0" for name in _COUNTS),
        *_FATE,
    )
    database.execute(f"CREATE TABLE IF NOT EXISTS answers ({', '.join(columns)})")
    database.execute("CREATE INDEX IF NOT EXISTS answers_at ON answers (at)")
    database.execute(f"PRAGMA user_version = {_VERSION}")
    return database


def _set_aside(path: Path) -> None:
    log.warning("%s is no database of statistics and was set aside", path)
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    path.replace(path.with_suffix(".damaged"))


def _name(value: str | None) -> str | None:
    """A short name as it is; anything else could be the user's text."""
    return value if value is None or _NAME.fullmatch(value) else "other"
