"""An engine without a model for the host: it answers with what the file's first line tells it to, as JSON.

{"say": [pieces], "wait_for": path, "empty": code}. After the first piece it waits until `wait_for` exists or
the request is cancelled; a file with the suffix ".cancelled" then stands beside it.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from assistant.service.engine_api import Hooks, ProgressHook, Wanted
from assistant.service.protocol import CompletionRequest, CompletionResult


class ToldEngine:
    path = "told"
    reason = "a test asked for it"
    load_ms = 1.0

    def __init__(self, wanted: Wanted) -> None:
        self.model, self.precision = wanted.model, wanted.precision

    def complete(self, request: CompletionRequest, hooks: Hooks) -> CompletionResult:
        told = json.loads((request.prefix + request.suffix).splitlines()[0].lstrip("# "))
        said = ""
        for number, piece in enumerate(told.get("say", [])):
            said += piece
            if number == 0:
                hooks.first()
            hooks.text(piece)
            gate = Path(told["wait_for"]) if number == 0 and "wait_for" in told else None
            while gate is not None and not gate.exists():
                if hooks.cancelled():
                    gate.with_suffix(".cancelled").touch()
                    break
                time.sleep(0.002)
        finish = "cancelled" if hooks.cancelled() else "stop" if said else "empty"
        return CompletionResult(
            said,
            finish,
            None if said else told.get("empty", "short"),
            self.model,
            self.precision,
            request.decode,
        )

    def drop_caches(self) -> None: ...

    def store_bytes(self) -> int:
        return 0

    def close(self) -> None: ...


def factory(wanted: Wanted, progress: ProgressHook) -> ToldEngine:
    return ToldEngine(wanted)
