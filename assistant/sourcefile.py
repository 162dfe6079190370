"""A source file as the model sees it, and back to bytes that differ by the insertion alone.

`text` has newline characters for every line end (\\r\\n, \\r, \\n) and U+FFFD for every byte that is no
text; the byte order mark is no part of it. An insertion is made in the file's own bytes, so whatever was
read stays as it was. Positions are 1-based; a column counts characters.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import re
import stat
import sys
import tempfile
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from assistant.errors import NoSpaceError, UnreadableFileError, UsageError

# The longer marks first: UTF-32's begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WIDE_MARKS = tuple(mark for mark, code in _MARKS if code != "utf-8")
LARGEST = 256 << 20  # bytes of a file that is read
_BLOCK = 1 << 20
_LINE_END = re.compile(r"\r\n?|\n")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class SourceFile:
    """One file's text and bytes. Made by `read` or `from_bytes`; `path` also stands in messages."""

    path: str
    text: str
    newline: str  # the line end that most lines have, a newline character when there is none
    encoding: str
    bom: bytes
    data: bytes  # the whole file
    _decoded: str  # `data` without the mark, its line ends and undecodable bytes (as surrogates) kept
    _on_disk: bytes  # what the file must still hold when it is written

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SourceFile:
        """Reads a file, `-` being standard input.

        UnreadableFileError when it is missing, a folder, not permitted, binary or over LARGEST.
        """
        name = os.fspath(path)
        if not name:
            raise UnreadableFileError("the file's name is empty: write FILE:LINE:COLUMN")
        try:
            if name == "-":
                data = _read(sys.stdin.buffer, name)
            else:
                with open(name, "rb") as file:
                    data = _read(file, name)
        except FileNotFoundError:
            raise UnreadableFileError(_missing(name)) from None
        except IsADirectoryError:
            raise UnreadableFileError(f"{name} is a folder: name a file in it") from None
        except NotADirectoryError:
            raise UnreadableFileError(
                f"there is no file {name}: a part of its path is not a folder"
            ) from None
        except PermissionError:
            if os.path.isdir(name):  # Windows does not permit reading a folder
                raise UnreadableFileError(f"{name} is a folder: name a file in it") from None
            raise UnreadableFileError(f"{name} may not be read: change its permissions") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UnreadableFileError(f"cannot read {name} ({reason}): name another file") from error
        return cls.from_bytes(data, name)

    @classmethod
    def from_bytes(cls, data: bytes, path: str = "-") -> SourceFile:
        """The same for bytes in hand; UnreadableFileError when they are binary."""
        bom, encoding = next(((mark, code) for mark, code in _MARKS if data.startswith(mark)), (b"", "utf-8"))
        body = data[len(bom) :]
        if encoding == "utf-8":
            decoded = body.decode(encoding, "surrogateescape")
        else:
            try:
                # A last half character is left out here and stays in `data`.
                decoded = codecs.getincrementaldecoder(encoding)("surrogatepass").decode(body)
            except UnicodeDecodeError:
                raise UnreadableFileError(f"{path} is no valid {encoding}: save it as UTF-8") from None
        if "\0" in decoded:
            raise _binary(path)
        text = _SURROGATE.sub("\ufffd", decoded)
        newline = "\n"
        if "\r" in text:
            windows = text.count("\r\n")
            counts = {"\n": text.count("\n") - windows, "\r\n": windows, "\r": text.count("\r") - windows}
            newline = max(counts, key=lambda end: counts[end])
            text = _LINE_END.sub("\n", text)
        return cls(path, text, newline, encoding, bom, data, decoded, data)

    def offset(self, line: int | None = None, column: int | None = None) -> int:
        """The place in `text` of a 1-based position; no line is the file's end, no column the line's end.

        UsageError, naming the file's limits, when there is no such place.
        """
        if line is None:
            if column is not None:
                raise UsageError(f"column {column} of {self.path} needs a line: write FILE:LINE:COLUMN")
            return len(self.text)
        lines = self.text.count("\n") + 1
        if not 1 <= line <= lines:
            raise UsageError(f"{self.path} has no line {line}: its lines are 1 to {lines}")
        start = 0
        for _ in range(line - 1):
            start = self.text.index("\n", start) + 1
        end = self.text.find("\n", start)
        length = (len(self.text) if end < 0 else end) - start
        if column is None:
            return start + length
        if not 1 <= column <= length + 1:
            raise UsageError(
                f"line {line} of {self.path} has no column {column}: its columns are 1 to {length + 1}"
            )
        return start + column - 1

    def prefix_suffix(self, offset: int) -> tuple[str, str]:
        """`text` before and behind an offset."""
        return self.text[:offset], self.text[offset:]

    def with_insertion(self, offset: int, text: str) -> SourceFile:
        """The file with `text` put in at `offset`, its line ends made the file's; all other bytes stay."""
        if not 0 <= offset <= len(self.text):
            raise ValueError(f"offset {offset} is outside of a text of {len(self.text)} characters")
        place = offset + bisect_left(self._pairs, offset)
        before = len(self.bom) + len(self._encode(self._decoded[:place]))
        text = _LINE_END.sub("\n", text).replace("\n", self.newline).replace("\0", "")
        added = self._encode(_SURROGATE.sub("\ufffd", text))
        made = SourceFile.from_bytes(self.data[:before] + added + self.data[before:], self.path)
        return replace(made, _on_disk=self._on_disk)

    def write_atomic(self) -> None:
        """Writes `data` to `path`; UsageError when the file no longer holds what was read from it."""
        write_atomic(self.path, self.data, expected=self._on_disk)

    def _encode(self, text: str) -> bytes:
        return text.encode(self.encoding, "surrogateescape" if self.encoding == "utf-8" else "surrogatepass")

    @cached_property
    def _pairs(self) -> list[int]:
        """Offsets in `text` of the line ends that take two characters in the file."""
        found = [match.start() for match in re.finditer("\r\n", self._decoded)]
        return [start - number for number, start in enumerate(found)]


