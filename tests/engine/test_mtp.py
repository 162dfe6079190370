"""Decoding with a draft head on a tiny model: whatever the head drafts, the ids are those of plain decoding.

Two heads, of random rows and fitted to the model's own text, on three engines: int8 by the kernels, int8 and fp32 in
plain torch. The context is short, so that it ends within a test.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from assistant.engine import mtp
from assistant.engine.cache import KeyValueCache
from assistant.engine.draft import Drafter, DraftState, make_drafter
from assistant.engine.generate import Generation, generate
from assistant.engine.int8_layers import Int8Head, Int8Layers
from assistant.engine.lookup import LookupDrafter
from assistant.engine.mtp import MtpDrafter, MtpHead
from assistant.engine.prefix import PrefixStore
from assistant.engine.qwen2 import Qwen2
from assistant.engine.sampling import GREEDY, Sampling, choose
from assistant.engine.torch_layers import TorchHead, TorchLayers
from assistant.errors import HeadError
from assistant.locations import cache_folder
from assistant.models import catalog, headfile, heads, store
from assistant.models.rotation import hadamard
from assistant.models.store import StoredModel
from assistant.training import export, run
from assistant.training.head import Head, base_weights
from cuda_ops import cpu
from tests.conftest import OwnHome
from tests.models import tiny, tiny_head

CONTEXT = 96
ENGINES = ("int8/kernels", "int8/torch", "fp32/torch")
NEW = 30


@dataclass(frozen=True)
class Made:
    """One engine with its heads."""

    backbone: Qwen2
    stored: StoredModel
    heads: dict[str, MtpHead]


@dataclass(frozen=True)
class World:
    """All engines of one model, and its fitted head as it is trained."""

    made: dict[str, Made]
    trained: Head
    exact: StoredModel
    file: Path


def prompt_of(seed: int, length: int) -> list[int]:
    return torch.randint(0, 250, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("mtp")
    kernels, threads = cpu.load(cache_folder() / "kernels"), torch.get_num_threads()
    torch.set_num_threads(1)
    before, kernels.threads = kernels.threads, 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENLEAP_HOME", str(folder / "home"))
        tiny.write(folder / "tiny.gguf", numbers={"context_length": CONTEXT})
        entry = catalog.find(folder / "tiny.gguf")
        int8, exact = (store.open_model(store.ensure(entry, precision)) for precision in ("int8", "fp32"))
    backbones = {
        "int8/kernels": (Qwen2(int8, Int8Layers(int8, kernels)), int8),
        "int8/torch": (Qwen2(int8, TorchLayers(int8)), int8),
        "fp32/torch": (Qwen2(exact, TorchLayers(exact)), exact),
    }
    trained = tiny_head.fitted(backbones["int8/kernels"][0], int8, exact, [prompt_of(n, 12) for n in range(30)])
    told = {"taps": run.taps(exact.config.layers), "draft_length": 4, "tokens": 1, "acceptance": [0.5]}
    export.export(folder / "fitted", trained, int8, entry.id, **told)  # type: ignore[arg-type]
    headfile.write(folder / "random", tiny_head.facts(int8), tiny_head.random_tensors(int8))
    made = {}
    for name, (backbone, stored) in backbones.items():
        files = {kind: headfile.read(folder / kind, stored) for kind in ("fitted", "random")}
        made[name] = Made(backbone, stored, {kind: MtpHead(backbone, file, stored) for kind, file in files.items()})
    yield World(made, trained, exact, folder / "fitted")
    torch.set_num_threads(threads)
    kernels.threads = before


DRAFTERS: dict[str, Callable[[Made], Drafter | None]] = {
    "mtp, fitted": lambda made: MtpDrafter(made.heads["fitted"]),
    "mtp, random": lambda made: MtpDrafter(made.heads["random"]),
    "adaptive": lambda made: MtpDrafter(made.heads["fitted"], adaptive=True),
    "auto": lambda made: make_drafter("auto", head=made.heads["fitted"]),
}


def go(made: Made, prompt: Sequence[int], keep: PrefixStore | None = None, **options: object) -> Generation:
    keep = keep or PrefixStore(made.backbone, 1 << 30)
    given: dict[str, object] = {"max_new_tokens": NEW, "end_ids": (), **options}
    return generate(made.backbone, prompt, store=keep, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=0.8, seed=7)], ids=["greedy", "sampled"])
def test_every_draft_length_gives_plain_decodings_ids(
    world: World, capsys: pytest.CaptureFixture[str], engine: str, sampling: Sampling
) -> None:
    made, runs = world.made[engine], 0
    drafted, accepted, passes = 0, 0, 0
    # torch is slow: there one prompt, in int8 the fitted head alone
    slow, few = engine == "int8/torch", engine != "int8/kernels"
    new = 16 if few else NEW
    for prompt in (prompt_of(101, 9), prompt_of(102, 30))[: 1 if few else 2]:
        plain = go(made, prompt, sampling=sampling, max_new_tokens=new)
        for name, length in itertools.product(["mtp, fitted"] if slow else DRAFTERS, range(1, 9)):
            options = {"sampling": sampling, "max_new_tokens": new, "draft_length": length}
            found = go(made, prompt, drafter=DRAFTERS[name](made), **options)
            assert (found.ids, found.finish) == (plain.ids, plain.finish), (name, length)
            runs, passes = runs + 1, passes + found.stats.passes
            drafted, accepted = drafted + found.stats.drafted, accepted + found.stats.accepted
    assert 0 < accepted < drafted and passes < runs * (new - 1)
    with capsys.disabled():
        sys.stdout.write(f"\n{engine}: {runs} runs identical to plain, {accepted} of {drafted} drafts accepted ")


def test_reuse_and_cancels_at_random_steps_change_nothing(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    counts = dict.fromkeys(("sequences", "requests", "cancelled", "reused tokens", "accepted drafts"), 0)

    @settings(max_examples=40)
    @given(data=st.data())
    def sequence(data: st.DataObject) -> None:
        made = world.made[data.draw(st.sampled_from(("int8/kernels", "int8/kernels", "fp32/torch")), "engine")]
        keep = PrefixStore(made.backbone, data.draw(st.sampled_from((1 << 30, 500_000)), "bytes"))
        counts["sequences"] += 1
        for number in range(data.draw(st.integers(1, 4), "requests")):
            prompt = prompt_of(data.draw(st.integers(0, 2), "prompt"), 40)[: data.draw(st.integers(1, 40), "typed")]
            hot = data.draw(st.booleans(), "hot")
            sampling = Sampling(temperature=0.8, seed=number) if hot else GREEDY
            drafter = DRAFTERS[data.draw(st.sampled_from(sorted(DRAFTERS)), "drafter")](made)
            length = data.draw(st.integers(1, 8), "length")
            calls, cancel_at = itertools.count(), data.draw(st.integers(0, 14) | st.just(99), "cancel at")
            found = go(
                made,
                prompt,
                keep,
                sampling=sampling,
                drafter=drafter,
                draft_length=length,
                cancelled=lambda: next(calls) >= cancel_at,  # noqa: B023
            )
            plain = go(made, prompt, sampling=sampling).ids
            assert found.ids == plain[: len(found.ids)]
            assert len(found.ids) == NEW or found.finish == "cancelled"
            counts["requests"] += 1
            counts["cancelled"] += found.finish == "cancelled"
            counts["reused tokens"] += found.stats.reused_tokens
            counts["accepted drafts"] += found.stats.accepted

    sequence()
    assert min(counts.values()) > 0
    with capsys.disabled():
        sys.stdout.write("\n" + ", ".join(f"{count} {name}" for name, count in counts.items()) + " ")


class Tight(PrefixStore):
    """Its caches hold what a request needs and not a token more."""

    def _capacity(self, needed: int) -> int:
        return needed


@pytest.mark.parametrize("engine", ENGINES)
def test_the_ends_of_context_and_cache_are_reached_as_in_plain_decoding(world: World, engine: str) -> None:
    made, slow = world.made[engine], engine == "int8/torch"
    for room in (3,) if slow else (0, 1, 2, 3, 5, 9):
        prompt = prompt_of(room, CONTEXT - room)
        plain = go(made, prompt, max_new_tokens=20)
        assert len(plain.ids) == min(room, 20) and plain.finish == "length"
        for name, length in itertools.product(["mtp, fitted"] if slow else DRAFTERS, (1, 4, 8)):
            keep = Tight(made.backbone, 1 << 30)
            found = go(made, prompt, keep, max_new_tokens=20, drafter=DRAFTERS[name](made), draft_length=length)
            assert (found.ids, found.finish) == (plain.ids, plain.finish), (name, length)


def state_after(made: Made, ids: Sequence[int], sampling: Sampling = GREEDY, capacity: int = CONTEXT) -> DraftState:
    """As generate would hand it to a drafter once `ids` are read and one token is chosen."""
    cache = made.backbone.new_cache(capacity)
    out = made.backbone.forward(ids, cache, taps=made.heads["fitted"].taps)
    token = choose(made.backbone.logits(out["final"][-1:]), [len(ids)], sampling)[0]
    return DraftState([*ids, token], {key: states[-1] for key, states in out.items()}, cache, sampling)


@pytest.mark.parametrize("engine", ENGINES)
def test_drafting_leaves_no_trace_in_the_backbone(world: World, engine: str) -> None:
    made = world.made[engine]
    for length, limit in ((1, 8), (15, 4), (16, 8), (31, 1), (40, 8), (CONTEXT - 9, 8)):
        state, twin = (state_after(made, prompt_of(length, length)) for _ in range(2))
        cache = state.cache
        before = keys_and_values(made, cache.keys, cache.values, length)
        for kind in ("fitted", "random"):
            drafter = MtpDrafter(made.heads[kind])
            drafted = drafter.propose(state, limit)
            assert len(drafted.ids) == limit and cache.length == length
            assert drafted == drafter.propose(state, limit)  # nothing is kept from the first time
            drafter.observe(drafted, [0])
        after = keys_and_values(made, cache.keys, cache.values, length)
        assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
        rows = [state.ids[-1], 3, 4, 5][: CONTEXT - length]
        ours, theirs = (made.backbone.forward(rows, s.cache, taps=made.heads["fitted"].taps) for s in (state, twin))
        assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
        assert torch.equal(made.backbone.logits(ours["final"]), made.backbone.logits(theirs["final"]))


def keys_and_values(made: Made, keys: torch.Tensor, values: torch.Tensor, length: int) -> list[torch.Tensor]:
    """Copies of what the first `length` slots hold."""
    flat = keys.transpose(-1, -2).flatten(2, 3)
    return [flat[:, :, :length].clone(), values[:, :, :length].clone()]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_draft_is_the_same_in_a_reused_cache(world: World, engine: str) -> None:
    """Acceptance is not lost when a prefix is used again: neither rejected drafts nor another text leave a mark."""
    made = world.made[engine]
    ids = prompt_of(5, 30)
    fresh = state_after(made, ids)
    cache = made.backbone.new_cache(CONTEXT)
    made.backbone.forward(ids[:12] + prompt_of(6, 40), cache)
    MtpDrafter(made.heads["random"]).propose(DraftState([*ids, 1], fresh.hidden, cache, GREEDY), 8)
    cache.truncate(12)
    out = made.backbone.forward(ids[12:], cache, taps=made.heads["fitted"].taps)
    again = DraftState(fresh.ids, {key: states[-1] for key, states in out.items()}, cache, GREEDY)
    drafter = MtpDrafter(made.heads["fitted"])
    assert drafter.propose(again, 8) == drafter.propose(fresh, 8)


@settings(max_examples=40)
@given(seed=st.integers(0, 999), limit=st.integers(1, 8), hot=st.booleans())
def test_an_adaptive_draft_is_the_begin_of_the_whole_one(world: World, seed: int, limit: int, hot: bool) -> None:
    made = world.made["int8/kernels"]
    state = state_after(made, prompt_of(seed, 20), Sampling(temperature=0.8, seed=seed) if hot else GREEDY)
    head = made.heads["fitted"]
    whole = MtpDrafter(head).propose(state, limit).ids
    some = MtpDrafter(head, adaptive=True).propose(state, limit).ids
    assert some and whole[: len(some)] == some and set(whole) <= set(head.vocabulary.tolist())


# -- the head that is trained and the head that runs


@pytest.fixture(scope="module")
def dequantised(world: World) -> Head:
    """The head as it is trained, with the very weights of its file."""
    file = headfile.read(world.file, world.exact)
    vocabulary = torch.from_numpy(file.tensors["vocabulary"]).long()
    scale = float(world.trained.scale)
    head = Head(world.exact.config, base_weights(world.exact, vocabulary), vocabulary, scale)
    with torch.no_grad():
        for name in headfile.MATRICES:
            codes, largest = file.tensors[f"{name}.weight"], file.tensors[f"{name}.SCB"]
            matrix = codes.astype(np.float32) * (largest / np.float32(127))[:, None]
            if name == "down":
                matrix = hadamard(matrix, file.facts.down_block)
            getattr(head, name).copy_(torch.from_numpy(matrix / (scale if name in ("first", "later") else 1)))
        head.bias.copy_(torch.from_numpy(file.tensors["qkv.bias"]))
    return head


def test_an_exported_head_is_the_trained_one_but_for_rounding(world: World, dequantised: Head) -> None:
    for name in (*headfile.MATRICES, "bias"):
        ours, theirs = getattr(dequantised, name).detach(), getattr(world.trained, name).detach()
        assert torch.cosine_similarity(ours.flatten(), theirs.flatten(), dim=0) > 0.99, name
        assert torch.allclose(ours.norm(), theirs.norm(), rtol=1e-2), name
    assert torch.equal(dequantised.vocabulary, world.trained.vocabulary)


@torch.no_grad()
def training_chain(head: Head, made: Made, ids: Sequence[int], count: int) -> tuple[list[int], list[torch.Tensor]]:
    """The head's own draft after `ids` and one token, by the arithmetic of training."""
    out = made.backbone.forward(ids[:-1], made.backbone.new_cache(CONTEXT), taps=made.heads["fitted"].taps)
    taps = made.heads["fitted"].taps
    units = [out[tap] / out[tap].pow(2).mean(-1, keepdim=True).sqrt() for tap in taps]
    context = head.context(out[taps[0]])
    at, token, own = torch.tensor([len(ids) - 2]), ids[-1], []
    x = head.first_input(torch.cat(units, -1)[-1:], made.backbone.embed([token]))
    drafted: list[int] = []
    rows: list[torch.Tensor] = []
    for step in range(1, count + 1):
        y, mine = head.layer(x, at, step, context, own)
        own.append(mine)
        rows.append(head.scores(y)[0])
        drafted.append(int(head.vocabulary[rows[-1].argmax()]))
        x = head.later_input(x, y, made.backbone.embed([drafted[-1]]))
    return drafted, rows


