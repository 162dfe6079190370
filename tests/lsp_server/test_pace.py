"""When a request goes to the engine: as the keys come, and at once where an answer goes on as typed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lsp.pace import DELAY_LIMITS, Expected, Pace


def typing(gap: float, answer: float = 0.0) -> Pace:
    pace = Pace()
    for key in range(30):
        pace.typed(key * gap)
    if answer:
        pace.answered(answer)
    return pace


@given(st.lists(st.floats(0, 1e6)), st.lists(st.floats(0, 100)), st.text())
def test_the_delay_stays_within_its_limits(times, answers, line):
    pace = Pace()
    for time in times:
        pace.typed(time)
    for answer in answers:
        pace.answered(answer)
    assert DELAY_LIMITS[0] <= pace.delay(line) <= DELAY_LIMITS[1]


def test_it_follows_the_speed_of_typing_and_of_answering():
    assert typing(0.1).delay("name") < typing(0.2).delay("name") < typing(0.25).delay("name")
    assert typing(0.25, answer=0.1).delay("name") < typing(0.25).delay("name")
    assert typing(0.25).delay("call(") < typing(0.25).delay("name")


def test_a_pause_is_no_slow_typing():
    pace = typing(0.15)
    before = pace.delay("name")
    pace.typed(1000.0)
    assert pace.delay("name") == before


@given(st.text(max_size=200), st.text(min_size=1, max_size=60), st.text(max_size=80), st.data())
def test_what_was_typed_of_an_answer_is_expected_to_go_on(prefix, answer, suffix, data):
    expected = Expected()
    expected.add(prefix, suffix, answer)
    typed = answer[: data.draw(st.integers(0, len(answer)))]
    assert expected.goes_on(prefix + typed, suffix)


def test_something_else_is_not():
    expected = Expected()
    expected.add("x = ", "\n", "price")
    assert not expected.goes_on("x = q", "\n")
    assert not expected.goes_on("x = p", " + 1\n")
    assert expected.goes_on("x = price", "\n"), "what follows it was prepared"
    assert not expected.goes_on("x = price.", "\n")
    assert not expected.goes_on("y = p", "\n")
