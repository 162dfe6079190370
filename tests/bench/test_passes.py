"""bench pass and bench peers: every row count is measured the same number of times, and nothing stays in a
cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from assistant.bench import passes, peers, tables
from tests.bench.fakes import SIZE, FakeBackbone


def test_a_pass_leaves_the_cache_as_it_was() -> None:
    backbone = FakeBackbone()
    cache = backbone.new_cache(64)
    passes.prefill(backbone, cache, list(range(20)))
    before = list(cache.ids)
    assert passes.one_pass(backbone, cache, [1, 2, 3]) > 0
    assert cache.ids == before


def test_prefill_is_cut_into_the_workers_chunks() -> None:
    backbone = FakeBackbone()
    passes.prefill(backbone, backbone.new_cache(400), [n % SIZE for n in range(300)])
    assert backbone.rows == [128, 128, 44]


def test_real_code_is_encoded_and_cut() -> None:
    ids = passes.code_ids(lambda text: list(text.encode()), 300)
    assert len(ids) == 300 and ids == passes.code_ids(lambda text: list(text.encode()), 300)


@dataclass
class Contestant:
    """Costs a fixed time; one thread is the better choice for `ours` at decoding."""

    build: str
    factor: float
    calls: list[str] = field(default_factory=list)

    def prefill(self, ids: Sequence[int], threads: int) -> float:
        self.calls.append("prefill")
        assert len(ids) == peers.CONTEXT
        return 100.0 * self.factor / threads

    def decode(self, ids: Sequence[int], threads: int) -> float:
        return 2.0 * self.factor * threads * len(ids)

    def rows(self, ids: Sequence[int], threads: int) -> float:
        return self.factor * len(ids)

    def generate(self, ids: Sequence[int], count: int, threads: int) -> float:
        assert threads == 1
        return 7.0 * self.factor


def test_contestants_take_turns_and_are_judged_by_their_best() -> None:
    ours, theirs = Contestant("us", 1.0), Contestant("them", 2.0)
    ids = list(range(peers.CONTEXT + 16))
    found = peers.compete({"ours": ours, "llama.cpp": theirs}, ids, {"p": [1], "q": [2]}, [1, 2], rounds=3)
    assert len(ours.calls) == len(theirs.calls) == 2 * (3 + 1)
    assert found["ours"]["threads"] == 1
    assert found["ours"]["prefill_tokens_per_second"] == round(512 / 50 * 1e3, 1)
    assert found["ours"]["decode_tokens_per_second"] == 500.0
    assert found["ours"]["rows_ms"] == {"1": 1.0, "4": 4.0, "5": 5.0, "8": 8.0, "16": 16.0}
    assert found["ours"]["ms_by_prompt"] == {"p": 7.0, "q": 7.0}
    ratio = peers.ratios(found)["llama.cpp"]
    assert (ratio["prefill"], ratio["decode"], ratio["by_prompt"]) == (2.0, 2.0, 2.0)
    assert "llama.cpp" in tables.peers(found | {"ratios": {"llama.cpp": ratio}})
