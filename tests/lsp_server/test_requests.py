"""Who waits, who gives way and when the host is told to stop, with a host that does nothing by itself."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from assistant.service.protocol import CompletionResult
from assistant.settings.schema import Settings
from lsp.hostlink import Job, State
from lsp.requests import AUTOMATIC, INVOKED, Ask, Desk

ASK = Ask("file:///a", 1, (0, 4, ""), "x = ", "", "x = ", None, "python", AUTOMATIC, Settings())
RESULT = CompletionResult("done", "stop", None, "m", "int8", "auto")


class Host:
    """A link that notes what it is asked; `settled` says when all that the editor sent was read."""

    def __init__(self) -> None:
        self.state = State.READY
        self.submitted: list[Job] = []
        self.cancelled: list[Job] = []
        self.begun = 0
        self.loaded = asyncio.Event()
        self.read = asyncio.Event()
        self.read.set()
        self.desk = Desk(self, self.read.wait, self.begin, lambda error: None)

    def begin(self, settings: Settings) -> None:
        self.begun += 1
        self.state = State.LOADING

    def submit(self, request) -> Job:
        job = Job(asyncio.get_running_loop().create_future())
        if request.candidates == 1:
            self.submitted.append(job)
        return job

    def cancel(self, job: Job) -> None:
        if job in self.submitted:
            self.cancelled.append(job)

    def look(self) -> None:
        pass

    async def ready(self, patience: float | None = None) -> bool:
        await self.loaded.wait()
        return True

    def load(self) -> None:
        self.state = State.READY
        self.loaded.set()

    def ask(self, **change) -> asyncio.Task:
        return asyncio.ensure_future(self.desk.ask(replace(ASK, **change)))

    async def sent(self, count: int) -> None:
        """Until so many requests were sent."""
        while len(self.submitted) < count:
            await asyncio.sleep(0)


async def turns() -> None:
    """All that can happen without time passing."""
    for _ in range(30):
        await asyncio.sleep(0)


def conversation(test):
    def run() -> None:
        async def within() -> None:
            await asyncio.wait_for(test(Host()), 60)

        asyncio.run(within())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@conversation
async def test_a_cancel_reaches_the_host_at_once_when_nothing_newer_was_asked(host):
    asked = host.ask()
    await host.sent(1)
    asked.cancel()
    await turns()
    assert host.cancelled == host.submitted
    assert asked.cancelled()


@conversation
async def test_what_gave_way_runs_on_until_the_newer_one_is_sent(host):
    older = host.ask()
    await host.sent(1)
    host.read.clear()
    newer = host.ask(revision=2, prefix="x = d")
    await turns()
    assert older.result().reason == "superseded"
    assert host.cancelled == []
    host.read.set()
    await host.sent(2)
    host.submitted[0].answer.set_result(None)  # by the host, when the newer one came
    host.submitted[1].answer.set_result(RESULT)
    assert (await newer).texts == ("done",)
    assert host.cancelled == []


@conversation
async def test_what_gave_way_is_stopped_when_the_newer_one_is_never_sent(host):
    host.ask()
    await host.sent(1)
    host.read.clear()
    newer = host.ask(revision=2)
    await turns()
    newer.cancel()
    await turns()
    assert host.cancelled == host.submitted and len(host.submitted) == 1


@conversation
async def test_a_third_one_takes_over_from_a_second_one_that_was_never_sent(host):
    host.ask()
    await host.sent(1)
    host.read.clear()
    second, third = host.ask(revision=2), host.ask(revision=3)
    await turns()
    second.cancel()
    await turns()
    assert host.cancelled == []
    third.cancel()
    await turns()
    assert host.cancelled == host.submitted


@conversation
async def test_nothing_of_a_closed_document_runs_on(host):
    host.ask()
    await host.sent(1)
    host.desk.give_up(ASK.document)
    await turns()
    assert host.cancelled == host.submitted


@conversation
async def test_who_leaves_a_shared_question_stops_nothing(host):
    one, other = host.ask(), host.ask()
    await host.sent(1)
    one.cancel()
    await turns()
    assert host.cancelled == []
    host.submitted[0].answer.set_result(RESULT)
    assert (await other).texts == ("done",) and len(host.submitted) == 1


@conversation
async def test_while_the_model_loads_a_key_gets_nothing_at_once_and_a_request_by_hand_waits(host):
    host.state = State.LOADING
    first = [host.ask(), host.ask()]
    assert [(await asked).reason for asked in first] == ["loading"] * 2
    by_hand = host.ask(trigger=INVOKED)
    await turns()
    assert not by_hand.done() and host.begun == 0
    host.load()
    await host.sent(1)
    host.submitted[0].answer.set_result(RESULT)
    assert (await by_hand).texts == ("done",)


@conversation
async def test_an_engine_that_went_away_is_waited_for_by_the_request_that_brings_it(host):
    host.state = State.AWAY
    both = [host.ask(), host.ask()]
    while not host.begun:
        await asyncio.sleep(0)
    await turns()
    assert not any(asked.done() for asked in both)
    host.load()
    await host.sent(1)
    host.submitted[0].answer.set_result(RESULT)
    assert [(await asked).texts for asked in both] == [("done",)] * 2
    assert (host.begun, len(host.submitted)) == (1, 1)


@pytest.mark.parametrize("trigger", [AUTOMATIC, INVOKED])
def test_a_newer_question_does_not_wait_for_the_engine_twice(trigger):
    @conversation
    async def run(host):
        host.state = State.AWAY
        older = host.ask()
        while not host.begun:
            await asyncio.sleep(0)
        newer = host.ask(revision=2, trigger=trigger)
        assert (await older).reason == "superseded"
        if trigger == AUTOMATIC:
            assert (await newer).reason == "loading"
        else:
            host.load()
            await host.sent(1)
            newer.cancel()
        assert host.begun == 1

    run()
