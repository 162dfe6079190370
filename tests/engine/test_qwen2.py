"""The native decoder on the real int8 model: a row's bits depend on its own history alone, whatever else is going on.

Held for hidden states and scores, over row counts, prefill chunks, earlier use of the cache, draft trees, one or two
threads, and every version of the kernels that this processor can run.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from assistant.engine import device
from assistant.engine.int8_layers import Int8Layers
from assistant.engine.qwen2 import Qwen2
from assistant.engine.torch_layers import TorchLayers
from assistant.locations import cache_folder
from assistant.models import store
from cuda_ops import compile as compiler
from cuda_ops import cpu

ROWS = (1, 2, 3, 5, 8, 16)
NEEDS = {"native": set(), "portable": set(), "avx2": {"avx2", "fma"}, "avx2-vnni": {"avx2", "fma", "avx_vnni"}}
VERSIONS = [name for name, needs in NEEDS.items() if needs <= set(compiler.processor().split())]
LENGTH = 96


def some_ids(count: int, seed: int = 0) -> list[int]:
    return torch.randint(0, 151_643, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


IDS = some_ids(LENGTH)


@pytest.fixture(scope="module")
def model(real_model: Path) -> Qwen2:
    return device.load(store.open_model(real_model), threads=2)[0]


def kernels() -> cpu.Kernels:
    return cpu.load(cache_folder() / "kernels")


@pytest.fixture(scope="module")
def one_by_one(model: Qwen2) -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden states and scores of IDS, each from a pass of one row."""
    cache = model.new_cache(LENGTH)
    hidden = torch.cat([model.forward([token], cache)["final"] for token in IDS])
    return hidden, torch.cat([model.logits(row[None]) for row in hidden[-24:]])


@settings(max_examples=25)
@given(data=st.data())
def test_any_cut_into_passes_gives_the_same_bits(
    model: Qwen2, one_by_one: tuple[torch.Tensor, torch.Tensor], data: st.DataObject
) -> None:
    kernels().threads = data.draw(st.integers(1, 2), "threads")
    cache = model.new_cache(data.draw(st.integers(LENGTH, 4 * LENGTH), "capacity"))
    if data.draw(st.booleans(), "used before"):
        model.forward(some_ids(LENGTH, 1), cache)
        cache.truncate(0)
    parts = []
    while cache.length < LENGTH:
        rows = data.draw(st.one_of(st.sampled_from(ROWS), st.integers(1, LENGTH)), "rows")
        parts.append(model.forward(IDS[cache.length : cache.length + rows], cache)["final"])
        if data.draw(st.booleans(), "a rejected draft"):
            kept = cache.length
            model.forward(some_ids(3, 2), cache.copy(kept, kept + 16))
            if kept + 5 <= cache.capacity:
                model.forward(some_ids(5, 3), cache)
                cache.truncate(kept)
    kernels().threads = 2
    assert torch.equal(torch.cat(parts), one_by_one[0])


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("threads", [1, 2])
def test_scores_of_any_number_of_rows_are_the_same_bits(
    model: Qwen2, one_by_one: tuple[torch.Tensor, torch.Tensor], rows: int, threads: int
) -> None:
    hidden, scores = one_by_one
    kernels().threads = threads
    together = model.logits(hidden[-rows:])
    kernels().threads = 2
    assert torch.equal(together, scores[-rows:])


@settings(max_examples=15)
@given(data=st.data())
def test_a_tree_row_equals_its_own_chain(model: Qwen2, data: st.DataObject) -> None:
    before = data.draw(st.integers(1, 40), "cached")
    count = data.draw(st.integers(2, 16), "rows")
    parents = [-1] + [data.draw(st.integers(-1, row - 1), "parent") for row in range(1, count)]
    tokens = some_ids(count, 5)
    cache = model.new_cache(before + count + 3)
    model.forward(IDS[:before], cache)
    final = model.forward(tokens, cache, parents)["final"]
    row = data.draw(st.integers(0, count - 1), "row")
    line = [row]
    while parents[line[0]] >= 0:
        line.insert(0, parents[line[0]])
    alone = model.new_cache(before + count + 16)
    model.forward(IDS[:before], alone)
    expected = model.forward([tokens[r] for r in line], alone)["final"]
    assert torch.equal(final[line], expected)
    # and the accepted path, kept in the cache, goes on as the chain does
    cache.select(before, line)
    assert torch.equal(model.forward(IDS[:3], cache)["final"], model.forward(IDS[:3], alone)["final"])


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_the_kernels_gives_the_same_bits(
    real_model: Path, one_by_one: tuple[torch.Tensor, torch.Tensor], version: str
) -> None:
    stored = store.open_model(real_model)
    other = Qwen2(stored, Int8Layers(stored, cpu.load(cache_folder() / "kernels", version)))
    final = other.forward(IDS, other.new_cache(LENGTH))["final"]
    assert torch.equal(final, one_by_one[0])
    assert torch.equal(other.logits(final[-2:]), one_by_one[1][-2:])


def test_the_path_without_a_compiler_agrees_and_its_rows_stand_alone(
    real_model: Path, one_by_one: tuple[torch.Tensor, torch.Tensor]
) -> None:
    stored = store.open_model(real_model)
    slow = Qwen2(stored, TorchLayers(stored))
    ids = IDS[:4]
    together = slow.forward(ids, slow.new_cache(16))["final"]
    cache = slow.new_cache(32)
    alone = torch.cat([slow.forward([token], cache)["final"] for token in ids])
    assert torch.equal(together, alone)
    assert torch.cosine_similarity(together, one_by_one[0][:4]).min() > 0.999


def test_fp32_and_int8_mostly_choose_alike(real_model_in: Callable[[str], Path], model: Qwen2) -> None:
    exact, plan = device.load(store.open_model(real_model_in("fp32")))
    assert plan.path == "cpu/torch"
    ids = some_ids(1) + list(range(1000, 1040))
    a = model.logits(model.forward(ids, model.new_cache(64))["final"])
    b = exact.logits(exact.forward(ids, exact.new_cache(64))["final"])
    a, b = a.log_softmax(-1), b.log_softmax(-1)
    assert torch.nn.functional.kl_div(a, b, log_target=True, reduction="batchmean") < 0.1


def test_a_pass_that_cannot_be_leaves_the_cache_as_it_was(model: Qwen2) -> None:
    cache = model.new_cache(16)
    model.forward(IDS[:10], cache)
    for ids, parents in [(IDS[:7], None), ([151_936], None), ([-1], None), ([], None), (IDS[:2], [0, 1])]:
        with pytest.raises(ValueError):
            model.forward(ids, cache, parents)
        assert cache.length == 10
    with pytest.raises(ValueError):
        cache.truncate(11)
    with pytest.raises(ValueError):
        cache.select(4, [6])
