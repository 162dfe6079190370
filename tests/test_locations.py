"""Places are absolute, the same for processes in other folders, and refused in words when they cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from assistant import locations
from assistant.errors import HostError, SettingsError
from tests.conftest import OwnHome

unix_only = pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no owners and modes")


@pytest.mark.parametrize("variable", ["TOKENLEAP_HOME", "XDG_DATA_HOME"])
def test_relative_places_are_the_same_in_another_folder(
    own_home: OwnHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOKENLEAP_HOME")
    monkeypatch.setenv(variable, "here")
    monkeypatch.setenv("TMPDIR", ".")
    there = "from assistant import locations as l; print(l.data_folder(), l.cache_folder(), l.settings_file())"
    done = subprocess.run(
        [sys.executable, "-c", there],
        cwd="/",
        env=locations.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    ours = (locations.data_folder(), locations.cache_folder(), locations.settings_file())
    assert done.stdout.split() == [str(path) for path in ours]


@unix_only
def test_a_relative_runtime_folder_is_ignored(
    own_home: OwnHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", "run")
    assert locations.runtime_folder() == tmp_path / f"tokenleap-{os.getuid()}"
    assert os.listdir(tmp_path / "run") == []


def test_a_home_that_cannot_be_is_one_sentence(own_home: OwnHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENLEAP_HOME", "~nobody-of-that-name/x")
    with pytest.raises(SettingsError, match="TOKENLEAP_HOME cannot be"):
        locations.data_folder()


@unix_only
@pytest.mark.parametrize("way", ["file", "dangling", "link", "open"])
def test_a_runtime_folder_that_is_not_ours_alone_says_what_to_set(own_home: OwnHome, way: str) -> None:
    place = own_home.runtime / "tokenleap"
    if way == "file":
        place.touch(mode=0o600)
    elif way == "open":
        place.mkdir()
        place.chmod(0o755)
    else:
        place.symlink_to(own_home.runtime / "other")
        if way == "link":
            (own_home.runtime / "other").mkdir(mode=0o700)
    with pytest.raises(HostError, match="set XDG_RUNTIME_DIR to a folder of your own") as caught:
        locations.runtime_folder()
    assert "Errno" not in str(caught.value) and str(place) in str(caught.value)


@unix_only
def test_no_temporary_folder_at_all_is_one_sentence(own_home: OwnHome, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp', '/var/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    with pytest.raises(HostError, match="no temporary folder"):
        locations.runtime_folder()
