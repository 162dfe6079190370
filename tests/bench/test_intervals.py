"""Intervals hold the true value about as often as they claim, and pairing sees what unpaired intervals
cannot.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.bench import intervals


@given(st.integers(0, 400), st.integers(0, 400))
def test_wilson_holds_the_share_and_stays_in_bounds(a: int, b: int) -> None:
    successes, trials = min(a, b), max(a, b)
    low, high = intervals.wilson(successes, trials)
    assert 0 <= low <= high <= 1
    if trials:
        assert low - 1e-12 <= successes / trials <= high + 1e-12


def test_wilson_known_value() -> None:
    # 8 of 10: (0.490, 0.943), as tables of Wilson's interval have it.
    low, high = intervals.wilson(8, 10)
    assert low == pytest.approx(0.4902, abs=1e-4)
    assert high == pytest.approx(0.9433, abs=1e-4)


def test_wilson_refuses_what_cannot_be() -> None:
    with pytest.raises(ValueError):
        intervals.wilson(3, 2)


def test_bootstrap_covers_the_true_mean_about_as_often_as_it_claims() -> None:
    generator = random.Random(1)
    covered = 0
    for number in range(120):
        values = [generator.gauss(5, 2) for _ in range(60)]
        low, high = intervals.bootstrap_mean(values, seed=number, draws=400)
        covered += low <= 5 <= high
    assert covered >= 105  # 95% of 120 is 114; far below means the interval is wrong


def test_equal_seeds_give_equal_intervals() -> None:
    generator = random.Random(3)
    values = [generator.random() for _ in range(50)]
    assert intervals.bootstrap_mean(values, seed=7) == intervals.bootstrap_mean(values, seed=7)
    assert intervals.bootstrap_mean(values, seed=7) != intervals.bootstrap_mean(values, seed=8)


def test_pairing_sees_a_small_steady_difference() -> None:
    generator = random.Random(2)
    theirs = [generator.gauss(0, 100) for _ in range(80)]
    found = intervals.paired([value + 1 for value in theirs], theirs)
    assert found["difference"] == pytest.approx(1.0)
    assert found["interval"] == [pytest.approx(1.0), pytest.approx(1.0)]
    assert (found["ours_better"], found["theirs_better"]) == (80, 0)


def test_cases_of_one_group_are_drawn_together() -> None:
    # Ten groups whose cases always move together: the honest interval is the wider one.
    generator = random.Random(4)
    ours, groups = [], []
    for number in range(10):
        value = float(generator.random() < 0.5)
        ours += [value] * 20
        groups += [str(number)] * 20
    found = intervals.paired(ours, [0.0] * len(ours), groups)
    alone, together = found["interval"], found["interval_by_group"]
    assert isinstance(alone, list) and isinstance(together, list)
    assert together[1] - together[0] > 2 * (alone[1] - alone[0])


def test_lists_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError):
        intervals.paired([1.0], [1.0, 2.0])
