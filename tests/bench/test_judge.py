"""A program passes when it runs to its end within the limits; nothing it does reaches outside."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from assistant.bench import judge

CHECK = "def check(candidate):\n    assert candidate(2) == 4\n"


def test_right_and_wrong_answers() -> None:
    right = judge.program("def f(x):\n    return x * x\n", CHECK, "f")
    wrong = judge.program("def f(x):\n    return x + 1\n", CHECK, "f")
    broken = judge.program("def f(x:\n", CHECK, "f")
    assert judge.judge_all([right, wrong, broken, right]) == [True, False, False, True]


@pytest.mark.parametrize(
    "leaving",
    ["import sys; sys.exit(0)", "import os; os._exit(0)", "raise SystemExit", "raise KeyboardInterrupt"],
)
def test_leaving_early_is_no_pass(leaving: str) -> None:
    assert not judge.passes(leaving)


def test_an_endless_program_is_ended() -> None:
    assert not judge.passes("while True:\n    pass", seconds=0.5)


def test_children_are_not_started() -> None:
    assert not judge.passes("import subprocess\nsubprocess.run(['true'])")
    assert not judge.passes("import os\nos.system('true')")


@pytest.mark.skipif(sys.platform == "win32", reason="the limits are POSIX limits")
def test_memory_and_file_sizes_are_limited() -> None:
    assert not judge.passes("x = bytearray(3 << 30)")
    assert not judge.passes("print('x' * (4 << 20))")


def test_there_is_no_network() -> None:
    assert not judge.passes("import socket\nsocket.socket()")
    assert not judge.passes("import _socket\n_socket.socket().connect(('127.0.0.1', 9))")


def test_the_folder_is_empty_and_gone_afterwards(tmp_path: Path) -> None:
    assert judge.passes("import os\nassert os.listdir('.') == []")
    note = tmp_path / "cwd"
    # Writing is no secret power: the file system's own rights apply, the folder itself is thrown away.
    assert judge.passes(f"import os\nopen({str(note)!r}, 'w').write(os.getcwd())")
    assert not Path(note.read_text()).exists()


def test_the_environment_is_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENLEAP_SECRET", "1")
    assert judge.passes("import os\nassert 'TOKENLEAP_SECRET' not in os.environ")
