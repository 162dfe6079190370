"""transformers models as Backbones: caches cut, select and copy, trees are as chains, text is their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    Gemma2Config,
    GPT2Config,
    LlamaConfig,
    MambaConfig,
    MistralConfig,
    Qwen2Config,
)

from assistant.engine.generate import generate
from assistant.engine.hf import HfBackbone
from assistant.engine.prefix import PrefixStore
from assistant.errors import ModelMissingError, UnsupportedError, UnsupportedModelError
from tests.engine.scripted import RandomDrafter

SHAPE: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.4,  # wide scores, so that no two nearly tie
}
FAMILIES: dict[str, Any] = {
    "qwen2": lambda: Qwen2Config(**SHAPE),
    "llama": lambda: LlamaConfig(**SHAPE, tie_word_embeddings=True),
    "mistral": lambda: MistralConfig(**SHAPE, sliding_window=48),
    "gpt2": lambda: GPT2Config(
        vocab_size=40, n_embd=32, n_layer=3, n_head=4, n_positions=128, initializer_range=0.4
    ),
}
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


def tiny(config: Any) -> Any:
    torch.manual_seed(7)
    return AutoModelForCausalLM.from_config(config).eval()


@pytest.fixture(scope="module", params=list(FAMILIES))
def backbone(request: pytest.FixtureRequest) -> HfBackbone:
    return HfBackbone(tiny(FAMILIES[request.param]()))


def assert_close(left: torch.Tensor, right: torch.Tensor) -> None:
    torch.testing.assert_close(left, right, atol=2e-5, rtol=2e-5)


def last_state(backbone: HfBackbone, ids: list[int]) -> torch.Tensor:
    return backbone.forward(ids, backbone.new_cache(len(ids)))["final"][-1]


def test_rows_in_pieces_are_rows_in_one(backbone: HfBackbone) -> None:
    cache = backbone.new_cache(20)
    parts = [backbone.forward(PROMPT[a:b], cache)["final"] for a, b in ((0, 3), (3, 4), (4, 8))]
    assert cache.length == 8
    assert_close(torch.cat(parts), backbone.forward(PROMPT, backbone.new_cache(8))["final"])


def test_truncate_and_copy_forget_what_came_after(backbone: HfBackbone) -> None:
    cache = backbone.new_cache(20)
    backbone.forward(PROMPT, cache)
    twin = cache.copy(6, 30)
    cache.truncate(5)
    assert (cache.length, twin.length, twin.capacity) == (5, 6, 30)
    assert_close(backbone.forward([7], cache)["final"][0], last_state(backbone, [*PROMPT[:5], 7]))
    assert_close(backbone.forward([7], twin)["final"][0], last_state(backbone, [*PROMPT[:6], 7]))
    cache.truncate(0)
    assert_close(backbone.forward([7, 8], cache)["final"][1], last_state(backbone, [7, 8]))
    for bad in (lambda: cache.truncate(3), lambda: cache.copy(3, 9), lambda: cache.select(0, [2])):
        with pytest.raises(ValueError, match="cannot"):
            bad()
    with pytest.raises(ValueError, match="cannot hold"):
        backbone.forward([1] * 19, cache)


def test_a_tree_row_is_its_path_as_a_chain_and_select_keeps_a_path(backbone: HfBackbone) -> None:
    cache = backbone.new_cache(20)
    backbone.forward(PROMPT, cache)
    ids, parents = [7, 8, 9, 10, 11, 12], [-1, 0, 0, 1, 2, 4]
    rows = backbone.forward(ids, cache, parents)["final"]
    paths = [[7], [7, 8], [7, 9], [7, 8, 10], [7, 9, 11], [7, 9, 11, 12]]
    for row, path in zip(rows, paths, strict=True):
        assert_close(row, last_state(backbone, [*PROMPT, *path]))
    cache.select(8, [0, 2, 4])
    assert cache.length == 11
    assert_close(backbone.forward([13], cache)["final"][0], last_state(backbone, [*PROMPT, 7, 9, 11, 13]))


def test_a_forward_that_breaks_off_leaves_the_cache_as_it_was(backbone: HfBackbone) -> None:
    cache = backbone.new_cache(20)
    backbone.forward(PROMPT, cache)

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    layers = backbone._decoder.h if hasattr(backbone._decoder, "h") else backbone._decoder.layers
    hook = layers[1].register_forward_hook(fail)
    with pytest.raises(KeyboardInterrupt):
        backbone.forward([7, 8], cache)
    hook.remove()
    assert cache.length == len(PROMPT)
    assert_close(backbone.forward([7], cache)["final"][0], last_state(backbone, [*PROMPT, 7]))


def test_scores_and_taps_are_the_models_own() -> None:
    for family in ("qwen2", "llama"):
        backbone = HfBackbone(tiny(FAMILIES[family]()))
        result = backbone.forward(PROMPT, backbone.new_cache(8), taps=(0, 2))
        with torch.inference_mode():
            theirs = backbone._model(input_ids=torch.tensor([PROMPT]), output_hidden_states=True)
            assert_close(backbone.logits(result["final"]), theirs.logits[0])
            assert_close(result[0], theirs.hidden_states[1][0])
            assert_close(backbone._decoder.norm(result[2]), result["final"])


@pytest.mark.parametrize("tree", [False, True])
def test_generate_writes_what_transformers_generate_writes(backbone: HfBackbone, tree: bool) -> None:
    with torch.inference_mode():
        theirs = backbone._model.generate(
            torch.tensor([PROMPT]), max_new_tokens=24, do_sample=False, eos_token_id=None, pad_token_id=0
        )[0, len(PROMPT) :].tolist()
    store = PrefixStore(backbone, 1 << 24)
    for drafter in (None, RandomDrafter(1, tree=tree, oracle=theirs)):
        ours = generate(
            backbone, PROMPT, store=store, max_new_tokens=24, end_ids=(), drafter=drafter, draft_length=5
        )
        assert ours.ids == theirs
    assert ours.stats.reused_tokens == len(PROMPT) - 1
    assert ours.stats.accepted > 0 and ours.stats.passes < 23


def test_a_sliding_window_bounds_the_context() -> None:
    backbone = HfBackbone(tiny(FAMILIES["mistral"]()))
    assert backbone.config.context_length == 48
    store = PrefixStore(backbone, 1 << 24)
    result = generate(backbone, PROMPT, store=store, max_new_tokens=100, end_ids=())
    assert result.finish == "length" and len(result.ids) == 40


def test_the_shape_is_told() -> None:
    config = HfBackbone(tiny(FAMILIES["qwen2"]())).config
    assert (config.architecture, config.layers, config.kv_heads, config.head_dim) == ("qwen2", 3, 2, 8)
    assert (config.vocabulary_size, config.context_length, config.attention_bias) == (40, 128, True)


def test_a_folder_is_loaded_and_a_missing_one_named(tmp_path: Path) -> None:
    tiny(FAMILIES["qwen2"]()).save_pretrained(tmp_path / "model")
    backbone = HfBackbone(tmp_path / "model")
    assert (backbone.name, backbone.precision) == ("model", "fp32")
    assert_close(last_state(backbone, PROMPT), last_state(HfBackbone(tiny(FAMILIES["qwen2"]())), PROMPT))
    with pytest.raises(ModelMissingError, match="nowhere"):
        HfBackbone(tmp_path / "nowhere")


def test_what_a_model_cannot_do_is_said() -> None:
    bloom = HfBackbone(tiny(BloomConfig(vocab_size=40, hidden_size=32, n_layer=2, n_head=4)))
    cache = bloom.new_cache(9)
    bloom.forward([1, 2], cache)
    with pytest.raises(UnsupportedError, match="trees"):
        bloom.forward([3, 4, 5], cache, [-1, -1, 1])
    assert cache.length == 2
    with pytest.raises(UnsupportedModelError, match="attention in every layer"):
        HfBackbone(tiny(MambaConfig(vocab_size=40, hidden_size=32, num_hidden_layers=2, state_size=4)))
    capped = Gemma2Config(**SHAPE, head_dim=8, final_logit_softcapping=0.5)
    with pytest.raises(UnsupportedModelError, match="after the output head"):
        HfBackbone(tiny(capped))
