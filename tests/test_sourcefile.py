"""A file's bytes survive: without an insertion they are equal, with one they differ by it alone."""

from __future__ import annotations

import codecs
import io
import os
import re
import stat
import sys
import types
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from assistant import sourcefile
from assistant.errors import UnreadableFileError, UsageError
from assistant.languages import language_of
from assistant.sourcefile import SourceFile, Target, parse_target, write_atomic

TEXT = st.lists(
    st.one_of(st.sampled_from(["\n", "\r\n", "\r", "a", "é", "😀", "\t", "x = 1"]), st.text(max_size=4)),
    max_size=12,
).map("".join)
UTF_8 = st.lists(st.one_of(TEXT.map(str.encode), st.binary(max_size=4)), max_size=6).map(b"".join)
WIDE = [
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
]


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    """Text files of every kind: UTF-8 with bad bytes and with a mark, UTF-16 and UTF-32 by their marks."""
    if draw(st.booleans()):
        data = draw(st.sampled_from([b"", codecs.BOM_UTF8])) + draw(UTF_8)
        assume(not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)))
    else:
        mark, encoding = draw(st.sampled_from(WIDE))
        data = mark + draw(TEXT).encode(encoding)
        if encoding.startswith("utf-16"):
            data += draw(st.sampled_from([b"", b"a"]))  # half a character
            assume(not data.startswith(codecs.BOM_UTF32_LE))
    return data


def read(data: bytes) -> SourceFile:
    try:
        return SourceFile.from_bytes(data)
    except UnreadableFileError:
        assume(False)
        raise


@given(data=contents())
def test_reading_keeps_every_byte(data: bytes) -> None:
    source = read(data)
    assert source.data == data
    assert source.with_insertion(0, "").data == data
    assert "\r" not in source.text
    source.text.encode()  # no lone surrogate


@given(data=contents(), place=st.integers(0, 100), text=st.text(max_size=6))
def test_an_insertion_only_adds(data: bytes, place: int, text: str) -> None:
    source = read(data)
    offset = min(place, len(source.text))
    made = source.with_insertion(offset, text).data
    added = len(made) - len(data)
    assert any(
        made[:i] + made[i + added :] == data and made[: len(source.bom)] == source.bom
        for i in range(len(source.bom), len(data) + 1)
    )


@given(text=TEXT, place=st.integers(0, 100))
def test_an_insertion_stands_where_it_was_asked_for(text: str, place: int) -> None:
    source = read(text.replace("\0", "").encode())
    offset = min(place, len(source.text))
    made = source.with_insertion(offset, "<new>")
    assert made.text == source.text[:offset] + "<new>" + source.text[offset:]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_an_insertion_takes_the_line_ends_of_the_file(newline: str) -> None:
    source = SourceFile.from_bytes(f"a{newline}b{newline}".encode())
    assert source.text == "a\nb\n"
    assert source.newline == newline
    made = source.with_insertion(2, "x\ny\r\n").data.decode()
    assert made == newline.join(["a", "x", "y", "b", ""])


def test_mixed_line_ends_stay_and_the_commonest_is_inserted() -> None:
    source = SourceFile.from_bytes(b"a\r\nb\nc\r\nd")
    assert source.with_insertion(2, "x\n").data == b"a\r\nx\r\nb\nc\r\nd"
    assert source.with_insertion(4, "x").data == b"a\r\nb\nxc\r\nd"


def test_a_mark_is_no_text_and_is_kept_once() -> None:
    source = SourceFile.from_bytes(codecs.BOM_UTF8 + b"import os\nprint(os.)")
    assert source.text.startswith("import")
    offset = source.offset(2, 10)
    assert source.prefix_suffix(offset) == ("import os\nprint(os.", ")")
    assert source.with_insertion(0, "#").data == codecs.BOM_UTF8 + b"#import os\nprint(os.)"


def test_bytes_that_are_no_text_are_one_replacement_character_each() -> None:
    source = SourceFile.from_bytes(b"caf\xe9 = '\xff\xfe'\n")
    assert source.text == "caf\ufffd = '\ufffd\ufffd'\n"
    assert source.with_insertion(len(source.text), "x").data == b"caf\xe9 = '\xff\xfe'\nx"


