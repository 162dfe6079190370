"""pass@1 by a task's own tests: the program runs in a process of its own with limits on time, memory and
files.

Each run has an empty folder, an empty environment, no network (a network namespace where the system allows
one, and sockets refused in the interpreter always) and is killed with its children at the time limit. A
program passes when it exits with 0 and printed the secret word last, so leaving early is no pass.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

SECONDS = 10.0
MEMORY_BYTES = 1 << 30
FILE_BYTES = 1 << 20

# Runs inside the judged process, before the program. The word and the program arrive on stdin, which is then
# empty.
_GUARD = """
import sys
word = sys.stdin.readline().strip()
_source = sys.stdin.read()
seconds, memory, files = SECONDS, MEMORY, FILES
try:
    import resource
    for kind, limit in (("RLIMIT_AS", memory), ("RLIMIT_CPU", int(seconds) + 1), ("RLIMIT_FSIZE", files),
                        ("RLIMIT_CORE", 0), ("RLIMIT_NOFILE", 64)):
        if hasattr(resource, kind):
            resource.setrlimit(getattr(resource, kind), (limit, limit))
except ImportError:
    pass
_FORBIDDEN = ("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
              "os.kill", "ctypes.dlopen", "ftplib.", "http.client.", "urllib.", "smtplib.", "os.remove",
              "os.rename", "shutil.")
def _refuse(event, arguments):
    if event.startswith(_FORBIDDEN):
        raise PermissionError("not allowed while a generated program is judged: " + event)
sys.addaudithook(_refuse)
def _finish(word=word, write=sys.__stdout__.write, flush=sys.__stdout__.flush):
    write("\\n" + word)
    flush()
del word
_names = {"__name__": "judged"}
exec(compile(_source, "program.py", "exec"), _names)
_finish()
"""


def program(text: str, test: str, entry_point: str) -> str:
    """What is run: the completed file, the tests and the call that HumanEval's tests expect."""
    return f"{text}\n{test}\ncheck({entry_point})\n"


@cache
def _without_network() -> tuple[str, ...]:
    """Command words that take the network away, or none where the system does not allow it."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return ()
    for words in ((unshare, "--net"), (unshare, "--user", "--map-root-user", "--net")):
        try:
            tried = subprocess.run([*words, "true"], capture_output=True, timeout=10, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if tried.returncode == 0:
            return words
    return ()


def passes(source: str, seconds: float = SECONDS, memory_bytes: int = MEMORY_BYTES) -> bool:
    """Whether the Python program `source` runs to its end within the limits; raises nothing of its own."""
    word = secrets.token_hex(16)
    guard = (
        _GUARD.replace("SECONDS", repr(seconds))
        .replace("MEMORY", repr(memory_bytes))
        .replace("FILES", repr(FILE_BYTES))
    )
    command = [*_without_network(), sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c", guard]
    # The output goes to a file, which the size limit bounds; a pipe would grow in this process's memory.
    with tempfile.TemporaryDirectory(prefix="tokenleap-judge-") as folder, tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.communicate(f"{word}\n{source}".encode("utf-8", errors="replace"), timeout=seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:
            _kill(process)
        output.seek(0)
        printed = output.read()
    return process.returncode == 0 and printed.endswith(word.encode())


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process and whatever it started (they share its process group)."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    elif process.poll() is None:
        process.kill()
    process.wait()


def judge_all(sources: Sequence[str], workers: int = 2, done: Callable[[int], None] | None = None) -> list[bool]:
    """`passes` for each program, a few at once; equal ones run once. `done(n)` says how many are judged."""
    different = list(dict.fromkeys(sources))
    verdicts: dict[str, bool] = {}
    with ThreadPoolExecutor(max_workers=workers) as pool:
        for source, verdict in zip(different, pool.map(passes, different), strict=True):
            verdicts[source] = verdict
            if done is not None:
                done(len(verdicts))
    return [verdicts[source] for source in sources]
