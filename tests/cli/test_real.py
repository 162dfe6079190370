"""`tokenleap complete --in-process` with the real engine: one answer, and what machine or model cannot do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from assistant.cli import main as cli
from assistant.service.protocol import CompletionResult
from tests.conftest import OwnHome

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "shapes.py"
    made.write_text(
        "def area(width, height):\n    return width * height\n\n\ndef perimeter(width, height):\n    \n"
    )
    return made


def test_a_real_completion_fills_every_field(
    own_home: OwnHome, real_model: Path, file: Path, capfd: Capture
) -> None:
    own_home.link_models()
    assert cli.main(["complete", f"{file}:6", "--in-process", "--json", "--max-tokens", "24"]) == 0
    said = capfd.readouterr()
    found = json.loads(said.out)
    fields = set(CompletionResult.__dataclass_fields__) - {"candidates", "source", "more", "warning"}
    assert set(found) == fields and said.err == ""
    assert found["completion"].startswith("return") and found["empty_reason"] is None
    assert 0 < found["passes"] < found["new_tokens"] <= 24 and found["prompt_tokens"] > 10
    assert 0 < found["first_token_ms"] <= found["total_ms"] and found["load_ms"] > 0


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["--precision", "nf4"], 3, "choose --precision int8"),
        (["--precision", "bnb8"], 3, "choose --precision int8"),
        (["--device", "cuda"], 3, "--device cpu"),
        (["--model", "qwen2.5-codr"], 2, "use qwen2.5-coder-"),
        (["--model", "./no such.gguf"], 2, "no such.gguf"),
        (["--model", "qwen2.5-coder-3b"], 3, "tokenleap models pull qwen2.5-coder-3b"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_served_is_one_line(
    own_home: OwnHome, file: Path, capfd: Capture, words: list[str], code: int, expected: str
) -> None:
    import torch

    own_home.link_kernels()
    if torch.cuda.is_available() and code == 3:
        pytest.skip("this machine has a GPU, which may serve it")
    assert cli.main(["complete", str(file), "--in-process", *words]) == code
    said = capfd.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and expected in said.err


@pytest.mark.parametrize("size", [0, 5, 1_000_000])
def test_a_truncated_model_is_one_line_with_both_sizes(
    own_home: OwnHome, real_model: Path, file: Path, capfd: Capture, size: int
) -> None:
    own_home.link_kernels()
    broken = own_home.path / "data" / "models" / "qwen2.5-coder-0.5b" / "int8"
    broken.mkdir(parents=True)
    for part in real_model.iterdir():
        if part.name == "weights.safetensors":
            with part.open("rb") as whole:
                (broken / part.name).write_bytes(whole.read(size))
        else:
            shutil.copy(part, broken / part.name)
    assert cli.main(["complete", str(file), "--in-process"]) == 3
    said = capfd.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert (
        "weights.safetensors" in said.err and f"{size} found" in said.err and "tokenleap models" in said.err
    )