@pytest.mark.parametrize(("mark", "encoding"), WIDE)
def test_wide_files_are_read_by_their_mark(mark: bytes, encoding: str) -> None:
    source = SourceFile.from_bytes(mark + "a = '😀'\n".encode(encoding))
    assert source.text == "a = '😀'\n"
    assert source.with_insertion(8, "b\n").data == mark + "a = '😀'\nb\n".encode(encoding)


def test_a_file_without_text_is_fine() -> None:
    source = SourceFile.from_bytes(b"")
    assert (source.text, source.offset(), source.offset(1, 1)) == ("", 0, 0)
    assert source.with_insertion(0, "x\n").data == b"x\n"


@pytest.mark.parametrize("data", [b"a\0b", "ab".encode("utf-16-le"), codecs.BOM_UTF16_LE + b"a\0\0\0"])
def test_binary_files_are_refused(data: bytes) -> None:
    with pytest.raises(UnreadableFileError, match="binary"):
        SourceFile.from_bytes(data)


def test_unreadable_paths_are_one_clear_error(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"x")
    for path in (tmp_path / "none.py", tmp_path, file / "b.py", "a\0b"):
        with pytest.raises(UnreadableFileError):
            SourceFile.read(path)
    file.chmod(0)
    if not os.access(file, os.R_OK):  # the superuser may read it all the same
        with pytest.raises(UnreadableFileError, match="permissions"):
            SourceFile.read(file)


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\r\nb")))
    source = SourceFile.read("-")
    assert (source.path, source.text, source.newline) == ("-", "a\nb", "\r\n")
    with pytest.raises(UsageError):
        source.write_atomic()


@given(text=TEXT.filter(lambda text: "\0" not in text))
def test_positions_reach_every_place_and_no_other(text: str) -> None:
    source = SourceFile.from_bytes(text.encode())
    lines = source.text.split("\n")
    places = [
        source.offset(line, column)
        for line, content in enumerate(lines, 1)
        for column in range(1, len(content) + 2)
    ]
    assert places == list(range(len(source.text) + 1))
    assert source.offset() == len(source.text)
    for line, content in enumerate(lines, 1):
        assert source.offset(line) == source.offset(line, len(content) + 1)
        with pytest.raises(UsageError, match=f"its columns are 1 to {len(content) + 1}"):
            source.offset(line, len(content) + 2)
    for line in (0, -1, len(lines) + 1):
        with pytest.raises(UsageError, match=f"its lines are 1 to {len(lines)}"):
            source.offset(line)


def test_columns_count_characters() -> None:
    source = SourceFile.from_bytes('face = "😋"; price = 3; total = \nprint(face)'.encode())
    prefix, suffix = source.prefix_suffix(source.offset(1, 32))
    assert prefix.endswith("total = ")
    assert suffix.startswith("\nprint")
    with pytest.raises(UsageError, match="columns"):
        source.offset(1, 0)


def test_writing_keeps_mode_and_links_and_leaves_nothing_behind(tmp_path: Path) -> None:
    file = tmp_path / "real" / "a.sh"
    file.parent.mkdir()
    file.write_bytes(b"#!/bin/sh\r\n")
    file.chmod(0o750)
    link = tmp_path / "link.sh"
    link.symlink_to(file)
    SourceFile.read(link).with_insertion(10, "ls\n").write_atomic()
    assert link.is_symlink()
    assert file.read_bytes() == b"#!/bin/sh\r\nls\r\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o750
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.sh", "link.sh", "real"]


