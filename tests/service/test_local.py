"""The in-process service and its worker: the same answers, and an engine that fails in every way."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assistant.errors import HostError, NoSpaceError, OutOfMemoryError, UsageError
from assistant.service.engine_api import SoFar, Wanted
from assistant.service.local import LocalService
from assistant.service.protocol import CompletionRequest, CompletionResult, RequestCancelled
from assistant.service.trouble import described, out_of_memory, understood

RESULT = CompletionResult("done", "stop", None, "m", "int8", "plain")


class Engine:
    """Runs `act(request, hooks)`; counts what happens to it."""

    path, reason, load_ms = "fake", "a test", 3.0

    def __init__(self, wanted, act):
        self.model, self.precision = wanted.model, wanted.precision
        self.act = act
        self.dropped = 0
        self.closed = False
        self.broken = False

    def complete(self, request, hooks):
        return self.act(request, hooks)

    def drop_caches(self):
        if self.broken:
            raise RuntimeError("broken")
        self.dropped += 1

    def store_bytes(self):
        return 0

    def close(self):
        self.closed = True


@pytest.fixture
def serve():
    """Makes a service whose engine does what the test says; gives it and the engines that were loaded."""
    services = []

    def make(act, load=None):
        engines = []

        def factory(wanted, progress):
            if load is not None:
                load(wanted, engines)
            engines.append(Engine(wanted, act))
            return engines[-1]

        services.append(LocalService(factory))
        return services[-1], engines

    yield make
    for service in services:
        service.close()


def test_it_answers_as_the_host_does(scripted):
    with LocalService(scripted.factory) as service:
        texts = []
        result = service.complete(
            CompletionRequest(json.dumps({"say": ["a", "b"]}), stream=True), texts.append
        )
        assert "".join(texts) == result.completion == "ab"
        assert result.startup_ms > 0 and result.load_ms == 7.0
        assert 0 < result.first_token_ms <= result.total_ms
        status = service.status()
        assert (status.model, status.requests, status.state) == ("qwen2.5-coder-0.5b", 1, "idle")
        service.stop()
        with pytest.raises(HostError):
            service.complete(CompletionRequest("{}"))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OutOfMemoryError("too little"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_too_little_memory_in_a_request_drops_the_caches_and_keeps_the_engine(serve, error):
    failing = [error]

    def act(request, hooks):
        if failing:
            raise failing.pop()
        return RESULT

    service, engines = serve(act)
    with pytest.raises(OutOfMemoryError):
        service.complete(CompletionRequest("x"))
    assert service.complete(CompletionRequest("x")).completion == "done"
    assert len(engines) == 1 and engines[0].dropped == 1


def test_an_engine_that_cannot_even_drop_its_caches_is_replaced(serve):
    def act(request, hooks):
        if request.prefix == "fail":
            raise MemoryError
        return RESULT

    service, engines = serve(act)
    service.complete(CompletionRequest("x"))
    engines[0].broken = True
    with pytest.raises(OutOfMemoryError):
        service.complete(CompletionRequest("fail"))
    assert service.complete(CompletionRequest("x")).completion == "done"
    assert [engine.closed for engine in engines] == [True, False]


def test_two_models_that_do_not_fit_together_are_loaded_one_after_the_other(serve):
    def load(wanted, engines):
        if any(not engine.closed for engine in engines):
            raise MemoryError

    service, engines = serve(lambda request, hooks: RESULT, load)
    for model in ("a", "b", "b"):
        service.complete(CompletionRequest("x", model=model))
    assert [(engine.model, engine.closed) for engine in engines] == [("a", True), ("b", False)]


def test_the_old_engine_is_closed_when_another_is_loaded_and_all_at_the_end(serve):
    service, engines = serve(lambda request, hooks: RESULT)
    for change in ({}, {"precision": "fp32"}, {"threads": 1}, {"device": "cpu"}):
        service.complete(replace(CompletionRequest("x"), **change))
    assert [engine.closed for engine in engines] == [True, True, True, False]
    service.stop()
    assert engines[-1].closed


def test_refused_requests_cost_nothing(serve):
    def act(request, hooks):
        raise UsageError("no")

    service, engines = serve(act)
    with pytest.raises(UsageError):
        service.complete(CompletionRequest("x"))
    assert engines[0].dropped == 0
    with pytest.raises(UsageError):
        service.complete(CompletionRequest("x", candidates=0))


def test_cancel_from_another_thread_reaches_the_engine(serve):
    running = threading.Event()
    seen = threading.Event()

    def act(request, hooks):
        running.set()
        while not hooks.cancelled():
            seen.wait(0.001)
        seen.set()
        return replace(RESULT, finish_reason="cancelled")

    service, _ = serve(act)
    pending = service.submit(CompletionRequest("x"))
    assert running.wait(20)
    service.cancel(pending.id)
    with pytest.raises(RequestCancelled):
        pending.result()
    assert seen.wait(20)


def test_an_exception_in_the_callback_of_the_waiting_thread_cancels(serve):
    stopped = threading.Event()

    def act(request, hooks):
        hooks.text("a")
        while not hooks.cancelled():
            stopped.wait(0.001)
        stopped.set()
        return replace(RESULT, finish_reason="cancelled")

    service, _ = serve(act)

    def on_text(text):
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        service.complete(CompletionRequest("x", stream=True), on_text)
    assert stopped.wait(20)


def test_done_is_told_once_and_a_failing_listener_harms_nobody(serve):
    service, _ = serve(lambda request, hooks: RESULT)
    told = []
    ended = threading.Event()

    def on_done(pending):
        told.append(pending.id)
        ended.set()
        raise ValueError

    pending = service.submit(CompletionRequest("x"), on_done)
    assert pending.result().completion == "done"
    assert pending.result().completion == "done"  # may be asked again
    assert ended.wait(20) and told == [pending.id]
    assert service.complete(CompletionRequest("y")).completion == "done"


def test_warming_gives_way_to_a_request(serve):
    warming = threading.Event()

    def act(request, hooks):
        if request.trigger == "warm":
            warming.set()
            while not hooks.cancelled():
                pass
        return RESULT

    service, _ = serve(act)
    warm = service.submit(CompletionRequest("x", trigger="warm"))
    assert warming.wait(20)
    assert service.complete(CompletionRequest("x")).completion == "done"
    assert warm.result() is None


def test_errors_are_understood_without_text_of_the_users():
    try:
        raise ValueError("secret")
    except ValueError as error:
        assert "secret" not in described(error) and "test_local.py" in described(error)
        assert "secret" not in str(understood(error))
    assert isinstance(understood(OSError(28, "No space left on device")), NoSpaceError)
    assert "/some/where" in str(understood(PermissionError(13, "Permission denied", "/some/where")))
    assert not out_of_memory(RuntimeError("shape mismatch"))
    Wanted("m", "int8", "auto", 0, 1)


def test_torchs_own_error_is_known():
    torch = pytest.importorskip("torch")
    assert out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))


class Typewriter:
    """Speaks a text line by line; a test opens the gate in front of each line but the first."""

    def __init__(self, text="first\nsecond\nthird"):
        self.lines = text.splitlines(keepends=True)
        self.gates = [threading.Event() for _ in self.lines[1:]]
        self.begun = threading.Event()
        self.runs = []

    def act(self, request, hooks):
        self.runs.append(request)
        text = self.lines[0]
        hooks.first()
        hooks.so_far(SoFar(text, 9, 5, 3, 2))
        hooks.text(text.rstrip())
        self.begun.set()
        for line, gate in zip(self.lines[1:], self.gates, strict=True):
            while not gate.wait(0.001):
                if hooks.cancelled():
                    return replace(RESULT, completion=text, finish_reason="cancelled", passes=2)
            hooks.text(("\n" + line).rstrip())
            text += line
        return replace(RESULT, completion=text, passes=4, prompt_tokens=9, reused_tokens=5)

    def release(self):
        for gate in self.gates:
            gate.set()


AUTOMATIC = CompletionRequest("x = ", document="d", trigger="automatic")


def test_the_first_line_comes_in_time_and_the_rest_without_a_second_generation(serve):
    writer = Typewriter()
    service, _ = serve(writer.act)
    first = service.complete(replace(AUTOMATIC, budget_ms=1))
    assert (first.completion, first.more, first.source) == ("first", True, "model")
    assert (first.prompt_tokens, first.reused_tokens, first.passes) == (9, 5, 2)
    assert 0 < first.first_token_ms <= first.total_ms
    typed = service.complete(replace(AUTOMATIC, prefix="x = fi"))
    assert (typed.completion, typed.source, typed.passes) == ("rst", "type_through", 0)
    rest = service.submit(replace(AUTOMATIC, prefix="x = first"))
    writer.release()
    result = rest.result()
    assert (result.completion, result.source) == ("\nsecond\nthird", "running")
    assert len(writer.runs) == 1


def test_a_running_answer_is_kept_for_the_newer_request_that_it_answers(serve):
    writer = Typewriter()
    service, _ = serve(writer.act)
    older = service.submit(AUTOMATIC)
    assert writer.begun.wait(20)
    newer = service.submit(replace(AUTOMATIC, prefix="x = fir"))
    assert older.result() is None
    writer.release()
    assert newer.result().completion == "st\nsecond\nthird"
    assert len(writer.runs) == 1


def test_what_was_prepared_is_there_and_all_work_is_counted(serve):
    prepared = threading.Event()

    def act(request, hooks):
        hooks.first()
        if request.prefix == "x = done":
            prepared.set()
        return replace(RESULT, passes=3, prompt_tokens=9, reused_tokens=5)

    service, _ = serve(act)
    service.complete(replace(AUTOMATIC, ahead=True))
    assert prepared.wait(20)
    after = service.complete(replace(AUTOMATIC, prefix="x = done"))
    assert (after.completion, after.passes) == ("done", 0) and after.source in ("cache", "running")
    status = service.status()
    assert (status.prepared, status.passes, status.prompt_tokens, status.reused_tokens) == (1, 6, 18, 10)
    assert status.requests == 2


def test_cleared_caches_are_empty(serve):
    service, engines = serve(lambda request, hooks: RESULT)
    service.complete(AUTOMATIC)
    assert service.status().answer_cache_bytes > 0
    service.clear_caches()
    assert service.status().answer_cache_bytes == 0
    assert service.complete(AUTOMATIC).source == "model"
    assert engines[0].dropped == 1


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from(["ask", "cancel", "type", "back"])), max_size=60))
def test_threads_answer_every_request_once_and_come_to_rest(moves):
    def act(request, hooks):
        text = "abc\nabc"
        hooks.first()
        for end in range(1, len(text) + 1):
            if hooks.cancelled():
                return replace(RESULT, completion=text[:end], finish_reason="cancelled")
            hooks.so_far(SoFar(text[:end]))
            if end == 3:
                hooks.text(text[:end])
        hooks.text(text[3:])
        return replace(RESULT, completion=text)

    told: list[int] = []
    with LocalService(lambda wanted, progress: Engine(wanted, act)) as service:
        prefix, pending = "", []
        for number, move in moves:
            if move == "ask":
                request = replace(AUTOMATIC, prefix=prefix, document=str(number % 2), ahead=True, budget_ms=number)
                pending.append(service.submit(request, lambda one: told.append(one.id)))
            elif move == "cancel" and pending:
                pending[-1 - number % len(pending)].cancel()
            elif move == "type":
                prefix += "abc\n"[number % 4]
            elif move == "back":
                prefix = prefix[:-number]
        for one in pending:
            with contextlib.suppress(RequestCancelled):
                result = one.result()
                assert result is None or "abc\nabc".endswith(result.completion) or result.more
        deadline = time.monotonic() + 20
        while service.status().state != "idle" or service.status().waiting:
            assert time.monotonic() < deadline
        assert service.status().requests == len(pending)
    assert sorted(told) == [one.id for one in pending]
