"""A host of its own for each test that asks: scripted engine, own home, stopped at the end."""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assistant.errors import HostError
from assistant.service import launch
from assistant.service.client import Client
from assistant.service.endpoint import Endpoint
from assistant.service.protocol import CompletionRequest

ENGINE = ("--engine", "scripted_engine:factory")


class Hosts:
    """Clients of this test's host, and what its engine noted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "engine.log"
        self._clients: list[Client] = []
        self._endpoints: list[Endpoint] = []

    def connect(self, *arguments: str, endpoint: Endpoint | None = None, **options: Any) -> Client:
        endpoint = endpoint or Endpoint.here()
        self._endpoints.append(endpoint)
        client = Client.connect(host_arguments=(*ENGINE, *arguments), endpoint=endpoint, **options)
        self._clients.append(client)
        return client

    def request(self, script: dict[str, Any] | None = None, **options: Any) -> CompletionRequest:
        """A request whose script is `script`; the engine notes its runs."""
        return CompletionRequest(json.dumps({"log": str(self.log), **(script or {})}), **options)

    def held(self, name: str = "go", **script: Any) -> tuple[dict[str, Any], Callable[[], None]]:
        """A script that holds after its first piece, and what lets it go on."""
        gate = self.folder / name
        return {"say": ["a", "b"], "hold": str(gate), **script}, gate.touch

    @staticmethod
    def until(condition: Callable[[], Any], patience: float = 30.0) -> Any:
        """The first true value of `condition`, asked again and again."""
        deadline = time.monotonic() + patience
        while not (found := condition()):
            assert time.monotonic() < deadline, "it never came to pass"
            time.sleep(0.005)
        return found

    def notes(self) -> list[str]:
        return self.log.read_text(encoding="utf-8").split() if self.log.exists() else []

    def left_over(self) -> list[str]:
        """Every file in the runtime folder."""
        return sorted(path.name for path in Endpoint.here().address.parent.iterdir())

    def close(self) -> None:
        for client in self._clients:
            client.close()
        for endpoint in self._endpoints:
            try:
                with Client.connect(start=False, wait=5, endpoint=endpoint) as client:
                    client.stop()
            except HostError:
                launch.kill(endpoint)
        launch.reap()


@pytest.fixture
def hosts(own_home: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    here = os.path.dirname(__file__)
    monkeypatch.setenv("PYTHONPATH", here)
    made = Hosts(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the scripted engine, for use in this process."""
    monkeypatch.syspath_prepend(os.path.dirname(__file__))
    return importlib.import_module("scripted_engine")
