"""After every edit our text is the client's, and what stands around a position is what the model should see.

The independent model below keeps one plain string, finds lines by walking over characters and counts code units
from the encodings' definitions; it shares nothing with the code under test.
"""

from __future__ import annotations

import os
import sys
import tracemalloc
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from lsprotocol.types import (
    LanguageKind,
    Position,
    Range,
    TextDocumentContentChangeEvent,
    TextDocumentContentChangePartial,
    TextDocumentContentChangeWholeDocument,
)

from assistant.service import window
from assistant.service.protocol import CompletionRequest
from assistant.service.window import Window
from lsp import pieces
from lsp.documents import Document, Documents
from lsp.positions import Encoding

ENCODINGS: tuple[Encoding, ...] = ("utf-8", "utf-16", "utf-32")
FAR = 2**31 - 1


class Model:
    """What a client has: one string, changed as the protocol says."""

    def __init__(self, text: str, encoding: Encoding) -> None:
        self.text, self.encoding = text, encoding

    def lines(self) -> list[tuple[int, int]]:
        """First and last-but-one offset of every line, without its end."""
        found, start, at = [], 0, 0
        while at < len(self.text):
            if self.text[at] in "\r\n":
                found.append((start, at))
                at += 2 if self.text[at : at + 2] == "\r\n" else 1
                start = at
            else:
                at += 1
        return [*found, (start, len(self.text))]

    def width(self, character: str) -> int:
        number = ord(character)
        if self.encoding == "utf-32":
            return 1
        if self.encoding == "utf-16":
            return 2 if number > 0xFFFF else 1
        return 1 + (number > 0x7F) + (number > 0x7FF) + (number > 0xFFFF)

    def offset(self, line: int, unit: int) -> int:
        lines = self.lines()
        if line >= len(lines):
            return len(self.text)
        at, end = lines[line]
        while at < end and unit >= self.width(self.text[at]):
            unit -= self.width(self.text[at])
            at += 1
        return at

    def replace(self, start: tuple[int, int], end: tuple[int, int], new: str) -> None:
        first, last = sorted((self.offset(*start), self.offset(*end)))
        self.text = self.text[:first] + new + self.text[last:]

    def line_end(self) -> str:
        windows = self.text.count("\r\n")
        unix, old = self.text.count("\n") - windows, self.text.count("\r") - windows
        best = max(windows, unix, old)
        return "\n" if unix == best else "\r\n" if windows == best else "\r"

    def windows(self, offset: int, most_before: int, step: int, most_after: int) -> tuple[str, str]:
        """The model's text around an offset, cut after line ends were made \\n and before NULs are left out."""
        before = self.text[:offset].replace("\r\n", "\n").replace("\r", "\n")
        after = self.text[offset:].replace("\r\n", "\n").replace("\r", "\n")
        cut = (len(before) - most_before) // step * step if len(before) > most_before else 0
        before, after = before[cut:], after[:most_after]
        if self.text.startswith("\ufeff"):
            if offset == 0:
                after = after[1:]
            elif cut == 0:
                before = before[1:]
        return before.replace("\0", ""), after.replace("\0", "")


def partial(start: tuple[int, int], end: tuple[int, int], text: str) -> TextDocumentContentChangePartial:
    return TextDocumentContentChangePartial(Range(Position(*start), Position(*end)), text)


ATOMS = [
    *("\n", "\r\n", "\r", "\n\r", "\r\r\n", "\n\n", "\f", "\v", "\x1c", "\x85", "\u2028", "\u2029", "\ufeff", "\0"),
    *("a", "bc", "x = 1", "é", "ß中", "😀", "𝒳𝒴", "🌍🌍", "\t", " ", "👩‍👩‍👧"),
]
TEXT = st.lists(st.sampled_from(ATOMS), max_size=5).map("".join) | st.text(max_size=3)
LONG_TEXT = st.lists(st.sampled_from(ATOMS), max_size=60).map("".join)
POSITION = st.sampled_from([(line, unit) for line in (*range(12), 40, FAR) for unit in (*range(14), 99, FAR)])
# How far the end of a change is from its beginning, in lines and columns; None: the whole text is new.
SPAN = st.sampled_from([*[(0, 0), (0, 1), (0, 2), (0, 5), (1, 0), (1, 3)] * 3, (-2, -3), (FAR, FAR), None])
CHANGE = st.tuples(POSITION, SPAN, TEXT)
CHANGES = st.lists(CHANGE, min_size=1, max_size=1) | st.lists(CHANGE, max_size=3)
VERSION = st.sampled_from([1, 1, 1, 0, -3, 1000, None])  # what the next version is more than the last
EDITS = 40  # of an example
EXAMPLES = 170  # for each encoding


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, int]:
    """Windows that a text of a few hundred characters does not fit in: characters before, step, after."""
    monkeypatch.setattr(window, "STEP", 8)
    return 40, 8, 20


