"""A client that watches is told of everybody's work: begun, committed token by token, finished with figures."""

from __future__ import annotations

import json
import os
import queue
from collections.abc import Iterator
from pathlib import Path

import pytest

from assistant.errors import HostError
from assistant.service import spectators
from assistant.service.client import Client
from assistant.service.desk import Desk
from assistant.service.engine_api import SoFar
from assistant.service.protocol import (
    Block,
    Committed,
    CompletionRequest,
    CompletionResult,
    Event,
    Finished,
    Started,
    Token,
)

HERE = Path(__file__).parent
PATIENCE = 30.0
ANSWER = CompletionResult("x", "stop", None, "m", "int8", "auto", new_tokens=1, passes=1)


@pytest.fixture
def host(own_home: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (HERE, HERE.parents[1]))))
    with Client.connect(host_arguments=("--engine", "scripted_engine:factory")) as client:
        yield client


def test_another_client_sees_a_request_without_its_text(host: Client) -> None:
    seen: queue.SimpleQueue[Event] = queue.SimpleQueue()
    ended: queue.SimpleQueue[str] = queue.SimpleQueue()
    with Client.connect(start=False) as watcher:
        watcher.watch(seen.put, ended.put)
        watcher.status()  # the host has read the Watch once it answers this
        host.complete(CompletionRequest(json.dumps({"say": ["done"]}), suffix="after", path="a.py"))
        started, finished = seen.get(timeout=PATIENCE), seen.get(timeout=PATIENCE)
        assert isinstance(started, Started) and isinstance(finished, Finished)
        assert started.job == finished.job and started.attended
        assert (started.request.prefix, started.request.suffix, started.request.path) == ("", "", "a.py")
        assert finished.result is not None and finished.result.completion == "done"
        host.stop()
        assert ended.get(timeout=PATIENCE)


def test_who_comes_later_is_told_of_what_ended(host: Client) -> None:
    host.complete(CompletionRequest(json.dumps({"say": ["one"]})))
    seen: queue.SimpleQueue[Event] = queue.SimpleQueue()
    with Client.connect(start=False) as watcher:
        watcher.watch(seen.put, lambda words: None)
        assert isinstance(seen.get(timeout=PATIENCE), Started)
        finished = seen.get(timeout=PATIENCE)
    assert isinstance(finished, Finished) and finished.result is not None and finished.result.completion == "one"


def test_watching_starts_no_host(own_home: object) -> None:
    with pytest.raises(HostError, match="no engine host is running"):
        Client.connect(start=False)


def desk() -> tuple[Desk, list[Event]]:
    told: list[Event] = []
    return Desk(tell=told.append), told


def test_blocks_are_told_and_kept_with_the_end() -> None:
    made, told = desk()
    made.submit(1, 1, CompletionRequest("a"), None, lambda message: None)
    ticket = made.next()
    assert ticket is not None
    block = Block(1.0, 2, (Token("x", "mtp"), Token("y", "model")))
    made.told_so_far(ticket.job, SoFar("xy", block=block))
    made.finish(ticket, ANSWER)
    assert [type(event) for event in told] == [Started, Committed, Finished]
    assert isinstance(told[-1], Finished) and told[-1].blocks == (block,)


def test_a_stored_answer_is_told_too() -> None:
    made, told = desk()
    request = CompletionRequest("a", trigger="automatic")
    for key in (1, 2):
        made.submit(key, key, request, None, lambda message: None)
        ticket = made.next()
        if ticket is not None:
            made.finish(ticket, ANSWER)
    results = [event.result for event in told if isinstance(event, Finished)]
    assert [result.source for result in results if result is not None] == ["model", "cache"]


def test_only_the_latest_are_kept_and_each_watch_has_its_own_number() -> None:
    made = spectators.Spectators()
    for job in range(spectators.KEPT + 7):
        made.tell(Started(0, job, 0.0, CompletionRequest(""), True))
        made.tell(Finished(0, job, ANSWER))
    got: list[Event] = []
    made.add("me", 9, got.append)
    assert len(got) == 2 * spectators.KEPT
    assert {event.id for event in got} == {9} and got[0].job == 7
    made.remove("me")
    made.tell(Started(0, 99, 0.0, CompletionRequest(""), True))
    assert got[-1].job != 99
