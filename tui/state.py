"""The one line that says how the product is: a kind with a look of its own, and words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assistant.service.protocol import HostStatus
from tui.live import Live

NO_MODEL, DOWNLOADING, LOADING = "no model", "downloading", "loading"
IDLE, WORKING, ERROR, ASLEEP = "idle", "working", "error", "asleep"
SIGNS = {NO_MODEL: "○", DOWNLOADING: "↓", LOADING: "◌", IDLE: "●", WORKING: "▶", ERROR: "✗", ASLEEP: "◦"}


@dataclass(frozen=True)
class State:
    """kind: one of SIGNS."""

    kind: str
    words: str

    def __str__(self) -> str:
        return f"{SIGNS[self.kind]} {self.kind}" + (f": {self.words}" if self.words else "")


@dataclass(frozen=True)
class Download:
    """How far a model on its way is; total 0: unknown."""

    model: str
    step: str = "downloading"
    done: int = 0
    total: int = 0

    @property
    def words(self) -> str:
        share = f" {self.done / self.total:.0%}" if self.total else ""
        return f"{self.model}, {self.step}{share}"


def ready(catalog: Sequence[dict[str, Any]] | None, model: str, precision: str) -> bool | None:
    """Whether the model is here in this precision, or will be made at its first use. None: not known."""
    if catalog is None or "/" in model or "\\" in model:
        return None
    row = next((row for row in catalog if row["id"] == model), None)
    return row is not None and (precision in row["ready"] or bool(row["source"]))


def derive(
    status: HostStatus | None,
    live: Live,
    download: Download | None = None,
    has_model: bool | None = None,
    gone: str = "",
) -> State:
    """What of all that is known counts most. gone: why there is no host, when it is more than asleep."""
    if download is not None:
        return State(DOWNLOADING, download.words)
    if status is None:
        if has_model is False:
            return State(NO_MODEL, "the model of the settings is not on this machine")
        return State(ERROR, gone) if gone else State(ASLEEP, "no engine host; the first completion starts it")
    running = live.running
    if status.state == "loading" or (running is not None and running.step is not None and not running.blocks):
        step = running.step if running is not None else None
        share = f" {step.done / step.total:.0%}" if step is not None and step.total else ""
        return State(LOADING, f"{step.step}{share}" if step is not None else "")
    trouble = live.trouble()
    if running is None and trouble is not None:
        return State(ERROR, trouble.message)
    if has_model is False and status.model is None:
        return State(NO_MODEL, "the model of the settings is not on this machine")
    if running is not None or status.state == "busy":
        speed = f"{running.speed:.0f} tokens/s" if running is not None and running.speed else ""
        return State(WORKING, speed)
    return State(IDLE, "")