@pytest.mark.parametrize("seed", range(6))
def test_training_and_engine_draft_the_same_chain(world: World, dequantised: Head, seed: int) -> None:
    made = world.made["fp32/torch"]
    state = state_after(made, prompt_of(seed, 10 + 7 * seed))
    drafted, rows = training_chain(dequantised, made, list(state.ids), 6)
    assert MtpDrafter(made.heads["fitted"]).propose(state, 6).ids == tuple(drafted)
    head = made.heads["fitted"]
    cache = state.cache
    assert isinstance(cache, KeyValueCache)
    step = head.first([state.hidden[tap] for tap in head.taps], state.ids[-1], cache.length, cache)
    for n, token in enumerate(drafted):
        torch.testing.assert_close(step.scores, rows[n], rtol=1e-3, atol=1e-3 * float(rows[n].abs().max()))
        step = head.later(step, token, cache.length + n + 1, cache)


@pytest.mark.parametrize("seed", range(3))
def test_kernels_and_torch_run_the_same_head(world: World, seed: int) -> None:
    """They differ by the kernels' rounding of activations alone."""
    fast, slow = world.made["int8/kernels"], world.made["int8/torch"]
    state = state_after(fast, prompt_of(seed, 25))
    found = []
    for made in (fast, slow):
        head = made.heads["random"]
        cache = state.cache
        assert isinstance(cache, KeyValueCache)
        first = head.first([state.hidden[tap] for tap in head.taps], state.ids[-1], cache.length, cache)
        later = head.later(first, 7, cache.length + 1, cache)
        found.append([first.x, first.y, first.scores, later.x, later.y, later.scores])
    for ours, theirs in zip(*found, strict=True):
        assert torch.cosine_similarity(ours, theirs, dim=0).item() > 0.995
    kinds = [type(made.heads["random"]._layers) for made in (fast, slow)]
    assert kinds == [Int8Head, TorchHead]


