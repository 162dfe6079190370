"""How completing feels while somebody types: recorded keystrokes over the language server, in their own time.

Times run from the editor's request to its answer, less the pause that the server makes on purpose, which is counted
apart. Who types accepts what is suggested when it is what they want: all of it, else its first line, where they pause
anyway. Which answers were stored and what each cost is read from the statistics that the server keeps. "cold" is the
first answer in a document, from before anything was typed; "empty" is what had nothing to suggest.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from assistant.bench import intervals, keystrokes, memory
from assistant.bench.editor import Asked, Editor, Ghost
from assistant.bench.host_memory import own_host
from assistant.bench.keystrokes import Recording
from assistant.errors import HostError, UnsupportedError
from assistant.service import history
from assistant.service.client import Client
from assistant.settings.schema import Settings

_LOOKS = 0.15  # of the keys within a line: stops and reads what is suggested
_LEAST = 3  # characters that are worth accepting
_CARRIED = ("model", "precision", "device", "threads", "decode", "draft", "max_tokens", "multiline", "first_line_ms")
_KINDS = ("cached", "type_through", "first_line", "block")
_WORK = ("passes", "prompt_tokens", "reused_tokens")


class Typist:
    """Plays recordings in one editor."""

    def __init__(self, editor: Editor, seed: int, most: int | None) -> None:
        """`most`: keys of one recording; None: all."""
        self._editor = editor
        self._random = random.Random(seed)
        self._most = most
        self.keys = 0
        self.accepted = 0  # characters

    def play(self, number: int, recording: Recording) -> None:
        """Writes what the recording wants and waits for the last answer."""
        editor, wanted = self._editor, recording.wanted
        suffix = Path(recording.path).suffix
        editor.open(f"file:///bench/{number}{suffix}", recording.language, recording.before, recording.after)
        editor.look()
        place, last = 0, self.keys + (self._most or len(wanted) * 9)
        slips, asked, looks = dict(recording.slips), None, False
        while place < len(wanted) and self.keys < last:
            if place in slips:
                asked = self._slip(slips.pop(place))
            self._pause(thought=looks)
            ghost = self._shown(asked) if asked is not None else None
            took = _worth(ghost, wanted[place:]) if ghost is not None and looks else ""
            text = took or keystrokes.key(wanted, place)
            self.keys += 1
            if took and ghost is not None:
                self.accepted += len(took)
                asked = editor.accept(ghost, took)
            else:
                asked = editor.type(text)
            place += len(text)
            looks = bool(took) or text.startswith("\n") or self._random.random() < _LOOKS
        if asked is not None:
            editor.wait(asked)

    def _slip(self, wrong: str) -> Asked:
        editor = self._editor
        for character in wrong:
            self._pause(thought=False)
            editor.type(character)
        self._pause(thought=True)
        asked = editor.backspace()
        for _ in wrong[1:]:
            self._pause(thought=False)
            asked = editor.backspace()
        self.keys += 2 * len(wrong)
        return asked

    def _shown(self, asked: Asked) -> Ghost | None:
        ghost = self._editor.ghost(asked) if asked.message is not None else None
        if ghost is not None:
            self._editor.shown(ghost)
        return ghost

    def _pause(self, thought: bool) -> None:
        time.sleep(keystrokes.gap(self._random, thought))


def measure(
    recordings: Sequence[Recording],
    settings: Settings,
    seed: int = 0,
    most: int | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """The object of DESIGN.md for `bench typing`, in a home and with a host of its own. HostError when there is no
    answer.
    """
    resident = None
    with own_host():
        editor = Editor({name: getattr(settings, name) for name in _CARRIED})
        try:
            editor.ready()
            typist = Typist(editor, seed, most)
            before = _work()
            for number, recording in enumerate(recordings, 1):
                report(f"{number}/{len(recordings)} {recording.kind}, {recording.language}")
                typist.play(number, recording)
            after = _work()
            with contextlib.suppress(UnsupportedError):
                resident = memory.of_process(editor.process.pid)["resident_bytes"]
        finally:
            editor.close()
        stored = rows(history.file())
    answers = editor.answers
    if len(stored) != len(answers):
        raise HostError(f"the statistics hold {len(stored)} answers of {len(answers)}: see `tokenleap doctor`")
    work = {name: after[name] - before[name] for name in _WORK}
    return summary(answers, stored, work, typist) | {
        "recordings": [f"{one.kind} {one.language} {one.path}" for one in recordings],
        "server_resident_bytes": resident,
    }


def summary(
    answers: Sequence[Asked], stored: Sequence[sqlite3.Row], work: dict[str, int], typist: Typist
) -> dict[str, Any]:
    """`stored` are the statistics of the answers in their order; `work` is all that the host did."""
    times: dict[str, list[float]] = {name: [] for name in (*_KINDS, "empty", "cold")}
    fresh, debounces = [], []
    for asked, row in zip(answers, stored, strict=True):
        if row["source"] is None:  # out of date, or never asked of the host
            continue
        times["cold" if asked.cold else _kind(row)].append(1000 * (asked.answered - asked.sent) - row["debounce_ms"])
        if asked.cold:
            continue
        debounces.append(row["debounce_ms"])
        asked_anew = row["source"] in ("model", "running")
        fresh.append(row["prompt_tokens"] - row["reused_tokens"] if asked_anew else 0)
    spread = {
        name: {"n": len(found), "median_ms": intervals.median(found), "p95_ms": intervals.quantile(found, 0.95)}
        for name, found in times.items()
    }
    new = work["prompt_tokens"] - work["reused_tokens"]
    return spread | {
        "debounce_ms": intervals.median(debounces),
        "reused_share": work["reused_tokens"] / work["prompt_tokens"] if work["prompt_tokens"] else None,
        "new_prompt_tokens_per_keystroke": intervals.median(fresh),
        "new_prompt_tokens_per_keystroke_mean": new / typist.keys if typist.keys else None,
        "passes_per_accepted_character": work["passes"] / typist.accepted if typist.accepted else None,
        "keystrokes": typist.keys,
        "requests_answered": len(answers),
        "accepted_characters": typist.accepted,
        **work,
    }


def _kind(row: sqlite3.Row) -> str:
    if row["source"] in ("cache", "type_through"):
        return "cached" if row["source"] == "cache" else "type_through"
    return "empty" if not row["characters"] else "first_line" if row["lines"] == 1 else "block"


def _worth(ghost: Ghost, wanted: str) -> str:
    """What of a suggestion is what somebody wants: all of it, else its first line; empty when it is not."""
    first = ghost.text[: len(ghost.text) - len(ghost.text.lstrip("\n"))]
    first += ghost.text[len(first) :].partition("\n")[0]
    for text in (ghost.text, first):
        if len(text.strip()) >= _LEAST and wanted.startswith(text):
            return text
    return ""


def _work() -> dict[str, int]:
    with Client.connect(start=False) as client:
        status = client.status()
    return {name: getattr(status, name) for name in _WORK}


def rows(path: Path) -> list[sqlite3.Row]:
    """The answers that statistics hold, in the order in which they were given."""
    database = sqlite3.connect(path)
    try:
        database.row_factory = sqlite3.Row
        return database.execute("SELECT * FROM answers ORDER BY id").fetchall()
    finally:
        database.close()