def check(document: Document, model: Model, at: tuple[int, int], windows: tuple[int, int, int]) -> None:
    """The document is the model's, and so is what stands around a position."""
    assert document.text() == model.text
    lines = model.lines()
    assert document.line_count == len(lines)
    assert document.line_end == model.line_end()
    before, step, after = windows
    offset = model.offset(*at)
    line = min(at[0], len(lines) - 1)
    start, end = lines[line]
    found = document.snapshot(*at, Window(before, after))
    assert (found.prefix, found.suffix) == model.windows(offset, before, step, after)
    assert (found.line, found.line_before, found.line_after) == (line, model.text[start:offset], model.text[offset:end])
    assert found.unit == sum(map(model.width, model.text[start:offset]))
    assert (found.version, found.revision) == (document.version, document.revision)
    assert document.line_text(line) == model.text[start:end]


Pair = tuple[int, int]
Edit = tuple[list[tuple[Pair, Pair | None, str]], int | None, Pair]


def moved(position: Pair, span: Pair) -> Pair:
    line, unit = (min(max(a + b, 0), FAR) for a, b in zip(position, span, strict=True))
    return line, unit


def test_20_000_edits_leave_the_clients_text(
    small_windows: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Most pieces are a few characters here, so that edits meet their borders."""

    def run(encoding: Encoding) -> int:
        done = 0

        @given(
            size=st.sampled_from([1, 2, 3, 8, 30, pieces.SIZE]),
            text=LONG_TEXT,
            edits=st.lists(st.tuples(CHANGES, VERSION, POSITION), min_size=EDITS, max_size=EDITS),
        )
        @settings(
            max_examples=EXAMPLES,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
            database=None,
        )
        def example(size: int, text: str, edits: list[Edit]) -> None:
            nonlocal done
            monkeypatch.setattr(pieces, "SIZE", size)
            model = Model(text, encoding)
            document = Document("untitled:a", None, 1, text, encoding)
            for changes, step, at in edits:
                events: list[TextDocumentContentChangeEvent] = []
                for start, span, new in changes:
                    if span is None:
                        events.append(TextDocumentContentChangeWholeDocument(new))
                        model.text = new
                    else:
                        events.append(partial(start, moved(start, span), new))
                        model.replace(start, moved(start, span), new)
                version, revision = document.version, document.revision
                told = None if step is None else version + step
                document.apply(events, told)
                assert document.version == (version + 1 if told is None else told)
                assert document.revision == revision + 1
                check(document, model, at, small_windows)
                done += 1

        example()
        return done

    done = sum(map(run, ENCODINGS))
    with capsys.disabled():
        sys.stdout.write(f" [{done} edits checked] ")
    assert done >= 20_000


@given(text=LONG_TEXT, encoding=st.sampled_from(ENCODINGS), beyond=st.integers(0, FAR))
def test_every_position_is_found_and_named_again(text: str, encoding: Encoding, beyond: int) -> None:
    """Also one inside of a character, which is the place before it."""
    document, model = Document("untitled:a", None, 1, text, encoding), Model(text, encoding)
    for line, (start, end) in enumerate(model.lines()):
        last = sum(map(model.width, text[start:end]))
        for unit in range(last + 2):
            found = document.snapshot(line, unit)
            assert (found.line, document.snapshot(found.line, found.unit)) == (line, found)
            assert 0 <= min(unit, last) - found.unit < 4
        assert document.snapshot(line, last + beyond) == document.snapshot(line, last)
    after_all = document.snapshot(document.line_count + beyond, beyond)
    assert (after_all.suffix, after_all.line) == ("", document.line_count - 1)
    before_all = document.snapshot(-1 - beyond, beyond)
    assert (before_all.prefix, before_all.line, before_all.unit) == ("", 0, 0)
    assert document.line_text(-1) == document.line_text(document.line_count) == ""


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("length", [300_000, 420_000])
@pytest.mark.parametrize("around", [Window(), Window.of(131072, 131072)], ids=["usual", "largest"])
def test_the_windows_are_those_of_the_service(line_end: str, length: int, around: Window) -> None:
    lines = [f"x_{number} = '😀' * {number}" for number in range(length // 18)]
    document = Document("untitled:a", None, 1, line_end.join(lines), "utf-16")
    plain = "\n".join(lines)
    for line in (0, 5, len(lines) // 3, len(lines) // 2, len(lines) - 1, len(lines) + 5):
        before = plain if line >= len(lines) else "\n".join([*lines[:line], lines[line][:4]])
        found = document.snapshot(line, 4, around)
        assert (found.prefix, found.suffix) == (around.last(before), plain[len(before) :][: around.after])
        asked = CompletionRequest(found.prefix, found.suffix)
        assert asked.windowed() == asked


def test_the_beginning_of_a_long_prefix_stays_while_the_user_types() -> None:
    document = Document("untitled:a", None, 1, "x = 1\n" * 100_000, "utf-16")
    last = document.snapshot(90_000, 0).prefix
    beginnings = set()
    for _ in range(50):
        document.apply([partial((90_000, 0), (90_000, 0), "some_name")], None)
        found = document.snapshot(90_000, 9)
        beginnings.add(len(last) + 9 - len(found.prefix))
        assert found.prefix.endswith(last[-1000:][:-1] + "\n" + "some_name")
        document.apply([partial((90_000, 0), (90_000, 9), "")], None)
    assert beginnings == {0}


def pieces_of(document: Document) -> list[pieces._Piece]:
    return list(document._pieces._pieces)


@pytest.mark.parametrize(
    "text",
    ["x = 1\n" * 900_000, "é = '😀'\r\n" * 300_000, "\n" * 3_000_000, "[1, 2, 3], " * 500_000],
    ids=["900,000 lines", "astral CRLF", "empty lines", "one line"],
)
def test_an_edit_in_a_large_text_renews_few_pieces(text: str) -> None:
    """The cost without a clock: all other pieces are the very objects that they were."""
    document = Document("untitled:a", None, 1, text, "utf-16")
    line, unit = document.line_count // 2, 30_000 if document.line_count == 1 else 3
    for new in ("a", "😀\r", "\n" * 50, "y" * 3000, ""):
        old = {id(piece): piece for piece in pieces_of(document)}
        document.apply([partial((line, unit), (line, unit + 2), new)], None)
        assert sum(id(piece) not in old for piece in pieces_of(document)) <= 4
        assert all(len(piece.text) <= 2 * pieces.SIZE for piece in pieces_of(document))


@given(cuts=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 90)), max_size=30), text=TEXT)
def test_pieces_stay_neither_long_nor_short(cuts: list[tuple[int, int]], text: str) -> None:
    """However much is deleted, so that their number is bounded by the text's length."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "SIZE", 64)
        document = Document("untitled:a", None, 1, "some words\r\n" * 400, "utf-16")
        for line, count in cuts:
            document.apply([partial((line, 3), (line + count, 0), text)], None)
            sizes = [len(piece.text) for piece in pieces_of(document)]
            assert all(size <= 2 * 64 for size in sizes)
            assert len(sizes) == 1 or all(size >= 64 // 4 for size in sizes)


def test_a_change_that_cannot_be_made_leaves_the_document_as_it_was() -> None:
    document = Document("untitled:a", None, 7, "one\ntwo\n", "utf-16")
    before = document.snapshot(1, 2)
    broken = cast(TextDocumentContentChangeEvent, object())
    with pytest.raises(AttributeError):
        document.apply([partial((0, 0), (0, 3), "1"), broken], 8)
    assert (document.text(), document.version, document.snapshot(1, 2)) == ("one\ntwo\n", 7, before)


def test_a_snapshot_stays_as_it_was_taken() -> None:
    document = Document("untitled:a", None, 1, "one\ntwo\n", "utf-16")
    before = document.snapshot(1, 3)
    document.apply([TextDocumentContentChangeWholeDocument("three")], 1)
    assert (before.prefix, before.suffix, before.version) == ("one\ntwo", "\n", 1)
    assert document.snapshot(1, 3).revision != before.revision  # the client's version is the same


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_half_characters_never_reach_the_model(encoding: Encoding) -> None:
    document = Document("untitled:a", None, 1, "a\ud83db\ude00", encoding)
    found = document.snapshot(0, 2**20)
    assert found.prefix == "a\ufffdb\ufffd"
    found.prefix.encode()
    middle = document.snapshot(0, 1)
    assert (middle.prefix, middle.suffix) == ("a", "\ufffdb\ufffd")


def test_two_halves_that_meet_are_one_character() -> None:
    document = Document("untitled:a", None, 1, "x", "utf-16")
    document.apply([partial((0, 0), (0, 0), "\ud83d")], 2)
    document.apply([partial((0, 1), (0, 1), "\ude00")], 3)
    assert document.text() == "😀x"
    assert document.snapshot(0, 2).prefix == "😀"
    document.apply([partial((0, 0), (0, 2), "\ud83d-\ude00")], 4)
    document.apply([partial((0, 1), (0, 2), "")], 5)
    assert document.text() == "😀x"


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_halves_meet_across_pieces(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(pieces, "SIZE", size)
    for place in range(20):
        document = Document("untitled:a", None, 1, "x" * place + "\ud83d\n\ude00" + "x" * 20, "utf-32")
        document.apply([partial((0, place + 1), (1, 0), "")], 2)
        assert document.text() == "x" * place + "😀" + "x" * 20
        assert document.snapshot(0, place + 1).prefix == "x" * place + "😀"
        assert document.snapshot(0, place + 2).unit == place + 2


# The editors' reports.


def test_pygls_116_columns_behind_an_astral_character() -> None:
    text = 'face = "😋"; price = 3; total = \nprint(face, total)\n'
    columns: list[tuple[Encoding, int]] = [("utf-16", 32), ("utf-32", 31), ("utf-8", 34)]
    for encoding, column in columns:
        found = Document("file:///emoji.py", "python", 1, text, encoding).snapshot(0, column)
        assert found.prefix == 'face = "😋"; price = 3; total = '
        assert found.suffix == "\nprint(face, total)\n"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_pygls_567_astral_characters_on_earlier_lines(encoding: Encoding) -> None:
    text = "# 🚀🚀🚀 launch helpers\n# 𝒳 = matrix\ndef add(a, b):\n    return \n"
    found = Document("file:///above.py", "python", 1, text, encoding).snapshot(3, 11)
    assert found.prefix.endswith("def add(a, b):\n    return ")
    assert found.suffix == "\n"


@pytest.mark.parametrize(("end", "left"), [(18, ""), (17, ";"), (99, "")])
def test_hermes_agent_116094_replacing_a_line_with_an_astral_character(end: int, left: str) -> None:
    document = Document("untitled:a", None, 1, 'const face = "😀";', "utf-16")
    document.apply([partial((0, 0), (0, end), 'const next = "🚀";')], 2)
    assert document.text() == 'const next = "🚀";' + left


def test_claude_code_zed_11_a_position_inside_of_a_pair() -> None:
    document = Document("file:///hello.py", "python", 1, 'print("Hello 🌍 World!")\n', "utf-16")
    behind, inside = document.snapshot(0, 15), document.snapshot(0, 14)
    assert (behind.prefix, behind.suffix, behind.unit) == ('print("Hello 🌍', ' World!")\n', 15)
    assert (inside.prefix, inside.suffix, inside.unit) == ('print("Hello ', '🌍 World!")\n', 13)


def test_llm_ls_64_the_last_character_of_a_line_counts() -> None:
    found = Document("file:///eol.py", "python", 1, 'def hello_\n\nhello_world("x")\n', "utf-16").snapshot(0, 10)
    assert (found.prefix, found.suffix) == ("def hello_", '\n\nhello_world("x")\n')


def test_llm_vscode_112_the_first_line_has_positions() -> None:
    document = Document("file:///first.py", "python", 1, "import os, \n\nprint(os.getcwd())\n", "utf-16")
    assert document.snapshot(0, 11).prefix == "import os, "
    assert (document.snapshot(0, 0).prefix, document.snapshot(0, 0).suffix) == ("", document.text())


FIBONACCI = """class Fibonacci {
    int fib(int n) {
        if (n <= 1) {
            return n;
        }
        return fib(n - 1) + fib(n - 2);
    }

    int fibIterative(int n) {
        
    }
}
"""


@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
def test_tabby_3279_continue_1488_copilot_eclipse_132_line_ends(line_end: str) -> None:
    """The model's text and the positions are those of the file with \\n; the document knows its own."""
    uri = "file:///c%3A/Users/x/Documents/temp/HelloWorld.java"
    plain = Document(uri, "java", 1, FIBONACCI, "utf-16")
    other = Document(uri, "java", 1, FIBONACCI.replace("\n", line_end), "utf-16")
    assert other.snapshot(9, 8) == plain.snapshot(9, 8)
    assert other.snapshot(9, 8).prefix.endswith("int fibIterative(int n) {\n        ")
    assert (plain.line_end, other.line_end) == ("\n", line_end)
    for document in (plain, other):
        document.apply([partial((9, 8), (9, 99), f"a{document.line_end}b")], 2)
    assert other.text() == plain.text().replace("\n", line_end)


def test_vscode_factoriomod_debug_14_codercom_338_a_mark_is_no_text() -> None:
    plain = Document("file:///bom.py", "python", 1, "import os\nprint(os.", "utf-16")
    marked = Document("file:///bom.py", "python", 1, "\ufeffimport os\nprint(os.", "utf-16")
    assert marked.snapshot(1, 9).prefix == plain.snapshot(1, 9).prefix == "import os\nprint(os."
    # A client that counts the mark counts it on the first line.
    assert marked.snapshot(0, 7).prefix == plain.snapshot(0, 6).prefix == "import"
    for unit in (0, 1):
        assert (marked.snapshot(0, unit).prefix, marked.snapshot(0, unit).suffix) == ("", plain.text())
    marked.apply([partial((0, 1), (0, 7), "from")], 2)
    assert marked.text() == "\ufefffrom os\nprint(os."


def test_only_the_first_character_can_be_the_mark() -> None:
    document = Document("untitled:a", None, 1, "\ufeff" * 400_000, "utf-16")
    assert document.snapshot(0, 5).prefix == "\ufeff" * 4
    assert document.snapshot(0, 0).suffix == "\ufeff" * (Window().after - 1)
    assert document.snapshot(0, 400_000).prefix == Window().last("\ufeff" * 400_000)


def test_vdm_vscode_232_no_nul_reaches_the_model(tmp_path: Path) -> None:
    found = Document("file:///wide.py", "python", 1, "a\0b\0\n\0c", "utf-16").snapshot(0, 2)
    assert (found.prefix, found.suffix, found.unit) == ("a", "b\nc", 2)
    (tmp_path / "wide.py").write_bytes("x = 1\n".encode("utf-16-le"))
    (tmp_path / "marked.py").write_bytes("\ufeffx = 1\n".encode("utf-16-le"))
    files = Documents()
    assert files.get((tmp_path / "wide.py").as_uri()) is None
    marked = files.get((tmp_path / "marked.py").as_uri())
    assert marked is not None and marked.snapshot(0, 5).prefix == "x = 1"


def test_pygls_224_jedi_language_server_159_a_closed_file_has_its_own_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "Fibonacci.java"
    text = FIBONACCI.replace("\n", "\r\n")
    file.write_bytes(text.encode())
    files = Documents()
    closed = files.get(file.as_uri())
    opened = files.open(file.as_uri(), "java", 0, text)
    assert closed is not None and files.get(file.as_uri()) is opened
    assert (closed.text(), closed.line_end, closed.language) == (text, "\r\n", "java")
    assert closed.snapshot(9, 8) == opened.snapshot(9, 8)


def test_ponyc_5774_markitdown_1955_a_closed_file_with_a_name_that_is_not_ascii(tmp_path: Path) -> None:
    file = tmp_path / "café 测试" / "ключ #1.py"
    file.parent.mkdir()
    file.write_text("x = 1\n", encoding="utf-8")
    found = Documents().get(f"file://{tmp_path}/caf%C3%A9%20%E6%B5%8B%E8%AF%95/%D0%BA%D0%BB%D1%8E%D1%87%20%231.py")
    assert found is not None and (found.text(), found.language) == ("x = 1\n", "python")


def test_pygls_423_every_change_is_made_once() -> None:
    files = Documents()
    files.open("untitled:a", "python", 1, "")
    for unit, character in enumerate("abc"):
        files.change("untitled:a", [partial((0, unit), (0, unit), character)], unit + 2)
    document = files.change("untitled:a", [partial((0, 2), (0, 3), "")], 5)
    assert document is not None and (document.text(), document.version) == ("ab", 5)


def test_python_language_server_263_369_closed_documents(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    files = Documents()
    files.open(file.as_uri(), "python", 4, "unsaved")
    assert files.close(file.as_uri()) is not None
    assert files.close(file.as_uri()) is None
    assert files.change(file.as_uri(), [partial((0, 0), (0, 0), "x")], 5) is None
    assert files.get(file.as_uri()) is None
    file.write_text("saved")
    found = files.get(file.as_uri())
    assert found is not None and (found.text(), found.version) == ("saved", 0)
    assert len(files) == 0


def test_continue_1293_cody_3453_the_buffer_counts_and_not_the_disk(tmp_path: Path) -> None:
    text = "interface User { id: number; name: string }\n\nfunction byName(users: User[]): Map<string, User> {\n  \n}\n"
    files = Documents()
    files.open("untitled:Untitled-1", LanguageKind.TypeScript, 1, text)
    found = files.get("untitled:Untitled-1")
    assert found is not None and found.language == "typescript"
    assert found.snapshot(3, 2).prefix.endswith("Map<string, User> {\n  ")
    (tmp_path / "a.ts").write_text("old")
    files.open((tmp_path / "a.ts").as_uri(), "typescript", 1, text)
    found = files.get((tmp_path / "a.ts").as_uri())
    assert found is not None and found.text() == text


def test_vscode_240996_copilot_el_84_memory_is_back_after_close() -> None:
    files = Documents()
    text = "x = 1\n" * 900_000
    tracemalloc.start()
    try:
        files.open("file:///big.py", "python", 1, text)
        for number in range(20):
            files.change("file:///big.py", [partial((900_000, number), (900_000, number), "x")], number + 2)
        held = tracemalloc.get_traced_memory()[0]
        files.close("file:///big.py")
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(text) < held < 1.1 * len(text)
    assert left < 50_000


def test_any_spelling_finds_the_open_document() -> None:
    files = Documents("utf-8")
    opened = files.open("file:///c%3A/My%20Code/a.py", "python", 1, "x")
    assert files.get("file:///C:/My Code/a.py") is opened and "file:/c:/My%20Code/a.py" in files
    assert (opened.uri, opened.encoding, list(files)) == ("file:///c%3A/My%20Code/a.py", "utf-8", [opened])
    again = files.open("file:///C:/My%20Code/a.py", "python", 1, "y")
    assert list(files) == [again]
    files.close("file:///c:/My%20Code/a.py")
    assert len(files) == 0


def test_what_is_no_ordinary_text_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = 1\n")
    (tmp_path / "binary").write_bytes(b"\0\1\2")
    (tmp_path / "latin.py").write_bytes(b"caf\xe9 = 1\n")
    files = Documents()
    for scheme in ("untitled", "git", "vscode-notebook-cell", "http"):
        assert files.get(f"{scheme}:{file}") is None
    here = tmp_path.as_uri()
    for uri in (here, f"{here}/a.py/b", f"{here}/a.py%00", f"{here}/none", f"{here}/binary", "", "%"):
        assert files.get(uri) is None
    latin = files.get((tmp_path / "latin.py").as_uri())
    assert latin is not None and latin.text() == "caf\ufffd = 1\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    assert Documents().get((tmp_path / "pipe.py").as_uri()) is None
