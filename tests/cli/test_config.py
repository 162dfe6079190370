"""`tokenleap config`: what is shown is what is in force, what is set is what is saved."""

from __future__ import annotations

import json

import pytest

from assistant.cli import main as cli
from assistant.settings.schema import SPECS
from tests.conftest import OwnHome


def test_show_prints_a_settings_file_that_means_the_same(
    own_home: OwnHome, capfd: pytest.CaptureFixture[str]
) -> None:
    own_home.settings('max_tokens = 7\nmodel = "/odd \\"name\\"/é.gguf"\n')
    assert cli.main(["config", "show", "--origin"]) == 0
    first = capfd.readouterr()
    own_home.settings(first.out)
    assert cli.main(["config", "show", "--json"]) == 0
    values = json.loads(capfd.readouterr().out)
    assert values["max_tokens"] == 7 and values["model"] == '/odd "name"/é.gguf'
    assert first.err == ""


def test_origin_names_file_variable_and_default(
    own_home: OwnHome, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = own_home.settings("max_tokens = 7\nseed = 1\n")
    monkeypatch.setenv("TOKENLEAP_SEED", "3")
    assert cli.main(["config", "show", "--origin", "--json"]) == 0
    shown = json.loads(capfd.readouterr().out)
    assert shown["max_tokens"] == {"value": 7, "origin": "user", "where": str(file)}
    assert shown["seed"] == {"value": 3, "origin": "environment", "where": "TOKENLEAP_SEED"}
    assert shown["model"]["origin"] == "default"
    assert list(shown) == list(SPECS)


def test_set_then_show(own_home: OwnHome, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "set", "max-tokens", "9"]) == 0
    said = capfd.readouterr()
    assert said.out == "" and "max_tokens = 9" in said.err
    assert cli.main(["config", "show", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["max_tokens"] == 9
    assert cli.main(["config", "set", "max_tokens", ""]) == 0
    assert cli.main(["config", "show", "--json"]) == 0
    assert json.loads(capfd.readouterr().out.splitlines()[-1])["max_tokens"] == SPECS["max_tokens"].default


def test_set_says_when_something_stronger_hides_it(
    own_home: OwnHome, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKENLEAP_SEED", "3")
    assert cli.main(["config", "set", "seed", "5"]) == 0
    assert "TOKENLEAP_SEED overrides it with 3" in capfd.readouterr().err


def test_set_refuses_a_broken_file(own_home: OwnHome, capfd: pytest.CaptureFixture[str]) -> None:
    file = own_home.settings("seed = \n")
    assert cli.main(["config", "set", "seed", "5"]) == 2
    said = capfd.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and str(file) in said.err
    assert file.read_text() == "seed = \n"


def test_path_is_where_set_writes(own_home: OwnHome, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "path"]) == 0
    assert capfd.readouterr().out == f"{own_home.path / 'config' / 'settings.toml'}\n"
