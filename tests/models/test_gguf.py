"""A GGUF file is read as the `gguf` package reads it; a damaged or unsuitable one is one sentence."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assistant.errors import ModelCorruptError, TokenleapError, UnsupportedModelError
from assistant.models.gguf import GgufModel
from assistant.models.parts import Parts
from tests.models import tiny
from tests.models.tiny import Kind

OWN_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output.weight": "lm_head.weight",
    "output_norm.weight": "model.norm.weight",
    "blk.1.attn_norm.weight": "model.layers.1.input_layernorm.weight",
    "blk.1.attn_q.weight": "model.layers.1.self_attn.q_proj.weight",
    "blk.0.attn_k.bias": "model.layers.0.self_attn.k_proj.bias",
    "blk.1.attn_v.weight": "model.layers.1.self_attn.v_proj.weight",
    "blk.0.attn_output.weight": "model.layers.0.self_attn.o_proj.weight",
    "blk.0.ffn_norm.weight": "model.layers.0.post_attention_layernorm.weight",
    "blk.0.ffn_gate.weight": "model.layers.0.mlp.gate_proj.weight",
    "blk.1.ffn_up.weight": "model.layers.1.mlp.up_proj.weight",
    "blk.1.ffn_down.weight": "model.layers.1.mlp.down_proj.weight",
}


@contextmanager
def opened(*paths: Path) -> Iterator[GgufModel]:
    with Parts(paths) as parts:
        yield GgufModel(parts)


def test_every_number_format_comes_out_as_the_gguf_package_unpacks_it(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    kinds = {
        "token_embd.weight": Kind.Q5_0,
        "output.weight": Kind.Q8_0,
        "attn_q.weight": Kind.F16,
        "attn_v.weight": Kind.BF16,
        "attn_output.weight": Kind.Q4_0,
        "ffn_gate.weight": Kind.Q5_K,
        "ffn_up.weight": Kind.Q4_K,
        "ffn_down.weight": Kind.Q6_K,
    }
    written = tiny.write(path, kinds=kinds)
    with opened(path) as model:
        assert len(model.names) == len(written)
        for name, own in OWN_NAMES.items():
            shape = written[name].shape
            assert model.shape(own) == shape
            np.testing.assert_array_equal(model.rows(own, 0, shape[0]), written[name], err_msg=name)
            middle = shape[0] // 3
            np.testing.assert_array_equal(
                model.rows(own, middle, middle + 5), written[name][middle : middle + 5]
            )


def test_parts_cut_anywhere_read_as_the_joined_file(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    written = tiny.write(path, kinds={"ffn_down.weight": Kind.Q6_K, "embd.weight": Kind.Q5_0})
    data = path.read_bytes()
    cuts = [0, *sorted(random.Random(1).sample(range(1, len(data)), 7)), len(data)]
    parts = [tmp_path / f"part{n}" for n in range(len(cuts) - 1)]
    for part, start, stop in zip(parts, cuts, cuts[1:], strict=False):
        part.write_bytes(data[start:stop])
    with opened(*parts) as model:
        for name, own in OWN_NAMES.items():
            np.testing.assert_array_equal(model.rows(own, 0, written[name].shape[0]), written[name])


def test_the_shape_is_what_the_header_says(tmp_path: Path) -> None:
    tiny.write(tmp_path / "m.gguf", numbers={"rope.freq_base": 5e5, "context_length": 777})
    with opened(tmp_path / "m.gguf") as model:
        config = model.config
        assert (config.architecture, config.layers, config.hidden_size) == ("qwen2", tiny.LAYERS, tiny.HIDDEN)
        assert (config.heads, config.kv_heads, config.head_dim) == (tiny.HEADS, tiny.KV_HEADS, tiny.HEAD)
        assert (config.intermediate_size, config.context_length) == (tiny.INNER, 777)
        assert (
            config.rope_theta == 5e5 and config.norm_epsilon == pytest.approx(1e-6) and config.attention_bias
        )
        assert config.vocabulary_size == len(tiny.vocabulary()[0])
        assert model.end_ids == [tiny.vocabulary()[0].index("<|im_end|>")]
        assert model.chat_template == "{{ messages }}"


@pytest.mark.parametrize("block", [(0, 128), (64, 128), (3, 70), (127, 128)])
def test_llama_heads_are_put_back_into_halves(tmp_path: Path, block: tuple[int, int]) -> None:
    written = tiny.write(tmp_path / "m.gguf", architecture="llama", pre="llama-bpe")
    start, stop = block
    with opened(tmp_path / "m.gguf") as model:
        assert not model.config.attention_bias
        for name, heads in (("q", tiny.HEADS), ("k", tiny.KV_HEADS)):
            # How llama.cpp's converter stores a Hugging Face matrix, undone by solving for its permutation.
            rows = heads * tiny.HEAD
            order = np.arange(rows).reshape(heads, 2, tiny.HEAD // 2).swapaxes(1, 2).reshape(-1)
            original = np.empty_like(written[f"blk.1.attn_{name}.weight"])
            original[order] = written[f"blk.1.attn_{name}.weight"]
            own = f"model.layers.1.self_attn.{name}_proj.weight"
            np.testing.assert_array_equal(model.rows(own, start, stop), original[start:stop])
        stored = written["blk.1.attn_v.weight"]
        np.testing.assert_array_equal(model.rows("model.layers.1.self_attn.v_proj.weight", 0, 128), stored)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"architecture": "gemma3"}, "'gemma3' model: only qwen2 and llama"),
        ({"numbers": {"rope.scaling.type": "yarn"}}, "rotary"),
        ({"extra": {"rope_freqs.weight": (32,)}}, "rotary"),
        ({"numbers": {"rope.dimension_count": 32}}, "rotates 32 of 64"),
        ({"numbers": {"expert_count": 8}}, "experts"),
        ({"extra": {"blk.0.attn_q_norm.weight": (64,)}}, "attn_q_norm"),
        ({"architecture": "llama", "extra": {"blk.0.attn_q.bias": (256,)}}, "biases"),
    ],
)
def test_what_the_engine_cannot_run_is_named(tmp_path: Path, options: dict[str, object], words: str) -> None:
    tiny.write(tmp_path / "m.gguf", **options)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedModelError, match=words), opened(tmp_path / "m.gguf"):
        pass


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", r"\(0 bytes\) is not a GGUF file"),
        (b"GGUF", "is not a GGUF file"),
        (b"<!doctype html><html>the page was moved</html>", "is not a GGUF file"),
        (b"GGUF" + (3).to_bytes(4, "little") + b"\xff" * 16, "header"),
    ],
)
def test_what_is_no_gguf_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelCorruptError, match=words), opened(path):
        pass


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    tiny.write(path, kinds={"weight": Kind.Q8_0})
    return path.read_bytes()


@pytest.mark.parametrize("share", [0.001, 0.01, 0.2, 0.9, 0.999999])
def test_a_cut_file_is_corrupt_wherever_it_is_cut(tmp_path: Path, sound: bytes, share: float) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(sound[: int(len(sound) * share)])
    with pytest.raises(ModelCorruptError, match=r"m\.gguf.*fetch"), opened(path):
        pass


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_in_the_header_is_never_another_exception(
    tmp_path: Path, sound: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, 1500) | st.integers(0, 12000))
        damaged[place] = data.draw(st.integers(0, 255))
    path = tmp_path / "m.gguf"
    path.write_bytes(damaged)
    try:
        with opened(path) as model:
            model.tokenizer()
    except TokenleapError as error:
        assert "m.gguf" in str(error)
