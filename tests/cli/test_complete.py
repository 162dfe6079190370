"""`tokenleap complete` against a scripted service: what is asked, printed and written, every bad input."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import pytest

from assistant import sourcefile
from assistant.cli import complete
from assistant.cli import main as cli
from assistant.errors import (
    HostError,
    ModelMissingError,
    OutOfMemoryError,
    UnknownModelError,
    UnsupportedError,
)
from assistant.post import clean
from assistant.service import reasons
from assistant.service.client import OnProgress, OnText
from assistant.service.protocol import CompletionRequest, CompletionResult, HostStatus
from assistant.settings.schema import SPECS
from tests.conftest import OwnHome

ANSWER = CompletionResult(
    completion="return a + b",
    finish_reason="stop",
    empty_reason=None,
    model="qwen2.5-coder-0.5b",
    precision="int8",
    decode="lookup",
    prompt_tokens=312,
    reused_tokens=300,
    new_tokens=24,
    passes=13,
    tokens_per_pass=1.8,
    first_token_ms=230.2,
    total_ms=610.4,
    tokens_per_second=39.3,
)
NOTHING = replace(ANSWER, completion="", finish_reason="empty", empty_reason="short")


class Scripted:
    """A service that answers as told and remembers what it was asked."""

    def __init__(self) -> None:
        self.answer: CompletionResult | Exception = ANSWER
        self.pieces: list[str] = []
        self.steps: list[tuple[str, int, int]] = []
        self.while_working: Callable[[], None] = lambda: None
        self.asked: list[CompletionRequest] = []
        self.connected: list[dict[str, object]] = []
        self.closed = 0
        self.reason: str | None = None

    def connect(self, **options: object) -> Scripted:
        self.connected.append(options)
        return self

    def __enter__(self) -> Scripted:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closed += 1

    def complete(
        self, request: CompletionRequest, on_text: OnText | None = None, on_progress: OnProgress | None = None
    ) -> CompletionResult:
        self.asked.append(request)
        for step in self.steps:
            assert on_progress is not None
            on_progress(*step)
        for piece in self.pieces:
            assert on_text is not None
            on_text(piece)
        self.while_working()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def status(self) -> HostStatus:
        if self.reason is None:
            raise HostError("a detail")
        known = dict.fromkeys(HostStatus.__dataclass_fields__, 0) | {"engine": "cpu/x", "engine_reason": self.reason}
        return HostStatus(**known)  # type: ignore[arg-type]


@pytest.fixture
def service(own_home: OwnHome, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    scripted = Scripted()
    monkeypatch.setattr(complete, "Client", scripted)
    return scripted


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "add.py"
    made.write_bytes(b"def add(a, b):\n    \n\nprint(add(1, 2))\n")
    return made


Capture = pytest.CaptureFixture[str]


def test_the_completion_alone_is_the_result(service: Scripted, file: Path, capfd: Capture) -> None:
    assert cli.main(["complete", f"{file}:2"]) == 0
    said = capfd.readouterr()
    assert said.out == "return a + b"
    assert said.err == (
        "24 tokens in 610 ms (first 230 ms), 39 tokens/s, 1.8 tokens per pass, qwen2.5-coder-0.5b int8, "
        "lookup decoding, prompt 312 tokens (reused 300)\n"
    )
    (request,) = service.asked
    assert (request.prefix, request.suffix) == ("def add(a, b):\n    ", "\n\nprint(add(1, 2))\n")
    assert (request.path, request.language) == (str(file), "python")
    assert service.closed == 1


def test_json_is_one_object_with_every_field(service: Scripted, file: Path, capfd: Capture) -> None:
    assert cli.main(["complete", f"{file}:2", "--json"]) == 0
    said = capfd.readouterr()
    assert json.loads(said.out) == ANSWER.to_json() and said.out.count("\n") == 1
    assert said.err == ""


@pytest.mark.parametrize("as_json", [False, True])
def test_nothing_to_suggest_is_exit_1_with_the_reason(
    service: Scripted, file: Path, capfd: Capture, as_json: bool
) -> None:
    service.answer = NOTHING
    before = file.read_bytes()
    assert cli.main(["complete", str(file), *(["--json"] if as_json else ["--apply"])]) == 1
    said = capfd.readouterr()
    assert said.err.count("\n") == 1 and "too short" in said.err
    if as_json:
        assert json.loads(said.out)["empty_reason"] == "short"
    else:
        assert said.out == "" and file.read_bytes() == before


def test_every_setting_that_has_a_flag_reaches_the_request(service: Scripted, file: Path) -> None:
    values = {"precision": "fp32", "decode": "plain", "multiline": "never", "device": "cpu", "model": "other"}
    flags = []
    expected: dict[str, object] = {}
    for spec in SPECS.values():
        if not spec.has_flag:  # the host's and the editors'
            continue
        value: object = values.get(spec.name, spec.kind(1) if spec.name != "top_p" else 0.5)
        expected[spec.name] = value
        flags += [spec.flag, str(value)]
    assert cli.main(["complete", str(file), *flags]) == 0
    (request,) = service.asked
    assert {name: getattr(request, name) for name in expected} == expected


def test_the_project_file_beside_the_target_counts(service: Scripted, file: Path) -> None:
    (file.parent / ".tokenleap.toml").write_text("max_tokens = 7\nseed = 2\n")
    assert cli.main(["complete", str(file), "--seed", "3"]) == 0
    assert (service.asked[0].max_tokens, service.asked[0].seed) == (7, 3)


def test_standard_input_with_a_name_for_its_language(
    service: Scripted, tmp_path: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "input"
    source.write_text("let x = ")
    with source.open("rb") as stream:
        old = os.dup(0)
        os.dup2(stream.fileno(), 0)
        try:
            with open(0, encoding="utf-8", closefd=False) as stdin:
                monkeypatch.setattr("sys.stdin", stdin)
                assert cli.main(["complete", "-:1:6", "--filename", "web/a.ts"]) == 0
        finally:
            os.dup2(old, 0)
            os.close(old)
    (request,) = service.asked
    assert (request.prefix, request.suffix, request.language) == ("let x", " = ", "typescript")


@pytest.mark.parametrize("pieces", [["return", " a"], [], ["return a + b"]])
def test_streaming_prints_the_whole_text_exactly_once(
    service: Scripted, file: Path, capfd: Capture, pieces: list[str]
) -> None:
    service.pieces = pieces
    assert cli.main(["complete", str(file), "--stream"]) == 0
    assert capfd.readouterr().out == "return a + b"
    assert service.asked[0].stream


def test_pieces_are_not_printed_without_stream(service: Scripted, file: Path, capfd: Capture) -> None:
    service.pieces = ["return"]
    assert cli.main(["complete", str(file)]) == 0
    assert capfd.readouterr().out == "return a + b"


def test_several_candidates_are_told_apart(service: Scripted, file: Path, capfd: Capture) -> None:
    service.answer = replace(ANSWER, candidates=("one", "two\n"))
    assert cli.main(["complete", str(file), "-n", "2"]) == 0
    assert capfd.readouterr().out == "--- 1 of 2\none\n--- 2 of 2\ntwo\n"
    assert service.asked[0].candidates == 2


def test_no_candidate_at_all_is_nothing_to_suggest(service: Scripted, file: Path, capfd: Capture) -> None:
    service.answer = replace(NOTHING, candidates=())
    assert cli.main(["complete", str(file), "-n", "2"]) == 1
    assert capfd.readouterr().out == ""


def test_every_reason_has_words() -> None:
    assert {*clean.REASONS, "cancelled"} <= set(reasons.SENTENCES)
    assert reasons.sentence("unheard-of").endswith("unheard-of")


def test_apply_writes_the_file_and_nothing_beside_it(service: Scripted, file: Path) -> None:
    file.chmod(0o640)
    assert cli.main(["complete", f"{file}:2", "--apply"]) == 0
    assert file.read_bytes() == b"def add(a, b):\n    return a + b\n\nprint(add(1, 2))\n"
    assert file.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in file.parent.iterdir() if entry.is_file()] == ["add.py"]


def test_apply_keeps_line_ends_mark_and_undecodable_bytes(service: Scripted, file: Path) -> None:
    service.answer = replace(ANSWER, completion="a\nb")
    file.write_bytes(b"\xef\xbb\xbfx = '\xff'\r\ny = \r\nz = 1\r\n")
    assert cli.main(["complete", f"{file}:2", "--apply"]) == 0
    assert file.read_bytes() == b"\xef\xbb\xbfx = '\xff'\r\ny = a\r\nb\r\nz = 1\r\n"
    assert "\ufffd" in service.asked[0].prefix and "\r" not in service.asked[0].prefix


def test_apply_does_not_overwrite_what_was_saved_meanwhile(
    service: Scripted, file: Path, capfd: Capture
) -> None:
    service.while_working = lambda: file.write_bytes(b"saved by an editor\n") and None
    assert cli.main(["complete", f"{file}:2", "--apply"]) == 2
    assert file.read_bytes() == b"saved by an editor\n"
    assert "changed" in capfd.readouterr().err


def test_a_huge_file_is_sent_as_a_window(service: Scripted, file: Path) -> None:
    file.write_text("x = 1\n" * 1_000_000)
    assert cli.main(["complete", f"{file}:500000:1"]) == 0
    (request,) = service.asked
    assert len(request.prefix) < 1 << 20 and len(request.suffix) < 1 << 20
    assert request.prefix.endswith("x = 1\n") and request.suffix.startswith("x = 1\n")


@pytest.mark.parametrize("content", [b"", b"\n", b"x" * 300_000, b"\xff\xff", b"\xef\xbb\xbf"])
def test_empty_one_line_and_odd_files(service: Scripted, file: Path, content: bytes) -> None:
    file.write_bytes(content)
    assert cli.main(["complete", str(file)]) == 0


def test_progress_is_shown_to_people_only(service: Scripted, file: Path, capfd: Capture) -> None:
    service.steps = [("convert", 5, 10)]
    assert cli.main(["complete", str(file), "--json"]) == 0
    assert capfd.readouterr().err == "", "standard error is no terminal here"


def binary(path: Path) -> None:
    path.write_bytes(b"\x7fELF\x02\x01\x01\x00\x00\x00")


def folder(path: Path) -> None:
    path.mkdir()


BAD_FILES: list[tuple[Callable[[Path], object], str, str]] = [
    (lambda path: None, "", "bad.py"),
    (folder, "", "bad.py"),
    (binary, "", "binary"),
    (lambda path: path.write_text("a\nb\n"), ":9", "line"),
    (lambda path: path.write_text("a\nb\n"), ":0", "line"),
    (lambda path: path.write_text("a\nb\n"), ":1:9", "column"),
    (lambda path: path.write_text("a\nb\n"), ":1:0", "column"),
    (lambda path: path.write_text("a\nb\n"), ":99999999999999999999", "bad.py"),
]


@pytest.mark.parametrize(("make", "place", "words"), BAD_FILES)
def test_a_bad_file_or_position_is_one_line_and_exit_2(
    service: Scripted,
    tmp_path: Path,
    capfd: Capture,
    make: Callable[[Path], object],
    place: str,
    words: str,
) -> None:
    bad = tmp_path / "bad.py"
    make(bad)
    assert cli.main(["complete", f"{bad}{place}"]) == 2
    said = capfd.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and words in said.err
    assert "Traceback" not in said.err and "unexpected" not in said.err
    assert service.asked == [], "no engine is started for nothing"


def test_a_file_without_rights_is_one_line_and_exit_2(
    service: Scripted, file: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, mode: str) -> None:  # root may read whatever its mode says
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(sourcefile, "open", refuse, raising=False)
    assert cli.main(["complete", str(file)]) == 2
    said = capfd.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and str(file) in said.err


@pytest.mark.parametrize(
    "words",
    [
        ["-", "--apply"],
        ["{file}", "--filename", "x.py"],
        ["{file}", "--stream", "--json"],
        ["{file}", "-n", "2", "--stream"],
        ["{file}", "-n", "2", "--apply"],
        ["{file}", "-n", "33"],
    ],
    ids=" ".join,
)
def test_what_does_not_go_together_is_wrong_use(
    service: Scripted, file: Path, capfd: Capture, words: list[str]
) -> None:
    assert cli.main(["complete", *(word.format(file=file) for word in words)]) == 2
    said = capfd.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert service.asked == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ModelMissingError("get it first"), 3),
        (UnknownModelError("use another name"), 2),
        (UnsupportedError("choose --precision int8"), 3),
        (OutOfMemoryError("close something"), 3),
        (HostError("try again"), 3),
        (MemoryError(), 3),
        (KeyError("a mistake of ours"), 3),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("as_json", [False, True])
def test_a_failing_service_is_one_line_and_its_exit_code(
    service: Scripted, file: Path, capfd: Capture, error: Exception, code: int, as_json: bool
) -> None:
    service.answer = error
    before = file.read_bytes()
    assert cli.main(["complete", str(file), "--json" if as_json else "--apply"]) == code
    said = capfd.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "Traceback" not in said.err
    assert file.read_bytes() == before and service.closed == 1


def test_interrupting_closes_the_connection(service: Scripted, file: Path, capfd: Capture) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    service.while_working = interrupt
    assert cli.main(["complete", str(file)]) == 130
    assert service.closed == 1 and capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([""], "name is empty"),
        (["{file}:x"], "{file}:LINE:COLUMN"),
        (["{file}:1:x"], "{file}:LINE:COLUMN"),
        (["{file}:99999999999999999999"], "its lines are 1 to"),
        (["{file}", "--seed", "-1"], "from 0 to 9223372036854775807"),
        (["{file}", "--apply=1"], "--apply takes no value"),
        (["{file}", "--nonsense"], "see 'tokenleap complete --help'"),
    ],
    ids=str,
)
def test_wrong_words_are_told_what_would_be_right(
    service: Scripted, file: Path, capfd: Capture, words: list[str], expected: str
) -> None:
    assert cli.main(["complete", *(word.format(file=file) for word in words)]) == 2
    said = capfd.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and expected.format(file=file) in said.err
    assert service.asked == []


def test_a_slow_engine_is_a_warning_with_its_reason(service: Scripted, file: Path, capfd: Capture) -> None:
    service.reason = "slow path without compiled kernels: no\ncompiler"
    assert cli.main(["complete", str(file)]) == 0
    assert "warning: slow path without compiled kernels: no compiler\n" in capfd.readouterr().err
    service.reason = "the best kernels this processor can run"
    assert cli.main(["complete", str(file)]) == 0
    assert "warning" not in capfd.readouterr().err
