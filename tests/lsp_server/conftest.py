"""Editors with servers of their own and one scripted engine host; all are ended with the test."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assistant.errors import HostError
from assistant.service import launch
from assistant.service.client import Client
from assistant.service.endpoint import Endpoint
from tests.lsp_server import client as editor_client


class Desk:
    """A scripted engine host, and editors at it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.log = folder / "engine.jsonl"
        self._script = folder / "script.json"
        self._editors: list[editor_client.Editor] = []
        here = Path(__file__).parent
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (here, here.parents[1]))))
        monkeypatch.setenv("LSP_SCRIPT", str(self._script))
        monkeypatch.setenv("LSP_LOG", str(self.log))
        self.say("done")

    def script(self, **told: Any) -> None:
        """What the engine does from its next run on."""
        temporary = self._script.with_suffix(".new")
        temporary.write_text(json.dumps(told), encoding="utf-8")
        temporary.replace(self._script)

    def say(self, text: str, **told: Any) -> None:
        self.script(say=text, **told)

    def host(self) -> int:
        """Starts the engine host; its process."""
        with Client.connect(host_arguments=("--engine", "lsp_engine:factory")) as client:
            assert client.host_pid is not None
            return client.host_pid

    def editor(self, ready: bool = True, start: bool = True, **options: Any) -> editor_client.Editor:
        """An editor past its initialization, with the engine loaded."""
        self.host()
        made = editor_client.Editor(stderr=self.folder / f"stderr-{len(self._editors)}.txt", **options)
        self._editors.append(made)
        if start:
            made.start()
        if start and ready:
            made.ready()
        return made

    def events(self) -> list[dict[str, Any]]:
        """All runs of the engine but for warming."""
        if not self.log.exists():
            return []
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [event for event in map(json.loads, lines) if event["trigger"] != "warm"]

    def runs(self, **having: Any) -> list[dict[str, Any]]:
        """The requests that reached the engine; without alternatives."""
        found = [event for event in self.events() if event["event"] == "run" and event["candidates"] == 1]
        return [run for run in found if all(run[name] == value for name, value in having.items())]

    def until(self, condition: Callable[[], Any]) -> Any:
        """Waits until files and processes make `condition` true."""
        import time

        deadline = time.monotonic() + editor_client.PATIENCE
        while not (found := condition()):
            assert time.monotonic() < deadline, "it never came to pass"
            time.sleep(0.005)
        return found

    def close(self) -> None:
        faults = []
        for editor in self._editors:
            try:
                editor.close()
            except AssertionError as fault:
                faults.append(str(fault))
        endpoint = Endpoint.here()
        try:
            with Client.connect(start=False, wait=5, endpoint=endpoint) as client:
                client.stop()
        except HostError:
            launch.kill(endpoint)
        launch.reap()
        assert not faults, faults


@pytest.fixture
def desk(own_home: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(tmp_path, monkeypatch)
    try:
        yield made
    finally:
        made.close()
