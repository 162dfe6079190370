"""Writes a settings file: only the named keys change, comments and order stay, it is whole at any moment.

A file that is not valid TOML is never overwritten. Values pass the schema's door first, so a saved file loads
without warnings about the keys written here.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from assistant import locations
from assistant.errors import SettingsError
from assistant.settings import files
from assistant.settings.load import shown, unknown_setting
from assistant.settings.schema import SPECS, Value
from assistant.settings.values import is_unset, parse


def save(changes: Mapping[str, object], path: Path | None = None) -> Path:
    """Sets `changes` (name -> raw value; None, "" or "null" removes the key) in the user's file or in `path`.

    Returns the file written. Raises SettingsError for an unknown name, a bad value or a file that is not
    valid TOML, and OSError when the disk refuses.
    """
    checked = {name: check(name, raw) for name, raw in changes.items()}
    # A settings file is often a link into a folder under version control: the link stays, its target changes.
    target = Path(os.path.realpath(path if path is not None else locations.settings_file()))
    target.parent.mkdir(parents=True, exist_ok=True)
    while True:
        before = _bytes(target)
        after = _changed(target, before, checked)
        temporary = _written_beside(target, after)
        try:
            if _bytes(target) == before:  # else someone saved in between: lay the changes over theirs
                os.replace(temporary, target)
                return target
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)


def check(name: str, raw: object) -> Value | None:
    """The value that `raw` stands for, None when it means "not given". Raises SettingsError."""
    spec = SPECS.get(name)
    if spec is None:
        raise SettingsError(unknown_setting(name))
    if is_unset(spec, raw):
        return None
    try:
        return _storable(parse(spec, raw))
    except ValueError as error:
        raise SettingsError(f"{name} cannot be {shown(raw)}: give {error}") from None


def _storable(value: Value) -> Value:
    """A text as UTF-8 can hold it. A terminal of another encoding gives bytes that only the system understands."""
    if not isinstance(value, str):
        return value
    try:
        value.encode("utf-8")
        return value
    except UnicodeEncodeError:
        pass
    try:
        return os.fsencode(value).decode("utf-8")
    except UnicodeError:
        raise ValueError("a text in UTF-8") from None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _changed(path: Path, before: bytes, changes: Mapping[str, Value | None]) -> bytes:
    import tomlkit  # here, because reading settings is far more frequent than writing them

    try:
        text = before.decode("utf-8-sig")
        # The reader decides what is valid: it is stricter than the writer's parser, and it names the line.
        expected = files.parse_toml(text.replace("\r\n", "\n"))
        document = tomlkit.parse(text)
    except (ValueError, RecursionError) as error:
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else " ".join(str(error).split())
        raise SettingsError(
            f"{path} is not valid TOML ({reason}): correct it first, it was left as it is"
        ) from None
    for name, value in changes.items():
        if value is None:
            document.pop(name, None)
            expected.pop(name, None)
        else:
            document[name] = value
            expected[name] = value
    result = document.as_string()
    if files.parse_toml(result.replace("\r\n", "\n")) != expected:
        raise SettingsError(f"{path} is laid out in a way that cannot be changed safely: edit it by hand")
    return result.encode("utf-8")


def _written_beside(path: Path, content: bytes) -> str:
    descriptor, name = tempfile.mkstemp(prefix=path.name + ".", suffix=".new", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            os.chmod(name, path.stat().st_mode & 0o7777)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    return name
