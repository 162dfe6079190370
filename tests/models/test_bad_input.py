"""Model files and names that cannot be: always one of our errors, and the system's faults are never the model's."""

from __future__ import annotations

import errno
import json
import mmap
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from assistant.errors import ModelCorruptError, OutOfMemoryError, TokenleapError, UnknownModelError
from assistant.models import catalog, store, stored, tokenizer_json
from assistant.models.catalog import Entry
from assistant.models.gguf import GgufModel
from assistant.models.parts import Parts
from assistant.models.transformers_folder import FolderModel, read_config
from assistant.prompt.tokenizer import Tokenizer
from assistant.service import engines
from assistant.service.engine_api import Wanted
from tests.conftest import OwnHome
from tests.models import tiny

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 64,
    "num_key_value_heads": 1,
    "vocab_size": 32,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e4,
}
ODD = [None, "", "x", [], [1], {}, {"a": 1}, -1, 0, 1.5, 10**30, True]


def spoilt(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "model.json"
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


DESCRIPTIONS: dict[str, Callable[[dict[str, Any]], object]] = {
    "text for a number": lambda d: d["config"].update(context_length="x"),
    "no context": lambda d: d["config"].update(context_length=0),
    "text for a factor": lambda d: d["config"].update(rope_theta="x"),
    "a factor that is no number": lambda d: d["config"].update(rope_theta=float("nan")),
    "a negative norm": lambda d: d["config"].update(norm_epsilon=-1.0),
    "a number for a flag": lambda d: d["config"].update(attention_bias=1),
    "one end": lambda d: d.update(end_ids=5),
    "ends in words": lambda d: d.update(end_ids=["x"]),
    "a number for a template": lambda d: d.update(chat_template=7),
    "a number for a name": lambda d: d.update(pull=7),
    "no shape": lambda d: d.update(config=[]),
}


@pytest.mark.parametrize("damage", DESCRIPTIONS)
def test_a_description_with_a_value_of_another_kind_is_damaged(tiny_entry: Entry, damage: str) -> None:
    folder = store.ensure(tiny_entry, "int8")
    spoilt(folder, DESCRIPTIONS[damage])
    with pytest.raises(ModelCorruptError, match=r"model\.json is missing or damaged"):
        store.open_model(folder)
    store.open_model(store.ensure(tiny_entry, "int8"))


def test_a_description_nested_without_end_is_damaged(tiny_entry: Entry) -> None:
    folder = store.ensure(tiny_entry, "int8")
    (folder / "model.json").write_text("[" * 100_000)
    with pytest.raises(ModelCorruptError, match="damaged"):
        store.open_model(folder)


def test_the_systems_faults_are_not_the_models(tiny_entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the advice would be to remove a model that is sound."""
    folder = store.ensure(tiny_entry, "int8")

    def refuse(number: int) -> Callable[..., Any]:
        def call(path: Any, *_: Any, **__: Any) -> None:
            raise OSError(number, os.strerror(number), os.fspath(path) if isinstance(path, Path) else None)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(mmap, "mmap", refuse(errno.ENOMEM))
        with pytest.raises(OutOfMemoryError, match="not enough memory"):
            store.open_model(folder)
    for name in ("read_text", "open"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, name, refuse(errno.EACCES))
            with pytest.raises(TokenleapError, match="access was refused at") as caught:
                store.open_model(folder)
            assert "models rm" not in str(caught.value) and not isinstance(caught.value, ModelCorruptError)
            if name == "read_text":  # nor may a description that cannot be read be taken for none
                with pytest.raises(TokenleapError, match="access was refused at"):
                    store.ensure(tiny_entry, "int8")


def test_a_damaged_tokenizer_says_how_to_get_another(tiny_entry: Entry) -> None:
    """Of the size that was expected, so that only its reader finds out; `models pull` alone would do nothing."""
    folder = store.ensure(tiny_entry, "fp32")
    path = folder / "tokenizer.json"
    path.write_bytes(b"{" + b" " * (path.stat().st_size - 1))
    with pytest.raises(ModelCorruptError, match=f"tokenleap models rm {tiny_entry.id}"):
        engines.load(Wanted(str(tiny_entry.path), "fp32", "cpu", 1, 1 << 20), lambda *_: None)


def test_the_advice_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    assert stored.repair(tmp_path / "m" / "int8", "/a b/c.gguf").endswith("`tokenleap models pull '/a b/c.gguf'`")


@pytest.mark.parametrize("text", ["{}", "[]", "", "{"])
def test_a_tokenizer_that_cannot_be_used_is_found_before_converting(text: str) -> None:
    with pytest.raises(ModelCorruptError, match="no tokenizer that can be used"):
        tokenizer_json.check(text, "m")


@pytest.mark.parametrize(
    "name", ["~no-such-user/x.gguf", "~no-such-user", "y" * 300 + ".gguf", "./" + "y" * 5000, "a\0b.gguf", "\0"]
)
def test_names_that_no_system_takes_are_unknown_models(name: str) -> None:
    with pytest.raises(UnknownModelError, match="there is no model"):
        catalog.find(name)


@pytest.fixture
def folder(own_home: OwnHome, tmp_path: Path) -> Path:
    """A sound transformers folder, as small as can be."""
    path = tmp_path / "hf"
    path.mkdir()
    tiny.write(tmp_path / "m.gguf")
    with Parts([tmp_path / "m.gguf"]) as parts:
        (path / "tokenizer.json").write_text(GgufModel(parts).tokenizer())
    (path / "config.json").write_text(json.dumps(CONFIG))
    at, square = "model.layers.0", torch.ones(64, 64)
    tensors = {f"{at}.{name}.weight": torch.ones(64) for name in ("input_layernorm", "post_attention_layernorm")}
    tensors |= {f"{at}.self_attn.{n}_proj.weight": torch.ones(64 if n in "qo" else 32, 64) for n in "qkvo"}
    tensors |= {f"{at}.mlp.{name}_proj.weight": square.clone() for name in ("gate", "up", "down")}
    tensors |= {"model.norm.weight": torch.ones(64)}
    tensors |= {f"{name}.weight": torch.ones(32, 64) for name in ("model.embed_tokens", "lm_head")}
    save_file(tensors, path / "model.safetensors")
    return path


FIELDS = [*CONFIG, "rope_scaling", "rope_parameters", "head_dim", "eos_token_id", "quantization_config"]


def test_a_configuration_of_any_kind_is_read_or_refused(folder: Path) -> None:
    FolderModel(folder).close()
    for name in FIELDS:
        for value in ODD:
            (folder / "config.json").write_text(json.dumps(CONFIG | {name: value}))
            try:
                model = FolderModel(folder)
            except TokenleapError:
                continue
            try:
                assert all(type(end) is int for end in model.end_ids)
            except ModelCorruptError as error:
                assert name == "eos_token_id" and "config.json" in str(error)
            finally:
                model.close()
    for raw in (b"", b"[]", b"5", b"{", b"\xff", b"[" * 100_000):
        (folder / "config.json").write_bytes(raw)
        with pytest.raises(ModelCorruptError, match=r"config\.json"):
            read_config(folder)


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("generation_config.json", b'{"eos_token_id": "x"}'),
        ("generation_config.json", b"[1]"),
        ("chat_template.jinja", b"\xff\xfe"),
        ("tokenizer_config.json", b"{"),
        ("tokenizer.json", b"{}"),
        ("tokenizer.json", b"\xff"),
        ("model.safetensors", (100_000).to_bytes(8, "little") + b"[" * 100_000),
        ("model.safetensors", (4).to_bytes(8, "little") + b"null"),
    ],
    ids=lambda value: value[:20] if isinstance(value, bytes) else value,
)
def test_a_damaged_file_of_a_folder_is_named(folder: Path, name: str, raw: bytes) -> None:
    (folder / name).write_bytes(raw)
    entry = catalog.find(folder)
    with pytest.raises(ModelCorruptError, match=name.replace(".", r"\.")):
        store.ensure(entry, "fp32")
    assert store.installed() == [] and store.leftovers() == []


def test_random_damage_to_a_gguf_header_is_one_of_our_errors(tmp_path: Path) -> None:
    path, other = tmp_path / "m.gguf", tmp_path / "other.gguf"
    tiny.write(path)
    data = path.read_bytes()
    header = data.rfind(b"blk.1.") + 60
    chance = random.Random(5)
    sound = 0
    for _ in range(400):
        bad = bytearray(data[: chance.randrange(header)] if chance.random() < 0.1 else data)
        for _ in range(chance.choice([1, 1, 3])):
            bad[chance.randrange(min(header, len(bad)))] = chance.randrange(256)
        other.write_bytes(bad)
        with Parts([other]) as parts:
            try:
                model = GgufModel(parts)
                text = model.tokenizer()
            except TokenleapError:
                continue
        sound += 1
        (tmp_path / "tokenizer.json").write_text(text)
        Tokenizer(tmp_path / "tokenizer.json").encode("def f")
    assert 0 < sound < 400
