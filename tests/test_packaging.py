"""What a user gets: the files that the package promises, a demo that points at a hole, nothing that names a
machine.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

if not (ROOT / "Makefile").is_file():
    pytest.skip("these tests look at a checkout, and this is none", allow_module_level=True)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_demo_completes_an_empty_line_inside_a_method() -> None:
    found = re.search(r"^EXAMPLE := (\S+)\nLINE := (\d+)$", MAKEFILE, re.MULTILINE)
    assert found is not None
    text, number = (ROOT / found[1]).read_text(encoding="utf-8"), int(found[2])
    line = text.split("\n")[number - 1]
    assert line.strip() == "" and len(line) == 8, "an editor stripped the line that the demo completes"
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    before = max((node for node in functions if node.lineno < number), key=lambda node: node.lineno)
    assert len(before.body) == 1, "the method is not empty any more"
    assert any(node.lineno > number for node in functions), "nothing follows the hole"


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("target", ["demo", "test"])
def test_make_installs_before_it_runs(target: str, tmp_path: Path) -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", target, f"VENV={tmp_path / 'v'}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    commands = done.stdout
    assert commands.index("-m venv ") < commands.index(" install ") < commands.index(" models pull ")
    assert ".[model" in commands
    if target == "test":
        tools = ["ruff check", "mypy", "lint-imports", "-m pytest"]
        places = [commands.index(tool) for tool in tools]
        assert places == sorted(places) and commands.rstrip().endswith("-m pytest")


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_installs_nothing_twice(tmp_path: Path) -> None:
    environment = tmp_path / "v"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").touch()
    for stamp in (".installed", ".tested"):
        (environment / stamp).touch()
    done = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "test", f"VENV={environment}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=True,
    )
    assert " install " not in done.stdout and "-m venv" not in done.stdout


def test_ci_runs_make_test() -> None:
    run = ROOT / ".ci" / "run"
    text = run.read_text(encoding="utf-8")
    assert text.startswith("#!/usr/bin/env bash")
    assert "set -euo pipefail" in text
    assert re.search(r"\bmake\b.*\btest\b", text)
    assert run.stat().st_mode & 0o111


def test_the_model_extra_is_what_the_catalog_reads() -> None:
    from assistant.models.catalog import CATALOG, Wheels

    extras = PROJECT["project"]["optional-dependencies"]
    wheels = [source for entry in CATALOG for source in entry.sources if isinstance(source, Wheels)]
    assert wheels
    for source in wheels:
        assert extras[source.extra] == [f"{name}=={source.version}" for name in source.names]


def test_notice_names_every_hash_that_is_trusted() -> None:
    from assistant.models.catalog import CATALOG, Wheels

    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    assert "Qwen" in notice and "third parties" in notice
    for entry in CATALOG:
        if any(isinstance(source, Wheels) for source in entry.sources):
            assert entry.sha256 in notice


def test_the_licence_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Version 2.0, January 2004" in text and "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["project"]["license"] == "Apache-2.0"


def test_commands_in_the_documents_exist() -> None:
    from assistant.cli.main import COMMANDS

    for name in ("README.md", "CONTRIBUTING.md", "docs/bench.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for command in re.findall(r"`(?:\.venv/bin/)?tokenleap ([a-z]+)", text):
            assert command in COMMANDS, f"{name} speaks of tokenleap {command}"
        for path in re.findall(r"\]\(([\w./-]+)\)", text):
            assert ((ROOT / name).parent / path).exists(), f"{name} links to {path}, which is not there"


def test_no_file_names_a_machine() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    # Spelt in parts, so that this file does not name them itself.
    forbidden = re.compile("|".join(("/wo" + "rk/", "/ro" + "ot/", "/home/[a-z]+/\\.")))
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.is_file() and path.suffix in (".py", ".md", ".toml", ".c", ".h", ""):
            assert not forbidden.search(path.read_text(encoding="utf-8", errors="replace")), name