def _read(file: BinaryIO, name: str) -> bytes:
    """All that `file` holds. Devices and pipes may never end, so what cannot be a source file is noticed early."""
    blocks: list[bytes] = []
    size = 0
    while block := file.read(_BLOCK):
        if not blocks and b"\0" in block and not block.startswith(_WIDE_MARKS):
            raise _binary(name)
        blocks.append(block)
        size += len(block)
        if size > LARGEST:
            raise UnreadableFileError(f"{name} has more than {LARGEST >> 20} MiB: name a smaller file")
    return b"".join(blocks)


def _binary(name: str) -> UnreadableFileError:
    return UnreadableFileError(f"{name} is a binary file: name a text file")


def _missing(name: str) -> str:
    """What to say of a file that is not there; perhaps what follows its name is no position."""
    head = name
    while ":" in head:
        head = head.rpartition(":")[0]
        if head == "-" or os.path.isfile(head):
            return f"{name} is no place in {head}: write {head}:LINE:COLUMN with whole numbers"
    return f"there is no file {name}: check the path"


def write_atomic(path: str | os.PathLike[str], data: bytes, *, expected: bytes | None = None) -> None:
    """Replaces a file's content in one step; links stay links, mode (and owner, where allowed) stay.

    With `expected`, only when the file still holds exactly that. Errors name the file and leave it as it was.
    """
    name = os.fspath(path)
    if name == "-":
        raise UsageError("standard input cannot be written: name a file")
    target = Path(os.path.realpath(name))
    try:
        kind = stat.S_IFMT(os.stat(name).st_mode) if os.path.exists(name) else stat.S_IFREG
        if kind == stat.S_IFDIR:
            raise UsageError(f"{name} is a folder: name a file in it")
        if kind != stat.S_IFREG:  # a device would be replaced by a file, a pipe waited for
            raise UsageError(f"{name} is a device or a pipe and cannot be written: name a file")
        if target.exists() and not os.access(target, os.W_OK):
            # Replacing would get past the file's own protection.
            raise UsageError(f"{name} may not be written: change its permissions")
        if expected is not None and target.read_bytes() != expected:
            raise UsageError(f"{name} has changed meanwhile: run the command again")
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            _take_over(target, temporary)
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpaceError(
                f"no space left to write {name}: free some and run the command again"
            ) from error
        reason = error.strerror or error
        raise UsageError(f"cannot write {name} ({reason}): check the folder and its permissions") from error


def _take_over(target: Path, temporary: str) -> None:
    """Gives the new file the old one's mode and owner; a file that is new gets the user's usual mode."""
    try:
        status = target.stat()
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        return
    if hasattr(os, "chown"):
        with contextlib.suppress(PermissionError):
            os.chown(temporary, status.st_uid, status.st_gid)
    os.chmod(temporary, stat.S_IMODE(status.st_mode))


@dataclass(frozen=True)
class Target:
    """What FILE[:LINE[:COLUMN]] names; numbers are not yet checked against the file."""

    path: str
    line: int | None = None
    column: int | None = None


def parse_target(argument: str) -> Target:
    """Reads FILE[:LINE[:COLUMN]]. A file whose own name ends like a position wins when it exists; `C:` is a
    drive.
    """
    readings = [Target(argument)]
    one = _split(argument)
    if one is not None:
        readings.append(Target(one[0], one[1]))
        two = _split(one[0])
        if two is not None:
            readings.append(Target(two[0], two[1], one[1]))
    for reading in readings:
        if os.path.isfile(reading.path):
            return reading
    return readings[-1]


def _split(argument: str) -> tuple[str, int] | None:
    """A path and the number behind its last colon; editors and compilers leave one more colon at the end."""
    head, colon, number = argument.removesuffix(":").rpartition(":")
    if not head or not colon or re.fullmatch("-?[0-9]{1,99}", number) is None:
        return None
    return head, int(number)
