"""The lock that makes one host the only one: it is never taken from another, and a deaf holder is no dead end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from assistant.errors import HostError
from assistant.service import launch
from assistant.service.client import Client
from assistant.service.endpoint import Endpoint, HostLock


def test_letting_go_leaves_another_holders_file_alone(tmp_path):
    path = tmp_path / "host.lock"
    first, second = HostLock(path), HostLock(path)
    assert first.acquire() and first.intact()
    path.unlink()
    assert not first.intact()
    assert second.acquire()
    first.release()
    assert path.exists() and second.intact() and HostLock(path).holder() == os.getpid()
    second.release()
    assert not path.exists()


def test_a_lock_that_cannot_name_its_holder_is_held_all_the_same(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    lock = HostLock(tmp_path / "host.lock")
    monkeypatch.setattr(os, "write", full)
    assert lock.acquire()
    assert lock.intact() and HostLock(tmp_path / "host.lock").holder() == 0
    lock.release()


def test_waiting_for_a_deaf_holder_ends_with_what_to_do(own_home):
    endpoint = Endpoint.here()
    held = HostLock(endpoint.lock)
    assert held.acquire()
    with pytest.raises(HostError, match="tokenleap host restart"):
        HostLock(endpoint.lock).acquire_or_yield(endpoint, wait=0.05)
    held.release()
    late = HostLock(endpoint.lock)
    assert late.acquire_or_yield(endpoint, wait=0.05)
    late.release()


def test_a_host_whose_lock_was_removed_leaves_and_nothing_of_the_next_one_with_it(hosts):
    old = hosts.connect("--look-seconds", "0.02")
    endpoint = Endpoint.here()
    endpoint.lock.unlink()
    endpoint.address.unlink()
    new = Client.connect(host_arguments=("--engine", "scripted_engine:factory"))
    assert new.host_pid != old.host_pid or old.host_pid is None
    hosts.until(lambda: old.host_pid is None)
    assert HostLock(endpoint.lock).holder() == new.host_pid
    new.stop()
    new.close()
    assert hosts.left_over() == []


def test_ending_a_deaf_host_by_force_leaves_nothing_behind(hosts):
    client = hosts.connect()
    os.kill(client.host_pid, signal.SIGSTOP)
    assert launch.kill(Endpoint.here())
    assert hosts.left_over() == []


def test_the_host_finds_the_places_and_the_program_of_a_client_with_relative_paths(own_home, tmp_path, monkeypatch):
    """The host works in the root folder, where a relative home or module path would mean something else."""
    (tmp_path / "engines").symlink_to(os.path.dirname(os.path.abspath(__file__)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOKENLEAP_HOME", "here")
    monkeypatch.setenv("PYTHONPATH", "engines")
    script = (
        "from assistant.service.client import Client\n"
        "client = Client.connect(wait=20, host_arguments=['--engine', 'scripted_engine:factory'])\n"
        "from assistant.service.protocol import CompletionRequest\n"
        "print(client.complete(CompletionRequest('{}')).completion, client.status().log)\nclient.stop()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    assert done.stdout.split() == ["done", str(tmp_path / "here" / "cache" / "host.log")]
