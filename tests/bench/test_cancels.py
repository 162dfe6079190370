"""`bench cancels`: every request of a hasty typist is counted once, and the host comes to rest."""

from __future__ import annotations

import contextlib
from typing import Any

from assistant.bench import cancels
from assistant.bench.keystrokes import Recording
from assistant.settings.schema import Settings
from tests.lsp_server.conftest import desk  # noqa: F401


def test_requests_and_cancels_are_each_answered_once(desk: Any, monkeypatch: Any) -> None:  # noqa: F811
    monkeypatch.setattr(cancels, "own_host", contextlib.nullcontext)
    monkeypatch.setattr(cancels, "_GAP", 0.003)
    monkeypatch.setattr(cancels, "_PAUSE", (0.1, 0.05))
    monkeypatch.setattr(cancels, "WARM_UP", 60)
    desk.say("total = price")
    desk.host()
    recording = Recording("function", "python", "a.py", "def f(price):\n    ", "\n\n\nf(1)\n", "total = price")
    found = cancels.measure([recording], Settings(), requests=120)
    assert (found["requests"], found["answered_once"]) == (120, 120)
    assert 0 < found["cancelled"] <= 120
    assert found["host_growth"] > -1 and found["server_growth"] > -1
