"""One document whatever the spelling of its URI, and the right file for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp.uris import canonical, name_of, path_of

posix = pytest.mark.skipif(os.name == "nt", reason="paths of POSIX systems")
URI = st.text(st.sampled_from("ab:/?#%2fFcC é\\[]@|\0\ud800") | st.characters(), max_size=20)


@pytest.mark.parametrize(
    "spellings",
    [
        [
            "file:///c%3A/Users/x/Hello%20World.java",
            "file:///C:/Users/x/Hello World.java",
            "file:///c:/Users/x/Hello%20World.java",
            "FILE:///C%3a/Users/x/Hello%20World.java",
            "file:/c:/Users/x/Hello%20World.java",
            "file://c:/Users/x/Hello%20World.java",
            "file://localhost/c:/Users/x/Hello%20World.java",
            "file:c:/Users/x/Hello%20World.java",
            "file:///C:\\Users\\x\\Hello%20World.java",
        ],
        [
            "file:///tmp/caf%C3%A9%20%E6%B5%8B%E8%AF%95/%D0%BA%D0%BB%D1%8E%D1%87%20%231.py",
            "file:///tmp/caf%c3%a9%20%e6%b5%8b%e8%af%95/%d0%ba%d0%bb%d1%8e%d1%87%20%231.py",
            "file:///tmp/café 测试/ключ %231.py",
            "file://localhost/tmp/café%20测试/ключ%20%231.py",
            "file:/tmp/caf%C3%A9 测试/%D0%BA%D0%BB%D1%8E%D1%87 %231.py",
        ],
        ["file:///a/%28x%29%2Bb%40c.py", "file:///a/(x)+b@c.py"],
        ["file:///100%.py", "file:///100%25.py"],
        ["untitled:Untitled-1", "untitled:Untitled%2D1", "UNTITLED:Untitled-1"],
        [
            "vscode-notebook-cell:/home/x/a%20b.ipynb#W0sZmlsZQ%3D%3D",
            "vscode-notebook-cell:/home/x/a b.ipynb#W0sZmlsZQ==",
        ],
        ["file://Server/share/a.py", "file://server/share/a.py"],
    ],
)
def test_spellings_of_one_document_are_one(spellings: list[str]) -> None:
    assert len({canonical(spelling) for spelling in spellings}) == 1
    assert len({(path_of(spelling) or "").replace("/C:", "/c:") for spelling in spellings}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("file:///a/b.py", "file:///a/B.py"),
        ("file:///a/b.py", "untitled:/a/b.py"),
        ("file:///a%231.py", "file:///a"),
        ("file:///a+b.py", "file:///a%20b.py"),
        ("file:///a%2520b.py", "file:///a%20b.py"),
        ("file:///%FF.py", "file:///%FE.py"),
        ("file://one/a.py", "file://two/a.py"),
        ("file:///a.ipynb#1", "file:///a.ipynb#2"),
        ("untitled:Untitled-1", "untitled:Untitled-2"),
        ("git:/a.py?%7B%22ref%22%3A1%7D", "git:/a.py?%7B%22ref%22%3A2%7D"),
    ],
)
def test_different_documents_stay_apart(one: str, other: str) -> None:
    assert canonical(one) != canonical(other)


@given(uri=URI | URI.map("file:".__add__) | URI.map("file:///".__add__))
def test_any_text_has_one_canonical_spelling(uri: str) -> None:
    made = canonical(uri)
    assert canonical(made) == made
    assert path_of(made) is None or os.path.isabs(str(path_of(made)))
    assert (path_of(made) is None) == (path_of(uri) is None)
    assert "/" not in name_of(uri)
    made.encode("ascii" if uri.isascii() else "utf-8")


@posix
@given(parts=st.lists(st.binary(min_size=1, max_size=6), min_size=1, max_size=4))
def test_every_path_there_and_back(parts: list[bytes]) -> None:
    """Any bytes that a file's name may have, also those that are no UTF-8."""
    path = b"/" + b"/".join(part.replace(b"/", b"_").replace(b"\0", b"_").replace(b":", b"_") for part in parts)
    uri = Path(os.fsdecode(path)).as_uri()
    assert os.fsencode(str(path_of(uri))) == os.fsencode(Path(os.fsdecode(path)))
    assert path_of(canonical(uri)) == path_of(uri)


@posix
@pytest.mark.parametrize(
    ("uri", "path", "name"),
    [
        ("file:///tmp/a%20b/x.py", "/tmp/a b/x.py", "x.py"),
        ("file:///tmp/100%.py", "/tmp/100%.py", "100%.py"),
        ("file:///c%3A/Users/x/a.py", "/c:/Users/x/a.py", "a.py"),  # never relative to the working folder
        ("file:///tmp/a.py?x#y", "/tmp/a.py", "a.py"),
        ("file://server/share/a.py", None, "a.py"),
        ("file:a.py", None, "a.py"),
        ("file:", None, ""),
        ("", None, ""),
        ("/tmp/a.py", None, "a.py"),
        ("untitled:Untitled-1", None, "Untitled-1"),
        ("untitled:/tmp/new.py", None, "new.py"),
        ("vscode-notebook-cell:/tmp/a.ipynb#W0s", None, "a.ipynb"),
        ("vscode-remote://ssh-remote%2Bbox/home/a.py", None, "a.py"),
        ("zipfile:///tmp/a.zip::b.py", None, "a.zip::b.py"),
        ("http://[bad/x", None, "x"),
    ],
)
def test_the_file_and_the_name_of_a_document(uri: str, path: str | None, name: str) -> None:
    assert (path_of(uri), name_of(uri)) == (path, name)


@posix
def test_ponyc_5774_markitdown_1955_names_are_decoded(tmp_path: Path) -> None:
    file = tmp_path / "café 测试" / "ключ #1.py"
    file.parent.mkdir()
    file.write_text("x = 1\n", encoding="utf-8")
    uri = f"file://{tmp_path}/caf%C3%A9%20%E6%B5%8B%E8%AF%95/%D0%BA%D0%BB%D1%8E%D1%87%20%231.py"
    assert path_of(uri) == os.fspath(file)
    assert name_of(uri) == "ключ #1.py"


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///c%3A/Users/x/a%20b.java", "c:\\Users\\x\\a b.java"),
        ("file:///C:/a.py", "C:\\a.py"),
        ("file:///C:", "C:\\"),
        ("file://c:/a.py", "c:\\a.py"),
        ("file://server/share/a.py", "\\\\server\\share\\a.py"),
        ("untitled:a", None),
    ],
)
def test_windows_paths(monkeypatch: pytest.MonkeyPatch, uri: str, path: str | None) -> None:
    monkeypatch.setattr("lsp.uris.os", type("nt", (), {"name": "nt", "fsdecode": os.fsdecode}))
    assert path_of(uri) == path
