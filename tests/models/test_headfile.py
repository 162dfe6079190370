"""Head files: what is written comes back, and whatever else lies there is refused in one sentence."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors.numpy import save

from assistant.errors import HeadError
from assistant.models import catalog, headfile, heads, store
from assistant.models.headfile import Array, Facts
from assistant.models.store import StoredModel
from tests.conftest import OwnHome
from tests.models import tiny, tiny_head


@dataclass(frozen=True)
class Made:
    """A sound head file of a tiny base."""

    base: StoredModel
    other: StoredModel  # a base of the same shape with other weights
    path: Path
    facts: Facts
    tensors: dict[str, Array]
    content: bytes


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("heads")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENLEAP_HOME", str(folder / "home"))
        bases = []
        for seed in (0, 1):
            tiny.write(folder / f"tiny{seed}.gguf", seed=seed)
            entry = catalog.find(folder / f"tiny{seed}.gguf")
            bases.append(store.open_model(store.ensure(entry, "int8")))
        path = folder / "new" / "head.safetensors"
        facts, tensors = tiny_head.facts(bases[0]), tiny_head.random_tensors(bases[0])
        headfile.write(path, facts, tensors)
        yield Made(bases[0], bases[1], path, facts, tensors, path.read_bytes())


def refused(path: Path, base: StoredModel) -> str:
    """What reading says, which must be one sentence that names the file and says what to do."""
    with pytest.raises(HeadError) as caught:
        headfile.read(path, base)
    text = str(caught.value)
    assert str(path) in text and "\n" not in text and ". " not in text.replace(str(path), "")
    assert re.search(r": (use|train|install|it is for another model shape)", text), text
    return text


def test_what_is_written_comes_back(made: Made) -> None:
    found = headfile.read(made.path, made.base)
    assert found.facts == made.facts and found.path == made.path
    assert found.tensors.keys() == made.tensors.keys()
    for name, tensor in made.tensors.items():
        assert found.tensors[name].dtype == tensor.dtype
        np.testing.assert_array_equal(found.tensors[name], tensor)
    assert [file.name for file in made.path.parent.iterdir()] == [made.path.name]


def test_a_file_is_the_same_each_time_and_ends_in_its_own_digest(made: Made, tmp_path: Path) -> None:
    headfile.write(tmp_path / "again.safetensors", made.facts, made.tensors)
    assert (tmp_path / "again.safetensors").read_bytes() == made.content
    assert hashlib.sha256(made.content[:-32]).digest() == made.content[-32:]


@given(place=st.integers(0, 10**9), change=st.integers(1, 255))
@example(place=0, change=1)
@example(place=8, change=1)
@example(place=-1, change=128)
def test_any_changed_byte_is_damage(made: Made, place: int, change: int) -> None:
    content = bytearray(made.content)
    content[place % len(content)] ^= change
    damaged = made.path.with_name("changed.safetensors")
    damaged.write_bytes(content)
    assert "damaged" in refused(damaged, made.base)


@given(length=st.integers(0, 10**9))
@example(length=0)
@example(length=31)
@example(length=32)
@example(length=40)
def test_any_truncation_is_damage(made: Made, length: int) -> None:
    damaged = made.path.with_name("short.safetensors")
    damaged.write_bytes(made.content[: length % len(made.content)])
    assert "damaged" in refused(damaged, made.base)


def sealed(path: Path, body: bytes) -> Path:
    """A file whose digest is right, whatever is before it."""
    path.write_bytes(body + hashlib.sha256(body).digest())
    return path


HEADERS = [
    b"",
    b"\xff" * 8,
    (2).to_bytes(8, "little") + b"[]",
    (2).to_bytes(8, "little") + b"{}",
    (40).to_bytes(8, "little") + b'{"__metadata__": {"facts": "not JSON"}}  ',
    (2**63).to_bytes(8, "little") + b'{"__metadata__": {"facts": "{}"}}',
    (100_000).to_bytes(8, "little") + b"[" * 100_000,
]


@pytest.mark.parametrize("body", HEADERS, ids=lambda body: str(len(body)))
def test_a_file_that_is_no_head_is_said_to_be_none(made: Made, tmp_path: Path, body: bytes) -> None:
    assert "is not a draft head" in refused(sealed(tmp_path / "odd.safetensors", body), made.base)


def test_tensors_that_end_too_early_are_said_to_be_no_head(made: Made, tmp_path: Path) -> None:
    assert "is not a draft head" in refused(sealed(tmp_path / "cut.safetensors", made.content[:-1000]), made.base)


WRONG_FACTS: list[tuple[dict[str, Any], str]] = [
    ({"format": "tokenleap-head-0"}, "has the format"),
    ({"base_sha256": "0" * 64, "base": "another-model"}, "trained for another-model"),
    ({"tokenizer_sha256": "0" * 64}, "another tokenizer"),
    ({"preparation": 2}, "prepared otherwise"),
    ({"taps": (0, 1, 2)}, "reads layers"),
    ({"taps": (0, -1, 1)}, "reads layers"),
    ({"taps": (0, 1)}, "reads layers"),
    ({"taps": ("0", "1", "1")}, "reads layers"),
    ({"down_block": 48}, "blocks"),
    ({"down_block": 1024}, "blocks"),
]


@pytest.mark.parametrize(("change", "expected"), WRONG_FACTS, ids=lambda value: str(value))
def test_a_head_made_for_something_else_says_for_what(
    made: Made, tmp_path: Path, change: dict[str, Any], expected: str
) -> None:
    path = tmp_path / "other.safetensors"
    headfile.write(path, replace(made.facts, **change), made.tensors)
    assert expected in refused(path, made.base)


def test_another_base_of_the_same_shape_and_tokenizer_is_refused(made: Made) -> None:
    assert made.other.config == made.base.config and made.other.tokenizer_sha256 == made.base.tokenizer_sha256
    text = refused(made.path, made.other)
    assert made.base.id in text and made.other.id in text


@pytest.mark.parametrize("missing", list(Facts.__dataclass_fields__))
def test_a_missing_fact_is_no_head(made: Made, tmp_path: Path, missing: str) -> None:
    facts = vars(made.facts) | {"more": 1}
    del facts[missing]
    body = save({f"mtp.{name}": tensor for name, tensor in made.tensors.items()}, {"facts": json.dumps(facts)})
    assert "is not a draft head" in refused(sealed(tmp_path / "part.safetensors", body), made.base)


NAMES = ["qkv.bias", *(f"{name}.{part}" for name in headfile.MATRICES for part in ("weight", "SCB"))]


@pytest.mark.parametrize("name", NAMES)
def test_every_tensor_must_be_there_in_its_shape_and_kind(made: Made, tmp_path: Path, name: str) -> None:
    tensor = made.tensors[name]
    other = np.float16 if tensor.dtype == np.float32 else np.uint8
    changes = ({}, {name: tensor[1:]}, {name: tensor.astype(other)}, {name: tensor[None]})
    path = tmp_path / "shape.safetensors"
    for change in changes:
        headfile.write(path, made.facts, {key: t for key, t in made.tensors.items() if key != name} | change)
        assert f"lacks {name} " in refused(path, made.base)


@given(data=st.data())
def test_a_draft_vocabulary_is_sorted_and_within_the_base(made: Made, data: st.DataObject) -> None:
    size = made.base.config.vocabulary_size
    ids = data.draw(st.lists(st.integers(-2, size + 1), max_size=6), "ids")
    sound = bool(ids) and ids == sorted(set(ids)) and ids[0] >= 0 and ids[-1] < size
    path = made.path.with_name("vocabulary.safetensors")
    headfile.write(path, made.facts, made.tensors | {"vocabulary": np.array(ids, np.int32)})
    if sound:
        assert headfile.read(path, made.base).tensors["vocabulary"].tolist() == ids
    else:
        assert "draft vocabulary" in refused(path, made.base)


@pytest.mark.parametrize("ids", [np.array([1, 2], np.int64), np.array([[1, 2]], np.int32), None], ids=str)
def test_a_draft_vocabulary_of_another_kind_is_refused(made: Made, tmp_path: Path, ids: Array | None) -> None:
    tensors = {name: tensor for name, tensor in made.tensors.items() if name != "vocabulary"}
    headfile.write(tmp_path / "v.safetensors", made.facts, tensors | ({} if ids is None else {"vocabulary": ids}))
    assert "draft vocabulary" in refused(tmp_path / "v.safetensors", made.base)


def test_another_precision_is_allowed(made: Made, tmp_path: Path) -> None:
    headfile.write(tmp_path / "p.safetensors", replace(made.facts, precision="bf16"), made.tensors)
    assert headfile.read(tmp_path / "p.safetensors", made.base).facts.precision == "bf16"


def test_a_file_that_cannot_be_read_says_so(made: Made, tmp_path: Path) -> None:
    assert "cannot be read" in refused(tmp_path / "none.safetensors", made.base)
    (tmp_path / "folder.safetensors").mkdir()
    assert "cannot be read" in refused(tmp_path / "folder.safetensors", made.base)


def test_a_full_disk_leaves_the_old_head_and_nothing_else(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "head.safetensors"
    path.write_bytes(made.content)

    def full(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        headfile.write(path, made.facts, tiny_head.random_tensors(made.base, 1))
    assert [file.name for file in tmp_path.iterdir()] == [path.name] and path.read_bytes() == made.content


def bitsandbytes_rows(matrix: Array) -> tuple[Array, Array]:
    """What a Linear8bitLt of these weights holds."""
    from bitsandbytes.nn import Int8Params

    weight = Int8Params(torch.from_numpy(matrix.copy()), requires_grad=False)._quantize("cpu")
    return weight.CB.numpy(), weight.SCB.numpy()


@pytest.mark.parametrize("seed", range(3))
def test_rows_are_quantised_as_bitsandbytes_does(seed: int) -> None:
    draw = np.random.default_rng(seed)
    matrix = draw.normal(0, 1, (300, 96)) * 10.0 ** draw.uniform(-3, 3, (300, 1))
    matrix[7], matrix[8, 1:] = 0, 0
    matrix = matrix.astype(np.float16).astype(np.float32)  # bitsandbytes takes no finer ones
    for ours, theirs in zip(headfile.quantised(matrix), bitsandbytes_rows(matrix), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


@given(power=st.floats(-40, 37), seed=st.integers(0, 99))
def test_quantised_rows_are_at_most_half_a_code_off(power: float, seed: int) -> None:
    matrix = (np.random.default_rng(seed).uniform(-1, 1, (3, 8)) * 10.0**power).astype(np.float32)
    codes, largest = headfile.quantised(matrix)
    assert np.abs(codes.astype(int)).max() <= 127
    np.testing.assert_array_equal(largest, np.abs(matrix).max(axis=1))
    if power > -20:
        step = largest[:, None].astype(np.float64) / 127
        assert (np.abs(codes * step - matrix) <= 0.5001 * step).all()


def test_the_users_own_head_comes_before_the_one_that_is_shipped(
    own_home: OwnHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "__file__", str(tmp_path / "heads" / "__init__.py"))
    assert heads.find("some") is None
    shipped = tmp_path / "heads" / "some.safetensors"
    shipped.parent.mkdir()
    shipped.write_bytes(b"x")
    assert heads.find("some") == shipped and heads.find("other") is None
    heads.own("some").parent.mkdir(parents=True)
    heads.own("some").write_bytes(b"y")
    assert heads.find("some") == heads.own("some")
