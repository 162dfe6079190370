"""Settings files: where they are and what their text says. Reads only; `save` writes.

`read` never raises for a file's content: a file that cannot be read or is not TOML gives no values and one
sentence that names the file and, where there is one, the line.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

PROJECT_FILE = ".tokenleap.toml"


def parse_toml(text: str) -> dict[str, object]:
    """The values of a TOML text. Raises ValueError that names the line."""
    # Imported here: most commands find no settings file, and every command should start at once.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

    values: dict[str, object] = tomllib.loads(text)
    return values


def read(path: Path) -> tuple[Mapping[str, object], str | None]:
    """(values, None), or ({}, what is wrong). A file that is not there is simply empty."""
    try:
        # utf-8-sig: some editors begin a file with a byte order mark, which TOML does not know.
        return parse_toml(path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")), None
    except (FileNotFoundError, NotADirectoryError):
        return {}, None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return {}, f"{path} cannot be read ({reason.lower()}) and was ignored"
    except UnicodeDecodeError:
        return {}, f"{path} is not UTF-8 text and was ignored: save it as UTF-8"
    except (ValueError, RecursionError) as error:
        return {}, f"{path} is not valid TOML and was ignored: {' '.join(str(error).split())}"


def find_project_file(start: Path) -> Path | None:
    """The nearest project file in `start` (a file or a folder, existing or not) or above it."""
    try:
        here = start.expanduser().absolute()
        for folder in (here, *here.parents):
            candidate = folder / PROJECT_FILE
            if candidate.is_file():
                return candidate
    except (OSError, RuntimeError, ValueError):  # unreadable folder, no home, a name with a NUL
        return None
    return None
