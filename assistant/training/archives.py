"""What may come out of a downloaded archive: source text that people wrote, and nothing outside its folder.

Wheels, tar archives and Debian packages are read member by member; links, devices, absolute paths and paths that climb
out are left out, as are tests, other people's code, generated and minified text and tables. Nothing is run.
"""

from __future__ import annotations

import lzma
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from assistant.errors import DownloadError

SHORTEST, LONGEST = 800, 120_000  # bytes of a file that is kept
DAMAGE = (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, OSError, RuntimeError)
_MOST_FILES, _MOST_BYTES = 20_000, 128 << 20  # of one package

# Folders of other people's code, of tests and their data, of build output and of tables.
_FOLDERS = {
    "node_modules", "vendor", "vendored", "_vendor", "third_party", "third-party", "thirdparty", "3rdparty", "external",
    "externals", "extern", "extlib", "deps", "test", "tests", "testing", "unittests", "testsuite", "testdata",
    "test-data", "test_data", "tst", "fixtures", "__tests__", "__mocks__", "spec", "specs", "snapshots",
    "__snapshots__", "dist", "build", "out", "umd", "amd", "cjs", "esm", "es6", "generated", "gen", "autogen", "pb",
    "minified", "locale", "locales", "i18n", "l10n", "debian", ".pc", "site-packages",
}  # fmt: skip
_NAMES = re.compile(
    r"\.min\.|\.bundle\.|\.d\.[mc]?ts$|\.test\.|\.spec\.|_pb2(_grpc)?\.py$|\.pb\.|\.gen\.|^moc_|^zz_generated|^bindata"
    r"|^test[_.-]|[_.-](test|tests|unittest|testing|string|gen|generated)\.\w+$|Tests?\.java$|^Test\w*\.java$"
)
_GENERATED = re.compile(
    r"generated (by|from|with|using|file|code)|auto-?generated|@generated|do not (edit|modify)|machine[- ]generated"
    r"|amalgamat|webpackBootstrap|_interopRequire|__importDefault|__createBinding"
    r"|defineProperty\(exports, ['\"]__esModule",
    re.IGNORECASE,
)


def extract(archives: Iterable[Path], folder: Path, suffixes: Sequence[str]) -> int:
    """Writes the archives' source files below `folder`; returns how many.

    Links, devices, absolute paths and paths that climb out are left out, as is all that `wanted` refuses.
    """
    files = size = 0
    folder.mkdir(parents=True, exist_ok=True)
    for archive in archives:
        for name, content in _members(archive, suffixes):
            size += len(content)
            files += 1
            if files > _MOST_FILES or size > _MOST_BYTES:
                raise DownloadError("it is larger than a package of the corpus may be")
            place = folder.joinpath(*PurePosixPath(name).parts)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
    return files


def _members(archive: Path, suffixes: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    if archive.suffix == ".whl":
        yield from _wheel(archive, suffixes)
        return
    with archive.open("rb") as opened:
        if archive.suffix == ".deb":
            _to_data(opened)
        yield from _tar(opened, suffixes)


def _to_data(deb: BinaryIO) -> None:
    """Moves to the start of the package's files: a .deb is an `ar` of a version, control.tar and data.tar (deb(5))."""
    if deb.read(8) != b"!<arch>\n":
        raise DownloadError("it is no Debian package")
    while len(header := deb.read(60)) == 60 and header[48:58].strip().isdigit():
        if header.startswith(b"data.tar"):
            return
        size = int(header[48:58])
        deb.seek(size + size % 2, 1)
    raise DownloadError("it is a Debian package without files")


def _wheel(archive: Path, suffixes: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            regular = stat.S_IFMT(member.external_attr >> 16) in (0, stat.S_IFREG) and not member.is_dir()
            if regular and member.file_size <= LONGEST and _path_wanted(member.filename, suffixes):
                content = opened.read(member)
                if _content_wanted(content):
                    yield member.filename, content


def _tar(archive: BinaryIO, suffixes: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=archive, mode="r|*") as opened:
        for member in opened:
            if not member.isreg() or member.size > LONGEST or not _path_wanted(member.name, suffixes):
                continue
            reader = opened.extractfile(member)
            content = reader.read() if reader else b""
            if _content_wanted(content):
                yield member.name, content


def wanted(path: str, content: bytes, suffixes: Sequence[str]) -> bool:
    """Whether an archive's file is source text that people wrote and keep in this project."""
    return _path_wanted(path, suffixes) and _content_wanted(content)


def _path_wanted(path: str, suffixes: Sequence[str]) -> bool:
    pure = PurePosixPath(path)
    if pure.is_absolute() or "\\" in path or ":" in path or "\0" in path or ".." in pure.parts:
        return False
    return (
        pure.suffix in suffixes
        and not _FOLDERS & {part.lower() for part in pure.parts[:-1]}
        and not _NAMES.search(pure.name)
    )


def _content_wanted(content: bytes) -> bool:
    if not SHORTEST <= len(content) <= LONGEST or b"\0" in content:
        return False
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    lines = text.splitlines()
    # Long lines are minified code or data; many digits are tables.
    if max(map(len, lines)) > 400 or len(text) > 80 * len(lines) or sum(map(str.isdigit, text)) > len(text) / 6:
        return False
    return not _GENERATED.search(text[:2000])
