"""Columns go there and back, agree with a count by hand, and are never inside of a character."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lsprotocol.types import PositionEncodingKind

from lsp.positions import Encoding, choose, to_character, to_unit, units

ENCODINGS: tuple[Encoding, ...] = ("utf-8", "utf-16", "utf-32")
LINE = st.text(st.sampled_from("ab é\u00df\u4e2d\u2028\ufeff😀𝒳\0\f\ud83d\ude00") | st.characters(), max_size=12)


def width(character: str, encoding: Encoding) -> int:
    """Code units of one character, from the definitions of the encodings."""
    number = ord(character)
    if encoding == "utf-32":
        return 1
    if encoding == "utf-16":
        return 2 if number > 0xFFFF else 1
    return 1 + (number > 0x7F) + (number > 0x7FF) + (number > 0xFFFF)


@given(line=LINE, encoding=st.sampled_from(ENCODINGS))
@example("a\ud83db\ude00😀c\ud83d", "utf-8")
@example("a\ud83db\ude00😀c\ud83d", "utf-16")
def test_every_column_is_the_character_it_falls_in(line: str, encoding: Encoding) -> None:
    starts = list(accumulate((width(c, encoding) for c in line), initial=0))
    assert units(line, encoding) == starts[-1]
    for unit in range(starts[-1] + 3):
        expected = max(index for index, start in enumerate(starts) if start <= unit)
        assert to_character(line, unit, encoding) == expected


@given(line=LINE, encoding=st.sampled_from(ENCODINGS))
def test_a_character_there_and_back_is_itself(line: str, encoding: Encoding) -> None:
    for character in range(len(line) + 1):
        assert to_character(line, to_unit(line, character, encoding), encoding) == character


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("line", ["", "abc", "é😀x"])
def test_what_is_outside_of_the_line_is_its_nearer_end(line: str, encoding: Encoding) -> None:
    for beyond in (1, 2**31 - 1, 2**40):
        assert to_character(line, units(line, encoding) + beyond, encoding) == len(line)
        assert to_unit(line, len(line) + beyond, encoding) == units(line, encoding)
        assert to_character(line, -beyond, encoding) == 0 == to_unit(line, -beyond, encoding)


def test_pygls_116_astral_characters_count_twice_in_utf_16() -> None:
    line = 'face = "😋"; price = 3; total = '
    columns: list[tuple[Encoding, int]] = [("utf-16", 32), ("utf-32", 31), ("utf-8", 34)]
    for encoding, column in columns:
        assert line[: to_character(line, column, encoding)].endswith("total = ")
        assert to_unit(line, len(line), encoding) == column


def test_claude_code_zed_11_inside_of_a_pair_is_before_it() -> None:
    line = 'print("Hello 🌍 World!")'
    assert line[: to_character(line, 15, "utf-16")] == 'print("Hello 🌍'
    assert line[: to_character(line, 14, "utf-16")] == 'print("Hello '
    assert [line[: to_character(line, byte, "utf-8")][-1] for byte in (13, 14, 15, 16, 17)] == [*"    ", "🌍"]


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (None, "utf-16"),
        ([], "utf-16"),
        (["utf-7"], "utf-16"),
        (["utf-7", "utf-8"], "utf-8"),
        ([PositionEncodingKind.Utf32, PositionEncodingKind.Utf8], "utf-32"),
        (["utf-16", "utf-8"], "utf-16"),
    ],
)
def test_the_clients_first_known_encoding_is_chosen(
    offered: list[PositionEncodingKind | str] | None, chosen: Encoding
) -> None:
    assert choose(offered) == chosen
    assert PositionEncodingKind(choose(offered)).value == chosen
