"""One byte sequence made of one or several files, read without ever joining them on the disk.

`Parts.read(offset, size)` returns exactly `size` bytes or raises ModelCorruptError; it may be called from
several threads. `sha256` streams the whole. Nothing is kept in memory and nothing is mapped, so a file cut
short meanwhile is an error, not a crash.
"""

from __future__ import annotations

import bisect
import hashlib
import threading
from collections.abc import Callable, Sequence
from io import FileIO
from pathlib import Path

from assistant.errors import ModelCorruptError

Progress = Callable[[str, int, int], None]
"""`progress(stage, done, total)`: "wait", "download", "check", "convert" or "verify"; bytes of bytes."""

_BLOCK = 8 << 20


class Parts:
    """The files of `paths`, in order, as one sequence of bytes. Use as a context manager or call `close`."""

    def __init__(self, paths: Sequence[Path]) -> None:
        if not paths:
            raise ValueError("no files")
        self.paths = list(paths)
        sizes = [path.stat().st_size for path in self.paths]
        self._starts = [sum(sizes[:n]) for n in range(len(sizes))]
        self.size = sum(sizes)
        self._files: list[FileIO] = []
        self._lock = threading.Lock()
        try:
            for path in self.paths:
                self._files.append(FileIO(path, "rb"))
        except OSError:
            self.close()
            raise

    @property
    def name(self) -> str:
        """The first file, for messages."""
        return str(self.paths[0])

    def read(self, offset: int, size: int) -> bytearray:
        """Bytes [offset, offset + size). Raises ModelCorruptError when the files end before that."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise self._short(offset + size)
        out = bytearray(size)
        view = memoryview(out)
        done = 0
        while done < size:
            place = offset + done
            part = bisect.bisect_right(self._starts, place) - 1
            with self._lock:
                file = self._files[part]
                file.seek(place - self._starts[part])
                end = self._starts[part + 1] if part + 1 < len(self._starts) else self.size
                got = file.readinto(view[done : done + min(size - done, end - place)])
            if not got:
                raise self._short(offset + size)
            done += got
        return out

    def sha256(self, progress: Progress | None = None, stage: str = "check") -> str:
        """Hexadecimal SHA-256 of the whole sequence."""
        digest = hashlib.sha256()
        for offset in range(0, self.size, _BLOCK):
            digest.update(self.read(offset, min(_BLOCK, self.size - offset)))
            if progress is not None:
                progress(stage, min(offset + _BLOCK, self.size), self.size)
        return digest.hexdigest()

    def close(self) -> None:
        """Close the files; a second call does nothing."""
        for file in self._files:
            file.close()

    def __enter__(self) -> Parts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _short(self, wanted: int) -> ModelCorruptError:
        return ModelCorruptError(
            f"{self.name} ends too early: {wanted} bytes are needed, {self.size} are there; fetch the "
            "file again"
        )
