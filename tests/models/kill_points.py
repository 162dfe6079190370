"""Kills a conversion at chosen steps and checks what the next run makes of it.

`python kill_points.py MODEL PRECISION COUNT SEED` prints one JSON line: steps of a conversion, the steps
killed at, and for each the signal that ended it, whether the model made afterwards is byte for byte the
reference's, and what strays were left. A step is a write (half of it is written before the kill), a flush or
a rename. Every run is a process of its own.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assistant import locations
from assistant.models import catalog, store

FILES = ("weights.safetensors", "tokenizer.json", "model.json")


def in_child(work: Callable[[], None]) -> int:
    """Runs `work` in a forked process.

    Returns the signal that ended it, 0 for a clean end, -1 for an exception.
    """
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)


class Steps:
    """Counts the steps of this process and kills it at one of them."""

    def __init__(self, fatal: int) -> None:
        self.count = 0
        self._fatal = fatal
        self._write = os.write
        for name in ("write", "fsync", "rename", "mkdir"):
            setattr(os, name, self._counted(name, getattr(os, name)))

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **more: Any) -> Any:
            self.count += 1
            if self.count == self._fatal:
                if name == "write":
                    self._write(args[0], args[1][: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **more)

        return step


def main(model: str, precision: str, count: int, seed: int) -> None:
    entry = catalog.find(model)
    target = store.folder_of(entry.id, precision)
    reading, writing = os.pipe()

    def dry() -> None:
        steps = Steps(0)
        store.ensure(entry, precision)
        steps._write(writing, str(steps.count).encode())

    assert in_child(lambda: _check(entry, precision)) == 0  # also makes the folders, which a later run finds
    with tempfile.TemporaryDirectory() as kept:
        reference = Path(kept) / "reference"
        shutil.move(target, reference)
        assert in_child(dry) == 0
        steps = int(os.read(reading, 20))
        shutil.rmtree(target)
        fatal = sorted({1, steps, *random.Random(seed).sample(range(2, steps), count - 2)})
        runs = []
        for step in fatal:
            ended = in_child(lambda step=step: _killed(entry, precision, step))  # type: ignore[misc]
            again = in_child(lambda: _check(entry, precision))
            same = again == 0 and all(
                (target / f).read_bytes() == (reference / f).read_bytes() for f in FILES
            )
            runs.append({"step": step, "signal": ended, "same": same, "strays": _strays(target)})
            shutil.rmtree(target)
    sys.stdout.write(json.dumps({"steps": steps, "runs": runs}) + "\n")


def _killed(entry: catalog.Entry, precision: str, step: int) -> None:
    Steps(step)
    store.ensure(entry, precision)


def _check(entry: catalog.Entry, precision: str) -> None:
    store.open_model(store.ensure(entry, precision))


def _strays(target: Path) -> list[str]:
    root = locations.models_folder()
    expected = {target / name for name in FILES}
    return [
        str(path)
        for path in root.rglob("*")
        if path.is_file() and path not in expected and ".locks" not in path.parts
    ] + [str(path) for path in root.rglob(".tmp-*")]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
