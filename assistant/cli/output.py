"""The only writer to the terminal: results go to standard output, all that is said besides to standard error.

Text that a terminal cannot show is replaced, never an error. Results are written whole and flushed, so a full
disk or a closed pipe is noticed here: the first is NoSpaceError, the second OutputClosed. Standard error may
fail in silence.
"""

from __future__ import annotations

import contextlib
import errno
import json as _json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from assistant.errors import NoSpaceError

# Control characters that text from files or from a model could use to drive a terminal; tab and newline stay.
_CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), *range(127, 160)), "\ufffd")


class OutputClosed(Exception):
    """The reader of standard output went away: there is nobody left to tell."""


class _Progress:
    """Whether the last thing on the terminal is a progress line, which the next note has to clear."""

    shown = False


def result(text: str, *, newline: bool = True) -> None:
    """Writes a command's result, by default ending its last line."""
    _clear_progress()
    if to_terminal():
        text = text.translate(_CONTROLS)
    _write(text + "\n" if newline and not text.endswith("\n") else text)


def json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Writes a result as one line of JSON in plain ASCII, which every encoding carries unharmed."""
    _clear_progress()
    _write(_json.dumps(value, ensure_ascii=True) + "\n")


def note(text: str) -> None:
    """Writes something said besides the result."""
    _clear_progress()
    _write_error(text.translate(_CONTROLS) + "\n")


def progress(text: str) -> None:
    """Shows a line that the next one overwrites, on a terminal; elsewhere nothing."""
    if _is_terminal(sys.stderr):
        width = _columns()
        _write_error("\r\x1b[K" + text.translate(_CONTROLS).replace("\n", " ")[: width - 1])
        _Progress.shown = True


def bar(title: str, done: int, total: int) -> str:
    """A progress line's text: how far `done` of `total` bytes is; a total of 0 is unknown."""
    if total <= 0:
        return f"{title} {done / 1e6:,.0f} MB"
    share = min(max(done / total, 0.0), 1.0)
    filled = int(share * 24)
    return f"{title} [{'#' * filled}{'.' * (24 - filled)}] {share:4.0%} of {total / 1e6:,.0f} MB"


def to_terminal() -> bool:
    """True when a person, not a program, reads standard output."""
    return _is_terminal(sys.stdout)


def abandon() -> None:
    """Points standard output at nothing, so that the interpreter's own last flush cannot fail and speak."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)


def _clear_progress() -> None:
    if _Progress.shown:
        _Progress.shown = False
        _write_error("\r\x1b[K")


def _columns() -> int:
    try:
        return max(os.get_terminal_size(sys.stderr.fileno()).columns, 20)
    except (OSError, ValueError):
        return 80


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # already closed
        return False


def _encoded(stream: TextIO, text: str) -> bytes:
    return text.encode(stream.encoding or "utf-8", errors="replace")


def _write(text: str) -> None:
    stream = sys.stdout
    if stream is None:
        raise OutputClosed
    try:
        buffer = getattr(stream, "buffer", None)
        if buffer is None:
            stream.write(text)
            stream.flush()
            return
        stream.flush()
        # Bytes, so that no platform turns a completion's line ends into others.
        buffer.write(_encoded(stream, text))
        buffer.flush()
    except OSError as error:
        abandon()
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpaceError(
                "there is no space left where the output goes: free some and try again"
            ) from None
        raise OutputClosed from None
    except ValueError:
        raise OutputClosed from None


def _write_error(text: str) -> None:
    stream = sys.stderr
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError):
        buffer = getattr(stream, "buffer", None)
        if buffer is None:
            stream.write(text)
        else:
            buffer.write(_encoded(stream, text))
        stream.flush()
