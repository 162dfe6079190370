"""A suggestion in the document's own terms: applying the item gives the text with the suggestion in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp.convert import LONGEST_REPEATED, Place, duplicated, inline_item, list_entry, next_line, next_word
from lsp.documents import Document
from tests.lsp_server.client import apply

TEXTS = st.text(st.sampled_from("ab 😋\t().[]{}\"'\n𝒳é"), min_size=1, max_size=30)


def plain(value):
    start, end = value.start, value.end
    return {
        "start": {"line": start.line, "character": start.character},
        "end": {"line": end.line, "character": end.character},
    }


@given(
    st.text(st.sampled_from("xy 😋é()\r\n\ufeff"), max_size=40),
    st.integers(0, 5),
    st.integers(0, 30),
    TEXTS,
    st.sampled_from(["utf-8", "utf-16", "utf-32"]),
)
def test_an_accepted_item_is_the_document_with_the_suggestion_in_it(text, line, unit, suggestion, encoding):
    document = Document("file:///a", "python", 1, text, encoding)
    shot = document.snapshot(line, unit)
    place = Place.of(shot, document)
    item = inline_item(suggestion, place, 1)
    assert item.range.start.line == item.range.end.line
    done = apply(text, plain(item.range), item.insert_text, encoding)
    own = suggestion.replace("\n", document.line_end)
    brought = duplicated(own, place.line_after)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    before = sum(len(one) + 1 for one in lines[: shot.line]) + len(shot.line_before)
    flat, flat_done = "\n".join(lines), done.replace("\r\n", "\n").replace("\r", "\n")
    before = max(before, int(text.startswith("\ufeff")))  # nothing goes before the mark
    assert flat_done == flat[:before] + suggestion + flat[before + brought :]


@given(TEXTS, st.sampled_from(["", ")", ")]", '")', "])", " x", "}", "') "]))
def test_an_entry_is_right_where_only_its_text_is_inserted(suggestion, line_after):
    place = Place(3, 4, "x.ab", line_after, "\n", "utf-16")
    entry = list_entry(suggestion, place, 1)
    if entry is not None:
        assert plain(entry.text_edit.range) == {
            "start": {"line": 3, "character": 2},
            "end": {"line": 3, "character": 4},
        }
        inserted = entry.text_edit.new_text.removeprefix("ab")
        assert suggestion.startswith(inserted) and inserted
        assert duplicated(inserted, line_after) == 0


@pytest.mark.parametrize(
    ("text", "line_after", "count"),
    [
        ("format(total))", ")", 1),
        ("format(total)", ")", 0),
        ("total", ")", 0),
        ('hello")', '")', 2),
        ('hello', '")', 0),
        ("a) + (b", ")", 0),
        ("a[0]])", "])", 2),
        ('")")', ")", 1),
        ("\n    a,\n    b,\n)", ")", 1),
        ("x)", " )", 0),
        ("'it)'", ")", 0),
    ],
)
def test_closers_that_the_editor_put_there_are_counted(text, line_after, count):
    assert duplicated(text, line_after) == count


def test_a_long_line_is_not_sent_back():
    place = Place(0, 100_000, "x" * (LONGEST_REPEATED + 1), "", "\n", "utf-16")
    assert inline_item("y", place, 1).insert_text == "y"


def test_half_a_character_never_leaves():
    place = Place(0, 1, "\ud83d", "", "\n", "utf-16")
    assert inline_item("\ud83dx", place, 1).insert_text == "\ufffdx"


@given(TEXTS)
def test_words_and_lines_put_together_are_the_suggestion(text):
    for step in (next_word, next_line):
        rest, taken = text, []
        while rest:
            piece = step(rest)
            assert piece
            taken.append(piece)
            rest = rest[len(piece) :]
        assert "".join(taken) == text