def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"a")
    source = SourceFile.read(file)
    file.write_bytes(b"b")
    with pytest.raises(UsageError, match="changed"):
        source.with_insertion(1, "c").write_atomic()
    assert file.read_bytes() == b"b"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"a")

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(UsageError, match="Input/output error"):
        write_atomic(file, b"b")
    assert [p.name for p in tmp_path.iterdir()] == ["a.py"]
    assert file.read_bytes() == b"a"
    with pytest.raises(UsageError, match="folder"):
        write_atomic(tmp_path, b"b")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_what_is_no_ordinary_file_is_never_written(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to(pipe)
    for path in (pipe, link):
        with pytest.raises(UsageError, match="device or a pipe"):
            write_atomic(path, b"x")
    assert stat.S_ISFIFO(pipe.lstat().st_mode) and sorted(os.listdir(tmp_path)) == ["link", "pipe"]


class Endless:
    """A stream without end that counts what was taken from it."""

    def __init__(self, byte: bytes) -> None:
        self.byte, self.taken = byte, 0

    def read(self, size: int) -> bytes:
        self.taken += size
        return self.byte * size


@pytest.mark.parametrize(("byte", "words"), [(b"\0", "binary"), (b"x", "name a smaller file")])
def test_a_stream_without_end_is_not_read_for_ever(
    monkeypatch: pytest.MonkeyPatch, byte: bytes, words: str
) -> None:
    monkeypatch.setattr(sourcefile, "LARGEST", 3 << 20)
    stream = Endless(byte)
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=stream))
    with pytest.raises(UnreadableFileError, match=words):
        SourceFile.read("-")
    assert stream.taken <= 5 << 20


def test_a_wide_file_keeps_its_zero_bytes(tmp_path: Path) -> None:
    file = tmp_path / "wide.py"
    file.write_bytes(codecs.BOM_UTF16_LE + "x = 1\n".encode("utf-16-le"))
    assert SourceFile.read(file).text == "x = 1\n"


def test_what_follows_a_files_name_and_is_no_position_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("x")
    for wrong in (f"{file}:x", f"{file}:", f"{file}:1:x", f"{file}::2"):
        with pytest.raises(UnreadableFileError, match=re.escape(f"write {file}:LINE:COLUMN")):
            SourceFile.read(parse_target(wrong).path)
    with pytest.raises(UnreadableFileError, match="name is empty"):
        SourceFile.read("")
    assert parse_target(f"{file}:" + "9" * 30) == Target(str(file), int("9" * 30))


def test_a_new_file_can_be_written(tmp_path: Path) -> None:
    write_atomic(tmp_path / "new.py", b"x")
    assert (tmp_path / "new.py").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("argument", "target"),
    [
        ("a.py", Target("a.py")),
        ("a.py:3", Target("a.py", 3)),
        ("a.py:3:14", Target("a.py", 3, 14)),
        ("a.py:3:14:", Target("a.py", 3, 14)),
        ("a.py:-1", Target("a.py", -1)),
        ("a.py:x", Target("a.py:x")),
        ("a.py:", Target("a.py:")),
        (":3", Target(":3")),
        ("-", Target("-")),
        ("-:2:5", Target("-", 2, 5)),
        (r"C:\code\a.py", Target(r"C:\code\a.py")),
        (r"C:\code\a.py:7", Target(r"C:\code\a.py", 7)),
        (r"C:\code\a.py:7:2", Target(r"C:\code\a.py", 7, 2)),
        ("dir name/ключ #1.py:1", Target("dir name/ключ #1.py", 1)),
    ],
)
def test_what_a_target_names(argument: str, target: Target) -> None:
    assert parse_target(argument) == target


@pytest.mark.skipif(sys.platform == "win32", reason="a colon cannot be in a file name on Windows")
def test_a_file_whose_name_ends_like_a_position_wins(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b:1").write_text("x")
    (tmp_path / "c:1:2").write_text("x")
    base = os.fspath(tmp_path)
    assert parse_target(f"{base}/b:1") == Target(f"{base}/b:1")
    assert parse_target(f"{base}/b:1:2") == Target(f"{base}/b:1", 2)
    assert parse_target(f"{base}/b:1:2:3") == Target(f"{base}/b:1", 2, 3)
    assert parse_target(f"{base}/c:1:2") == Target(f"{base}/c:1:2")
    assert parse_target(f"{base}/a:1:2") == Target(f"{base}/a", 1, 2)


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("a.py", "python"),
        ("dir/A.TSX", "typescriptreact"),
        ("hello.txt", "plaintext"),
        ("Makefile", "makefile"),
        ("x/CMakeLists.txt", "cmake"),
        ("mac.sas", "sas"),
        ("noname", None),
        (".py", None),
    ],
)
def test_the_language_of_a_file(path: str, language: str | None) -> None:
    assert language_of(path) == language
