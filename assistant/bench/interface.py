"""`tokenleap bench tui`: start to first paint against an empty Textual app, in turn, and how long key presses take
while the model generates.

Each start is a process of its own in a terminal of 120 x 40, timed from the process's start. During the keys the engine
host answers one long request after the other for somebody else, so the machine is as busy as the product makes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assistant.bench.intervals import median
from assistant.errors import HostError, TokenleapError
from assistant.service.client import Client
from assistant.service.launch import child_environment
from assistant.service.protocol import CompletionRequest

_PATIENCE = 120.0  # seconds for one process
_PROMPT = '"""A module of functions."""\n\n\ndef add(a, b):\n    return a + b\n\n\ndef number_{n}('


def measure(rounds: int, request: CompletionRequest, report: Callable[[str], None]) -> dict[str, Any]:
    """The object of `bench tui --json`: milliseconds and their ratio."""
    starts: dict[str, list[float]] = {"empty": [], "ours": []}
    for number in range(rounds + 1):
        report(f"start: round {number} of {rounds}")
        for what, times in starts.items():
            taken = _start(what)
            if number:  # the first reads the files into memory
                times.append(taken)
    report("keys while the model generates")
    with _busy(request) as answered:
        pressed: list[float] = sorted(_child("keys"))
    return {
        "empty_first_paint_ms": round(median(starts["empty"]), 1),
        "first_paint_ms": round(median(starts["ours"]), 1),
        "first_paint_ratio": round(median(starts["ours"]) / median(starts["empty"]), 3),
        "key_median_ms": round(median(pressed), 2),
        "key_p95_ms": round(pressed[-(-len(pressed) * 95 // 100) - 1], 2),
        "keys": len(pressed),
        "answers_meanwhile": answered(),
        "rounds": rounds,
    }


def _start(what: str) -> float:
    begun = time.time()
    return (float(_child(what)) - begun) * 1000


def _child(what: str) -> Any:
    """Runs one half in a terminal of its own; what it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        ours, theirs = pty.openpty()
        try:
            _resize(theirs)
            process = subprocess.Popen(
                [sys.executable, "-m", "tui.measuring", what, os.fspath(out)],
                stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                env=child_environment() | {"TERM": "xterm-256color", "TEXTUAL_ANIMATIONS": "none"},
            )  # fmt: skip
            os.close(theirs)
            threading.Thread(target=_drain, args=(ours,), daemon=True).start()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if not out.exists():
                raise TokenleapError(f"the interface did not get as far as {what}: run `tokenleap tui` to see why")
            return json.loads(out.read_text(encoding="utf-8"))
        finally:
            with contextlib.suppress(OSError):
                os.close(ours)


def _resize(terminal: int) -> None:
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))


def _drain(terminal: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(terminal, 65536):
            pass


@contextlib.contextmanager
def _busy(request: CompletionRequest) -> Any:
    """The host generates for another client until the block ends; gives the count of its answers."""
    from dataclasses import replace

    over = threading.Event()
    count = [0]
    with Client.connect() as client:
        client.complete(replace(request, prefix=_PROMPT.format(n=0), max_tokens=1))  # loads the model

        def work() -> None:
            while not over.is_set():
                prefix = _PROMPT.format(n=count[0] + 1)
                with contextlib.suppress(HostError):
                    client.complete(replace(request, prefix=prefix, max_tokens=96, multiline="always"))
                count[0] += 1

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield lambda: count[0]
        finally:
            over.set()
            thread.join(_PATIENCE)
