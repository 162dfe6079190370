"""A transformers folder becomes the same file as the GGUF of the same weights, or is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from assistant.errors import ModelCorruptError, TokenleapError, UnsupportedModelError
from assistant.models import catalog, convert, store
from assistant.models.gguf import GgufModel
from assistant.models.parts import Parts
from assistant.models.transformers_folder import FolderModel, read_config
from tests.conftest import OwnHome
from tests.models import tiny

CONFIG: dict[str, Any] = {
    "model_type": "qwen2",
    "hidden_size": tiny.HIDDEN,
    "intermediate_size": tiny.INNER,
    "num_hidden_layers": tiny.LAYERS,
    "num_attention_heads": tiny.HEADS,
    "num_key_value_heads": tiny.KV_HEADS,
    "vocab_size": len(tiny.vocabulary()[0]),
    "max_position_embeddings": 512,
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "eos_token_id": 7,
}


def whole(source: convert.SourceModel, name: str) -> Any:
    """A tensor of a source model."""
    shape = source.shape(name)
    assert shape is not None
    return source.rows(name, 0, shape[0])


def folder(path: Path, source: GgufModel, dtype: torch.dtype = torch.float32, shards: int = 2, **change: Any) -> Path:
    """A transformers folder of another model's weights."""
    path.mkdir()
    tensors = {name: torch.from_numpy(whole(source, name).copy()).to(dtype) for name in source.names}
    names = sorted(tensors)
    for n in range(shards):
        save_file({name: tensors[name] for name in names[n::shards]}, path / f"model-{n}.safetensors")
    (path / "config.json").write_text(json.dumps(CONFIG | change))
    (path / "tokenizer.json").write_text(source.tokenizer())
    (path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ x }}"}))
    return path


@pytest.fixture
def source(own_home: OwnHome, tmp_path: Path) -> GgufModel:
    """A tiny GGUF."""
    tiny.write(tmp_path / "m.gguf")
    return GgufModel(Parts([tmp_path / "m.gguf"]))


def test_it_becomes_the_same_file_as_the_gguf(source: GgufModel, tmp_path: Path) -> None:
    entry = catalog.find(folder(tmp_path / "hf", source))
    assert entry.kind == "folder"
    for precision in ("fp32", "int8"):
        ours = store.open_model(store.ensure(entry, precision))
        gguf = store.open_model(store.ensure(catalog.find(tmp_path / "m.gguf"), precision))
        assert ours.sha256 == gguf.sha256 and ours.tokenizer_sha256 == gguf.tokenizer_sha256
        assert ours.end_ids == (7,) and ours.chat_template == "{{ x }}"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_formats_come_out_as_torch_widens_them(source: GgufModel, tmp_path: Path, dtype: torch.dtype) -> None:
    model = FolderModel(folder(tmp_path / "hf", source, dtype))
    for name in (
        "lm_head.weight",
        "model.layers.1.mlp.down_proj.weight",
        "model.layers.0.self_attn.k_proj.bias",
    ):
        expected = torch.from_numpy(whole(source, name).copy()).to(dtype).float().numpy()
        np.testing.assert_array_equal(whole(model, name), expected)


def test_newer_configurations_name_the_rotary_base_elsewhere(source: GgufModel, tmp_path: Path) -> None:
    change: dict[str, Any] = {
        "rope_theta": None,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5e5},
    }
    assert read_config(folder(tmp_path / "hf", source, **change)).rope_theta == 5e5


@pytest.mark.parametrize(
    "change",
    [
        {"rope_scaling": {"type": "yarn", "factor": 4.0}},
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5}},
        {"use_sliding_window": True},
        {"hidden_act": "gelu"},
        {"quantization_config": {"bits": 4}},
        {"model_type": "llama", "attention_bias": True},
    ],
)
def test_what_the_engine_cannot_run_is_left_to_transformers(
    source: GgufModel, tmp_path: Path, change: dict[str, Any]
) -> None:
    path = folder(tmp_path / "hf", source, **change)
    with pytest.raises(UnsupportedModelError, match="cannot be run natively"):
        read_config(path)
    entry = catalog.find(path)
    assert entry.kind == "transformers"
    with pytest.raises(UnsupportedModelError, match="runs through transformers"):
        store.ensure(entry, "int8")


@pytest.mark.parametrize("size", [0, 4, 9, 200, -1000])
def test_a_truncated_file_is_named(source: GgufModel, tmp_path: Path, size: int) -> None:
    path = folder(tmp_path / "hf", source)
    file = path / "model-1.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[:size])
    with pytest.raises(ModelCorruptError, match=r"model-1\.safetensors"):
        FolderModel(path)
    with pytest.raises(ModelCorruptError):
        store.ensure(catalog.find(path), "int8")


@pytest.mark.parametrize("change", [{"hidden_size": "x"}, {"num_attention_heads": 0}, {"vocab_size": 7}])
def test_a_configuration_that_does_not_fit_is_corrupt(
    source: GgufModel, tmp_path: Path, change: dict[str, Any]
) -> None:
    path = folder(tmp_path / "hf", source, **change)
    with pytest.raises(TokenleapError, match="fetch the model again"):
        store.ensure(catalog.find(path), "int8")
