"""Walks over drafts: what is accepted is a path of right tokens, and the longest one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.engine.verify import chain, is_chain, row_parents, trim, verify

IDS = st.lists(st.integers(0, 3), max_size=12)


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    ids = draw(IDS)
    return ids, [draw(st.integers(-1, i - 1)) for i in range(len(ids))]


@given(IDS, st.lists(st.integers(0, 3), min_size=13, max_size=13))
def test_a_chain_is_accepted_up_to_its_first_wrong_token(drafted: list[int], choices: list[int]) -> None:
    n = 0
    while n < len(drafted) and drafted[n] == choices[n]:
        n += 1
    result = verify(drafted, chain(len(drafted)), choices.__getitem__)
    assert result.rows == tuple(range(n + 1))
    assert result.ids == (*drafted[:n], choices[n])
    assert result.accepted == n
    assert result.tried == n + (n < len(drafted))
    assert result.cached_rows == result.rows


@given(trees(), st.lists(st.integers(0, 3), min_size=13, max_size=13))
def test_a_tree_is_walked_to_the_end_of_its_right_path(
    tree: tuple[list[int], list[int]], choices: list[int]
) -> None:
    ids, parents = trim(*tree, 12, 4)  # no twins: the path is unique
    result = verify(ids, parents, choices.__getitem__)
    for upper, lower in zip(result.rows, result.rows[1:], strict=False):
        assert parents[lower - 1] == upper - 1
        assert ids[lower - 1] == choices[upper]
    last = result.rows[-1]
    assert result.ids[-1] == choices[last]
    assert not any(
        parent == last - 1 and token == choices[last] for token, parent in zip(ids, parents, strict=True)
    )


@given(IDS, st.integers(1, 13))
def test_a_walk_ends_where_commit_says_so(drafted: list[int], last: int) -> None:
    choices = [*drafted, 0]
    committed: list[int] = []
    asked: list[int] = []

    def choice(row: int) -> int:
        asked.append(row)
        assert len(asked) == len(committed) + 1, "a choice was asked for before the last one was committed"
        return choices[row]

    def commit(token: int) -> bool:
        committed.append(token)
        return len(committed) < last

    result = verify(drafted, chain(len(drafted)), choice, commit)
    assert list(result.ids) == committed == choices[:last]
    assert result.accepted == min(last, len(drafted)), "drafts beyond the end do not count"
    assert result.tried == result.accepted
    assert result.cached_rows == tuple(range(len(committed))), "the last token heads the next pass, uncached"


@given(trees(), st.integers(0, 12), st.integers(1, 4))
def test_trimming_keeps_a_tree_of_good_tokens(
    tree: tuple[list[int], list[int]], limit: int, vocabulary: int
) -> None:
    ids, parents = trim(*tree, limit, vocabulary)
    assert len(ids) == len(parents) <= limit
    assert all(0 <= token < vocabulary for token in ids)
    assert all(-1 <= parent < index for index, parent in enumerate(parents))
    assert len(set(zip(ids, parents, strict=True))) == len(ids)

    def paths(ids: tuple[int, ...], parents: tuple[int, ...]) -> set[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        for token, parent in zip(ids, parents, strict=True):
            found.append((*(found[parent] if parent >= 0 else ()), token))
        return set(found)

    assert paths(ids, parents) <= paths(tuple(tree[0]), tuple(tree[1]))


def test_trimming_a_chain_cuts_its_end() -> None:
    assert trim([1, 2, 9, 3], chain(4), 8, 5) == ((1, 2), (-1, 0))
    assert trim([1, 2, 3], chain(3), 2, 5) == ((1, 2), (-1, 0))


@pytest.mark.parametrize(("ids", "parents"), [([1], []), ([1], [0]), ([1, 2], [-1, 1]), ([1], [-2])])
def test_what_is_no_tree_is_refused(ids: list[int], parents: list[int]) -> None:
    with pytest.raises(ValueError, match="draft"):
        trim(ids, parents, 8, 5)


def test_a_pass_numbers_its_rows_from_the_last_committed_token() -> None:
    assert row_parents(chain(3)) is None
    assert is_chain(()) and row_parents(()) is None
    assert row_parents([-1, -1, 0]) == [-1, 0, 0, 1]
