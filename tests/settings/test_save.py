"""Saving changes what was named and nothing else, in one step, and never destroys what a person wrote."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assistant.errors import SettingsError
from assistant.settings import load, save
from assistant.settings.schema import SPECS
from tests.settings.strategies import bad_value, good_value

SPEC_LIST = list(SPECS.values())

WRITTEN_BY_HAND = """# my settings
max_tokens = 5  # short

# how the weights are held
precision = "fp32"

[future]  # a newer version's table
thing = [
    1,  # one
]
"""


def read_back(file: Path) -> load.Loaded:
    return load.load(target=file.parent, environment={}, user_file=file)


@settings(max_examples=60)
@given(st.data())
def test_every_setting_comes_back_as_it_was_saved(data: st.DataObject) -> None:
    chosen = {s.name: data.draw(good_value(s)) for s in SPEC_LIST if data.draw(st.booleans())}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config" / "settings.toml"
        assert save.save(chosen, file) == Path(os.path.realpath(file))
        loaded = read_back(file)
        assert os.listdir(file.parent) == ["settings.toml"]
    assert loaded.warnings == ()
    for spec in SPEC_LIST:
        assert getattr(loaded.settings, spec.name) == chosen.get(spec.name, spec.default)
        assert loaded.origins[spec.name].source == (load.USER if spec.name in chosen else load.DEFAULT)


def test_comments_order_and_unknown_keys_stay(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(WRITTEN_BY_HAND)
    save.save({"max_tokens": "64", "precision": None, "seed": 3}, file)
    text = file.read_text()
    for kept in ("# my settings", "max_tokens = 64  # short", "# how the weights are held", "1,  # one"):
        assert kept in text
    assert "precision" not in text
    loaded = read_back(file)
    assert (loaded.settings.max_tokens, loaded.settings.seed) == (64, 3)


@pytest.mark.parametrize("content", [b"model = \n", b"a = 1\na = 2\n", b'model = "\xff"\n', b"= 5"])
def test_a_broken_file_is_never_overwritten(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "settings.toml"
    file.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        save.save({"seed": 1}, file)
    assert str(file) in str(caught.value) and "\n" not in str(caught.value)
    assert file.read_bytes() == content
    assert os.listdir(tmp_path) == ["settings.toml"]


@settings(max_examples=40)
@given(st.data())
def test_a_bad_value_is_refused_and_nothing_is_written(data: st.DataObject) -> None:
    spec = data.draw(st.sampled_from(SPEC_LIST))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "settings.toml"
        with pytest.raises(SettingsError) as caught:
            save.save({"seed": 1, spec.name: data.draw(bad_value(spec))}, file)
        assert not file.exists()
    assert spec.allowed in str(caught.value)


def test_an_unknown_name_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="did you mean temperature"):
        save.save({"temprature": 1}, tmp_path / "settings.toml")


def test_a_link_stays_a_link_and_rights_stay(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "settings.toml"
    real.parent.mkdir()
    real.write_text("seed = 1\n")
    real.chmod(0o640)
    link = tmp_path / "settings.toml"
    link.symlink_to(real)
    save.save({"seed": 2}, link)
    assert link.is_symlink() and real.read_text() == "seed = 2\n"
    assert real.stat().st_mode & 0o777 == 0o640


def test_a_failure_while_writing_leaves_the_old_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("seed = 1\n")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError):
        save.save({"seed": 2}, file)
    assert file.read_text() == "seed = 1\n" and os.listdir(tmp_path) == ["settings.toml"]


def test_a_change_saved_in_between_by_somebody_else_survives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("seed = 1\n")
    real_fsync = os.fsync
    calls = []

    def fsync(descriptor: int) -> None:
        real_fsync(descriptor)
        calls.append(descriptor)
        if len(calls) == 1:
            file.write_text("seed = 1\nmax_tokens = 9\n")

    monkeypatch.setattr(os, "fsync", fsync)
    save.save({"seed": 2}, file)
    assert file.read_text() == "seed = 2\nmax_tokens = 9\n"


def test_a_text_that_is_no_utf8_is_refused_and_nothing_written(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    with pytest.raises(SettingsError, match="give a text in UTF-8"):
        save.save({"model": "\udcff"}, file)
    assert not file.exists()


def test_a_text_from_a_terminal_without_utf8_is_stored_as_what_was_typed(tmp_path: Path) -> None:
    """Such a system hands over the bytes of an ü one by one, as characters that only it understands."""
    file = tmp_path / "settings.toml"
    save.save({"model": "/m/\udcc3\udcbc"}, file)
    assert read_back(file).settings.model == "/m/ü"
