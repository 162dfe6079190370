"""Section A of the public bug reports: positions, encodings, line ends. Each test has its report's name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.lsp_server.client import Editor, apply

URI = "file:///tmp/none/"
ENCODINGS = ("utf-8", "utf-16", "utf-32")


def completed(editor: Editor, uri: str, text: str, line: int, character: int) -> str:
    """The document after the first suggestion at a position was accepted."""
    [item, *_] = editor.suggestion(uri, line, character).items
    return apply(text, item["range"], item["insertText"], editor.encoding)


def complete_command(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "assistant.cli.main", "complete", *arguments],
        capture_output=True,
        cwd=cwd,
        timeout=120,
        check=False,
    )


EMOJI = 'face = "😋"; price = 3; total = \nprint(face, total)\n'


@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 34), ("utf-16", 32), ("utf-32", 31)])
def test_pygls_116_utf16_offsets(desk, encoding, column):
    desk.say("price * 2")
    editor = desk.editor(start=False)
    editor.start({"general": {"positionEncodings": ["utf-7", encoding]}, "textDocument": {"inlineCompletion": {}}})
    assert editor.encoding == encoding
    editor.ready()
    editor.open(URI + "emoji.py", EMOJI)
    done = completed(editor, URI + "emoji.py", EMOJI, 0, column)
    assert done == EMOJI.replace("total = \n", "total = price * 2\n")
    assert [run["prefix"] for run in desk.runs()] == ['face = "😋"; price = 3; total = ']


def test_pygls_567_astral_characters_above(desk):
    text = "# 🚀🚀🚀 launch helpers\n# 𝒳 = matrix\ndef add(a, b):\n    return \n"
    editor = desk.editor()
    editor.open(URI + "above.py", text)
    assert completed(editor, URI + "above.py", text, 3, 11) == text.replace("return ", "return done")
    [run] = desk.runs()
    assert run["prefix"].endswith("    return ") and run["suffix"] == "\n"


@pytest.mark.parametrize(
    ("end", "expected"),
    [(18, 'const next = "🚀";'), (17, 'const next = "🚀";;'), (99, 'const next = "🚀";')],
)
def test_hermes_agent_116094_stale_text_after_astral_replacement(desk, end, expected):
    uri = URI + "face.ts"
    editor = desk.editor()
    editor.open(uri, 'const face = "😀";', "typescript")
    change = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": end}}
    editor.change(uri, {"range": change, "text": 'const next = "🚀";'})
    editor.suggestion(uri, 9, 0)
    assert desk.runs()[0]["prefix"] == expected


@pytest.mark.parametrize(("column", "expected"), [(15, 'print("Hello 🌍'), (14, 'print("Hello ')])
def test_claude_code_zed_11_inside_a_surrogate_pair(desk, column, expected):
    uri, text = URI + "hello.py", 'print("Hello 🌍 World!")\n'
    editor = desk.editor()
    editor.open(uri, text)
    done = completed(editor, uri, text, 0, column)  # the client checks that what comes is UTF-8
    assert done == expected + "done" + text.removeprefix(expected)
    assert desk.runs()[0]["prefix"] == expected


def test_llm_ls_64_off_by_one_at_the_end_of_a_line(desk):
    uri, text = URI + "eol.py", 'def hello_\n\nhello_world("x")\n'
    desk.say("world(name):")
    editor = desk.editor()
    editor.open(uri, text)
    assert completed(editor, uri, text, 0, 10) == 'def hello_world(name):\n\nhello_world("x")\n'
    assert desk.runs()[0]["prefix"] == "def hello_"


@pytest.mark.parametrize("character", [11, 0])
def test_llm_vscode_112_the_first_line_completes(desk, character):
    uri, text = URI + "first.py", "import os, \n\nprint(os.getcwd())\n"
    editor = desk.editor()
    editor.open(uri, text)
    assert completed(editor, uri, text, 0, character) == text[:character] + "done" + text[character:]


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
WINDOWS = "file:///c%3A/Users/x/Documents/temp/HelloWorld.java"


def test_tabby_3279_continue_1488_crlf_asks_as_lf_does(desk):
    desk.say("int a = 0;\n        return a;")
    editor = desk.editor()
    editor.open(URI + "lf.java", FIBONACCI, "java")
    crlf = FIBONACCI.replace("\n", "\r\n")
    editor.open(WINDOWS, crlf, "java")
    unix = completed(editor, URI + "lf.java", FIBONACCI, 9, 8)
    windows = completed(editor, WINDOWS.replace("c%3A", "C:"), crlf, 9, 8)
    assert windows == unix.replace("\n", "\r\n")
    one, other = desk.runs()
    assert (one["prefix"], one["suffix"]) == (other["prefix"], other["suffix"])
    assert "\r" not in other["prefix"] + other["suffix"]


def test_copilot_eclipse_132_the_documents_own_line_end(desk):
    desk.say("int a = 0;\n        int b = 1;\n        return a + b;")
    crlf = FIBONACCI.replace("\n", "\r\n")
    editor = desk.editor()
    editor.open(WINDOWS, crlf, "java")
    done = completed(editor, WINDOWS, crlf, 9, 8)
    assert done.count("\n") == done.count("\r\n") == crlf.count("\r\n") + 2


@pytest.mark.parametrize("mark", ["\ufeff", ""])
def test_factoriomod_14_bugs_338_byte_order_mark(desk, mark):
    uri, text = URI + "bom.py", mark + "import os\nprint(os.)\n"
    desk.say("getcwd()")
    editor = desk.editor()
    editor.open(uri, text)
    assert completed(editor, uri, text, 1, 9) == mark + "import os\nprint(os.getcwd())\n"
    assert desk.runs()[0]["prefix"] == "import os\nprint(os."
    desk.say(", sys")
    assert completed(editor, uri, text, 0, len(mark) + 9) == mark + "import os, sys\nprint(os.)\n"


def test_factoriomod_14_bugs_338_byte_order_mark_of_a_file(desk, tmp_path):
    desk.host()
    file = tmp_path / "bom.py"
    file.write_bytes(b"\xef\xbb\xbfimport os\nprint(os.)\n")
    desk.say("getcwd()")
    assert complete_command(f"{file}:2:10", "--apply").returncode == 0
    assert file.read_bytes() == b"\xef\xbb\xbfimport os\nprint(os.getcwd())\n"
    assert desk.runs()[0]["prefix"] == "import os\nprint(os."


def test_ponyc_5774_markitdown_1955_encoded_uris(desk, tmp_path):
    folder = tmp_path / "café 测试"
    folder.mkdir()
    file = folder / "ключ #1.py"
    file.write_text("key = ", encoding="utf-8")
    (folder / ".tokenleap.toml").write_text("max_tokens = 17\n", encoding="utf-8")
    editor = desk.editor(start=False)
    editor.start(rootUri="file://" + quote(str(folder)))
    editor.ready()
    uri = "file://" + quote(str(file))
    assert "%23" in uri and "%20" in uri
    assert completed(editor, uri, "key = ", 0, 6) == "key = done"  # never opened: read from the disk
    editor.open(uri.replace("%C3%A9", "%c3%a9"), "new = ")
    assert completed(editor, uri, "new = ", 0, 6) == "new = done"
    for run in desk.runs():
        assert run["path"] == str(file) and run["max_tokens"] == 17 and run["language"] == "python"
    for where, cwd in ((str(file), None), (file.name, folder)):
        done = complete_command(f"{where}:1:7", cwd=cwd)
        assert (done.returncode, done.stdout.strip()) == (0, b"done"), done.stderr
        assert desk.runs()[-1]["path"] == str(file)


def test_vdm_vscode_232_wide_characters_and_nuls(desk, tmp_path):
    wide = tmp_path / "wide.py"
    wide.write_bytes("b = ".encode("utf-16-le"))
    editor = desk.editor()
    editor.open(f"file://{wide}", "a\x00b\x00 = ")
    editor.open(URI + "normal.py", "c = ")
    assert completed(editor, f"file://{wide}", "a\x00b\x00 = ", 0, 7) == "a\x00b\x00 = done"
    assert completed(editor, URI + "normal.py", "c = ", 0, 4) == "c = done"
    editor.close_document(f"file://{wide}")
    assert editor.suggestion(f"file://{wide}", 0, 2).items == []  # binary on the disk
    assert [run["prefix"] for run in desk.runs()] == ["ab = ", "c = "]
    assert editor.leave() == 0


def test_pygls_224_jedi_language_server_159_line_ends_from_the_disk(desk, tmp_path):
    file = tmp_path / "crlf.py"
    text = "def f():\r\n    \r\n"
    file.write_bytes(text.encode())
    uri = f"file://{file}"
    desk.say("a = 1\n    return a")
    editor = desk.editor()
    closed = completed(editor, uri, text, 1, 4)
    editor.open(uri, text)
    assert completed(editor, uri, text, 1, 4) == closed == "def f():\r\n    a = 1\r\n    return a\r\n"
    one, other = desk.runs()
    assert (one["prefix"], one["suffix"]) == (other["prefix"], other["suffix"])
    assert complete_command(f"{file}:2:5", "--apply").returncode == 0
    assert file.read_bytes() == closed.encode()
