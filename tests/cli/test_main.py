"""The command as a process: wrong use is one line and exit 2, help is quick to find and light to load."""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assistant.cli import main as cli
from assistant.cli import output
from assistant.settings.schema import SPECS
from tests.conftest import OwnHome

HEAVY = {"torch", "numpy", "transformers", "tokenizers", "safetensors", "gguf", "psutil", "tomlkit"}


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "assistant.cli.main", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


WRONG_USE = [
    (["compelte", "x.py"], "did you mean complete?"),
    (["xyzzy"], "tokenleap --help"),
    (["--verson"], "did you mean --version?"),
    (["complete", "x.py", "--presicion", "int8"], "did you mean --precision?"),
    (["complete", "x.py", "--presicion=int8"], "unknown option --presicion, did you mean"),
    (["complete", "x.py", "--temp", "1"], "did you mean --temperature?"),
    (["complete"], "FILE"),
    (["complete", "x.py", "y.py"], "unexpected argument 'y.py'"),
    (["complete", "x.py", "--seed"], "--seed"),
    (["complete", "x.py", "--seed", "many"], "--seed cannot be 'many': give a whole number"),
    (["complete", "x.py", "--precision", "int9"], "one of int8, fp32, bnb8, nf4"),
    (["complete", "x.py", "--top-p", "nan"], "--top-p cannot be 'nan'"),
    (["complete", "x.py", "-n", "0"], "-n cannot be '0'"),
    (["config", "sohw"], "did you mean show?"),
    (["config", "set", "sed", "1"], "did you mean seed?"),
    (["config", "set", "seed", "x"], "seed cannot be 'x'"),
    (["config"], "COMMAND"),
]


@pytest.mark.parametrize(("words", "expected"), WRONG_USE, ids=lambda value: " ".join(value)[:40])
def test_wrong_use_is_one_line_that_says_what_is_right(
    own_home: OwnHome, capfd: pytest.CaptureFixture[str], words: list[str], expected: str
) -> None:
    assert cli.main(words) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1 and said.err.startswith("tokenleap: ")
    assert expected in said.err


def test_no_command_shows_the_help_as_a_note(own_home: OwnHome, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    said = capfd.readouterr()
    assert said.out == "" and "complete" in said.err


@pytest.mark.parametrize("command", ["complete", "config", "doctor"])
def test_each_commands_help_is_a_result(
    own_home: OwnHome, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    assert cli.main([command, "--help"]) == 0
    said = capfd.readouterr()
    assert said.err == "" and f"usage: tokenleap {command}" in said.out


def test_a_bad_variable_is_wrong_use(
    own_home: OwnHome, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKENLEAP_SEED", "many")
    assert cli.main(["complete", "x.py"]) == 2
    said = capfd.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "TOKENLEAP_SEED cannot be 'many'" in said.err


def failing(error: BaseException) -> object:
    def run(*_: object) -> int:
        raise error

    return run


@pytest.mark.parametrize("debug", [False, True])
def test_a_traceback_is_only_shown_when_asked_for(
    own_home: OwnHome, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, debug: bool
) -> None:
    if debug:
        monkeypatch.setenv("TOKENLEAP_DEBUG", "1")
    monkeypatch.setattr("assistant.cli.config._path", failing(RuntimeError("surprise")))
    assert cli.main(["config", "path"]) == 3
    said = capfd.readouterr()
    assert said.out == "" and "RuntimeError: surprise" in said.err
    assert ("Traceback" in said.err) == debug
    assert debug or said.err.count("\n") == 1


def test_interruption_is_130(
    own_home: OwnHome, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assistant.cli.config._path", failing(KeyboardInterrupt()))
    assert cli.main(["config", "path"]) == 130
    assert capfd.readouterr() == ("", "tokenleap: interrupted\n")


def test_a_broken_settings_file_is_one_warning_and_work_goes_on(own_home: OwnHome) -> None:
    file = own_home.settings("seed = \n")
    done = run("config", "show", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["seed"] == 0
    assert done.stderr.count("\n") == 1 and str(file) in done.stderr and "line 1" in done.stderr
    assert file.read_text() == "seed = \n"


def loaded_modules(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has after `code`."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint('LOADED', *sys.modules)"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stdout.rpartition("LOADED ")[2].split()}


LIGHT = {
    "help": "from assistant.cli.main import main; main(['--help'])",
    "complete --help": "from assistant.cli.main import main; main(['complete', '--help'])",
    "version": "from assistant.cli.main import main; main(['--version'])",
    "client": "import assistant.cli.complete, assistant.service.client, assistant.settings.load",
    "config": "from assistant.cli.main import main; main(['config', 'path'])",
    "doctor --help": "from assistant.cli.main import main; main(['doctor', '--help'])",
}


@pytest.mark.parametrize("code", LIGHT.values(), ids=LIGHT.keys())
def test_the_light_paths_load_nothing_heavy(own_home: OwnHome, code: str) -> None:
    assert loaded_modules(code) & HEAVY == set()


def test_each_command_of_the_table_has_its_module() -> None:
    for name in cli.COMMANDS:
        module = importlib.import_module(f"assistant.cli.{name}")
        assert callable(module.register), name


def test_only_output_writes_to_the_terminal() -> None:
    folder = Path(cli.__file__).parent
    for file in folder.glob("*.py"):
        if file.name != Path(output.__file__).name:
            text = file.read_text(encoding="utf-8")
            for word in ("print(", "sys.stdout.", "sys.stderr.write", "sys.stderr.buffer"):
                assert word not in text, f"{file.name} writes by itself: {word}"


def _options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.Action]]:
    """Every option of a parser and of its commands, with the command it belongs to."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _options(command)
        else:
            yield parser.prog, action


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_no_option_is_taken_for_a_setting_that_it_is_not(command: str) -> None:
    """Options are stored by name, and what is stored under a setting's name is that setting."""
    for prog, action in _options(cli._parser(command)):
        if action.dest in SPECS:
            spec = SPECS[action.dest]
            assert spec.has_flag and spec.flag in action.option_strings, (prog, action.option_strings)
