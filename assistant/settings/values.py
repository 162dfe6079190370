"""The only door from outside values (text, TOML, JSON) to a setting's value.

`parse` returns a value that the setting's Spec allows, or raises ValueError that says what is allowed.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

from assistant.settings.schema import Spec, Value

_UNSET_WORDS = frozenset({"", "none", "null", "undefined"})
_TRUE_WORDS = frozenset({"true", "yes", "on", "1"})
_FALSE_WORDS = frozenset({"false", "no", "off", "0"})


def is_unset(spec: Spec, raw: object) -> bool:
    """True for what programs write when nothing was chosen: None, "", "null", "undefined", "none"."""
    if not isinstance(raw, str):
        return raw is None
    word = raw.strip().lower()
    return word in _UNSET_WORDS and word not in spec.choices


def parse(spec: Spec, raw: object, folder: Path | None = None) -> Value:
    """The value of setting `spec` that `raw` (text, or a value from TOML or JSON) stands for.

    `folder` is where relative model paths start (the working folder without it).
    Raises ValueError, whose text is `spec.allowed`, for anything else.
    """
    if spec.kind is bool:
        return _flag_value(spec, raw)
    if isinstance(raw, bool):
        raise ValueError(spec.allowed)
    if spec.kind is str:
        if not isinstance(raw, str) or "\0" in raw:
            raise ValueError(spec.allowed)
        text = raw.strip()
        if spec.choices:
            if text.lower() not in spec.choices:
                raise ValueError(spec.allowed)
            return text.lower()
        return absolute_model(text, folder) if spec.is_path else text
    return _number(spec, raw)


def _flag_value(spec: Spec, raw: object) -> bool:
    word = str(raw).strip().lower() if isinstance(raw, (str, int)) else ""
    if word in _TRUE_WORDS:
        return True
    if word in _FALSE_WORDS:
        return False
    raise ValueError(spec.allowed)


def _number(spec: Spec, raw: object) -> int | float:
    number: int | float
    try:
        if isinstance(raw, str):
            number = int(raw) if spec.kind is int else float(raw)
        elif isinstance(raw, int) and spec.kind is int:
            number = raw
        elif isinstance(raw, (int, float)):
            number = float(raw)
        else:
            raise ValueError
        # JSON knows one kind of number: 64.0 is a whole number, 64.5 is not.
        if spec.kind is int and int(number) != number:
            raise ValueError
    except (ValueError, OverflowError):
        raise ValueError(spec.allowed) from None
    low = -math.inf if spec.minimum is None else spec.minimum
    high = math.inf if spec.maximum is None else spec.maximum
    if not (math.isfinite(number) and low <= number <= high):
        raise ValueError(spec.allowed)
    return int(number) if spec.kind is int else float(number)


def absolute_model(text: str, folder: Path | None = None) -> str:
    """`text` itself when it is a name, an absolute path when it is a path.

    A path begins with ~, . or a slash, ends in .gguf, or has a slash and names an existing folder. The engine
    host runs in another folder, so a relative path must not leave the place where it was written.
    """
    written_as_path = text.startswith(("~", ".", "/", "\\")) or text.lower().endswith(".gguf")
    start = folder if folder is not None else Path.cwd()
    try:
        given = Path(text).expanduser()
        path = start / given
        if written_as_path or given.is_absolute() or ("/" in text and path.is_dir()):
            return os.path.normpath(path)
    except (OSError, RuntimeError, ValueError):  # no such user's home, a name no system accepts
        return text
    return text
