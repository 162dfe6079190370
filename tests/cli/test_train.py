"""`tokenleap train --smoke`, killed and resumed; and what `complete` makes of a head that cannot be used."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from assistant.cli import main as cli
from assistant.engine import device
from assistant.models import catalog, headfile, heads, store
from assistant.training import shards, smoke
from tests.conftest import OwnHome
from tests.models import tiny_head

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two threads would wait for each other longer than the smoke model's matrices take."""
    before = torch.get_num_threads()
    monkeypatch.setattr(device, "default_threads", lambda: 1)
    yield
    torch.set_num_threads(before)


def killed_after(words: str, times: int) -> None:
    """Runs the smoke training in a process of its own and kills it once it has said `words` so many times."""
    command = [sys.executable, "-m", "assistant.cli.main", "train", "--smoke"]
    said = ""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stderr is not None
        for line in process.stderr:
            said += line
            if said.count(words) == times:
                process.kill()
                break
        process.wait()
    assert process.returncode == -signal.SIGKILL, said


def record(folder: Path) -> dict[str, Any]:
    return dict(torch.load(folder / "checkpoint.pt", weights_only=True)["record"])


def test_a_smoke_training_is_killed_resumes_and_leaves_its_head_alone(
    own_home: OwnHome, tmp_path: Path, capfd: Capture
) -> None:
    own_home.link_kernels()
    folder = own_home.path / "data" / "training" / "smoke"
    killed_after("acceptance", 2)  # past the first checkpoint, before the second or just after
    kept = {path: path.read_bytes() for path in shards.names(folder / "train")}
    assert kept
    before = record(folder)
    assert cli.main(["train", "--smoke", "--only", "collect"]) == 0
    assert {path: path.read_bytes() for path in shards.names(folder / "train")} == kept
    capfd.readouterr()
    assert cli.main(["train", "--smoke", "--only", "fit"]) == 0
    assert f"resumed at step {before['steps']}" in capfd.readouterr().err
    after = json.loads((folder / "record.json").read_text())
    begun, gone_on = json.dumps(before["rows"]), json.dumps(after["rows"])
    assert gone_on.startswith(begun[:-1]) and after["steps"] > before["steps"] and after["seconds"] >= 2
    base = store.open_model(store.ensure(smoke.SmokePlan().entry, "int8"))
    assert cli.main(["train", "--smoke", "--only", "finish", "--out", str(tmp_path / "head")]) == 0
    found = headfile.read(tmp_path / "head", base)
    assert found.facts.training_tokens == after["tokens"] > 0 and len(found.facts.acceptance) == 4
    assert min(found.facts.acceptance) > 0.5  # the model's text is simple, and other text than it was trained on
    said = capfd.readouterr()
    assert said.out == "" and "accepted at positions" in said.err
    assert not folder.exists() and not list((own_home.path / "data" / "models").glob("[!.]*"))


def test_training_without_data_says_what_to_run_first(own_home: OwnHome, capfd: Capture) -> None:
    own_home.link_kernels()
    assert cli.main(["train", "--smoke", "--only", "fit"]) == 2
    said = capfd.readouterr()
    assert said.err.count("\n") == 1 and "--only collect" in said.err


@pytest.mark.parametrize("words", [["--minutes", "0"], ["--only", "fitt"], ["--model", "no-such"]], ids=str)
def test_wrong_use_is_one_line(own_home: OwnHome, capfd: Capture, words: list[str]) -> None:
    assert cli.main(["train", *words]) == 2
    said = capfd.readouterr()
    assert said.out == "" and said.err.count("\n") == 1


# -- a head that cannot be used


@pytest.fixture
def small(own_home: OwnHome, tmp_path: Path) -> tuple[Path, Path, Path]:
    """A model, the place of its head, a file to complete."""
    own_home.link_kernels()
    smoke.write(tmp_path / "small")
    place = heads.own(catalog.find(tmp_path / "small").id)
    place.parent.mkdir(parents=True)
    file = tmp_path / "some.py"
    file.write_text("def area(width, height):\n    return ")
    return tmp_path / "small", place, file


def complete(model: Path, file: Path, *words: str) -> int:
    """One short completion in this process."""
    given = ["--in-process", "--model", str(model), "--max-tokens", "8", "--multiline", "never"]
    return cli.main(["complete", str(file), *given, *words])


def write_head(model: Path, place: Path) -> None:
    stored = store.open_model(store.ensure(catalog.find(model), "int8"))
    headfile.write(place, tiny_head.facts(stored), tiny_head.random_tensors(stored))


@pytest.mark.parametrize("harm", ["changed", "truncated", "other base"])
def test_auto_with_a_head_that_cannot_be_used_completes_with_one_warning(
    small: tuple[Path, Path, Path], capfd: Capture, harm: str
) -> None:
    model, place, file = small
    complete(model, file, "--json", "--decode", "auto")
    plain = json.loads(capfd.readouterr().out)
    assert "warning" not in plain and plain["decode"] == "lookup"
    write_head(model, place)
    content = place.read_bytes()
    complete(model, file, "--json", "--decode", "auto")
    sound = capfd.readouterr()
    with_head = json.loads(sound.out)
    assert with_head["decode"] == "auto" and "warning" not in with_head and "head" not in sound.err
    if harm == "changed":
        place.write_bytes(content[:5000] + bytes([content[5000] ^ 1]) + content[5001:])
    elif harm == "truncated":
        place.write_bytes(content[: len(content) // 2])
    else:
        stored = store.open_model(store.ensure(catalog.find(model), "int8"))
        facts = tiny_head.facts(stored, base="another", base_sha256="0" * 64)
        headfile.write(place, facts, tiny_head.random_tensors(stored))
    wanted = "trained for another" if harm == "other base" else "damaged"
    # as JSON, as text, with several candidates: one line, and the answer as without a head
    for words in (["--json"], [], ["-n", "3", "--temperature", "0.8"]):
        complete(model, file, "--decode", "auto", *words)
        said = capfd.readouterr()
        lines = [line for line in said.err.splitlines() if "draft head" in line]
        assert len(lines) == 1 and wanted in lines[0] and str(place) in lines[0]
        assert lines[0].startswith("tokenleap: warning: ")
        if words == ["--json"]:
            found = json.loads(said.out)
            assert found["completion"] == plain["completion"] and found["decode"] == "lookup"
            assert found["warning"] == lines[0].removeprefix("tokenleap: warning: ")
    # who does not ask for the head hears nothing of it
    for mode in ("plain", "lookup"):
        complete(model, file, "--decode", mode, "--json")
        said = capfd.readouterr()
        assert "head" not in said.err and "warning" not in json.loads(said.out)
    # who asks for it alone is refused
    assert complete(model, file, "--decode", "mtp") == 3
    said = capfd.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and wanted in said.err


def test_mode_mtp_without_a_head_is_one_line(small: tuple[Path, Path, Path], capfd: Capture) -> None:
    model, _, file = small
    assert complete(model, file, "--decode", "mtp") == 3
    said = capfd.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "no trained draft head" in said.err
