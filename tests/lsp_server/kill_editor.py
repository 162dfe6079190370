"""Kills an editor while the real model loads, reads a prompt in, and generates: `python tests/lsp_server/kill_editor.py
[TIMES]`. Each time no language server is left after two seconds and the host comes to rest; prints a line for each
moment and exits 1 when one fell short. In a home and with a host of its own.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import textwrap
import time

from assistant.bench.host_memory import own_host
from assistant.errors import HostError
from assistant.service.client import Client
from lsp import life

GONE, AT_REST = 2.0, 10.0  # seconds
EDITOR = """
import json, os, subprocess, sys
server = subprocess.Popen([sys.executable, "-m", "assistant.cli.main", "lsp"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
def send(**message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    server.stdin.write(b"Content-Length: %d\\r\\n\\r\\n%b" % (len(body), body))
    server.stdin.flush()
text = sys.stdin.read()
send(id=1, method="initialize", params={"processId": os.getpid(), "rootUri": None, "capabilities": {}})
send(method="initialized", params={})
item = {"uri": "file:///a.py", "languageId": "python", "version": 1, "text": text}
send(method="textDocument/didOpen", params={"textDocument": item})
place = {"line": text.count("\\n"), "character": 4}
send(id=2, method="textDocument/inlineCompletion", params={"textDocument": {"uri": "file:///a.py"},
    "position": place, "context": {"triggerKind": 1}})
print(server.pid, flush=True)
while server.stdout.readline():
    pass
"""
LONG = "".join(f"def f{n}(a, b):\n    return a * {n} + b\n\n\n" for n in range(400)) + "def last(a):\n    "
SHORT = "def count_words(path):\n    "


def waited(condition, seconds: float) -> float | None:
    """Seconds until it holds, None when it does not in time."""
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        if condition():
            return time.monotonic() - begun
        time.sleep(0.005)
    return None


def at_rest() -> bool | None:
    """None: there is no host, or none that answers yet."""
    try:
        with Client.connect(start=False, wait=1) as client:
            status = client.status()
            return status.state == "idle" and not status.waiting
    except HostError:
        return None


def once(moment: str, chance: random.Random) -> tuple[float | None, float | None]:
    """(seconds until the server was gone, until the host was at rest)."""
    if moment == "load":
        subprocess.run([sys.executable, "-m", "assistant.cli.main", "host", "stop"], capture_output=True)
    editor = subprocess.Popen([sys.executable, "-c", textwrap.dedent(EDITOR)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)  # fmt: skip
    editor.stdin.write(f"# {chance.random()}\n" + (SHORT if moment == "decode" else LONG))
    editor.stdin.close()
    server = int(editor.stdout.readline())
    time.sleep(chance.uniform(*{"load": (0.1, 2.5), "prefill": (0.6, 3.0), "decode": (0.6, 1.6)}[moment]))
    editor.kill()
    editor.wait()
    gone = waited(lambda: not life.alive(server), GONE)
    rest = waited(at_rest, AT_REST)
    # a server that was killed before it started a host leaves none
    return gone, 0.0 if rest is None and at_rest() is None else rest


def main() -> int:
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    chance = random.Random(0)
    worst = 0
    with own_host():
        for moment in ("load", "prefill", "decode"):
            found = [once(moment, chance) for _ in range(times)]
            gone = [seconds for seconds, _ in found if seconds is not None]
            rest = [seconds for _, seconds in found if seconds is not None]
            row = {"moment": moment, "times": times, "gone": len(gone), "gone_s_most": max(gone, default=None),
                   "at_rest": len(rest), "at_rest_s_most": max(rest, default=None)}  # fmt: skip
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()
            worst |= len(gone) < times or len(rest) < times
    return worst


if __name__ == "__main__":
    sys.exit(main())
