"""Turns any exception into one sentence and an exit code. The only place that decides either.

0 result, 1 nothing to suggest, 2 wrong use or unreadable input, 3 environment, 130 interrupted, 141 reader
gone. What nobody foresaw is written with its traceback to a file, and the sentence says where.
"""

from __future__ import annotations

import os
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from assistant import locations, system_errors
from assistant.cli.output import OutputClosed
from assistant.errors import TokenleapError

NOTHING, WRONG_USE, ENVIRONMENT, INTERRUPTED, READER_GONE = 1, 2, 3, 130, 141


@dataclass(frozen=True)
class Failure:
    """What to say (empty: nothing) and what to exit with."""

    message: str
    exit_code: int


def describe(error: BaseException) -> Failure:
    """One line to say and the exit code for `error`. Reports an unforeseen one in a file; never raises."""
    if isinstance(error, TokenleapError):
        return Failure(_line(str(error)) or error.code, error.exit_code)
    if isinstance(error, KeyboardInterrupt):
        return Failure("interrupted", INTERRUPTED)
    if isinstance(error, OutputClosed):
        return Failure("", READER_GONE)
    known = system_errors.understood(error)
    if known is not None:
        return Failure(_line(str(known)), known.exit_code)
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        return Failure(
            _line(f"the package {package} is missing: install tokenleap again (pip install tokenleap)"),
            ENVIRONMENT,
        )
    return Failure(_unforeseen(error), ENVIRONMENT)


def _line(text: str) -> str:
    return " ".join(text.split())


def _unforeseen(error: BaseException) -> str:
    summary = _line(f"{type(error).__name__}: {error}")
    summary = summary if len(summary) <= 160 else summary[:157] + "..."
    try:
        file = _report(error)
    except Exception:  # whatever stops the report must not hide the error itself
        return f"unexpected error ({summary}): set TOKENLEAP_DEBUG=1 to see where"
    return f"unexpected error ({summary}): details are in {file}"


def _report(error: BaseException) -> Path:
    folder = locations.cache_folder() / "errors"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    file.write_text(text, encoding="utf-8", errors="replace")
    return file