# -- modes without a sound head


def test_mode_mtp_needs_a_sound_head() -> None:
    with pytest.raises(HeadError, match=r"no trained draft head .*: use --decode lookup or auto$"):
        make_drafter("mtp")
    damage = HeadError("the draft head x is damaged: use lookup")
    with pytest.raises(HeadError) as caught:
        make_drafter("mtp", head=damage)
    assert caught.value is damage


@pytest.mark.parametrize("head", [None, HeadError("damaged: use lookup")], ids=["none", "damaged"])
def test_auto_without_a_sound_head_is_lookup(world: World, head: HeadError | None) -> None:
    auto, made = make_drafter("auto", head=head), world.made["int8/kernels"]
    assert type(auto) is LookupDrafter
    prompt = prompt_of(3, 8) * 4
    lookup = go(made, prompt, drafter=make_drafter("lookup"))
    found = go(made, prompt, drafter=auto)
    assert found.ids == lookup.ids == go(made, prompt).ids
    assert (found.stats.passes, found.stats.drafted) == (lookup.stats.passes, lookup.stats.drafted)


def test_load_head_finds_no_head_a_sound_one_or_what_is_wrong(world: World, own_home: OwnHome) -> None:
    made = world.made["int8/kernels"]
    assert mtp.load_head(made.backbone, made.stored, "some") is None
    place = heads.own("some")
    place.parent.mkdir(parents=True)
    place.write_bytes(world.file.read_bytes())
    assert isinstance(mtp.load_head(made.backbone, made.stored, "some"), MtpHead)
    place.write_bytes(world.file.read_bytes()[:-1])
    wrong = mtp.load_head(made.backbone, made.stored, "some")
    assert isinstance(wrong, HeadError) and "damaged" in str(wrong)
