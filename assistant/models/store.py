"""Our converted models: a folder each, `<data>/models/<id>/<precision>/`, made once and then only read.

`ensure` makes what is missing: under a lock (two processes convert once), in a temporary folder beside the
target, renamed when whole and flushed. A kill at any moment leaves at most temporary folders, which the next
run removes once nobody holds their lock.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from assistant import locations
from assistant.errors import (
    ModelCorruptError,
    NoSpaceError,
    TokenleapError,
    UnsupportedModelError,
    UsageError,
)
from assistant.models import convert, fetch, layout
from assistant.models.catalog import Entry
from assistant.models.gguf import GgufModel
from assistant.models.parts import Parts, Progress
from assistant.models.rotation import Rotation
from assistant.models.stored import DESCRIPTION, TOKENIZER, WEIGHTS, StoredModel, describe, open_model, repair
from assistant.models.transformers_folder import FolderModel

__all__ = [
    "Installed",
    "StoredModel",
    "clear_leftovers",
    "ensure",
    "folder_of",
    "installed",
    "leftovers",
    "open_model",
    "remove",
    "verify",
]

_TEMPORARY, _LOCKS = ".tmp-", ".locks"


@dataclass(frozen=True)
class Installed:
    """One converted model. `problem` is "" when its quick checks pass, else the sentence of the error."""

    id: str
    precision: str
    folder: Path
    size: int
    problem: str


def folder_of(model_id: str, precision: str) -> Path:
    """Where the converted model lies or would lie."""
    return locations.models_folder() / model_id / precision


def ensure(
    entry: Entry,
    precision: str,
    progress: Progress | None = None,
    *,
    download: bool = False,
    consent: bool = False,
) -> Path:
    """The folder of a ready model; converts it first where needed, downloads only when `download` is true.

    Raises ModelMissingError, ModelCorruptError, UnsupportedModelError, NoSpaceError, DownloadError,
    UsageError.
    """
    if precision not in layout.PRECISIONS:
        raise UsageError(f"no precision {precision!r} for a converted model: use {' or '.join(layout.PRECISIONS)}")
    if entry.kind == "transformers":
        raise UnsupportedModelError(f"{entry.title} is not converted: it runs through transformers as it is")
    target = folder_of(entry.id, precision)
    if not _ready(target):
        with _waited_lock(target, progress):
            if not _ready(target):
                _clean(target)
                _convert(entry, precision, target, progress, download, consent)
    return target


def installed() -> list[Installed]:
    """All converted models of this user, sound or not, by id."""
    found = []
    for folder in sorted(locations.models_folder().glob("[!.]*/[!.]*/")):
        if not folder.is_dir():
            continue
        try:
            open_model(folder)
            problem = ""
        except TokenleapError as error:
            problem = str(error)
        found.append(Installed(folder.parent.name, folder.name, folder, _bytes_below(folder), problem))
    return found


def verify(folder: Path, progress: Progress | None = None) -> None:
    """Reads every byte. Raises ModelCorruptError naming the file that is not what was written."""
    open_model(folder)
    description = describe(folder)
    for name, part in ((WEIGHTS, "weights"), (TOKENIZER, "tokenizer")):
        with Parts([folder / name]) as parts:
            if parts.sha256(progress if part == "weights" else None, "verify") != description[part]["sha256"]:
                raise ModelCorruptError(
                    f"{folder / name} was altered (its SHA-256 differs): {repair(folder, description.get('pull'))}"
                )


def remove(folder: Path) -> int:
    """Removes a converted model and what conversions of it left; returns the bytes freed.

    Raises UsageError while another process converts it. Processes that have it mapped go on.
    """
    with _free_lock(folder) as held:
        if not held:
            raise UsageError(f"{folder} is being converted by another process: wait for it or end it")
        if folder.exists():
            os.rename(folder, _temporary(folder))
        freed = _clean(folder)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()
    return freed


def leftovers() -> list[Path]:
    """Temporary folders of conversions that ended without finishing: nobody holds their lock."""
    found = []
    for path in sorted(locations.models_folder().glob(f"*/{_TEMPORARY}*")):
        with _free_lock(_target_of(path)) as held:
            if held:
                found.append(path)
    return found


def clear_leftovers(model_id: str | None = None) -> int:
    """Removes the `leftovers` of one model or of all; returns the bytes freed."""
    freed = 0
    for target in {_target_of(path) for path in leftovers()}:
        if model_id in (None, target.parent.name):
            with _free_lock(target) as held:
                freed += _clean(target) if held else 0
            with contextlib.suppress(OSError):
                target.parent.rmdir()
    return freed


def _ready(folder: Path) -> bool:
    # A description of another format or preparation, or none, is replaced; damaged weights are for open_model
    # to tell.
    try:
        found = describe(folder)
        return bool(found["format"] == layout.FORMAT and found.get("preparation") == layout.PREPARATION)
    except ModelCorruptError:
        return False


def _lock(target: Path) -> FileLock:
    folder = locations.models_folder() / _LOCKS
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / f"{target.parent.name}-{target.name}.lock")


@contextlib.contextmanager
def _waited_lock(target: Path, progress: Progress | None) -> Iterator[None]:
    lock = _lock(target)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if progress is not None:
            progress("wait", 0, 0)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _free_lock(target: Path) -> Iterator[bool]:
    """True while the lock is held by us, False when somebody else holds it."""
    lock = _lock(target)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _temporary(target: Path) -> Path:
    return target.parent / f"{_TEMPORARY}{target.name}-{uuid.uuid4().hex[:12]}"


def _target_of(temporary: Path) -> Path:
    return temporary.parent / temporary.name[len(_TEMPORARY) :].rpartition("-")[0]


def _clean(target: Path) -> int:
    """Removes what ended conversions of `target` left; returns the bytes freed. Its lock must be held."""
    freed = 0
    for stale in target.parent.glob(f"{_TEMPORARY}{target.name}-*"):
        freed += _bytes_below(stale)
        shutil.rmtree(stale, ignore_errors=True)
    return freed


def _bytes_below(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def _convert(
    entry: Entry, precision: str, target: Path, progress: Progress | None, download: bool, consent: bool
) -> None:
    with contextlib.ExitStack() as stack:
        parts, source_hash = fetch.fetch(entry, progress, download=download, consent=consent)
        stack.enter_context(parts)
        model: convert.SourceModel
        if entry.kind == "folder" and entry.path is not None:
            model = stack.enter_context(contextlib.closing(FolderModel(entry.path)))
        else:
            model = GgufModel(parts)
        tokenizer = model.tokenizer()
        needed = layout.total_size(layout.plan(model.config, precision)) + len(tokenizer) + (1 << 20)
        target.parent.mkdir(parents=True, exist_ok=True)
        _check_space(target, needed)
        work = _temporary(target)
        try:
            work.mkdir()
            weights = convert.write_weights(model, precision, work / WEIGHTS, progress)
            source = {"sha256": source_hash, "size": parts.size}
            text = _write(work / TOKENIZER, tokenizer)
            description = _description(entry, model, precision) | {
                "source": source,
                "weights": {"sha256": weights[0], "size": weights[1]},
                "tokenizer": {"sha256": hashlib.sha256(text).hexdigest(), "size": len(text)},
            }
            _write(work / DESCRIPTION, json.dumps(description, indent=1))
            _sync(work)
            if target.exists():
                os.rename(target, _temporary(target))
            os.rename(work, target)
            _sync(target.parent)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise _no_space(target, needed) from error
            raise
        finally:
            _clean(target)


def _check_space(target: Path, needed: int) -> None:
    if shutil.disk_usage(target.parent).free < needed:
        raise _no_space(target, needed)


def _no_space(target: Path, needed: int) -> NoSpaceError:
    free = shutil.disk_usage(target.parent).free
    return NoSpaceError(
        f"{needed} bytes are needed below {target.parent} and {free} are free: free some room and run the command again"
    )


def _description(entry: Entry, model: convert.SourceModel, precision: str) -> dict[str, Any]:
    return {
        "format": layout.FORMAT,
        "preparation": layout.PREPARATION,
        "rotation": asdict(Rotation.of(model.config, precision)),
        "id": entry.id,
        "title": entry.title,
        "pull": entry.spoken,
        "precision": precision,
        "licence": entry.licence,
        "config": asdict(model.config),
        "end_ids": model.end_ids,
        "chat_template": model.chat_template,
    }


def _write(path: Path, text: str) -> bytes:
    data = text.encode("utf-8")
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return data


def _sync(folder: Path) -> None:
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
