"""`tokenleap host` as a user types it."""

from __future__ import annotations

import json
import os
import signal

from assistant.cli.main import main


def test_status_stop_and_restart(hosts, capsys, monkeypatch):
    assert main(["host", "status"]) == 1
    assert "no engine host is running" in capsys.readouterr().out
    assert main(["host", "status", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"running": False}
    assert main(["host", "stop"]) == 0
    assert "no engine host was running" in capsys.readouterr().err

    client = hosts.connect()
    client.complete(hosts.request())
    pid = client.host_pid
    assert main(["host", "status"]) == 0
    shown = capsys.readouterr().out
    assert f"process   {pid}, idle" in shown and "qwen2.5-coder-0.5b int8" in shown
    assert main(["host", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pid"] == pid

    assert main(["host", "restart"]) == 0
    assert "runs anew" in capsys.readouterr().err
    assert main(["host", "stop"]) == 0
    assert "has stopped" in capsys.readouterr().err
    assert hosts.left_over() == []


def test_stop_ends_a_host_that_hangs(hosts, capsys, monkeypatch):
    from assistant.cli import host

    monkeypatch.setattr(host, "_PATIENCE", 0.2)
    client = hosts.connect()
    os.kill(client.host_pid, signal.SIGSTOP)
    assert main(["host", "stop"]) == 0
    assert main(["host", "status"]) == 1


def test_a_missing_or_unknown_action_is_wrong_use(capsys):
    assert main(["host"]) == 2
    assert main(["host", "dance"]) == 2
