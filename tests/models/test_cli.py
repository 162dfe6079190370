"""`tokenleap models`: results on standard output, progress besides it, failures in one sentence."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from assistant.cli import main as cli
from assistant.models import catalog, fetch, hub, store
from tests.conftest import OwnHome
from tests.models import hub_server, tiny

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(own_home: OwnHome, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `tokenleap models ...`: exit code, standard output, standard error. No part wheels are seen."""
    monkeypatch.setattr(fetch, "wheel_files", lambda wheels: None)

    def go(*words: str) -> tuple[int, str, str]:
        code = cli.main(["models", *words])
        said = capfd.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err

    return go


def test_list_shows_every_model_and_its_state(run: Run, tiny_path: Path) -> None:
    entry = catalog.find(tiny_path)
    store.ensure(entry, "int8")
    store.ensure(entry, "fp32")
    code, out, err = run("list")
    assert code == 0 and err == ""
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert set(lines) == {"MODEL", entry.id, *(known.id for known in catalog.CATALOG)}
    assert lines[entry.id].endswith("ready fp32, int8")
    assert "491 MB" in lines[catalog.DEFAULT] and "Apache-2.0" in lines[catalog.DEFAULT]
    assert lines[catalog.DEFAULT].endswith("not here")
    os.truncate(store.folder_of(entry.id, "int8") / "weights.safetensors", 10)
    rows = {row["id"]: row for row in json.loads(run("list", "--json")[1])}
    assert rows[entry.id]["ready"] == ["fp32"] and rows[entry.id]["damaged"] == ["int8"]
    assert rows["qwen2.5-coder-3b"]["licence"] == "Qwen-Research"


def test_list_shows_installed_wheels(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "wheel_files", lambda wheels: [Path("a"), Path("b")])
    assert run("list")[1].splitlines()[1].endswith("wheels installed")


def test_pull_converts_a_path_and_reports_quarters(run: Run, tiny_path: Path) -> None:
    code, out, err = run("pull", str(tiny_path), "--precision", "both")
    assert code == 0
    folders = [Path(line) for line in out.splitlines()]
    assert [folder.name for folder in folders] == ["int8", "fp32"]
    for folder in folders:
        store.open_model(folder)
    lines = err.splitlines()
    assert "converting 100%" in lines and "checking 100%" in lines
    assert len(lines) < 30 and "\r" not in err
    assert run("pull", str(tiny_path))[0::2] == (0, f"{catalog.find(tiny_path).id}: a file of your own\n")


