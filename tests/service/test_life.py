"""The life of the host: one winner, restart after any death, nothing left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from assistant.errors import HostError
from assistant.service import launch, protocol
from assistant.service.client import Client
from assistant.service.endpoint import Endpoint, HostLock


def test_five_clients_at_once_start_one_host(hosts):
    pids, errors = [], []
    begin = threading.Barrier(5)

    def come():
        try:
            begin.wait()
            client = hosts.connect()
            client.complete(hosts.request())
            pids.append(client.host_pid)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=come) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(pids) == 5 and len(set(pids)) == 1
    hosts.until(lambda: launch.reap() or len(launch._children) == 1)  # the others left by themselves
    assert len([name for name in hosts.left_over() if name.endswith((".sock", ".lock"))]) == 2


@pytest.mark.parametrize("moment", ["decode", "load"])
def test_a_host_killed_in_the_middle_is_one_clear_error_and_the_next_request_starts_another(hosts, moment):
    client = hosts.connect()
    script, _ = hosts.held()
    if moment == "decode":
        requests = [client.submit(hosts.request(script)), client.submit(hosts.request({"say": ["waits"]}))]
        hosts.until(lambda: hosts.notes() == ["run"])
    else:
        requests = [client.submit(hosts.request(model=f"hold:{hosts.folder / 'never'}"))]
        hosts.until(lambda: client.status().state == "loading")
    old = client.host_pid
    os.kill(old, signal.SIGKILL)
    for pending in requests:
        with pytest.raises(HostError, match="went away"):
            pending.result()
    hosts.until(lambda: client.host_pid is None)
    answer = client.complete(hosts.request({"say": ["again"]}))
    assert answer.completion == "again" and answer.startup_ms > 0
    assert client.host_pid not in (None, old)
    assert hosts.connect().host_pid == client.host_pid
    client.stop()
    assert hosts.left_over() == []


def test_what_a_killed_host_left_is_no_obstacle(hosts):
    endpoint = Endpoint.here()
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(endpoint.address))
    left.close()
    endpoint.lock.write_text("99999999")
    client = hosts.connect()
    assert client.complete(hosts.request()).completion == "done"
    client.stop()
    assert hosts.left_over() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_host_in_order(hosts, number):
    client = hosts.connect()
    script, _ = hosts.held()
    pending = client.submit(hosts.request(script))
    hosts.until(lambda: hosts.notes() == ["run"])
    os.kill(client.host_pid, number)
    with pytest.raises(HostError, match="stopped"):
        pending.result()
    assert launch.wait_gone(Endpoint.here(), 20)
    assert hosts.left_over() == []
    assert hosts.notes() == ["run", "cancelled"]


def test_a_host_leaves_even_when_its_engine_does_not_come_back(hosts):
    client = hosts.connect()
    pending = client.submit(hosts.request(model=f"hold:{hosts.folder / 'never'}"))
    hosts.until(lambda: client.status().state == "loading")
    client.stop()
    with pytest.raises(HostError, match="stopped"):
        pending.result()
    assert hosts.left_over() == []


def test_a_host_without_clients_leaves_after_its_time_and_not_before(hosts):
    client = hosts.connect("--idle-seconds", "0.2")
    hosts.until(lambda: client.status().uptime_s > 0.6)
    client.close()
    assert launch.wait_gone(Endpoint.here(), 20)
    assert hosts.left_over() == []


def test_idle_time_zero_means_for_ever(hosts):
    client = hosts.connect("--idle-seconds", "0")
    client.close()
    again = Client.connect(start=False)
    assert again.status().clients == 1
    again.close()


def test_the_idle_time_is_a_setting_of_the_users(hosts, own_home):
    own_home.settings("idle_minutes = 0\nunknown = 1\n")
    client = hosts.connect()
    assert client.complete(hosts.request()).completion == "done"


def test_a_host_whose_socket_was_removed_leaves(hosts):
    client = hosts.connect("--look-seconds", "0.02")
    old = client.host_pid
    os.unlink(Endpoint.here().address)
    hosts.until(lambda: client.host_pid is None)
    assert launch.wait_gone(Endpoint.here(), 20)
    assert client.complete(hosts.request()).completion == "done"
    assert client.host_pid != old


def test_a_second_host_leaves_to_the_first(hosts):
    client = hosts.connect()
    command = [sys.executable, "-m", "assistant.service.host", "--engine", "scripted_engine:factory"]
    second = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert second.returncode == 0
    assert client.complete(hosts.request()).completion == "done"
    assert HostLock(Endpoint.here().lock).holder() == client.host_pid


def test_without_start_a_missing_host_is_an_error_at_once(hosts):
    with pytest.raises(HostError, match="no engine host is running"):
        Client.connect(start=False)
    assert hosts.left_over() == []


def test_a_host_that_dies_at_its_start_is_told_with_its_last_line(hosts):
    with pytest.raises(HostError, match="invalid float value"):
        hosts.connect("--idle-seconds", "soon")


def test_a_host_of_another_build_does_not_start_for_this_client(hosts):
    with pytest.raises(HostError, match="files changed"):
        hosts.connect("--build", "0" * 24)
    assert hosts.left_over() == []


def test_an_engine_that_cannot_be_imported_is_an_answer_and_no_hang(hosts):
    client = hosts.connect("--engine", "no_such_module:factory")
    with pytest.raises(HostError, match="no_such_module"):
        client.complete(hosts.request())


def test_a_stranger_on_the_socket_is_found_out(hosts):
    endpoint = Endpoint.here()
    server, _ = endpoint.listen()
    replies = [
        protocol.encode(protocol.Welcome(protocol.PROTOCOL, "0" * 24, 1)),
        b"\x00\x00\x00\x02{}",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ]

    def serve():
        for reply in replies:
            link, _ = server.accept()
            link.recv(65536)
            link.sendall(reply)
            link.close()

    thread = threading.Thread(target=serve)
    thread.start()
    for expected in ("another version", "another version", "over the limit"):
        with pytest.raises(HostError, match=expected):
            Client.connect()
    thread.join()
    server.close()
    endpoint.remove()


def test_a_host_that_does_not_listen_any_more_can_be_ended(hosts):
    client = hosts.connect()
    pid = client.host_pid
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(HostError, match="does not answer"):
        Client.connect(start=False, wait=0.2)
    assert launch.kill(Endpoint.here())
    assert hosts.connect().complete(hosts.request()).completion == "done"
    assert not launch.kill(Endpoint.here("tcp", build="other"))


def test_a_host_that_is_slow_is_waited_for(hosts, monkeypatch):
    monkeypatch.setattr("assistant.service.pending.QUIET_SECONDS", 0.02)
    client = hosts.connect()
    status, asked = client.status, []
    script, go = hosts.held()

    def counted():
        asked.append(status().state)
        if len(asked) == 3:
            go()

    monkeypatch.setattr(client, "status", counted)
    assert client.complete(hosts.request(script)).completion == "ab"
    assert len(asked) >= 3


def test_a_host_that_stops_still_in_the_middle_is_an_error_and_no_hang(hosts, monkeypatch):
    monkeypatch.setattr("assistant.service.pending.QUIET_SECONDS", 0.02)
    hosts.connect()
    client = hosts.connect(wait=0.5)
    script, _ = hosts.held()
    waiting = client.submit(hosts.request(script))
    hosts.until(lambda: hosts.notes() == ["run"])
    os.kill(client.host_pid, signal.SIGSTOP)
    with pytest.raises(HostError, match="tokenleap host restart"):
        waiting.result()
    assert launch.kill(Endpoint.here())


def test_a_host_outlives_the_client_that_started_it_and_its_terminal(hosts):
    script = (
        "import sys; from assistant.service.client import Client; "
        "print(Client.connect(host_arguments=sys.argv[1:]).host_pid)"
    )
    command = [sys.executable, "-c", script, "--engine", "scripted_engine:factory"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=True, text=True)
    client = hosts.connect()
    assert client.host_pid == int(done.stdout)
    assert os.getsid(client.host_pid) == client.host_pid
    assert os.readlink(f"/proc/{client.host_pid}/cwd") == "/" if os.path.exists("/proc/self/cwd") else True


def test_two_data_folders_have_two_hosts(hosts, monkeypatch, tmp_path):
    one = hosts.connect()
    monkeypatch.setenv("TOKENLEAP_HOME", str(tmp_path / "other"))
    other = Endpoint.here()
    two = hosts.connect(endpoint=other)
    assert one.host_pid != two.host_pid


def test_a_runtime_folder_that_is_too_deep_is_replaced_by_a_short_one(hosts, monkeypatch, tmp_path):
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    assert len(os.fsencode(Endpoint.here().address)) <= 103


def test_a_runtime_folder_open_to_others_is_refused(hosts):
    folder = Endpoint.here().address.parent
    folder.chmod(0o755)
    with pytest.raises(HostError, match="not this user's alone"):
        Client.connect()
    folder.chmod(0o700)


def test_the_log_is_bounded(hosts):
    log = Endpoint.here().log
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"x" * (launch.LOG_LIMIT + 1))
    hosts.connect()
    assert log.stat().st_size < 10_000


def test_the_light_client_imports_nothing_heavy():
    script = (
        "import sys; import assistant.service.client; "
        "print([name for name in ('torch', 'numpy', 'transformers', 'tokenizers', 'asyncio') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
