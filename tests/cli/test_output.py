"""Results and notes go where they belong, on any terminal; a broken reader is noticed in one place."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assistant.cli import output


class Stream(io.TextIOWrapper):
    """A standard stream of a chosen encoding, which may claim to be a terminal."""

    def __init__(self, encoding: str = "utf-8", terminal: bool = False) -> None:
        self.raw_bytes = io.BytesIO()
        self._terminal = terminal
        super().__init__(self.raw_bytes, encoding=encoding)

    def isatty(self) -> bool:
        return self._terminal


def replace(monkeypatch: pytest.MonkeyPatch, out: Stream, err: Stream) -> tuple[Stream, Stream]:
    # Not a fixture: pytest sets its own streams anew between a test's setup and its call.
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    return out, err


def test_results_and_notes_never_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = replace(monkeypatch, Stream(), Stream())
    output.result("result")
    output.note("note")
    output.json({"a": 1})
    output.progress("working")
    assert out.raw_bytes.getvalue() == b'result\n{"a": 1}\n'
    assert err.raw_bytes.getvalue() == b"note\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", "cp437", "utf-16"])
@pytest.mark.parametrize("text", ["naïve 日本 🎉", "\udcff lone \ud800", "\x00"])
def test_no_encoding_makes_writing_fail(monkeypatch: pytest.MonkeyPatch, encoding: str, text: str) -> None:
    out, _ = replace(monkeypatch, Stream(encoding), Stream(encoding))
    output.result(text)
    output.note(text)
    output.json({"text": text})
    assert json.loads(out.raw_bytes.getvalue().decode(encoding).splitlines()[-1].lstrip("\ufeff")) == {
        "text": text
    }


def test_a_result_is_exact_when_a_program_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = replace(monkeypatch, Stream(), Stream())
    output.result("a\r\nb\x1b[31m", newline=False)
    assert out.raw_bytes.getvalue() == b"a\r\nb\x1b[31m"


def test_text_cannot_drive_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = replace(monkeypatch, Stream(terminal=True), Stream(terminal=True))
    output.result("a\tb\x1b]0;title\x07\x9b")
    output.note("file\x1b[2Jname")
    assert b"\x1b" not in out.raw_bytes.getvalue() and b"\x07" not in out.raw_bytes.getvalue()
    assert out.raw_bytes.getvalue().startswith(b"a\tb")
    assert b"\x1b" not in err.raw_bytes.getvalue()


def test_a_progress_line_is_gone_before_anything_else_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    _, err = replace(monkeypatch, Stream(), Stream(terminal=True))
    output.progress("converting 10%")
    output.note("done")
    assert err.raw_bytes.getvalue() == b"\r\x1b[Kconverting 10%\r\x1b[Kdone\n"
    output.note("more")
    assert err.raw_bytes.getvalue().endswith(b"done\nmore\n")


def test_a_bar_never_leaves_its_range() -> None:
    assert output.bar("x", 5, 0) == "x 0 MB"
    assert "100%" in output.bar("x", 7, 5) and "0%" in output.bar("x", -1, 5)


def test_streams_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    output.note("nobody hears")
    output.progress("nobody sees")
    with pytest.raises(output.OutputClosed):
        output.result("nobody reads")


def run_help(own_stdout: int) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "assistant.cli.main", "--help"],
        stdout=own_stdout,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )


def test_a_reader_that_went_away_ends_the_command_quietly(own_home: object) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = run_help(write_end)
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_full_disk_behind_standard_output_is_one_sentence(own_home: object) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with full.open("wb") as stream:
        done = run_help(stream.fileno())
    assert done.returncode == 3
    assert done.stderr.count(b"\n") == 1 and b"no space left" in done.stderr
