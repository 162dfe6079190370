"""An engine without a model for conversations: answers by rules in a file, and notes every run.

LSP_SCRIPT names a JSON file that is read at each run: {"rules": [{"ends": text, "say": text, ...}], "say": text,
"empty": reason, "hold": path, "load": path, "raise": true, "slow": seconds}. The first rule whose `ends` the prefix
ends with is laid over the rest. LSP_LOG gets one JSON line at the start and one at the end of each run.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path
from typing import Any

from assistant.errors import ModelMissingError, OutOfMemoryError
from assistant.service.engine_api import Hooks, ProgressHook, Wanted
from assistant.service.protocol import CompletionRequest, CompletionResult

PATIENCE = 60.0


def script() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(Path(os.environ["LSP_SCRIPT"]).read_text(encoding="utf-8"))
    return made


def note(event: str, **values: Any) -> None:
    line = json.dumps({"event": event, **values})
    with Path(os.environ["LSP_LOG"]).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def hold(path: str, cancelled: Any = None) -> None:
    deadline = time.monotonic() + PATIENCE
    while not os.path.exists(path):
        if cancelled is not None and cancelled():
            return
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.002)


class Engine:
    path = "scripted"
    reason = "a test asked for it"
    load_ms = 1.0

    def __init__(self, wanted: Wanted) -> None:
        self.model, self.precision = wanted.model, wanted.precision

    def complete(self, request: CompletionRequest, hooks: Hooks) -> CompletionResult:
        told = script()
        for rule in told.get("rules", []):
            if request.prefix.endswith(rule["ends"]):
                told = {**told, **rule}
                break
        fields = dataclasses.asdict(request)
        note("run", **fields)
        said = ""
        if request.trigger != "warm":
            if told.get("raise"):
                raise OutOfMemoryError("not enough memory: close something")
            for piece in told.get("pieces", [told.get("say", "done")]):
                if hooks.cancelled():
                    break
                if "hold" in told:
                    hold(told["hold"], hooks.cancelled)
                if hooks.cancelled():
                    break
                hooks.first()
                said += piece
                hooks.text(piece)
        cancelled = hooks.cancelled()
        note("cancelled" if cancelled else "finished", trigger=request.trigger)
        many = request.candidates > 1 and said
        return CompletionResult(
            said,
            "cancelled" if cancelled else "stop" if said else "empty",
            None if said else told.get("empty", "end"),
            self.model,
            self.precision,
            request.decode,
            prompt_tokens=len(request.prefix),
            new_tokens=len(said),
            passes=1,
            candidates=tuple(f"{said}{n or ''}" for n in range(request.candidates)) if many else None,
        )

    def drop_caches(self) -> None:
        pass

    def store_bytes(self) -> int:
        return 0

    def close(self) -> None:
        pass


def factory(wanted: Wanted, progress: ProgressHook) -> Engine:
    told = script()
    if wanted.model == "missing":
        raise ModelMissingError("the model missing is not on this machine: run `tokenleap models pull missing`")
    if "load" in told:
        progress("convert", 1, 4)
        hold(told["load"])
        progress("convert", 4, 4)
    return Engine(wanted)
