"""How much memory this process holds in RAM, now and at most, in bytes; 0 where the system does not say."""

from __future__ import annotations

import sys


def resident() -> tuple[int, int]:
    """(now, peak)."""
    import psutil

    info = psutil.Process().memory_info()
    now = int(info.rss)
    if sys.platform == "win32":
        return now, int(info.peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return now, max(now, peak if sys.platform == "darwin" else peak * 1024)
