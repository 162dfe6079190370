"""Choosing: each row by itself, filters as defined, noise by place alone, shares as the softmax has them."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from assistant.engine.sampling import Sampling, choose, gumbel, log_probability
from assistant.errors import ModelCorruptError, UsageError

SAMPLINGS = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 1e-9, 0.3, 0.8, 1.0, 2.5, 1e6]),
    top_k=st.sampled_from([0, 1, 2, 5, 40, 10_000]),
    top_p=st.sampled_from([1e-9, 0.3, 0.9, 0.999, 1.0]),
    min_p=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
    seed=st.integers(-(2**70), 2**70),
    candidate=st.integers(0, 3),
)


def random_scores(seed: int, rows: int, vocabulary: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    # Rounded, so that ties are common.
    return (torch.randn(rows, vocabulary, generator=generator) * 3).mul(2).round().div(2)


def naive(row: list[float], position: int, sampling: Sampling) -> int:
    """The definitions, one after the other."""
    order = sorted(range(len(row)), key=lambda i: (-row[i], i))
    if sampling.temperature == 0:
        return order[0]
    scaled = [(row[i] - row[order[0]]) / sampling.temperature for i in range(len(row))]
    if sampling.top_k:
        order = order[: sampling.top_k]
    weights = [math.exp(scaled[i]) for i in order]
    total, mass, kept = sum(weights), 0.0, []
    for i, weight in zip(order, weights, strict=True):
        if kept and mass >= sampling.top_p * total:
            break
        kept.append(i)
        mass += weight
    kept = [i for i in kept if sampling.min_p == 0 or scaled[i] >= math.log(sampling.min_p) - 1e-12]
    noise = gumbel(np.array(kept), position, sampling)
    return max(zip(kept, noise, strict=True), key=lambda pair: (scaled[pair[0]] + pair[1], -pair[0]))[0]


@settings(max_examples=300)
@given(SAMPLINGS, st.integers(0, 10**6), st.integers(1, 200), st.integers(0, 10**6))
def test_filters_are_what_their_definitions_say(
    sampling: Sampling, seed: int, vocabulary: int, position: int
) -> None:
    scores = random_scores(seed, 1, vocabulary)
    assert choose(scores, [position], sampling) == [naive(scores[0].tolist(), position, sampling)]


@given(SAMPLINGS, st.integers(0, 10**6), st.integers(1, 5))
def test_a_row_is_chosen_alike_alone_and_beside_others(sampling: Sampling, seed: int, rows: int) -> None:
    scores = random_scores(seed, rows, 700)
    together = choose(scores, range(5, 5 + rows), sampling)
    assert together == [choose(scores[r : r + 1].clone(), [5 + r], sampling)[0] for r in range(rows)]


def test_the_number_of_threads_changes_nothing() -> None:
    scores = torch.randn(3, 151_936, generator=torch.Generator().manual_seed(1)) * 3
    sampling = Sampling(temperature=1.3, top_p=0.97, seed=4)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append((choose(scores, [1, 2, 3], sampling), [log_probability(row, 7) for row in scores]))
    finally:
        torch.set_num_threads(before)
    assert results[0] == results[1]


def test_greedy_ties_go_to_the_lowest_id() -> None:
    assert choose(torch.tensor([[0.0, 2.0, 2.0], [1.0, 1.0, 1.0]]), [0, 1]) == [1, 0]


@given(SAMPLINGS, st.sets(st.integers(-2, 30), min_size=1))
def test_only_allowed_ids_are_chosen(sampling: Sampling, allowed: set[int]) -> None:
    scores = random_scores(len(allowed), 2, 20)
    if not any(0 <= i < 20 for i in allowed):
        with pytest.raises(ValueError, match="allows no id"):
            choose(scores, [1, 2], sampling, [allowed, None])
        return
    first, second = choose(scores, [1, 2], sampling, [allowed, None])
    assert first in allowed
    assert second == choose(scores[1:], [2], sampling)[0]
    # The same as if nothing else had a score.
    masked = torch.full((20,), -math.inf)
    good = [i for i in allowed if 0 <= i < 20]
    masked[good] = scores[0, good]
    assert choose(masked[None], [1], sampling) == [first]


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1.0),
        Sampling(temperature=0.7),
        Sampling(temperature=1.0, top_p=0.8),
        Sampling(temperature=1.5, top_k=3, min_p=0.1),
    ],
)
def test_shares_over_positions_are_the_softmax(sampling: Sampling) -> None:
    row = torch.tensor([2.0, 1.5, 0.5, 0.0, -1.0, 1.0])
    draws = 6000
    counts = Counter(choose(row.expand(draws, -1), range(draws), sampling))
    shares = torch.softmax(row.double() / sampling.temperature, 0)
    order = torch.argsort(shares, descending=True)[: sampling.top_k or None]
    mass = torch.cumsum(shares[order] / shares[order].sum(), 0)
    order = order[: int((mass < sampling.top_p).sum()) + 1]
    order = order[shares[order] >= sampling.min_p * shares.max()]
    expected = shares[order] / shares[order].sum() * draws
    assert set(counts) == set(order.tolist())
    chi_square = sum(
        (counts[int(i)] - float(e)) ** 2 / float(e) for i, e in zip(order, expected, strict=True)
    )
    assert chi_square < 25  # five degrees of freedom at most: beyond 1 in 5,000, and the noise is fixed


def test_noise_is_gumbel_and_differs_with_seed_candidate_position_and_id() -> None:
    ids = np.arange(20_000)
    base = gumbel(ids, 3, Sampling(seed=1))
    assert abs(base.mean() - 0.5772) < 0.03 and abs(base.var() - math.pi**2 / 6) < 0.06
    others = [
        gumbel(ids, 4, Sampling(seed=1)),
        gumbel(ids, 3, Sampling(seed=2)),
        gumbel(ids, 3, Sampling(seed=1, candidate=1)),
        gumbel(ids + 1, 3, Sampling(seed=1)),
        gumbel(ids, 1, Sampling(seed=3)),
    ]
    for other in others:
        assert abs(np.corrcoef(base, other)[0, 1]) < 0.03
    assert (gumbel(ids[100:200], 3, Sampling(seed=1)) == base[100:200]).all(), (
        "ids have their noise in any company"
    )


def test_noise_is_pinned() -> None:
    # Seeds are promises to users: a change of the hash changes every seeded text.
    noise = gumbel(np.array([0, 1, 151_935]), 17, Sampling(seed=42, candidate=1))
    assert noise.tolist() == pytest.approx([1.332056584402, 0.90974451232, 1.301836578704], abs=1e-9)


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": -0.1},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"top_k": -1},
        {"top_k": 1.5},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_p": math.nan},
        {"min_p": -0.1},
        {"min_p": 1.1},
        {"min_p": math.nan},
        {"seed": 0.5},
        {"seed": math.nan},
        {"candidate": -1},
    ],
)
def test_values_that_cannot_be_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        Sampling(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_scores_that_are_no_numbers_are_an_error_and_not_a_token(bad: float) -> None:
    scores = torch.zeros(1, 5)
    scores[0, 3] = bad
    for sampling in (Sampling(), Sampling(temperature=1)):
        with pytest.raises(ModelCorruptError):
            choose(scores, [0], sampling)


def test_log_probability_is_of_the_plain_softmax() -> None:
    row = torch.tensor([1.0, 2.0, -3.0])
    total = sum(math.exp(x) for x in row.tolist())
    for i in range(3):
        assert log_probability(row, i) == pytest.approx(math.log(math.exp(row[i]) / total), abs=1e-6)
