"""Where things live on this machine: data, cache, settings, runtime.

`TOKENLEAP_HOME` moves all four below one folder (tests, portable installs). Folders are made by their users, not here,
except the runtime folder, which must be the user's alone before a socket stands in it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import platformdirs


def _home() -> Path | None:
    home = os.environ.get("TOKENLEAP_HOME")
    return Path(home).expanduser() if home else None


def data_folder() -> Path:
    """Models, statistics, conversations."""
    home = _home()
    return home / "data" if home else Path(platformdirs.user_data_dir("tokenleap", appauthor=False))


def models_folder() -> Path:
    """Converted models, one folder each."""
    return data_folder() / "models"


def cache_folder() -> Path:
    """What can be made again: compiled operators, partial downloads."""
    home = _home()
    return home / "cache" if home else Path(platformdirs.user_cache_dir("tokenleap", appauthor=False))


def settings_file() -> Path:
    """The user's own settings."""
    home = _home()
    folder = home / "config" if home else Path(platformdirs.user_config_dir("tokenleap", appauthor=False))
    return folder / "settings.toml"


def runtime_folder() -> Path:
    """Sockets: XDG_RUNTIME_DIR, else a folder of mode 0700 with the user's id below the temporary folder.

    Raises PermissionError when the folder exists and belongs to somebody else or is open to others.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        folder = Path(runtime) / "tokenleap"
    else:
        user = str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
        folder = Path(tempfile.gettempdir()) / f"tokenleap-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if hasattr(os, "getuid"):
        status = folder.lstat()
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise PermissionError(f"{folder} is not this user's alone: remove it or set XDG_RUNTIME_DIR")
    return folder
