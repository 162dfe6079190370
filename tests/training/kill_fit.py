"""Kills a training at chosen moments of writing its checkpoint, and tells what is on the disk afterwards.

`python kill_fit.py FOLDER` prints one JSON line for each moment: the signal that ended the run, the checkpoint's step
before and after the kill, and the steps of the run that went on from it. Each run is a process of its own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import IO, Any

import torch

from assistant.training import fit
from tests.training import made

RECIPE = fit.Recipe(minutes=1, warm_up=2, save_every=0.0)  # a checkpoint after every step
STEPS = 4


def train(checkpoint: Path, steps: int) -> None:
    """Goes on for `steps` steps."""
    left = iter([False] * steps)
    fit.train(made.head(), made.data(checkpoint.parent), made.PLACES, RECIPE, checkpoint, stop=lambda: next(left, True))


def killed(checkpoint: Path, moment: str, at: int) -> None:
    """Trains and dies at the `at`-th writing of the checkpoint."""
    count, save, replace = 0, torch.save, os.replace

    def half_written(state: Any, file: IO[bytes]) -> None:
        nonlocal count
        count += 1
        if count == at and moment == "written":
            save({"head": state["head"]}, file)
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        save(state, file)

    def renamed(source: Path, target: Path) -> None:
        if count == at and moment == "renamed":
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)
        if count == at and moment == "done":
            os.kill(os.getpid(), signal.SIGKILL)

    torch.save, os.replace = half_written, renamed  # type: ignore[assignment]
    train(checkpoint, STEPS)


def in_child(work: Any) -> int:
    """The signal that ended it, 0 for none."""
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


def step(checkpoint: Path) -> int:
    """Of the checkpoint on the disk, which must be whole; -1 where there is none."""
    return int(torch.load(checkpoint, weights_only=True)["record"]["steps"]) if checkpoint.exists() else -1


def main(folder: Path) -> None:
    """Kills at each moment of the first and the last writing."""
    torch.set_num_threads(1)  # no threads that a fork would lose
    torch.optim.AdamW(made.head().parameters())  # imports what each child would else import
    made.data(folder)
    for at in (1, STEPS + 1):
        for moment in ("written", "renamed", "done"):
            checkpoint = folder / "checkpoint.pt"
            checkpoint.unlink(missing_ok=True)
            ended = in_child(lambda moment=moment, at=at, place=checkpoint: killed(place, moment, at))  # type: ignore[misc]
            kept = step(checkpoint)
            again = in_child(lambda place=checkpoint: train(place, 2))  # type: ignore[misc]
            strays = [path.name for path in folder.iterdir() if path.suffix == ".tmp"]
            told = {"at": at, "moment": moment, "signal": ended, "kept": kept, "again": again}
            sys.stdout.write(json.dumps(told | {"steps": step(checkpoint), "strays": strays}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
