"""When the language server ends: with its editor, whatever way that goes.

A thread of its own looks after the editor's process and ends this one at once when it has gone, even while the
loop is busy. Ends are hard (`os._exit`): nothing here is worth waiting for, the engine host cancels what a client
leaves behind, and a thread blocked on standard input would hold up a clean end for ever.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

LOOK_SECONDS = 0.5  # between two looks at the editor's process
GRACE_SECONDS = 1.0  # for the loop to end by itself once it was told to

CLEAN, ABRUPT = 0, 1  # exit codes: after a shutdown request, and without one


def end(code: int) -> None:
    """Ends the process now."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
    logging.shutdown()
    os._exit(code)


def give_memory_back() -> None:
    """Returns freed memory to the system. glibc does so by itself only at the end of its heap, and what a large
    document took would stay with the process for as long as the editor runs. Takes a millisecond or two.
    """
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


class Watch:
    """Ends the process when the one it serves has gone."""

    def __init__(self, code: Callable[[], int], parent: bool) -> None:
        """`code` gives the exit code; with `parent` the process that started this one is watched from now on."""
        self._code = code
        self._parent = os.getppid() if parent and hasattr(os, "getppid") else None
        self._editor: int | None = None
        self._stop = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._look, name="life", daemon=True).start()

    def follow(self, pid: int | None) -> None:
        """The editor said that it is process `pid`. One that cannot be seen from here is not watched."""
        if pid is not None and alive(pid):
            self._editor = pid

    def end_soon(self) -> None:
        """The loop was told to end: make sure that the process does."""

        def later() -> None:
            self._stop.wait(GRACE_SECONDS)
            end(self._code())

        threading.Thread(target=later, name="end", daemon=True).start()

    def _look(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            orphaned = self._parent is not None and os.getppid() != self._parent
            if orphaned or (self._editor is not None and not alive(self._editor)):
                end(self._code())


def alive(pid: int) -> bool:
    """Whether a process runs. One that ended and was not yet collected by its parent does not."""
    if pid <= 0:
        return False
    if sys.platform == "win32":
        return _alive_on_windows(pid)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's: it is there
        pass
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True  # a system without /proc, or it ended just now: the next look knows
    return stat.rpartition(b")")[2].split()[:1] not in ([b"Z"], [b"X"])


def _alive_on_windows(pid: int) -> bool:
    import ctypes

    kernel = ctypes.windll.kernel32  # type: ignore[attr-defined,unused-ignore]
    handle = kernel.OpenProcess(0x00100000, False, pid)  # SYNCHRONIZE
    if not handle:
        return False
    try:
        return bool(kernel.WaitForSingleObject(handle, 0) == 0x102)  # WAIT_TIMEOUT: it still runs
    finally:
        kernel.CloseHandle(handle)
