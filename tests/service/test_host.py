"""Conversations with a real host process: every request is answered once, whatever clients do."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import threading

import pytest

from assistant.errors import HostError, OutOfMemoryError, TokenleapError, UnknownModelError, UsageError
from assistant.service import protocol, wire
from assistant.service.endpoint import Endpoint
from assistant.service.protocol import RequestCancelled


def test_a_completion_with_streaming_and_its_times(hosts):
    client = hosts.connect()
    texts = []
    first = client.complete(hosts.request({"say": ["a", "b"]}, stream=True), texts.append)
    assert "".join(texts) == first.completion == "ab"
    assert first.startup_ms > 0 and first.load_ms == 7.0
    assert 0 < first.first_token_ms <= first.total_ms
    second = client.complete(hosts.request({"say": ["a"]}))
    assert (second.startup_ms, second.load_ms) == (0.0, 0.0)
    warm = hosts.connect().complete(hosts.request({"say": ["a"]}))
    assert warm.startup_ms == 0.0


def test_text_is_not_sent_to_who_does_not_stream(hosts):
    texts = []
    hosts.connect().complete(hosts.request({"say": ["a"]}), texts.append)
    assert texts == []


def test_cancel_answers_at_once_and_the_next_request_works(hosts):
    client = hosts.connect()
    script, _ = hosts.held()
    pending = client.submit(hosts.request(script))
    hosts.until(lambda: hosts.notes() == ["run"])
    pending.cancel()
    with pytest.raises(RequestCancelled):
        pending.result()
    assert client.complete(hosts.request({"say": ["next"]})).completion == "next"
    assert hosts.notes() == ["run", "cancelled", "run", "finished"]


def test_cancels_of_answered_and_unknown_requests_are_ignored(hosts):
    client = hosts.connect()
    pending = client.submit(hosts.request())
    assert pending.result().completion == "done"
    pending.cancel()
    client.cancel(999)
    assert client.complete(hosts.request()).completion == "done"


def test_a_burst_of_requests_and_their_cancels_costs_no_generation(hosts):
    client = hosts.connect()
    script, go = hosts.held()
    running = client.submit(hosts.request(script))
    hosts.until(lambda: hosts.notes() == ["run"])
    burst = [client.submit(hosts.request({"say": [str(n)]}, document="d")) for n in range(30)]
    for pending in burst:
        pending.cancel()
    last = client.submit(hosts.request({"say": ["last"]}, document="d"))
    client.status()  # answered after all that was sent before
    go()
    for pending in burst:
        with contextlib.suppress(RequestCancelled):
            assert pending.result() is None  # superseded before its cancel came
    assert (running.result().completion, last.result().completion) == ("ab", "last")
    assert hosts.notes().count("run") == 2


def test_the_newest_request_of_a_document_wins_and_older_ones_get_nothing(hosts):
    client = hosts.connect()
    script, _ = hosts.held()
    first = client.submit(hosts.request(script, document="d"))
    hosts.until(lambda: hosts.notes() == ["run"])
    script, _ = hosts.held("never")
    second = client.submit(hosts.request(script, document="d"))
    third = client.submit(hosts.request({"say": ["newest"]}, document="d"))
    assert first.result() is None
    assert second.result() is None
    assert third.result().completion == "newest"
    assert hosts.notes()[:2] == ["run", "cancelled"]


def test_documents_of_other_clients_are_other_documents(hosts):
    one, two = hosts.connect(), hosts.connect()
    script, go = hosts.held()
    first = one.submit(hosts.request(script, document="d"))
    hosts.until(lambda: hosts.notes() == ["run"])
    second = two.submit(hosts.request({"say": ["b"]}, document="d"))
    go()
    assert (first.result().completion, second.result().completion) == ("ab", "b")


def test_equal_requests_share_one_generation_and_late_ones_get_the_text_so_far(hosts):
    one, two = hosts.connect(), hosts.connect()
    script, go = hosts.held()
    first = one.submit(hosts.request(script, document="d"))
    hosts.until(lambda: hosts.notes() == ["run"])
    texts = []
    second = two.submit(hosts.request(script, stream=True))
    third = one.submit(hosts.request(script, document="d"))
    hosts.until(lambda: two.status().state == "busy")  # the host has read what was sent before
    hosts.until(lambda: one.status().state == "busy")
    go()
    assert first.result().completion == third.result().completion == "ab"
    assert second.result(texts.append).completion == "".join(texts) == "ab"
    assert hosts.notes() == ["run", "finished"]


def test_an_automatic_request_is_answered_from_the_cache_and_an_invoked_one_is_not(hosts):
    client = hosts.connect()
    for trigger in ("automatic", "automatic", "invoked"):
        assert client.complete(hosts.request(trigger=trigger)).completion == "done"
    assert hosts.notes().count("run") == 2
    assert client.complete(hosts.request(trigger="automatic", temperature=0.5)).passes == 3


def test_a_client_that_leaves_cancels_its_requests(hosts):
    stays, leaves = hosts.connect(), hosts.connect()
    script, _ = hosts.held()
    leaves.submit(hosts.request(script))
    hosts.until(lambda: hosts.notes() == ["run"])
    leaves.close()
    hosts.until(lambda: hosts.notes() == ["run", "cancelled"])
    assert stays.complete(hosts.request()).completion == "done"


def test_what_is_prepared_ends_when_a_client_leaves(hosts):
    stays, leaves = hosts.connect(), hosts.connect()
    script, _ = hosts.held()
    pending = leaves.submit(hosts.request(script, trigger="automatic", ahead=True, document="d"))
    hosts.until(lambda: hosts.notes() == ["run"])
    pending.cancel()
    leaves.close()
    hosts.until(lambda: hosts.notes() == ["run", "cancelled"])
    hosts.until(lambda: stays.status().state == "idle")


def test_a_client_can_clear_the_caches(hosts):
    client = hosts.connect()
    client.complete(hosts.request(trigger="automatic"))
    assert client.status().answer_cache_bytes > 0
    client.clear_caches()
    assert client.status().answer_cache_bytes == 0
    assert client.complete(hosts.request(trigger="automatic")).source == "model"


def test_typing_along_with_an_answer_costs_no_generation(hosts):
    client = hosts.connect()
    shown = client.complete(hosts.request({"say": ["return", " x"]}, trigger="automatic", document="d"))
    prefix = hosts.request({"say": ["return", " x"]}).prefix
    typed = client.complete(protocol.CompletionRequest(prefix + "retu", trigger="automatic", document="d"))
    assert (typed.completion, typed.source, typed.passes) == (shown.completion[4:], "type_through", 0)
    assert hosts.notes() == ["run", "finished"] and client.status().passes == shown.passes


def test_interrupting_the_waiting_client_cancels_its_request(hosts):
    client = hosts.connect()
    script, _ = hosts.held()

    def interrupt():
        hosts.until(lambda: hosts.notes() == ["run"])
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    pending = client.submit(hosts.request(script))
    with pytest.raises(KeyboardInterrupt):
        pending.result()
    thread.join()
    hosts.until(lambda: hosts.notes() == ["run", "cancelled"])


def test_errors_keep_their_class_and_sentence(hosts):
    client = hosts.connect()
    with pytest.raises(UnknownModelError, match="there is no model missing"):
        client.complete(hosts.request(model="missing"))
    with pytest.raises(UsageError, match="max_tokens"):
        client.submit(hosts.request(max_tokens=0))
    assert client.complete(hosts.request()).completion == "done"


@pytest.mark.parametrize("kind", ["memory", "torch"])
def test_out_of_memory_answers_at_once_drops_the_caches_and_the_next_request_works(hosts, kind):
    client = hosts.connect()
    client.complete(hosts.request())
    assert client.status().prefix_store_bytes > 0
    with pytest.raises(OutOfMemoryError, match="close other programs"):
        client.complete(hosts.request({"raise": kind}))
    assert client.status().prefix_store_bytes == 0
    after = client.complete(hosts.request())
    assert (after.completion, after.load_ms) == ("done", 0.0)


def test_text_of_the_user_is_in_no_log_and_no_foreign_error(hosts):
    client = hosts.connect()
    with pytest.raises(TokenleapError) as caught:
        client.complete(hosts.request({"raise": "odd", "say": ["sesame"]}))
    assert "ValueError" in str(caught.value) and "sesame" not in str(caught.value)
    log = Endpoint.here().log.read_text(encoding="utf-8")
    assert "ValueError" in log and "sesame" not in log


def test_a_model_that_cannot_be_loaded_leaves_the_old_one_ready(hosts):
    client = hosts.connect()
    client.complete(hosts.request())
    with pytest.raises(UnknownModelError):
        client.complete(hosts.request(model="missing"))
    assert client.complete(hosts.request()).load_ms == 0.0
    assert client.complete(hosts.request(precision="fp32")).load_ms == 7.0
    assert client.status().precision == "fp32"


def test_cancel_while_the_model_loads_and_progress_is_told(hosts):
    client = hosts.connect()
    gate = hosts.folder / "loaded"
    steps = []
    loading = threading.Event()

    def on_progress(*step):
        steps.append(step)
        loading.set()
        pending.cancel()

    pending = client.submit(hosts.request(model=f"hold:{gate}"))
    with pytest.raises(RequestCancelled):
        pending.result(on_progress=on_progress)
    assert steps == [("convert", 1, 2)]
    assert client.status().state == "loading"
    gate.touch()
    assert client.complete(hosts.request(model=f"hold:{gate}")).completion == "done"


def test_status_tells_what_the_host_is(hosts):
    client = hosts.connect()
    client.complete(hosts.request())
    status = client.status()
    assert status.pid == client.host_pid and status.build == protocol.build_hash()
    assert (status.engine, status.engine_reason) == ("scripted", "a test asked for it")
    assert (status.clients, status.requests, status.waiting, status.state) == (1, 1, 0, "idle")
    assert status.peak_rss_bytes >= status.rss_bytes > 1_000_000


def greeted(build=None, number=protocol.PROTOCOL):
    """A raw connection past its handshake (or refused), for saying what no client says."""
    link, token = Endpoint.here().open(10)
    hello = protocol.Hello(number, build or protocol.build_hash(), os.getpid(), token)
    link.sendall(protocol.encode(hello))
    return link


def heard(link):
    """All messages until the host closes the connection."""
    frames, messages = wire.Frames(), []
    try:
        while data := link.recv(65536):
            messages += [protocol.decode(value) for value in frames.feed(data)]
    except ConnectionResetError:
        pass
    link.close()
    return messages


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">I", wire.FRAME_LIMIT + 1) + b"x" * 100,
        struct.pack(">I", 5) + b"hello",
        struct.pack(">I", 2) + b"[]",
        struct.pack(">I", 100_000) + b"[" * 100_000,
        protocol.encode(protocol.Welcome(1, "x", 1)),
        protocol.encode(protocol.Complete(0, protocol.CompletionRequest("x"))),
        struct.pack(">I", 30) + b'{"type":"Complete","id":"one"}',
    ],
)
@pytest.mark.parametrize("after_greeting", [True, False])
def test_garbage_ends_its_own_connection_and_nothing_else(hosts, data, after_greeting):
    client = hosts.connect()
    link = greeted() if after_greeting else Endpoint.here().open(10)[0]
    link.settimeout(20)
    link.sendall(data)
    said = heard(link)
    assert isinstance(said[-1], protocol.Failure) and said[-1].id == 0
    assert client.complete(hosts.request()).completion == "done"


@pytest.mark.parametrize("whole", [True, False])
def test_a_client_gone_in_the_middle_of_a_frame_harms_nobody(hosts, whole):
    client = hosts.connect()
    script, _ = hosts.held()
    link = greeted()
    frame = protocol.encode(protocol.Complete(1, hosts.request(script)))
    link.sendall(frame if whole else frame[: len(frame) // 2])
    link.close()
    assert client.complete(hosts.request({"say": ["x"]})).completion == "x"


def test_an_id_in_use_ends_the_connection(hosts):
    client = hosts.connect()
    script, _ = hosts.held()
    link = greeted()
    link.settimeout(20)
    for _ in range(2):
        link.sendall(protocol.encode(protocol.Complete(7, hosts.request(script))))
    said = heard(link)
    assert isinstance(said[0], protocol.Welcome)
    assert isinstance(said[-1], protocol.Failure) and said[-1].id == 0
    assert client.complete(hosts.request()).completion == "done"


def test_a_client_of_another_build_or_protocol_is_refused(hosts):
    client = hosts.connect()
    for link in (greeted(build="0" * 24), greeted(number=protocol.PROTOCOL + 1)):
        link.settimeout(20)
        (failure,) = heard(link)
        assert "another version" in failure.message
    assert client.complete(hosts.request()).completion == "done"


def test_more_requests_than_a_client_may_have_open_are_refused(hosts):
    client = hosts.connect()
    script, go = hosts.held()
    first = client.submit(hosts.request(script))
    rest = [client.submit(hosts.request({"say": [str(n)]})) for n in range(300)]
    with pytest.raises(UsageError, match="requests wait"):
        rest[-1].result()
    go()
    assert first.result().completion == "ab"
    assert rest[0].result().completion == "0"


def test_many_threads_share_one_client(hosts):
    client = hosts.connect()
    answers: dict[int, str] = {}

    def ask(number):
        answers[number] = client.complete(hosts.request({"say": [str(number)]})).completion

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: str(number) for number in range(20)}


def test_the_socket_is_the_users_alone(hosts):
    hosts.connect()
    address = Endpoint.here().address
    assert address.stat().st_mode & 0o777 == 0o600
    assert address.parent.stat().st_mode & 0o777 == 0o700
    assert Endpoint.here().lock.stat().st_mode & 0o777 == 0o600
    assert Endpoint.here().log.stat().st_mode & 0o777 == 0o600


def test_on_a_loopback_port_the_token_is_asked_for(hosts):
    endpoint = Endpoint.here("tcp")
    client = hosts.connect(endpoint=endpoint)
    assert client.complete(hosts.request()).completion == "done"
    assert endpoint.address.stat().st_mode & 0o777 == 0o600
    link, token = endpoint.open(10)
    link.settimeout(20)
    wrong = protocol.Hello(protocol.PROTOCOL, protocol.build_hash(), 1, token[:-1] + "x")
    link.sendall(protocol.encode(wrong))
    (failure,) = heard(link)
    assert "token" in failure.message
    client.stop()
    assert hosts.left_over() == []


def test_a_client_that_never_reads_is_let_go(hosts):
    client = hosts.connect()
    link = greeted()
    piece = "x" * 200_000
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    for number in range(1, 100):
        try:
            request = hosts.request({"say": [piece, str(number)]})
            link.sendall(protocol.encode(protocol.Complete(number, request)))
        except OSError:
            break
    hosts.until(lambda: client.status().clients == 1)
    link.close()
    assert client.complete(hosts.request()).completion == "done"


def test_a_host_that_is_told_to_stop_answers_what_waits(hosts):
    client = hosts.connect()
    script, _ = hosts.held()
    pending = client.submit(hosts.request(script))
    hosts.until(lambda: hosts.notes() == ["run"])
    hosts.connect().stop()
    with pytest.raises(HostError):
        pending.result()
    assert hosts.left_over() == []
