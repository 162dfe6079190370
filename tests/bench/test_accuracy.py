"""bench accuracy: an engine equals itself, a disturbed one is further away the more it is disturbed."""

from __future__ import annotations

import math

import pytest

from assistant.bench import accuracy
from assistant.errors import UsageError
from tests.bench.fakes import SIZE, FakeBackbone

TEXTS = [[(7 * n * n + 3 * n + start) % SIZE for n in range(150)] for start in range(3)]


def test_an_engine_equals_itself() -> None:
    found = accuracy.compare(FakeBackbone(), FakeBackbone(), TEXTS)
    assert found["tokens"] == 3 * 149
    assert found["same_choice"] == 1.0
    assert found["perplexity_ratio"] == 1.0
    assert found["mean_kl"] == pytest.approx(0.0, abs=1e-6)
    assert found["next_token_right"] == found["next_token_right_reference"]


def test_more_disturbance_is_more_distance() -> None:
    reference = FakeBackbone()
    little = accuracy.compare(FakeBackbone(noise=0.05), reference, TEXTS)
    much = accuracy.compare(FakeBackbone(noise=2.0), reference, TEXTS)
    assert 0 < little["mean_kl"] < much["mean_kl"]
    assert 1 > little["same_choice"] > much["same_choice"]


def test_perplexity_is_that_of_the_text() -> None:
    backbone = FakeBackbone()
    found = accuracy.compare(backbone, backbone, TEXTS[:1])
    ids, total = TEXTS[0], 0.0
    for before, token, following in zip([0, *ids], ids, ids[1:], strict=False):
        scores = backbone._table[before, token]
        total -= float(scores.log_softmax(0)[following])
    assert found["perplexity"] == pytest.approx(math.exp(total / 149), rel=1e-4)


def test_windows_are_seeded_and_long_enough() -> None:
    def encode(text: str) -> list[int]:
        return list(text.encode())

    made = accuracy.windows(encode, ["stdlib"], tokens=2_000, window=256, seed=1)
    assert made == accuracy.windows(encode, ["stdlib"], tokens=2_000, window=256, seed=1)
    assert {len(ids) for ids in made} == {256}
    assert len(made) == 8
    with pytest.raises(UsageError, match="--packages"):
        accuracy.windows(lambda text: [1], ["stdlib"], tokens=10)


def test_two_engines_are_held_against_each_other_step_by_step() -> None:
    prompts = [TEXTS[0][:80], TEXTS[1][:70]]
    same = accuracy.against(FakeBackbone(), FakeBackbone(), prompts, steps=20)
    assert same["largest_difference"] == 0.0
    assert same["all_equal"] and same["equal_tokens"] == [20, 20]
    other = accuracy.against(FakeBackbone(), FakeBackbone(seed=1), prompts, steps=20)
    assert other["largest_difference"] > 0.1
    assert not other["all_equal"]
