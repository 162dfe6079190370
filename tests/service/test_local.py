"""The in-process service and its worker: the same answers, and an engine that fails in every way."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest

from assistant.errors import HostError, NoSpaceError, OutOfMemoryError, UsageError
from assistant.service.engine_api import Wanted
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
