"""Text measures are the definitions that the command line's contract gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assistant.bench import similarity

TEXT = st.text(alphabet="ab \n", max_size=12)


@given(TEXT, TEXT, TEXT)
def test_levenshtein_is_a_distance(a: str, b: str, c: str) -> None:
    assert similarity.levenshtein(a, a) == 0
    assert similarity.levenshtein(a, b) == similarity.levenshtein(b, a)
    assert (similarity.levenshtein(a, b) == 0) == (a == b)
    assert similarity.levenshtein(a, c) <= similarity.levenshtein(a, b) + similarity.levenshtein(b, c)
    assert abs(len(a) - len(b)) <= similarity.levenshtein(a, b) <= max(len(a), len(b))


def test_levenshtein_known_values() -> None:
    assert similarity.levenshtein("kitten", "sitting") == 3
    assert similarity.levenshtein("", "abc") == 3
    assert similarity.edit_similarity("kitten", "sitting") == 1 - 3 / 7
    assert similarity.edit_similarity("", "") == 1.0


def test_first_line_match_takes_the_first_line_that_is_not_blank() -> None:
    assert similarity.first_line_match("\n\n    return x  \nmore", "return x")
    assert not similarity.first_line_match("return y", "return x")
    assert similarity.first_line_match("", "\n")


def test_exact_match_forgives_only_white_space_at_the_end() -> None:
    assert similarity.exact_match("return x\n", "return x")
    assert not similarity.exact_match(" return x", "return x")


@given(TEXT, TEXT)
def test_characters_right_is_the_common_beginning(a: str, b: str) -> None:
    count = similarity.characters_right(a, b)
    assert a[:count] == b[:count]
    assert count == min(len(a), len(b)) or a[count] != b[count]
