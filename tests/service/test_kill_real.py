"""The real host killed while it loads the model, reads the prompt or decodes: one clear error, then the next command
works and nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from assistant.errors import HostError
from assistant.service import launch
from assistant.service.client import Client
from assistant.service.endpoint import Endpoint, HostLock
from assistant.service.protocol import CompletionRequest

PATIENCE = 60.0  # seconds; a test that needs more has failed
# Takes a second to read, and its answer does not end soon.
LINES = "".join(f"def step_{n}(value):\n    return value * {n} + {n % 7}\n\n\n" for n in range(80))
LONG = CompletionRequest(
    prefix=LINES + "PRIMES = [\n    2,\n    3,\n    5,\n    7,\n    11,\n    13,\n    ",
    path="primes.py",
    language="python",
    max_tokens=512,
    multiline="always",
    stream=True,
)
SHORT = CompletionRequest(prefix="def add(a, b):\n    return ", max_tokens=4)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never came to pass"


def kill_at(client: Client, moment: str) -> None:
    """Kills the host at `moment` of a request, which is answered with one clear error."""
    texts: list[str] = []
    pid = client.host_pid
    assert pid is not None

    def kill(text: str = "") -> None:
        texts.append(text)
        os.kill(pid, signal.SIGKILL)

    if moment == "prefill":
        client.complete(SHORT)  # the model is ready from here on
    pending = client.submit(LONG)
    if moment == "load":
        wait_until(lambda: client.status().state == "loading")
        kill()
    elif moment == "prefill":
        wait_until(lambda: client.status().state == "busy")
        kill()
    with pytest.raises(HostError, match="went away"):
        pending.result(kill)
    assert len(texts) == 1, "no text had come before, or the first one brought the end"


@pytest.mark.parametrize("moment", ["load", "prefill", "decode"])
def test_after_a_kill_the_next_command_works_and_nothing_is_left(real_model, own_home, tmp_path, moment):
    own_home.link_models()
    endpoint = Endpoint.here()
    with Client.connect(wait=PATIENCE) as client:
        old = client.host_pid
        kill_at(client, moment)
    file = tmp_path / "add.py"
    file.write_text("def add(a, b):\n    return ")
    done = subprocess.run(
        [sys.executable, "-m", "assistant.cli.main", "complete", str(file), "--max-tokens", "4", "--json"],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["completion"].strip() and found["load_ms"] > 0 and found["startup_ms"] > 0
    holder = HostLock(endpoint.lock).holder()
    assert holder not in (None, old)
    with Client.connect(start=False, wait=PATIENCE, endpoint=endpoint) as client:
        assert client.host_pid == holder
        client.stop()
    launch.reap()
    assert list(endpoint.address.parent.iterdir()) == []
    assert file.read_text() == "def add(a, b):\n    return "
