"""Tells two builds of the program apart by their source files: names, sizes and times, nothing is read.

The same for every process of one installation, other after any change, so that clients and host that could
misunderstand each other never meet.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path


def named(protocol: int) -> str:
    """24 hexadecimal digits for this build, interpreter environment and protocol number. Takes about a
    millisecond.
    """
    package = Path(__file__).resolve().parent.parent
    found = hashlib.sha256(f"{protocol} {sys.prefix} {sys.version_info[:2]} {package}".encode())
    for folder in (package, package.parent / "cuda_ops"):
        for name, size, changed in _files(folder):
            found.update(f"{name}\0{size}\0{changed}\n".encode("utf-8", "surrogateescape"))
    return found.hexdigest()[:24]


def _files(folder: Path) -> Iterator[tuple[str, int, int]]:
    """(name below `folder`, bytes, modification time) of every source file, in a fixed order."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith((".py", ".c", ".h", ".cu")):
                path = os.path.join(parent, name)
                status = os.stat(path)
                yield os.path.relpath(path, folder), status.st_size, status.st_mtime_ns
