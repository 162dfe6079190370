"""Against a real host process with the scripted engine: another client's request is seen, and a choice reaches it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from assistant.service.client import Client
from assistant.service.protocol import CompletionRequest
from tests.tui_app.conftest import Stage, play
from tests.tui_app.service import CATALOG, Errands, tally
from tui.app import TokenleapApp
from tui.bridge import Bridge

SERVICE = Path(__file__).parents[1] / "service"


def connect(start: bool) -> Client:
    return Client.connect(start=start, host_arguments=("--engine", "scripted_engine:factory"))


def test_the_interface_sees_a_host_start_work_and_stop(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (SERVICE, SERVICE.parents[1]))))

    errands = Errands()
    errands.answers["catalog"] = [{**row, "source": "downloaded"} for row in CATALOG]

    async def scene() -> None:
        app: Any = TokenleapApp(lambda post: Bridge(post, connect, errands, interval=0.1), tally=tally)
        stage.app = app
        async with app.run_test(size=(120, 40)) as pilot:
            await stage.seen(pilot, "no engine host")
            with connect(True) as other:
                other.complete(CompletionRequest(json.dumps({"say": ["done"]}), path="other.py"))
                await stage.seen(pilot, "other.py")
                await stage.seen(pilot, "● idle")
                assert app.status.pid == other.host_pid
                assert app.change({"precision": "fp32"})
                app.reload_engine()
                await stage.until(pilot, lambda: app.status.precision == "fp32")
                other.stop()
            await stage.seen(pilot, "no engine host")

    play(scene)
