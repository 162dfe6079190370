"""Source text that is on every machine that runs the product: the standard library and installed packages.

Packages are found by name and never imported. Files come in a fixed order, so that a seed gives the same
choice wherever the same versions are installed. Tests, generated tables and very long files are left out.
"""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import platform
import random
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from assistant.errors import UsageError

STDLIB = "stdlib"
SHORTEST, LONGEST = 1_500, 120_000  # bytes
_LEFT_OUT = {
    "test", "tests", "testing", "_vendor", "vendored", "idlelib", "lib2to3", "turtledemo", "ensurepip",
    "encodings", "site-packages", "dist-packages", "__pycache__", "pydoc_data", "config",
}  # fmt: skip


@dataclass(frozen=True)
class SourceText:
    """One file: `path` is relative to the folder that holds its package, with forward slashes."""

    package: str
    path: str
    text: str


def version(package: str) -> str:
    """The version whose sources are read; "" when the package carries none."""
    if package == STDLIB:
        return platform.python_version()
    names = importlib.metadata.packages_distributions().get(package, [package])
    try:
        return importlib.metadata.version(names[0])
    except importlib.metadata.PackageNotFoundError:
        return ""


def folder(package: str) -> Path:
    """Where the package's files lie. Raises UsageError when it is not installed."""
    if package == STDLIB:
        return Path(sysconfig.get_paths()["stdlib"])
    if not package.isidentifier():
        raise UsageError(f"{package!r} is not a package name; name an importable package or {STDLIB!r}.")
    spec = importlib.machinery.PathFinder.find_spec(package)
    places = spec.submodule_search_locations if spec else None
    if not places:
        raise UsageError(f"No package {package!r} is installed here; name another with --packages.")
    return Path(next(iter(places)))


def _paths(package: str, suffixes: Sequence[str], below: str) -> list[tuple[Path, str]]:
    """Files that may be read, with their relative paths, sorted."""
    top = folder(package)
    base = top if package == STDLIB else top.parent
    found = []
    for path in sorted((top / below).rglob("*")):
        relative = path.relative_to(base)
        if path.suffix not in suffixes or _LEFT_OUT & set(relative.parts[:-1]) or "test" in path.stem:
            continue
        if path.is_file() and SHORTEST <= path.stat().st_size <= LONGEST:
            found.append((path, relative.as_posix()))
    return found


def _read(package: str, path: Path, relative: str) -> SourceText | None:
    """The file, unless it is no ordinary source text."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None
    if "\r" in text or "\0" in text or max(map(len, text.split("\n"))) > 400:
        return None
    return SourceText(package, relative, text)


def drawn(
    packages: Sequence[str], seed: int, suffixes: Sequence[str] = (".py",), below: str = ""
) -> Iterator[SourceText]:
    """Files of all packages, shuffled by `seed` and dealt in turn, so that a big package does not crowd out
    others. Read one by one as they are asked for. `below` narrows to a folder inside the packages.
    """
    generator = random.Random(seed)
    piles = []
    for package in packages:
        pile = _paths(package, suffixes, below)
        generator.shuffle(pile)
        piles.append((package, pile))
    for turn in range(max((len(pile) for _, pile in piles), default=0)):
        for package, pile in piles:
            source = _read(package, *pile[turn]) if turn < len(pile) else None
            if source is not None:
                yield source
