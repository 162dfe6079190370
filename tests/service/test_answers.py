"""The answer cache: exact, greedy only, bounded."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from assistant.service import protocol, window
from assistant.service.answers import OVERHEAD, Answers
from assistant.service.protocol import CompletionRequest, CompletionResult
from assistant.service.window import Window

RESULT = CompletionResult("x = 1", "stop", None, "m", "int8", "auto", prompt_tokens=9, new_tokens=4, passes=3)
REQUEST = CompletionRequest("a", "b")


def test_the_same_request_is_answered_whatever_its_document_trigger_or_stream():
    answers = Answers()
    answers.put(REQUEST, RESULT)
    again = answers.get(replace(REQUEST, document="d", trigger="automatic", stream=True))
    assert again is not None
    assert (again.completion, again.new_tokens) == ("x = 1", 4)
    assert (again.passes, again.reused_tokens, again.load_ms) == (0, 9, 0.0)


def test_anything_that_could_change_the_answer_misses():
    answers = Answers()
    answers.put(REQUEST, RESULT)
    for change in ({"suffix": "c"}, {"prefix": "aa"}, {"model": "m2"}, {"max_tokens": 3}, {"path": "p"}):
        assert answers.get(replace(REQUEST, **change)) is None


def test_prefix_and_suffix_cannot_be_confused():
    answers = Answers()
    answers.put(CompletionRequest("ab", "c"), RESULT)
    assert answers.get(CompletionRequest("a", "bc")) is None


def test_sampled_cancelled_and_warming_requests_are_not_kept():
    answers = Answers()
    answers.put(replace(REQUEST, temperature=0.5), RESULT)
    answers.put(REQUEST, replace(RESULT, finish_reason="cancelled"))
    answers.put(replace(REQUEST, trigger="warm"), RESULT)
    assert answers.bytes == 0
    assert answers.get(REQUEST) is None


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3000)), max_size=40))
def test_it_never_holds_more_than_its_limit_and_counts_right(puts):
    answers = Answers(limit=30_000)
    for name, length in puts:
        answers.put(CompletionRequest(str(name)), replace(RESULT, completion="x" * length))
        assert answers.bytes <= 30_000
    kept = [answers.get(CompletionRequest(str(name))) for name in range(10)]
    assert answers.bytes == sum(OVERHEAD + 4 * len(one.completion) for one in kept if one is not None)


def test_the_least_recently_used_goes_first():
    answers = Answers(limit=2 * OVERHEAD + 40)
    for name in "ab":
        answers.put(CompletionRequest(name), RESULT)
    answers.get(CompletionRequest("a"))
    answers.put(CompletionRequest("c"), RESULT)
    assert answers.get(CompletionRequest("b")) is None
    assert answers.get(CompletionRequest("a")) is not None


CALL = replace(RESULT, completion="send(payload)")


@given(st.text("ab \n", max_size=12), st.text("ab \n", max_size=12), st.text("ab \n", max_size=12))
def test_typing_along_leaves_the_rest_and_typing_otherwise_nothing(text, typed, prefix):
    answers = Answers()
    answers.put(CompletionRequest(prefix), replace(RESULT, completion=text))
    found = answers.get(CompletionRequest(prefix + typed))
    if typed and not (text.startswith(typed) and text[len(typed) :].strip()):
        assert found is None
    else:
        assert (found.completion, found.source) == (text[len(typed) :], "type_through" if typed else "cache")
        assert (found.passes, found.reused_tokens) == (0, found.prompt_tokens)


def test_typing_along_needs_the_same_suffix_and_settings():
    answers = Answers()
    answers.put(CompletionRequest("x = ", "\n"), CALL)
    typed = CompletionRequest("x = se", "\n")
    assert answers.get(typed).completion == "nd(payload)"
    for change in ({"suffix": "\n\n"}, {"model": "other"}, {"max_tokens": 9}, {"path": "/p.py"}):
        assert answers.get(replace(typed, **change)) is None


def test_a_bracket_that_the_editor_closes_by_itself_is_taken_off_the_end():
    answers = Answers()
    answers.put(CompletionRequest("x = ", "\n"), CALL)
    found = answers.get(CompletionRequest("x = send(", ")\n"))
    assert (found.completion, found.source) == ("payload", "type_through")
    assert answers.get(CompletionRequest("x = ", ")\n")) is None
    answers.put(CompletionRequest("x = ", "\n"), replace(CALL, completion="send(\n    payload)"))
    assert answers.get(CompletionRequest("x = send(", ")\n")) is None


def test_an_answer_is_found_when_the_first_lines_have_left_the_window():
    answers = Answers()
    lines = [f"value_{number} = {number}\n" for number in range(400)]
    answers.put(CompletionRequest("".join(lines)), RESULT)
    for dropped in range(4):
        assert answers.get(CompletionRequest("".join(lines[dropped:]))).completion == "x = 1"
        assert answers.get(CompletionRequest("".join(lines[dropped:]) + "x =")).completion == " 1"
    assert answers.get(CompletionRequest("".join(lines[4:]))) is None


def test_an_answer_is_found_when_the_window_of_a_long_file_moves_on():
    answers = Answers()
    text = "v = 1\n" * 60_000
    edge = protocol.PREFIX_WINDOW + protocol.WINDOW_STEP
    answers.put(CompletionRequest(text[: edge - 2]).windowed(), replace(RESULT, completion=text[edge - 2 : edge + 9]))
    moved = CompletionRequest(text[: edge + 3]).windowed()
    assert len(moved.prefix) < protocol.PREFIX_WINDOW + 10
    assert answers.get(moved).completion == text[edge + 3 : edge + 9]


def test_an_answer_is_found_when_the_window_of_an_editors_request_moves_on():
    answers, around = Answers(), Window()
    text = "v = 1\n" * 20_000
    edge = around.before + window.STEP
    answers.put(CompletionRequest(around.last(text[: edge - 2])), replace(RESULT, completion=text[edge - 2 : edge + 9]))
    moved = CompletionRequest(around.last(text[: edge + 3]))
    assert len(moved.prefix) == around.before + 3
    assert answers.get(moved).completion == text[edge + 3 : edge + 9]


def test_lines_of_a_short_prefix_are_not_dropped():
    answers = Answers()
    answers.put(CompletionRequest("import os\nx"), RESULT)
    assert answers.get(CompletionRequest("x")) is None


def test_what_was_given_last_goes_on_and_what_nobody_got_does_not_replace_it():
    answers = Answers()
    answers.put(CompletionRequest("a"), replace(RESULT, completion="bcd"))
    answers.put(CompletionRequest("ab"), replace(RESULT, completion="xyz"), given=False)
    assert answers.get(CompletionRequest("ab")).completion == "cd"
    answers.put(CompletionRequest("a"), replace(RESULT, completion="other"), given=False)
    assert answers.get(CompletionRequest("ab")).completion == "cd"
    answers.put(CompletionRequest("a"), replace(RESULT, completion="bcd\ne"), given=False)
    assert answers.get(CompletionRequest("ab")).completion == "cd\ne"
    answers.put(CompletionRequest("ab"), replace(RESULT, completion="new"))
    assert answers.get(CompletionRequest("ab")).completion == "new"


def test_a_first_line_does_not_replace_the_whole():
    answers = Answers()
    answers.put(REQUEST, replace(RESULT, completion="a\nb"))
    answers.put(REQUEST, replace(RESULT, completion="a", more=True))
    assert answers.get(REQUEST).completion == "a\nb"