def test_pull_draws_a_bar_on_a_terminal(run: Run, tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    code, out, err = run("pull", str(tiny_path))
    assert code == 0 and "\r" in err and "converting [" in err and "\r" not in out


def test_verify_tells_the_sound_from_the_damaged(run: Run, tiny_path: Path) -> None:
    code, _, err = run("verify")
    assert code == 2 and "models list" in err
    run("pull", str(tiny_path), "--precision", "both")
    assert run("verify", str(tiny_path))[:2] == (
        0,
        "".join(f"{catalog.find(tiny_path).id} {p}: sound\n" for p in ("fp32", "int8")),
    )
    path = store.folder_of(catalog.find(tiny_path).id, "int8") / "weights.safetensors"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    code, out, err = run("verify")
    assert code == 3 and "int8: damaged" in out and "fp32: sound" in out
    assert str(path) in err and "`tokenleap models rm" in err


def test_rm_removes_what_was_named_and_its_leftovers(run: Run, tiny_path: Path, tmp_path: Path) -> None:
    tiny.write(tmp_path / "other.gguf", seed=9)
    run("pull", str(tiny_path), "--precision", "both")
    run("pull", str(tmp_path / "other.gguf"))
    name, other = catalog.find(tiny_path).id, catalog.find(tmp_path / "other.gguf").id
    stale = store.folder_of(name, "int8").parent / ".tmp-int8-0123456789ab"
    stale.mkdir()
    assert "rm --leftovers" in run("list")[2]
    assert run("rm", name, "--precision", "fp32")[0] == 0
    assert [model.precision for model in store.installed() if model.id == name] == ["int8"]
    tiny_path.unlink()  # a model whose source is gone is removed by its id
    code, out, _ = run("rm", name)
    assert code == 0 and out.endswith("MB freed\n")
    assert not stale.parent.exists()
    assert [model.id for model in store.installed()] == [other]
    code, _, err = run("rm", name)
    assert code == 2 and f"no converted model '{name}'" in err


def test_rm_leftovers_touches_no_model(run: Run, tiny_path: Path) -> None:
    run("pull", str(tiny_path))
    name = catalog.find(tiny_path).id
    stale = store.folder_of(name, "int8").parent / ".tmp-int8-0123456789ab"
    stale.mkdir()
    source = catalog.CATALOG[0].sources[-1]
    assert isinstance(source, catalog.Hub)
    part = hub.path_of(source).with_name(hub.path_of(source).name + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(b"GGUF" * 1000)
    assert run("rm", "--leftovers")[0] == 0
    assert not stale.exists() and not part.exists()
    assert run("verify")[0] == 0
    assert run("rm", "--leftovers")[0] == 0


def test_pull_from_the_hub_downloads_once_and_keeps_no_download(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.write(tmp_path / "hub.gguf", seed=4)
    known = [replace(entry, sha256="", size=0) for entry in catalog.CATALOG]
    monkeypatch.setattr(catalog, "CATALOG", tuple(known))
    with hub_server.serving((tmp_path / "hub.gguf").read_bytes()) as server:
        monkeypatch.setenv("TOKENLEAP_HUB", server.url)
        code, _, err = run("pull", "qwen2.5-coder-3b")
        assert code == 2 and "--accept-licence" in err and server.asked == []
        code, out, err = run("pull", "qwen2.5-coder-3b", "--accept-licence", "--precision", "both")
        assert code == 0 and len(out.splitlines()) == 2 and "downloading 100%" in err
        assert "research" in err
        assert [asked for asked, _ in server.asked] == [
            "/Qwen/Qwen2.5-Coder-3B-Instruct-GGUF/resolve/"
            "f74adce6aa16316c625447af059dbebe4983757c/qwen2.5-coder-3b-instruct-q4_k_m.gguf"
        ]
        assert [path for path in hub.folder().iterdir() if path.suffix != ".lock"] == []


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ((), 2, "list"),
        (("rm",), 2, "name the model"),
        (("rm", "x", "--leftovers"), 2, "--leftovers alone"),
        (("rm", "x"), 2, "no converted model 'x'"),
        (("pull", "qwen9"), 2, "there is no model 'qwen9'"),
        (("pull", "--precision", "int3"), 2, "int3"),
        (("convert", "qwen2.5-coder-0.5b"), 3, 'pip install "tokenleap[model]"'),
        (("convert", "qwen2.5-coder-7b"), 3, "tokenleap models pull qwen2.5-coder-7b"),
        (("frobnicate",), 2, "frobnicate"),
    ],
)
def test_failures_are_one_sentence_with_the_right_code(
    run: Run, words: tuple[str, ...], code: int, says: str
) -> None:
    got, out, err = run(*words)
    assert got == code and says in err and out == ""
    assert not words or err.count("\n") == 1


def test_a_damaged_model_is_not_pulled_over_in_silence(run: Run, tiny_path: Path) -> None:
    run("pull", str(tiny_path))
    name = catalog.find(tiny_path).id
    path = store.folder_of(name, "int8") / "weights.safetensors"
    os.truncate(path, path.stat().st_size - 1000)
    code, _, err = run("pull", str(tiny_path))
    assert code == 3 and f"`tokenleap models rm {name}`" in err
    assert run("rm", name)[0] == 0
    assert run("pull", str(tiny_path))[0] == 0
