"""An engine without a model, for tests of the host: the prefix of a request is a script of what to do.

A script is JSON: {"say": [pieces], "hold": path, "raise": name, "log": path}. After the first piece the
engine holds until `hold` exists or it is cancelled. `log` gets one line for each run, so a test can count
generations.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from assistant.errors import UnknownModelError
from assistant.service.engine_api import Hooks, ProgressHook, Wanted
from assistant.service.protocol import CompletionRequest, CompletionResult

PATIENCE = 30.0  # seconds; a test that needs more has failed


class OutOfMemoryError(RuntimeError):
    """As torch's, which is known by its name."""


def hold(path: str, cancelled: object = None) -> bool:
    """Wait until `path` exists (True) or the request is cancelled (False)."""
    deadline = time.monotonic() + PATIENCE
    while not os.path.exists(path):
        if callable(cancelled) and cancelled():
            return False
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.002)
    return True


def note(path: str | None, line: str) -> None:
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(line + "\n")


class ScriptedEngine:
    path = "scripted"
    reason = "a test asked for it"
    load_ms = 7.0

    def __init__(self, wanted: Wanted) -> None:
        self.model = wanted.model
        self.precision = wanted.precision
        self.held = 0

    def complete(self, request: CompletionRequest, hooks: Hooks) -> CompletionResult:
        script = json.loads(request.prefix)
        note(script.get("log"), "run")
        self.held += 1000
        said = ""
        for number, piece in enumerate(script.get("say", ["done"])):
            if hooks.cancelled():
                break
            said += piece
            if number == 0:
                hooks.first()
            hooks.text(piece)
            if number == 0 and "hold" in script and not hold(script["hold"], hooks.cancelled):
                break
        if script.get("raise") == "memory":
            raise MemoryError
        if script.get("raise") == "torch":
            raise OutOfMemoryError("DefaultCPUAllocator: not enough memory: you tried to allocate 1 bytes")
        if script.get("raise") == "odd":
            raise ValueError(f"the user's text is {request.prefix}")
        cancelled = hooks.cancelled()
        note(script.get("log"), "cancelled" if cancelled else "finished")
        finish = "cancelled" if cancelled else "stop" if said else "empty"
        return CompletionResult(
            said,
            finish,
            None if said else "nothing",
            self.model,
            self.precision,
            request.decode,
            prompt_tokens=len(request.prefix),
            new_tokens=len(said),
            passes=3,
        )

    def drop_caches(self) -> None:
        self.held = 0

    def store_bytes(self) -> int:
        return self.held

    def close(self) -> None:
        self.held = 0


def factory(wanted: Wanted, progress: ProgressHook) -> ScriptedEngine:
    """A model named "missing" is unknown; one named "hold:PATH" takes until PATH exists to load."""
    if wanted.model == "missing":
        raise UnknownModelError("there is no model missing: use qwen2.5-coder-0.5b")
    if wanted.model.startswith("hold:"):
        progress("convert", 1, 2)
        hold(wanted.model.removeprefix("hold:"))
    return ScriptedEngine(wanted)
