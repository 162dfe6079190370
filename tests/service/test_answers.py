"""The answer cache: exact, greedy only, bounded."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from assistant.service.answers import Answers
from assistant.service.protocol import CompletionRequest, CompletionResult

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
    answers = Answers(limit=20_000)
    for name, length in puts:
        answers.put(CompletionRequest(str(name)), replace(RESULT, completion="x" * length))
        assert answers.bytes <= 20_000
    kept = [answers.get(CompletionRequest(str(name))) for name in range(10)]
    assert answers.bytes == sum(1024 + 4 * len(one.completion) for one in kept if one is not None)


def test_the_least_recently_used_goes_first():
    answers = Answers(limit=2 * 1024 + 40)
    for name in "ab":
        answers.put(CompletionRequest(name), RESULT)
    answers.get(CompletionRequest("a"))
    answers.put(CompletionRequest("c"), RESULT)
    assert answers.get(CompletionRequest("b")) is None
    assert answers.get(CompletionRequest("a")) is not None
