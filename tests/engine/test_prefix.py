"""The prefix store: what it lends holds what it says, documents keep their beginnings, the budget stands."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from assistant.engine.prefix import GRAIN, PrefixStore, common_prefix
from assistant.errors import OutOfMemoryError
from tests.engine.scripted import ScriptedBackbone, ScriptedCache

IDS = st.lists(st.integers(0, 1), max_size=40)


@given(IDS, IDS, IDS)
def test_common_prefix_is_the_longest(shared: list[int], left: list[int], right: list[int]) -> None:
    left, right = shared + left, shared + right
    length = common_prefix(left, tuple(right))
    assert left[:length] == right[:length]
    assert length == min(len(left), len(right)) or left[length] != right[length]


def fill(store: PrefixStore, ids: list[int], room: int = 0) -> int:
    """One request: take, compute the rest, give back; how much was reused."""
    cache, reused = store.take(ids, room)
    assert isinstance(cache, ScriptedCache)
    assert cache.slots == ids[:reused]
    cache.slots.extend(ids[reused:])
    store.give(cache, ids)
    return reused


class StoreMachine(RuleBasedStateMachine):
    """Random documents, interruptions and budgets against a store of scripted caches (10 bytes a token)."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = 3 * 10 * GRAIN
        self.store = PrefixStore(ScriptedBackbone(context=2000), self.budget)
        self.lent: list[ScriptedCache] = []

    @rule(
        document=st.sampled_from([(), (1,) * 300, (2,) * 10]),
        tail=st.lists(st.integers(0, 2), min_size=1, max_size=6),
        room=st.integers(0, 400),
        done=st.floats(0, 1),
        outcome=st.sampled_from(["finished", "cancelled", "lost"]),
    )
    def request(
        self, document: tuple[int, ...], tail: list[int], room: int, done: float, outcome: str
    ) -> None:
        prompt = [*document, *tail]
        best = max((common_prefix(ids, prompt) for ids in self.store.held), default=0)
        cache, reused = self.store.take(prompt, room)
        assert isinstance(cache, ScriptedCache)
        assert reused == min(best, len(prompt) - 1), "the longest common beginning, one token left to compute"
        assert cache.slots == prompt[:reused], "nothing is claimed that differs"
        assert cache.capacity >= len(prompt) + room
        assert all(cache is not entry.cache for entry in self.store._entries), "a lent cache is lent once"
        if outcome == "lost":
            return
        text = prompt + [0] * room if outcome == "finished" else prompt
        end = len(text) if outcome == "finished" else reused + int(done * (len(prompt) - reused))
        cache.slots[:] = text[:end]
        self.store.give(cache, text[:end])
        if end and cache.bytes <= self.budget:
            assert any(ids[:end] == tuple(text[:end]) for ids in self.store.held), "the newest is kept"

    @invariant()
    def sound(self) -> None:
        assert self.store.bytes <= self.budget
        for entry in self.store._entries:
            assert entry.ids and list(entry.ids) == entry.cache.slots  # type: ignore[attr-defined]
        held = self.store.held
        assert not any(a is not b and a == b[: len(a)] for a in held for b in held), "no cache within another"


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_a_short_common_beginning_leaves_the_other_document_alone() -> None:
    store = PrefixStore(ScriptedBackbone(context=2000), 1 << 20)
    one, two = [5] * 10 + [1] * 90, [5] * 10 + [2] * 90
    assert fill(store, one) == 0
    assert fill(store, two) == 10
    assert fill(store, one) == 99 and fill(store, two) == 99, "each found its own document again"


def test_a_long_common_beginning_is_taken_over_without_a_copy() -> None:
    store = PrefixStore(ScriptedBackbone(context=2000), 1 << 20)
    fill(store, [1] * 80 + [2] * 20)
    cache = store._entries[0].cache
    assert fill(store, [1] * 80 + [3] * 20) == 80
    assert [entry.cache for entry in store._entries] == [cache]


def test_without_budget_for_two_the_beginning_is_still_reused() -> None:
    store = PrefixStore(ScriptedBackbone(context=2000), 10 * GRAIN)
    fill(store, [5] * 10 + [1] * 90)
    assert fill(store, [5] * 10 + [2] * 90) == 10
    assert len(store.held) == 1


def test_a_cache_that_grew_too_small_is_copied_into_a_larger_one() -> None:
    store = PrefixStore(ScriptedBackbone(context=2000), 1 << 20)
    fill(store, [1] * 50)
    assert fill(store, [1] * 50 + [2] * 600, room=100) == 50
    assert len(store.held) == 1


def test_the_least_recently_used_goes_first() -> None:
    store = PrefixStore(ScriptedBackbone(context=2000), 2 * 10 * GRAIN)
    fill(store, [1] * 50)
    fill(store, [2] * 50)
    fill(store, [1] * 51)
    fill(store, [3] * 50)
    assert {ids[0] for ids in store.held} == {1, 3}


def test_no_budget_means_no_reuse_but_a_cache() -> None:
    store = PrefixStore(ScriptedBackbone(), 0)
    assert fill(store, [1, 2, 3]) == 0
    assert fill(store, [1, 2, 3]) == 0
    assert store.held == []


def test_a_cache_returned_with_other_ids_than_it_holds_is_refused() -> None:
    store = PrefixStore(ScriptedBackbone(), 1 << 20)
    cache, _ = store.take([1, 2, 3])
    with pytest.raises(ValueError, match="returned"):
        store.give(cache, [1])


@pytest.mark.parametrize(
    "error", [OutOfMemoryError("full"), MemoryError(), RuntimeError("DefaultCPUAllocator")]
)
def test_held_caches_are_given_up_when_memory_runs_out(error: Exception) -> None:
    backbone = ScriptedBackbone()
    store = PrefixStore(backbone, 1 << 20)
    fill(store, [1] * 20)

    def full(capacity: int) -> ScriptedCache:
        if store.held:
            raise error
        return ScriptedCache(capacity)

    backbone.new_cache = full  # type: ignore[method-assign]
    assert fill(store, [2] * 20) == 0
    assert store.held == [(2,) * 20]
