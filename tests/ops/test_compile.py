"""Compiling at first use: cached, safe when two do it at once, and clear when it cannot be done."""

import subprocess
import sys
from pathlib import Path

import pytest

from cuda_ops import compile as compiler
from cuda_ops import cpu


def test_second_use_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compiler.shared_library(tmp_path)
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("compiled again"))
    assert compiler.shared_library(tmp_path) == first
    assert [path.name for path in tmp_path.iterdir()] == [first.name]


def test_two_processes_at_once_leave_one_sound_library(tmp_path: Path) -> None:
    code = f"from pathlib import Path; from cuda_ops import cpu; print(cpu.load(Path({str(tmp_path)!r})).version)"
    both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = {process.communicate(timeout=300)[0].strip() for process in both}
    assert len(answers) == 1 and answers != {""}
    assert len(list(tmp_path.iterdir())) == 1


def test_a_library_cut_in_half_is_made_again(tmp_path: Path) -> None:
    path = compiler.shared_library(tmp_path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    cpu.load.cache_clear()
    assert cpu.load(tmp_path).version


def test_no_compiler_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(compiler.CompileError, match="no C compiler"):
        compiler.shared_library(tmp_path / "cache")
    monkeypatch.setenv("CC", "no-such-compiler -x")
    with pytest.raises(compiler.CompileError, match="no-such-compiler"):
        compiler.shared_library(tmp_path / "cache")


def test_a_compiler_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "false")
    with pytest.raises(compiler.CompileError, match="false failed"):
        compiler.shared_library(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(compiler.CompileError, match="could not be compiled"):
        compiler.shared_library(blocked)
