"""Long work that needs no host: the doctor's report, the models, a measurement, bringing a model. Each is a command of
ours in a process of its own, at low priority, which can be stopped at any moment.

Also when no host can be started these work, which is when the doctor is wanted most. Light: standard library only.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assistant.errors import TokenleapError, UsageError
from assistant.service.launch import child_environment

OnStep = Callable[[str, int, int], None]  # step, done, total (0: unknown)

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "doctor": ("doctor", "--json"),
    "catalog": ("models", "list", "--json"),
    "measure": ("bench", "pass", "--json", "--rounds", "4"),
    "pull": ("models", "pull", "--json"),
}


class Errand:
    """One run. Made and waited for in any thread; `stop` from any other."""

    def __init__(self, name: str, more: Sequence[str] = ()) -> None:
        """`more`: further words of the command line."""
        if name not in COMMANDS:
            raise UsageError(f"there is no errand {name!r}: use one of {', '.join(COMMANDS)}")
        self._more = tuple(more)
        self._name = name
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False

    def run(self, on_step: OnStep = lambda step, done, total: None) -> Any:
        """What the command printed, as JSON values. Raises TokenleapError with the command's own sentence."""
        with self._lock:
            if self._stopped:
                raise TokenleapError("it was stopped")
            self._process = process = _started((*COMMANDS[self._name], *self._more))
        said: list[str] = []
        reader = threading.Thread(target=_listen, args=(process, on_step, said), daemon=True)
        reader.start()
        assert process.stdout is not None
        with process.stdout:
            printed = process.stdout.read()
        code = process.wait()
        reader.join()
        if self._stopped:
            raise TokenleapError("it was stopped")
        try:
            return json.loads(printed)
        except ValueError:
            words = said[-1] if said else f"the command ended with code {code} and said nothing"
            raise TokenleapError(words.removeprefix("tokenleap: ")) from None

    def stop(self) -> None:
        """End it; `run` raises."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                with contextlib.suppress(OSError):
                    self._process.terminate()


def _started(words: Sequence[str]) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=child_environment() | {"PYTHONSAFEPATH": "1"},
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise TokenleapError(f"a process could not be started ({error.strerror}): close some programs") from error


# Not `python -m`, which would prefer a folder of our name where the user happens to be.
_PROGRAM = """
import os, sys
sys.path[:] = [place for place in sys.path if place not in ("", ".")]
if hasattr(os, "nice"):
    os.nice(10)
from assistant.cli.main import main
sys.exit(main())
"""


def _listen(process: subprocess.Popen[str], on_step: OnStep, said: list[str]) -> None:
    assert process.stderr is not None
    with process.stderr:
        for line in process.stderr:
            try:
                told = json.loads(line)
                on_step(str(told["step"]), int(told["done"]), int(told["total"]))
            except (ValueError, KeyError, TypeError):
                if line.strip():
                    said.append(line.strip())
                    on_step(line.strip(), 0, 0)
