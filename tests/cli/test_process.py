"""`tokenleap complete` as a process beside a host with a scripted engine: streams, exit codes, weight."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assistant.service.client import Client
from tests.conftest import OwnHome

# Runs the command, then leaves in a file what the process has loaded and how large it was at its largest.
WATCHED = """
import sys
from assistant.cli.main import main
code = main(sys.argv[2:])
peak = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")] or ["0"]
open(sys.argv[1], "w").write(" ".join([peak[0], *sys.modules]))
sys.exit(code)
"""


@pytest.fixture
def host(own_home: OwnHome, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A host of this test's own whose engine does what the file says."""
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__), prepend=os.pathsep)
    client = Client.connect(host_arguments=("--engine", "told_engine:factory"))
    try:
        yield
    finally:
        client.stop()
        client.close()


@pytest.fixture
def told(tmp_path: Path) -> Callable[..., Path]:
    """Makes a file that tells the engine what to do; its second line is where the cursor belongs."""

    def make(**script: Any) -> Path:
        file = tmp_path / "told.py"
        file.write_text(f"# {json.dumps(script)}\nx = \ny = 1\n")
        return file

    return make


def start(*words: str | Path, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "assistant.cli.main", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def finish(process: subprocess.Popen[bytes], given: bytes | None = None) -> tuple[int, str, str]:
    out, err = process.communicate(given, timeout=60)
    return process.returncode, out.decode(), err.decode()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.005)


def test_text_then_json_then_apply(host: None, told: Callable[..., Path]) -> None:
    file = told(say=["a +", " b"])
    code, out, err = finish(start("complete", f"{file}:2"))
    assert (code, out) == (0, "a + b") and err.count("\n") >= 1 and "told" in err
    code, out, err = finish(start("complete", f"{file}:2", "--json", "--stream"))
    assert code == 2 and out == ""
    code, out, err = finish(start("complete", f"{file}:2", "--json"))
    found = json.loads(out)
    assert code == 0 and err == "" and (found["completion"], found["finish_reason"]) == ("a + b", "stop")
    assert found["total_ms"] >= found["first_token_ms"] > 0 and found["startup_ms"] == 0
    code, out, err = finish(start("complete", f"{file}:2", "--apply", "--stream"))
    assert (code, out) == (0, "a + b")
    assert file.read_text().splitlines()[1:] == ["x = a + b", "y = 1"]


def test_nothing_to_suggest(host: None, told: Callable[..., Path]) -> None:
    code, out, err = finish(start("complete", f"{told(empty='short')}:2"))
    assert code == 1 and out == "" and err.count("\n") == 1 and "too short" in err


def test_standard_input(host: None, told: Callable[..., Path]) -> None:
    content = told(say=["z"]).read_bytes()
    process = start("complete", "-:2:5", "--filename", "a.py", stdin=subprocess.PIPE)
    assert finish(process, content)[:2] == (0, "z")
    process = start("complete", "-", stdin=subprocess.PIPE)
    code, out, err = finish(process, b"\x00\x01")
    assert code == 2 and out == "" and err.count("\n") == 1


def test_a_file_name_that_is_no_utf8(host: None, told: Callable[..., Path]) -> None:
    file = told(say=["z"])
    odd = os.fsencode(file.parent) + b"/n\xff\xc3\xa9.py"
    os.rename(file, odd)
    process = subprocess.Popen(
        [sys.executable, "-m", "assistant.cli.main", "complete", odd + b":2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert finish(process)[:2] == (0, "z")


def test_pieces_come_while_it_works_and_interrupting_cancels(
    host: None, told: Callable[..., Path], tmp_path: Path
) -> None:
    file = told(say=["first", "second"], wait_for=str(tmp_path / "gate"))
    process = start("complete", f"{file}:2", "--stream")
    assert process.stdout is not None
    assert os.read(process.stdout.fileno(), 5) == b"first"
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert (code, out, err) == (130, "", "tokenleap: interrupted\n")
    until((tmp_path / "gate.cancelled").exists)


def test_a_reader_that_leaves_ends_it_quietly(host: None, told: Callable[..., Path], tmp_path: Path) -> None:
    file = told(say=["first", "second"], wait_for=str(tmp_path / "gate"))
    process = start("complete", f"{file}:2", "--stream")
    assert process.stdout is not None and process.stderr is not None
    assert os.read(process.stdout.fileno(), 5) == b"first"
    process.stdout.close()
    (tmp_path / "gate").touch()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


def test_the_client_process_stays_small_and_loads_no_engine(
    host: None, told: Callable[..., Path], tmp_path: Path
) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not tell a process's largest size in /proc")
    file, report = told(say=["z"]), tmp_path / "report"
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(report), "complete", f"{file}:2"],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"z")
    peak, *modules = report.read_text().split()
    loaded = {name.partition(".")[0] for name in modules}
    assert (
        loaded & {"torch", "numpy", "transformers", "tokenizers", "gguf", "safetensors", "cuda_ops"} == set()
    )
    assert not {name for name in modules if name.startswith(("assistant.engine", "assistant.models"))}
    assert int(peak) < 60_000, "kilobytes"
