"""The end of a log file that grows, is emptied or is not there yet."""

from __future__ import annotations

from pathlib import Path

_FIRST = 64 * 1024  # bytes of what was there before


class Tail:
    """`read` gives the whole lines added since the last call."""

    def __init__(self, path: Path) -> None:
        self._path, self._at, self._rest = path, -1, b""

    def read(self) -> list[str]:
        """Without line ends; no lines when the file cannot be read."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, 2)
                if self._at < 0:
                    self._at = max(0, size - _FIRST)
                if size < self._at:  # it was emptied
                    self._at, self._rest = 0, b""
                file.seek(self._at)
                data = file.read()
        except OSError:
            return []
        self._at += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [line.decode("utf-8", "replace").rstrip("\r") for line in whole]
