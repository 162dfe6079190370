"""Where things live on this machine: data, cache, settings, runtime.

`TOKENLEAP_HOME` moves the first three below one folder (tests, portable installs). Every path is absolute, so that
processes in other working folders mean the same place. Folders are made by their users, not here, except the runtime
folder, which must be the user's alone before a socket stands in it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import platformdirs

from assistant import system_errors
from assistant.errors import HostError, SettingsError

_ADVICE = "set XDG_RUNTIME_DIR to a folder of your own"
_HOME = "TOKENLEAP_HOME"
_FOLDERS = (_HOME, "TMPDIR", "TEMP", "TMP")  # variables in which a relative path counts; XDG's are ignored then


def _home() -> Path | None:
    home = os.environ.get(_HOME)
    if not home:
        return None
    try:
        return Path(home).expanduser().absolute()
    except (RuntimeError, OSError):  # no such user, or a working folder that is gone
        raise SettingsError(f"{_HOME} cannot be {home!r}: give it the whole path of a folder") from None


def _usual(folder: str) -> Path:
    """One of the system's own places, absolute."""
    if folder.startswith("~"):  # neither HOME nor the user database says where the user lives
        raise SettingsError(f"this user has no home folder: set {_HOME} to a folder for tokenleap")
    return Path(folder).absolute()


def environment() -> dict[str, str]:
    """The environment for a process that works in another folder: the same places in it as here."""
    made = dict(os.environ)
    for name in _FOLDERS:
        if made.get(name):
            with contextlib.suppress(OSError):  # a working folder that is gone
                made[name] = os.path.abspath(os.path.expanduser(made[name]) if name == _HOME else made[name])
    return made


def data_folder() -> Path:
    """Models, statistics, conversations."""
    home = _home()
    return home / "data" if home else _usual(platformdirs.user_data_dir("tokenleap", appauthor=False))


def models_folder() -> Path:
    """Converted models, one folder each."""
    return data_folder() / "models"


def cache_folder() -> Path:
    """What can be made again: compiled operators, partial downloads."""
    home = _home()
    return home / "cache" if home else _usual(platformdirs.user_cache_dir("tokenleap", appauthor=False))


def settings_file() -> Path:
    """The user's own settings."""
    home = _home()
    folder = home / "config" if home else _usual(platformdirs.user_config_dir("tokenleap", appauthor=False))
    return folder / "settings.toml"


def runtime_folder() -> Path:
    """Sockets: a folder in XDG_RUNTIME_DIR, else `temporary_folder`. Raises as that does."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.path.isdir(runtime):  # a relative one is to be ignored, by its own specification
        return _private(Path(runtime) / "tokenleap")
    return temporary_folder()


def temporary_folder() -> Path:
    """A folder of mode 0700 with the user's id below the temporary folder.

    Raises HostError when it cannot be made, or exists and belongs to somebody else or is open to others.
    """
    user = str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    try:
        temporary = tempfile.gettempdir()
    except FileNotFoundError:
        raise HostError(f"there is no temporary folder for the engine host's socket: {_ADVICE}") from None
    return _private(Path(temporary) / f"tokenleap-{user}")


def _private(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        reason = system_errors.os_sentence(error) or error
        raise HostError(f"the engine host's socket has no safe place, {reason}, or {_ADVICE}") from error
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o077):
        raise HostError(f"{folder} is not this user's alone: remove it, or {_ADVICE}")
    return folder
