"""The queue's rules, under any order of events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.service.tickets import CHAT, INLINE, WARM, Tickets

EVENTS = st.lists(
    st.one_of(
        st.tuples(
            st.just("add"),
            st.sampled_from([None, "a", "b"]),
            st.sampled_from([INLINE, CHAT, WARM]),
            st.integers(0, 3),
        ),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("next")),
        st.tuples(st.just("finish")),
    ),
    max_size=60,
)


@given(EVENTS)
def test_every_ask_is_answered_exactly_once_and_a_document_has_one_running_and_one_waiting(events):
    tickets, answers, documents, newest = Tickets(), {}, {}, {}

    def answer(keys, how):
        for key in keys:
            assert key not in answers, "answered twice"
            answers[key] = how

    for number, event in enumerate(events):
        if event[0] == "add":
            _, document, priority, identity = event
            documents[number] = document
            added = tickets.add(
                number, None, priority=priority, document=document, identity=(priority, identity)
            )
            answer(added.superseded, "superseded")
            assert number not in added.superseded
            if priority == INLINE and document is not None:
                newest[document] = number
        elif event[0] == "cancel" and tickets.cancel(event[1]):
            answer([event[1]], "cancelled")
        elif event[0] == "next" and tickets.running is None:
            waiting = list(tickets._waiting)
            ticket = tickets.next()
            if ticket is not None:
                assert all(ticket.priority <= other.priority for other in waiting)
                assert ticket.asks and not ticket.abandoned
        elif event[0] == "finish" and tickets.running is not None:
            abandoned = tickets.running.abandoned
            keys = tickets.finish(tickets.running)
            assert abandoned == (not keys)
            answer(keys, "result")
        for document in ("a", "b"):
            inline = [
                ticket
                for ticket in tickets._waiting
                if ticket.priority == INLINE and document in ticket.asks.values()
            ]
            assert len(inline) <= 1
        for document, number_of_newest in newest.items():
            assert answers.get(number_of_newest) != "superseded" or newest[document] != number_of_newest

    while tickets.running is not None or tickets.next() is not None:
        answer(tickets.finish(tickets.running), "result")
    assert answers.keys() == documents.keys()


def add(tickets, key, priority=INLINE, document=None, identity=None):
    return tickets.add(
        key, None, priority=priority, document=document, identity=key if identity is None else identity
    )


def test_inline_goes_before_chat_before_warming_and_equals_in_order():
    tickets = Tickets()
    for key, priority in (("w", WARM), ("c", CHAT), ("i1", INLINE), ("i2", INLINE)):
        add(tickets, key, priority)
    order = []
    while (ticket := tickets.next()) is not None:
        order += tickets.finish(ticket)
    assert order == ["i1", "i2", "c", "w"]


def test_the_newest_ask_of_a_document_stops_the_running_one_and_replaces_the_waiting_one():
    tickets = Tickets()
    add(tickets, 1, document="d")
    running = tickets.next()
    assert add(tickets, 2, document="d").superseded == (1,)
    assert running.abandoned
    assert add(tickets, 3, document="d").superseded == (2,)
    assert add(tickets, 4, document="other").superseded == ()
    assert tickets.finish(running) == ()
    assert tickets.finish(tickets.next()) == (3,)


def test_equal_asks_share_one_ticket_and_one_of_them_can_leave():
    tickets = Tickets()
    add(tickets, 1, identity="same")
    running = tickets.next()
    assert add(tickets, 2, identity="same").shared
    assert tickets.cancel(1)
    assert not running.abandoned
    assert tickets.finish(running) == (2,)


def test_a_stopped_ticket_is_not_shared():
    tickets = Tickets()
    add(tickets, 1, identity="same")
    running = tickets.next()
    tickets.cancel(1)
    assert not add(tickets, 2, identity="same").shared
    assert tickets.finish(running) == ()


def test_superseding_in_one_document_leaves_the_other_document_that_shares_the_ticket():
    tickets = Tickets()
    add(tickets, 1, document="a", identity="same")
    add(tickets, 2, document="b", identity="same")
    running = tickets.next()
    assert add(tickets, 3, document="a").superseded == (1,)
    assert tickets.finish(running) == (2,)


def test_warming_never_delays_and_never_supersedes():
    tickets = Tickets()
    add(tickets, "warm", WARM, document="d")
    running = tickets.next()
    assert add(tickets, "inline", document="other").superseded == ("warm",)
    assert running.abandoned
    assert add(tickets, "warm2", WARM, document="other").superseded == ()


def test_unknown_and_answered_cancels_are_ignored_and_a_key_in_use_is_refused():
    tickets = Tickets()
    assert not tickets.cancel(999)
    add(tickets, 1)
    with pytest.raises(KeyError):
        add(tickets, 1)
    assert tickets.finish(tickets.next()) == (1,)
    assert not tickets.cancel(1)


def test_thirty_asks_and_their_cancels_leave_nothing_to_run():
    tickets = Tickets()
    add(tickets, 0, document="d")
    running = tickets.next()
    for key in range(1, 31):
        add(tickets, key, document="other")
        assert tickets.cancel(key)
    assert tickets.waiting == 0
    assert tickets.finish(running) == (0,)


def test_what_nobody_asked_for_waits_alone_and_gives_way_to_whoever_asks():
    tickets = Tickets()
    assert tickets.add_unattended("one", "i1") and tickets.add_unattended("two", "i2")
    assert not tickets.add_unattended("again", "i2")
    assert tickets.waiting == 1
    running = tickets.next()
    assert running.job == "two" and running.unattended
    tickets.add_unattended("three", "i3")
    add(tickets, 1, document="d")
    assert running.abandoned and tickets.waiting == 1
    assert tickets.finish(running) == ()
    assert tickets.finish(tickets.next()) == (1,)


def test_warming_does_not_stop_what_is_prepared_and_goes_after_it():
    tickets = Tickets()
    tickets.add_unattended("ahead", "i")
    add(tickets, "warm", WARM)
    running = tickets.next()
    assert running.job == "ahead" and not running.abandoned
    tickets.finish(running)
    assert tickets.finish(tickets.next()) == ("warm",)


def test_an_equal_ask_joins_what_is_prepared_at_its_own_priority():
    tickets = Tickets()
    tickets.add_unattended("ahead", "same")
    assert add(tickets, 1, identity="same").shared
    running = tickets.next()
    assert running.job == "ahead" and running.priority == INLINE
    add(tickets, 2, identity="other")
    assert not running.abandoned
    assert tickets.finish(running) == (1,)


def test_a_released_ticket_goes_on_until_somebody_asks():
    tickets = Tickets()
    add(tickets, 1, document="d")
    with pytest.raises(KeyError):
        tickets.release(1)
    running = tickets.next()
    tickets.release(1)
    assert running.unattended and not tickets.cancel(1)
    assert tickets.add("2", None, priority=INLINE, document="d", identity=2, join=running).shared
    assert not running.abandoned and tickets.finish(running) == ("2",)


def test_who_joins_supersedes_the_older_ask_of_its_document_there():
    tickets = Tickets()
    add(tickets, 1, document="d", identity="a")
    add(tickets, 2, document="e", identity="a")
    running = tickets.next()
    added = tickets.add(3, None, priority=INLINE, document="d", identity="b", join=running)
    assert added.superseded == (1,) and tickets.finish(running) == (2, 3)


def test_an_ask_that_is_served_already_stops_no_warming():
    tickets = Tickets()
    add(tickets, "warm", WARM, document="w")
    add(tickets, 1, document="d")
    running = tickets.next()
    assert tickets.supersede("d", INLINE, "other", served=True) == (1,)
    tickets.finish(running)
    warm = tickets.next()
    assert tickets.supersede("e", INLINE, "x", served=True) == () and not warm.abandoned
    assert tickets.supersede("e", INLINE, "x") == ("warm",)
