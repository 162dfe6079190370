"""Requests and cancels at random moments while somebody types very fast, over the language server and the real host.

Every request is to be answered once, and a cancelled one within a pass of its cancel, whatever the engine does. Memory
is looked at after WARM_UP requests and at the end.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from assistant.bench import intervals, keystrokes, memory, typing_replay
from assistant.bench.editor import Asked, Editor
from assistant.bench.host_memory import own_host
from assistant.bench.keystrokes import Recording
from assistant.errors import HostError
from assistant.service import history
from assistant.service.client import Client
from assistant.settings.schema import Settings

WARM_UP = 500  # requests before memory is looked at first
_CARRIED = ("model", "precision", "device", "threads", "decode", "draft")
_GAP = 0.06  # seconds between two things done, on average
_PAUSE = (0.1, 0.8)  # share of the keys after which somebody waits, and for how many seconds on average
_CANCEL = 0.3  # of the requests are taken back with nothing new asked; others by the next key
_PATIENCE = 30.0  # seconds for the host to be idle


def measure(
    recordings: Sequence[Recording],
    settings: Settings,
    requests: int = 2000,
    seed: int = 0,
    report: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Memory in bytes, times in milliseconds, in a home and with a host of its own. HostError when there is no answer;
    UnsupportedError where memory cannot be read.
    """
    chance = random.Random(seed)
    asked: list[Asked] = []
    early: dict[str, int] = {}
    with own_host():
        editor = Editor({name: getattr(settings, name) for name in _CARRIED})
        try:
            editor.ready()
            with Client.connect(start=False) as client:
                pids = {"server": editor.process.pid, "host": client.status().pid}
                for number, recording in enumerate(itertools.cycle(recordings)):
                    asked += _play(editor, recording, number, chance, requests - len(asked))
                    if len(asked) >= WARM_UP and not early:
                        early = _resident(pids)
                    report(f"{len(asked)} of {requests} requests")
                    if len(asked) >= requests:
                        break
                for one in asked:
                    editor.wait(one)
                idle_ms = _idle(client)
            late = _resident(pids)
        finally:
            editor.close()
        answers = typing_replay.rows(history.file())
    decoded = [row for row in answers if row["decode_ms"] and row["passes"]]
    late_ms = [1000 * (one.answered - one.cancel_sent) for one in asked if one.cancelled and one.cancel_sent]
    return {
        "requests": len(asked),
        "answered_once": sum(one.times == 1 for one in asked),
        "cancelled": len(late_ms),
        "cancel_to_answer_ms": intervals.median(late_ms),
        "cancel_to_answer_ms_p99": intervals.quantile(late_ms, 0.99),
        "cancel_to_answer_ms_most": max(late_ms, default=math.nan),
        "pass_ms": intervals.median([row["decode_ms"] / row["passes"] for row in decoded]),
        "idle_after_ms": idle_ms,
        **{f"{name}_resident_bytes": [early.get(name), late[name]] for name in pids},
        **{f"{name}_growth": late[name] / early[name] - 1 for name in early},
    }


def _play(editor: Editor, recording: Recording, number: int, chance: random.Random, most: int) -> list[Asked]:
    """Writes a recording key by key, requests taken back now and then; at most `most` requests."""
    suffix = Path(recording.path).suffix
    editor.open(f"file:///bench/{number}{suffix}", recording.language, recording.before, recording.after)
    asked: list[Asked] = []
    place = 0
    while place < len(recording.wanted) and len(asked) < most:
        text = keystrokes.key(recording.wanted, place)
        asked.append(editor.type(text))
        place += len(text)
        time.sleep(chance.expovariate(1 / (_PAUSE[1] if chance.random() < _PAUSE[0] else _GAP)))
        if chance.random() < _CANCEL:
            editor.cancel()
            time.sleep(chance.expovariate(1 / _GAP))
    return asked


def _idle(client: Client) -> float:
    """Milliseconds until the host says that nothing runs or waits. HostError when it never does."""
    begun = time.perf_counter()
    while (status := client.status()).state != "idle" or status.waiting:
        if time.perf_counter() - begun > _PATIENCE:
            raise HostError("the engine host is not idle after the last answer: see `tokenleap host status`")
        time.sleep(0.01)
    return 1000 * (time.perf_counter() - begun)


def _resident(pids: dict[str, int]) -> dict[str, int]:
    return {name: memory.of_process(pid)["resident_bytes"] for name, pid in pids.items()}
