"""The desk while somebody types: every request answered once, type-through exact and free, preparing in nobody's
way.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assistant.errors import HostError
from assistant.service.answers import OVERHEAD
from assistant.service.desk import AFTER_CANCEL
from assistant.service.protocol import CompletionRequest, CompletionResult, Failure, First, RequestCancelled, Result
from tests.service.typist import PROGRAM, Typist, says

KEYS = st.tuples(st.just("key"), st.integers(1, 4), st.sampled_from([0, 0, 5]), st.booleans())
WORK = st.tuples(st.just("step"), st.integers(1, 12))
EVENTS = st.lists(
    st.one_of(
        *(KEYS, KEYS, KEYS, WORK, WORK),  # what happens most
        st.tuples(st.just("follow"), st.integers(1, 4)),
        st.tuples(st.just("type"), st.sampled_from("ab \n")),
        st.tuples(st.just("home"), st.integers(0, 20)),
        st.tuples(st.just("back"), st.integers(1, 5)),
        st.tuples(st.just("ask"), st.sampled_from([0, 0, 5]), st.sampled_from([True, True, False])),
        st.tuples(st.just("invoke")),
        st.tuples(st.just("warm")),
        st.tuples(st.just("other")),
        st.tuples(st.just("cancel"), st.integers(0, 3)),
        st.tuples(st.just("wait")),
        st.tuples(st.just("relax")),
    ),
    min_size=30,
    max_size=90,
)


class Session:
    """A typist, and what the editor shows in document d: (prefix at that time, text)."""

    def __init__(self, limit: int = 4 << 20) -> None:
        self.typist = Typist(limit)
        self.shown = ("", "")
        self.newest = None
        self.type_throughs = 0

    def look(self) -> None:
        """The newest request of d may have been answered: the editor shows it."""
        if self.newest is not None and self.newest.finals:
            result = self.newest.result
            if result is not None:
                self.shown = (self.newest.request.prefix, result.completion)
            self.newest = None

    def left(self) -> str | None:
        """What of the shown text the typing since has left."""
        prefix, text = self.shown
        typed = self.typist.prefix[len(prefix) :]
        if not self.typist.prefix.startswith(prefix) or not text.startswith(typed):
            return None
        return text[len(typed) :]

    def play(self, event) -> None:
        typist = self.typist
        kind, *rest = event
        self.look()
        if kind == "follow":
            typist.prefix += (self.left() or "b")[: rest[0]]
        elif kind == "key":
            typist.prefix += (self.left() or "")[: rest[0]]
            self.ask(budget_ms=rest[1], ahead=rest[2])
        elif kind == "type":
            typist.prefix += rest[0]
        elif kind == "home":
            typist.prefix = PROGRAM[: rest[0]]
        elif kind == "back":
            typist.prefix = typist.prefix[: -rest[0]]
        elif kind == "ask":
            self.ask(budget_ms=rest[0], ahead=rest[1])
        elif kind == "invoke":
            self.newest = typist.ask(trigger="invoked", ahead=False)
        elif kind == "warm":
            typist.ask(trigger="warm", ahead=False)
        elif kind == "other":
            typist.ask(document="e", suffix="x")
        elif kind == "cancel":
            typist.cancel(len(typist.asked) - rest[0])
        elif kind == "step":
            for _ in range(rest[0]):
                typist.step()
        elif kind == "wait":
            typist.now += 0.006
        elif kind == "relax":
            typist.desk.tickets.drop_unattended()

    def ask(self, **change) -> None:
        """Ask in d; where the shown text goes on, the answer must be what is left of it, at once, with no pass."""
        typist, left = self.typist, self.left()
        prefix, text = self.shown
        runs, waiting = len(typist.runs), typist.desk.tickets.waiting
        self.newest = typist.ask(**change)
        if left and left.strip() and text and typist.prefix != prefix:
            self.type_throughs += 1
            result = self.newest.result
            assert result.completion.startswith(left) and result.source == "type_through"
            # More than what was shown only when the first line alone was.
            assert result.completion == left or "\n" not in text.strip()
            assert (result.passes, len(typist.runs)) == (0, runs)
            added = typist.desk.tickets.waiting - waiting
            assert added <= (1 if change.get("ahead") else 0)


def true_to_the_model(prefix: str, result: CompletionResult) -> bool:
    """The answer is what the model says here, or what typing left of what it says at an earlier place."""
    wholes = {
        says(prefix[: len(prefix) - typed])[typed:]
        for typed in range(len(prefix) + 1)
        if says(prefix[: len(prefix) - typed]).startswith(prefix[len(prefix) - typed :])
    }
    if result.source in ("model", "cache"):
        wholes = {says(prefix)}
    text = result.completion
    return text in wholes or (
        result.more  # the first line, without blanks at its end
        and any(
            whole.startswith(text) and not whole[len(text) :].partition("\n")[0].strip() for whole in wholes
        )
    )


@settings(max_examples=300)
@given(EVENTS)
def test_every_request_is_answered_once_and_type_through_is_what_was_shown_less_what_was_typed(events):
    session = Session()
    for event in events:
        session.play(event)
    typist = session.typist
    typist.drain()
    for number, asked in enumerate(typist.asked, 1):
        assert len(asked.finals) == 1 and asked.messages[-1] is asked.finals[0]
        assert asked.messages[-1].id == number
        if asked.result is None:
            continue
        assert isinstance(asked.messages[0], First) or not asked.result.completion
        if asked.request.trigger != "warm":
            assert true_to_the_model(asked.request.prefix, asked.result)
    assert typist.desk.tickets.running is None and typist.desk.tickets.waiting == 0
    assert typist.desk.answered == len(typist.asked)
    assert not typist.desk._jobs


@given(EVENTS, st.integers(0, 6 * OVERHEAD))
def test_stored_answers_stay_within_their_limit_and_leave_nothing_behind(events, limit):
    session = Session(limit)
    session.ask = session.typist.ask  # with so little room an answer may have gone
    for event in events:
        session.play(event)
        answers = session.typist.desk.answers
        assert answers.bytes <= limit
        assert answers.bytes == sum(entry.size for entry in answers._entries.values())
        assert set(answers._numbers.values()) <= set(answers._entries)
        assert len(answers._numbers) <= 5 * len(answers._entries)
    session.typist.drain()
    assert all(len(asked.finals) == 1 for asked in session.typist.asked)


def test_the_events_reach_type_through():
    """The property above must not hold for want of cases."""
    session = Session()
    for event in [("ask", 0, True), ("step", 9), ("follow", 3), ("ask", 0, True), ("follow", 2), ("ask", 0, True)]:
        session.play(event)
    assert session.type_throughs == 2


def test_a_running_answer_is_kept_while_its_text_is_typed():
    typist = Typist()
    first = typist.ask()
    typist.step(), typist.step(), typist.step()
    typist.prefix += PROGRAM[:4]
    second = typist.ask()
    assert first.result is None
    typist.drain()
    assert (second.result.completion, second.result.source) == (says("")[4:], "running")
    assert typist.runs[0].prefix == "" and second.request not in typist.runs


def test_a_running_answer_that_says_otherwise_is_stopped_at_once():
    typist = Typist()
    typist.ask()
    typist.step(), typist.step()
    typist.prefix += "zz"
    second = typist.ask()
    assert typist.desk.tickets.running.abandoned
    typist.drain()
    assert (second.result.completion, second.result.source) == (says("zz"), "model")


def test_a_running_answer_that_ends_where_the_typing_stands_is_asked_anew():
    typist = Typist()
    typist.prefix = PROGRAM[:-3]
    end = says(typist.prefix)
    typist.ask()
    typist.step(), typist.step(), typist.step()
    typist.prefix += end
    second = typist.ask()
    assert not second.finals
    typist.drain()
    assert second.result.completion == says(PROGRAM.rstrip()) and second.result.source == "model"


def test_after_a_cancel_the_answer_that_has_begun_serves_the_next_request():
    typist = Typist()
    typist.ask()
    typist.step(), typist.step()
    typist.cancel(1)
    assert isinstance(typist.asked[0].finals[0], Failure)
    assert not typist.desk.tickets.running.abandoned
    typist.prefix += PROGRAM[:2]
    second = typist.ask()
    typist.drain()
    assert second.result.source == "running" and typist.runs.count(typist.asked[0].request) == 1


def test_after_a_cancel_an_answer_that_has_begun_goes_on_for_a_moment_only():
    typist = Typist()
    typist.ask()
    typist.step(), typist.step()
    typist.cancel(1)
    typist.now = AFTER_CANCEL - 0.01
    typist.step()
    assert not typist.desk.tickets.running.abandoned
    typist.now = AFTER_CANCEL
    typist.step()
    assert typist.desk.tickets.running is None and len(typist.runs) == 1
    assert typist.desk.answers.bytes == 0


def test_who_joins_what_was_cancelled_gets_all_of_it():
    typist = Typist()
    typist.ask()
    typist.step(), typist.step()
    typist.cancel(1)
    typist.prefix = PROGRAM[:2]
    second = typist.ask()
    typist.now = 2 * AFTER_CANCEL
    typist.drain()
    assert (second.result.completion, second.result.source) == (says("")[2:], "running")


@pytest.mark.parametrize("change", [{"ahead": False}, {"trigger": "invoked"}])
def test_a_cancel_stops_what_may_not_go_on(change):
    typist = Typist()
    typist.ask(**change)
    typist.step(), typist.step()
    typist.cancel(1)
    assert typist.desk.tickets.running.abandoned
    assert typist.asked[0].finals[0].code == RequestCancelled.code


def test_a_cancel_before_the_first_token_stops():
    typist = Typist()
    typist.ask()
    typist.step()
    typist.cancel(1)
    assert typist.desk.tickets.running.abandoned


def test_the_first_line_is_the_answer_once_the_time_is_over_and_the_rest_is_stored():
    typist = Typist()
    asked = typist.ask(budget_ms=5, ahead=False)
    for _ in range(5):
        typist.step()
    assert not asked.finals  # in time, all of it is waited for
    typist.now += 0.005
    typist.step()
    line = PROGRAM.partition("\n")[0]
    assert (asked.result.completion, asked.result.more, asked.result.source) == (line, True, "model")
    assert asked.result.new_tokens > 0 and asked.result.passes > 0 and asked.result.prompt_tokens == 10
    typist.drain()
    assert len(typist.runs) == 1
    typist.prefix = line
    rest = typist.ask()
    assert (rest.result.completion, rest.result.source) == (says("")[len(line) :], "type_through")


def test_a_first_line_that_is_not_there_yet_is_waited_for():
    typist = Typist()
    asked = typist.ask(budget_ms=5)
    typist.now = 1.0
    typist.step(), typist.step()
    assert not asked.finals
    while not asked.finals:
        typist.step()
    assert asked.result.completion == PROGRAM.partition("\n")[0]


def test_a_first_line_whose_rest_was_stopped_is_made_whole_when_it_is_asked_for_again():
    typist = Typist()
    typist.ask(budget_ms=1)
    typist.now = 1.0
    while not typist.asked[0].finals:
        typist.step()
    typist.prefix = "zz"
    typist.answer(ahead=False)
    typist.prefix = ""
    again = typist.ask()
    assert again.result.more and again.result.source == "cache"
    typist.drain()
    assert typist.ask().result.completion == says("")


def test_the_next_answer_is_prepared_as_if_this_one_was_accepted():
    typist = Typist()
    text = typist.answer().completion
    typist.drain()
    assert typist.desk.prepared == 1
    typist.prefix += text
    asked = typist.ask()
    assert (asked.result.completion, asked.result.source) == (says(text), "cache")
    assert asked.result.passes == 0


def test_after_a_first_line_that_was_all_its_acceptance_is_prepared():
    typist = Typist()
    typist.prefix = PROGRAM[:-7]
    text = says(typist.prefix)
    assert "\n" not in text
    asked = typist.ask(budget_ms=1)
    typist.now = 1.0
    typist.drain()
    assert asked.result.completion == text
    assert [run.prefix for run in typist.runs] == [PROGRAM[:-7], PROGRAM[:-7] + text]


def test_preparing_gives_way_to_every_request_and_never_goes_on_by_itself():
    typist = Typist()
    typist.answer()
    assert typist.step()
    prepared = typist.desk.tickets.running
    assert prepared.unattended
    typist.prefix = "zz"
    asked = typist.ask(ahead=False)
    assert prepared.abandoned
    typist.drain()
    assert asked.result.completion == says("zz") and len(typist.runs) == 3


def test_a_request_for_what_is_being_prepared_joins_it():
    typist = Typist()
    text = typist.answer().completion
    typist.step()
    typist.prefix += text
    for trigger in ("automatic", "invoked"):
        asked = typist.ask(trigger=trigger, document=trigger)
    typist.drain()
    assert asked.result.completion == says(text) and asked.result.source == "running"
    assert len([run for run in typist.runs if run.prefix == text]) == 1


def test_an_invoked_request_reads_no_stored_answer():
    typist = Typist()
    typist.answer(ahead=False)
    assert typist.answer(trigger="invoked").source == "model"
    assert len(typist.runs) == 2
    assert typist.answer(ahead=False).source == "cache"


def test_a_sampled_or_streamed_request_is_not_aimed_anew():
    for change in ({"temperature": 1.0}, {"stream": True}):
        typist = Typist()
        typist.ask(**change)
        typist.step(), typist.step()
        typist.prefix += PROGRAM[:2]
        assert not typist.ask(**change).finals
        assert typist.desk.tickets.running.abandoned


def test_the_newest_of_a_document_wins_in_a_shared_generation_too():
    typist = Typist()
    typist.ask()
    typist.step(), typist.step()
    typist.prefix = PROGRAM[:2]
    second = typist.ask()
    typist.prefix = ""
    third = typist.ask(trigger="invoked", ahead=False)
    assert second.result is None
    typist.drain()
    assert third.result.completion == says("") and len(typist.runs) <= 2


def test_closing_answers_all_and_prepares_nothing():
    typist = Typist()
    typist.answer()
    typist.step()
    waiting = typist.ask(document="e", suffix="x")
    typist.desk.close(HostError("the host leaves"))
    assert isinstance(waiting.finals[0], Failure)
    typist.drain()
    assert all(len(asked.finals) == 1 for asked in typist.asked)


def test_a_key_that_waits_is_refused():
    typist = Typist()
    typist.ask()
    with pytest.raises(KeyError):
        typist.desk.submit(1, 1, CompletionRequest("x"), None, lambda message: None)
    typist.drain()
    assert isinstance(typist.asked[0].finals[0], Result)
