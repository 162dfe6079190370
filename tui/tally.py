"""The language server's statistics for the dashboard: today, seven days, all."""

from __future__ import annotations

import time
from typing import Any

from assistant.service import history
from assistant.service.history import History

SPANS = ("today", "7 days", "all")
_DAY = 86400


def counted(now: float | None = None) -> dict[str, dict[str, Any]]:
    """Figures of each span, as History.summary gives them. No file is made."""
    now = time.time() if now is None else now
    midnight = time.mktime((*time.localtime(now)[:3], 0, 0, 0, 0, 0, -1))
    opened = History.open(enabled=history.file().exists())
    try:
        starts = (midnight, now - 7 * _DAY, 0.0)
        return {name: opened.summary(since) for name, since in zip(SPANS, starts, strict=True)}
    finally:
        opened.close()
