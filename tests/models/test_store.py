"""A converted model: what it holds, that it is mapped and not copied, and how its damage is told."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from assistant import locations
from assistant.errors import (
    ModelCorruptError,
    ModelMissingError,
    NoSpaceError,
    TokenleapError,
    UnsupportedModelError,
    UsageError,
)
from assistant.models import catalog, convert, layout, store
from assistant.models.catalog import Entry
from assistant.models.rotation import SEED, hadamard, turn
from tests.conftest import OwnHome
from tests.models import tiny

QKV = [f"model.layers.1.self_attn.{name}_proj" for name in "qkv"]
GATE_UP = [f"model.layers.0.mlp.{name}_proj" for name in ("gate", "up")]


def strays(model_id: str) -> list[str]:
    """What lies in the models folder besides converted models and locks."""
    return [
        str(path.relative_to(locations.models_folder()))
        for path in locations.models_folder().rglob("*")
        if path.parts[-1].startswith(".tmp") or (path.is_file() and path.parent.parent.name != model_id)
        if ".locks" not in path.parts
    ]


def test_fp32_holds_the_source_s_numbers_turned_under_hugging_face_s_names(own_home: OwnHome, tmp_path: Path) -> None:
    written = tiny.write(tmp_path / "m.gguf")
    model = store.open_model(store.ensure(catalog.find(tmp_path / "m.gguf"), "fp32"))
    assert model.precision == "fp32" and len(model.names()) == len(written)
    query = written["blk.1.attn_q.weight"] * written["blk.1.attn_norm.weight"]
    for name, expected in (
        ("lm_head.weight", turn(written["output.weight"] * written["output_norm.weight"], SEED)),
        ("model.embed_tokens.weight", turn(written["token_embd.weight"], SEED)),
        ("model.layers.1.self_attn.q_proj.weight", turn(query, SEED)),
        ("model.layers.0.self_attn.k_proj.bias", written["blk.0.attn_k.bias"]),
        ("model.layers.0.self_attn.v_proj.bias", hadamard(written["blk.0.attn_v.bias"], tiny.HEAD)),
        ("model.layers.1.post_attention_layernorm.weight", np.ones(tiny.HIDDEN)),
        ("model.norm.weight", np.ones(tiny.HIDDEN)),
    ):
        assert model.array(name).dtype == np.float32
        np.testing.assert_array_equal(model.array(name), expected)


def test_int8_holds_codes_scales_and_the_rest_in_their_precision(tiny_entry: Entry) -> None:
    exact = store.open_model(store.ensure(tiny_entry, "fp32"))
    model = store.open_model(store.ensure(tiny_entry, "int8"))
    linear = [name for name in exact.names() if f"{name.removesuffix('.weight')}.SCB" in model.names()]
    assert len(linear) == 7 * tiny.LAYERS + 1
    assert exact.rotation.block == 0 and model.rotation.block == 256
    for name in exact.names():
        whole, ours = exact.array(name), model.array(name)
        if name.endswith("down_proj.weight"):
            whole = hadamard(whole, model.rotation.block)
        if name in linear:
            codes, scale = convert.quantise_rows(whole)
            np.testing.assert_array_equal(ours, codes)
            np.testing.assert_array_equal(model.array(f"{name.removesuffix('.weight')}.SCB"), scale)
        else:
            assert ours.dtype == (np.float16 if "embed" in name else np.float32)
            np.testing.assert_array_equal(ours, whole.astype(ours.dtype))


def test_fine_codes_hold_what_the_codes_of_the_head_round_off(tiny_entry: Entry) -> None:
    exact = store.open_model(store.ensure(tiny_entry, "fp32")).array("lm_head.weight")
    model = store.open_model(store.ensure(tiny_entry, "int8"))
    step = model.array("lm_head.SCB")[:, None] / 127
    codes = model.array("lm_head.weight") + model.array("lm_head.fine") / np.float32(layout.FINE)
    assert (np.abs(codes * step - exact) <= 0.51 / layout.FINE * step).all()


@pytest.mark.parametrize("precision", layout.PRECISIONS)
def test_the_file_is_valid_safetensors(tiny_entry: Entry, precision: str) -> None:
    model = store.open_model(store.ensure(tiny_entry, precision))
    with safe_open(model.folder / "weights.safetensors", framework="numpy") as file:
        assert set(model.names()) == {name for name in file.keys() if "pad." not in name}  # noqa: SIM118
        for name in model.names():
            np.testing.assert_array_equal(file.get_tensor(name), model.array(name))


def test_arrays_are_read_only_views_on_one_map(tiny_entry: Entry) -> None:
    model = store.open_model(store.ensure(tiny_entry, "int8"))
    weight, first, fused = (
        model.array(f"{QKV[0]}.weight"),
        model.array("model.embed_tokens.weight"),
        model.fused([f"{name}.weight" for name in QKV]),
    )
    assert not weight.flags.writeable and not weight.flags.owndata
    assert np.shares_memory(weight, fused)
    assert (weight.ctypes.data - first.ctypes.data) % layout.ALIGNMENT == 0
    assert first.ctypes.data % layout.ALIGNMENT == 0
    with pytest.raises(ValueError, match="read-only"):
        weight[0, 0] = 1


def test_fused_matrices_are_the_parts_in_order(tiny_entry: Entry) -> None:
    for precision, ends in (("int8", ("weight", "SCB")), ("fp32", ("weight",))):
        model = store.open_model(store.ensure(tiny_entry, precision))
        for group in (QKV, GATE_UP):
            for end in ends:
                names = [f"{name}.{end}" for name in group]
                np.testing.assert_array_equal(model.fused(names), np.concatenate([model.array(name) for name in names]))
        biases = [f"{name}.bias" for name in QKV]
        np.testing.assert_array_equal(model.fused(biases), np.concatenate([model.array(b) for b in biases]))
        with pytest.raises(ValueError, match="side by side"):
            model.fused([f"{QKV[0]}.weight", f"{QKV[2]}.weight"])


def test_a_tied_model_gets_an_output_matrix_of_its_own(own_home: OwnHome, tmp_path: Path) -> None:
    written = tiny.write(tmp_path / "m.gguf", tied=True)
    model = store.open_model(store.ensure(catalog.find(tmp_path / "m.gguf"), "fp32"))
    expected = turn(written["token_embd.weight"] * written["output_norm.weight"], SEED)
    np.testing.assert_array_equal(model.array("lm_head.weight"), expected)


@pytest.mark.parametrize("drop", ["blk.1.attn_k.bias", "output_norm.weight", "blk.0.ffn_up.weight"])
def test_a_missing_tensor_is_corrupt(own_home: OwnHome, tmp_path: Path, drop: str) -> None:
    tiny.write(tmp_path / "m.gguf", drop=drop)
    entry = catalog.find(tmp_path / "m.gguf")
    with pytest.raises(ModelCorruptError, match="should have the shape"):
        store.ensure(entry, "int8")
    assert strays(entry.id) == []


def test_a_tensor_that_nobody_would_use_is_not_dropped_in_silence(own_home: OwnHome, tmp_path: Path) -> None:
    tiny.write(tmp_path / "m.gguf", extra={"blk.0.attn_output.bias": (tiny.HIDDEN,)})
    with pytest.raises(UnsupportedModelError, match=r"o_proj\.bias"):
        store.ensure(catalog.find(tmp_path / "m.gguf"), "int8")


def test_a_second_call_converts_nothing(tiny_entry: Entry) -> None:
    folder = store.ensure(tiny_entry, "int8")
    before = (folder / "weights.safetensors").stat().st_mtime_ns
    assert store.ensure(tiny_entry, "int8", _refuse) == folder
    assert (folder / "weights.safetensors").stat().st_mtime_ns == before


def _refuse(stage: str, done: int, total: int) -> None:
    raise AssertionError(f"{stage} although nothing is to be done")


def test_a_ready_model_needs_its_source_no_more(tiny_entry: Entry, tiny_path: Path) -> None:
    store.ensure(tiny_entry, "int8")
    tiny_path.unlink()
    store.open_model(store.ensure(tiny_entry, "int8"))
    with pytest.raises(ModelMissingError, match=r"tiny\.gguf is gone"):
        store.ensure(tiny_entry, "fp32")


def test_progress_ends_at_the_whole_and_never_goes_back(tiny_entry: Entry) -> None:
    seen: list[tuple[str, int, int]] = []
    folder = store.ensure(tiny_entry, "int8", lambda *event: seen.append(event))
    stages = [stage for stage, _, _ in seen]
    assert sorted(set(stages), key=stages.index) == ["check", "convert"]
    for stage in ("check", "convert"):
        places = [done for name, done, _ in seen if name == stage]
        assert places == sorted(places)
        assert [event for event in seen if event[0] == stage][-1][1:] == (places[-1], places[-1])
    assert seen[-1][2] == (folder / "weights.safetensors").stat().st_size


Damage = Callable[[Path], object]


def _edit(path: Path, place: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(content)


def _description(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


DAMAGES: dict[str, tuple[str, Damage]] = {
    "one byte short": ("weights", lambda f: os.truncate(f, f.stat().st_size - 1)),
    "a megabyte short": ("weights", lambda f: os.truncate(f, f.stat().st_size - 1_000_000)),
    "empty": ("weights", lambda f: os.truncate(f, 0)),
    "cut in the header length": ("weights", lambda f: os.truncate(f, 5)),
    "cut in the header": ("weights", lambda f: os.truncate(f, 200)),
    "longer": ("weights", lambda f: f.open("ab").write(b"x")),
    "gone": ("weights", lambda f: f.unlink()),
    "edited header length": ("weights", lambda f: _edit(f, 0, (1 << 60).to_bytes(8, "little"))),
    "edited header": ("weights", lambda f: _edit(f, f.read_bytes().index(b"[0,"), b"[8,")),
    "short tokenizer": ("tokenizer.json", lambda f: os.truncate(f, 100)),
    "no tokenizer": ("tokenizer.json", lambda f: f.unlink()),
    "no description": ("model.json", lambda f: f.unlink()),
    "empty description": ("model.json", lambda f: os.truncate(f, 0)),
    "cut description": ("model.json", lambda f: os.truncate(f, 300)),
    "description of another kind": ("model.json", lambda f: f.write_text("[1, 2]")),
    "description without a part": ("model.json", lambda f: _description(f, lambda d: d.pop("weights"))),
    "other shape": ("model.json", lambda f: _description(f, lambda d: d["config"].update(layers=1))),
    "impossible shape": ("model.json", lambda f: _description(f, lambda d: d["config"].update(heads="x"))),
    "unknown field": ("model.json", lambda f: _description(f, lambda d: d["config"].update(more=1))),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_one_sentence_that_names_the_file_and_the_remedy(tiny_entry: Entry, damage: str) -> None:
    folder = store.ensure(tiny_entry, "int8")
    name, spoil = DAMAGES[damage]
    path = folder / (f"{name}.safetensors" if name == "weights" else name)
    sound = path.stat().st_size
    spoil(path)
    with pytest.raises(ModelCorruptError) as caught:
        store.open_model(folder)
    text = str(caught.value)
    assert str(path) in text and "\n" not in text
    assert f"`tokenleap models rm {tiny_entry.id}` then `tokenleap models pull" in text
    if path.exists() and name != "model.json" and path.stat().st_size != sound:
        assert f"{sound} bytes expected, {path.stat().st_size} found" in text
    assert [found.problem for found in store.installed()] == [text]

    store.remove(folder)
    store.open_model(store.ensure(tiny_entry, "int8"))


def test_a_changed_byte_in_the_middle_is_found_by_verify(tiny_entry: Entry) -> None:
    folder = store.ensure(tiny_entry, "int8")
    store.verify(folder)
    path = folder / "weights.safetensors"
    byte = path.read_bytes()[-1000]
    _edit(path, path.stat().st_size - 1000, bytes([byte ^ 1]))
    store.open_model(folder)  # too quick to see it
    with pytest.raises(ModelCorruptError, match="SHA-256 differs"):
        store.verify(folder)


def test_another_format_is_converted_anew(tiny_entry: Entry) -> None:
    folder = store.ensure(tiny_entry, "int8")
    _description(folder / "model.json", lambda found: found.update(format="tokenleap-0"))
    with pytest.raises(UnsupportedModelError, match="'tokenleap-1' is needed"):
        store.open_model(folder)
    store.open_model(store.ensure(tiny_entry, "int8"))
    assert strays(tiny_entry.id) == []


@pytest.mark.parametrize("found", [None, layout.PREPARATION - 1])
def test_weights_prepared_otherwise_are_converted_anew(tiny_entry: Entry, found: int | None) -> None:
    folder = store.ensure(tiny_entry, "int8")
    _description(folder / "model.json", lambda known: known.update(preparation=found))
    description = store.open_model(store.ensure(tiny_entry, "int8")).folder / "model.json"
    assert json.loads(description.read_text())["preparation"] == layout.PREPARATION


def test_a_model_that_was_not_turned_needs_no_turn(tiny_entry: Entry) -> None:
    folder = store.ensure(tiny_entry, "int8")
    _description(folder / "model.json", lambda known: known.pop("rotation"))
    assert store.open_model(folder).rotation.block == 0
    _description(folder / "model.json", lambda known: known.update(rotation={"block": 7}))
    with pytest.raises(ModelCorruptError, match="damaged"):
        store.open_model(folder)


def test_too_little_room_is_said_beforehand(tiny_entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(Path.home())
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(NoSpaceError, match=r"^\d{6,} bytes are needed below .* and 1000 are free"):
        store.ensure(tiny_entry, "int8")
    assert strays(tiny_entry.id) == []


@pytest.mark.parametrize("at", ["write", "fsync", "rename"])
def test_a_disk_that_fills_up_meanwhile_leaves_nothing(
    tiny_entry: Entry, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(NoSpaceError, match="bytes are needed"):
        patch.setattr(os, at, full)
        store.ensure(tiny_entry, "int8")
    assert store.installed() == [] and strays(tiny_entry.id) == []


def test_an_interrupted_conversion_leaves_nothing(tiny_entry: Entry) -> None:
    def interrupt(stage: str, done: int, total: int) -> None:
        if stage == "convert":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.ensure(tiny_entry, "int8", interrupt)
    assert store.installed() == [] and strays(tiny_entry.id) == []
    assert store.leftovers() == []


def test_processes_that_start_together_convert_once(tiny_entry: Entry, tiny_path: Path) -> None:
    code = (
        "import sys; from assistant.models import catalog, store; sys.stdin.readline()\n"
        f"folder = store.ensure(catalog.find({str(tiny_path)!r}), 'int8', lambda *e: print(*e))\n"
        "print('map', store.open_model(folder).array('lm_head.SCB').sum())"
    )
    workers = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    outputs = [worker.communicate("go\n", timeout=120)[0] for worker in workers]
    assert all(worker.returncode == 0 for worker in workers)
    assert sum("convert" in output for output in outputs) == 1
    assert len({output.splitlines()[-1] for output in outputs}) == 1
    assert strays(tiny_entry.id) == []


def test_leftovers_of_a_dead_process_are_found_and_cleared_those_of_a_living_one_not(
    tiny_entry: Entry,
) -> None:
    folder = store.ensure(tiny_entry, "int8")
    stale = folder.parent / ".tmp-int8-dead"
    stale.mkdir()
    (stale / "weights.safetensors").write_bytes(b"x" * 5000)
    with store._waited_lock(folder, None):
        assert store.leftovers() == []
        assert store.clear_leftovers() == 0
        with pytest.raises(UsageError, match="being converted"):
            store.remove(folder)
    assert store.leftovers() == [stale]
    assert store.clear_leftovers("another") == 0 and stale.exists()
    assert store.clear_leftovers(tiny_entry.id) == 5000
    assert strays(tiny_entry.id) == [] and store.installed()[0].problem == ""


def test_removing_frees_the_bytes_and_open_maps_live_on(tiny_entry: Entry) -> None:
    folder = store.ensure(tiny_entry, "int8")
    model = store.open_model(folder)
    before = model.array("lm_head.SCB").copy()
    expected = sum(path.stat().st_size for path in folder.iterdir())
    assert store.remove(folder) == expected
    assert not folder.parent.exists()
    np.testing.assert_array_equal(model.array("lm_head.SCB"), before)


@pytest.mark.parametrize("precision", ["int4", "", "INT8"])
def test_an_unknown_precision_is_wrong_use(tiny_entry: Entry, precision: str) -> None:
    with pytest.raises(UsageError, match="int8 or fp32"):
        store.ensure(tiny_entry, precision)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model at all" * 100])
def test_a_source_that_is_no_model_leaves_no_trace(own_home: OwnHome, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(TokenleapError, match=r"m\.gguf"):
        store.ensure(catalog.find(path), "int8")
    assert store.installed() == [] and strays("") == []


def test_opening_reads_the_header_and_not_the_weights(real_model: Path) -> None:
    """Bounded by what is read, not by a clock: opening maps 770 MB and touches a few pages of them."""
    code = (
        "import resource, sys; from assistant.models.store import open_model\n"
        "from pathlib import Path\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "model = open_model(Path(sys.argv[1]))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, model.config.layers)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, str(real_model)], capture_output=True, text=True, check=True, timeout=60
    )
    grown, layers = found.stdout.split()
    assert layers == "24" and int(grown) < 8_000  # kilobytes
