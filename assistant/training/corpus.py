"""Source files of open-source projects: the text that training prompts are cut from.

`packages.toml` names each package with its exact version and licence; `fetch` brings what is missing from the
registries through pip, npm and apt as this machine configures them, and keeps only source files that people wrote.
Nothing from a package is run. Projects are held out by name: no file of theirs is ever among the training files.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import filelock

from assistant import locations
from assistant.errors import DownloadError, UnsupportedError
from assistant.training import archives

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]

_PATIENCE = 900  # seconds for one package
_PARTIAL = ".partial"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

LANGUAGES = {
    "python": (".py",),
    "typescript": (".ts", ".tsx", ".mts"),
    "javascript": (".js", ".jsx", ".mjs", ".cjs"),
    "go": (".go",),
    "rust": (".rs",),
    "java": (".java",),
    "c": (".c", ".h"),
    "cpp": (".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp"),
}


@dataclass(frozen=True)
class Package:
    """One row of the manifest; several packages may belong to one project."""

    project: str
    registry: (
        str  # "pypi" (a wheel), "npm", "debian" (a package that carries sources), "debian-source" (upstream's archive)
    )
    name: str
    version: str
    licence: str
    language: str
    held_out: bool

    @property
    def key(self) -> str:
        """The package's folder name in the corpus."""
        return re.sub(r"[^\w.+~@-]", "_", f"{self.registry}-{self.name}-{self.version}")


@dataclass(frozen=True)
class SourceFile:
    """One file of the corpus; `path` is relative to its package, with forward slashes."""

    project: str
    language: str
    path: str
    place: Path

    def read(self) -> str:
        """The text, with newline characters for every line end."""
        return self.place.read_text(encoding="utf-8")


def default_folder() -> Path:
    """Where the corpus lies in the product's data folder."""
    return locations.data_folder() / "training" / "corpus"


def manifest(path: Path | None = None) -> list[Package]:
    """The packages of `packages.toml`, in its order. A project is held out as a whole or not at all."""
    path = path or Path(__file__).with_name("packages.toml")
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["package"]
    packages = [Package(**{"project": row["name"], "held_out": False, **row}) for row in rows]
    held_out = {package.project for package in packages if package.held_out}
    return [
        package
        if package.held_out or package.project not in held_out
        else Package(**{**vars(package), "held_out": True})
        for package in packages
    ]


# -- fetching


def fetch(folder: Path, report: Callable[[str], None], packages: Sequence[Package] | None = None) -> list[Package]:
    """Brings every package that `folder` lacks; returns those that could not be had, each reported with its reason.

    May be killed at any time: a package is there whole or not at all. Raises DownloadError when another fetch works
    in the folder.
    """
    packages = manifest() if packages is None else packages
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(folder / ".lock", timeout=0):
            return _fetch(folder, report, packages)
    except filelock.Timeout:
        raise DownloadError(f"Another process fetches into {folder}: wait for it, then try again.") from None


def _fetch(folder: Path, report: Callable[[str], None], packages: Sequence[Package]) -> list[Package]:
    partial = folder / _PARTIAL
    shutil.rmtree(partial, ignore_errors=True)
    missing = []
    wanted = [package for package in packages if not (folder / package.key).is_dir()]
    for number, package in enumerate(wanted, start=1):
        place = partial / package.key
        place.mkdir(parents=True, exist_ok=True)
        try:
            brought = download(package, place, partial / "apt")
            kept = archives.extract(brought, place / "files", LANGUAGES[package.language])
            if not kept:
                raise DownloadError("it holds no source file of its language")
            os.replace(_inner(place / "files", package), folder / package.key)
            report(f"{number}/{len(wanted)} {package.project}: {kept} files from {package.name} {package.version}")
        except (DownloadError, UnsupportedError, *archives.DAMAGE) as error:
            missing.append(package)
            report(f"{number}/{len(wanted)} {package.project}: {package.name} {package.version} left out: {error}")
        finally:
            shutil.rmtree(place, ignore_errors=True)
    shutil.rmtree(partial, ignore_errors=True)
    return missing


def _inner(files: Path, package: Package) -> Path:
    """Without the folder that npm and source archives put around everything, or the several of a Debian package."""
    deepest = {"pypi": 0, "npm": 1, "debian-source": 1, "debian": 9}[package.registry]
    for _ in range(deepest):
        inside = list(files.iterdir())
        if len(inside) != 1 or not inside[0].is_dir():
            break
        files = inside[0]
    return files


def _run(command: Sequence[str], place: Path, environment: dict[str, str] | None = None) -> str:
    """The tool's output. Raises UnsupportedError without the tool, DownloadError when it fails."""
    try:
        done = subprocess.run(
            command, cwd=place, env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=_PATIENCE, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise UnsupportedError(f"{command[0]} is not on this machine") from None
    except subprocess.TimeoutExpired:
        raise DownloadError(f"{Path(command[0]).name} took longer than {_PATIENCE} seconds") from None
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise DownloadError(f"{Path(command[0]).name} failed: {''.join(last)}")
    return done.stdout


def download(package: Package, place: Path, apt_state: Path) -> list[Path]:
    """The package's archives, downloaded into `place` and checked by the tool against the registry's digests.

    Wheels only from PyPI and no scripts from npm: no tool here builds or runs anything that it brings.
    """
    if package.registry == "pypi":
        wheel_only = ["--no-deps", "--only-binary=:all:", "--ignore-requires-python", "--quiet", "--dest", "."]
        _run([sys.executable, "-m", "pip", "download", *wheel_only, f"{package.name}=={package.version}"], place)
        return sorted(place.glob("*.whl"))
    if package.registry == "npm":
        _run(["npm", "pack", "--ignore-scripts", "--silent", f"{package.name}@{package.version}"], place)
        return sorted(place.glob("*.tgz"))
    environment = _apt(apt_state)
    if package.registry == "debian":
        _run(["apt-get", "download", "--quiet", package.name], place, environment)
    else:
        _run(["apt-get", "source", "--download-only", "--tar-only", "--quiet", package.name], place, environment)
    # Names are NAME_VERSION; a security update changes the revision behind the version, which is upstream's.
    found = [path for path in place.iterdir() if re.search(r"\.deb$|\.tar\.\w+$", path.name) and path.is_file()]
    kept = [path for path in found if ".debian.tar" not in path.name]
    if not any(re.match(rf"{re.escape(package.version)}[-.]", _deb_version(path)) for path in kept):
        raise DownloadError(f"the registry has {', '.join(sorted(map(_deb_version, kept))) or 'nothing'} now")
    return sorted(kept)


def _deb_version(archive: Path) -> str:
    """What follows the name, without the epoch."""
    return re.sub(r"^\d+(%3a|:)", "", archive.name.partition("_")[2], flags=re.IGNORECASE)


def _apt(state: Path) -> dict[str, str]:
    """The environment in which apt-get knows source packages: the machine's own repositories, listed in `state`.

    The machine's lists stay as they are, and no rights are needed.
    """
    configuration = state / "apt.conf"
    environment = {"APT_CONFIG": str(configuration)}
    if configuration.exists():
        return environment
    (state / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    signed = f"[signed-by={_KEYRING}] " if _KEYRING.exists() else ""
    line = f"{signed}$(REPO_URI) $(RELEASE) $(COMPONENT)"
    targets = set(_run(["apt-get", "indextargets", "--format", line, "Created-By: Packages"], state).splitlines())
    lines = [f"{kind} {target}\n" for target in sorted(targets) for kind in ("deb", "deb-src")]
    (state / "sources.list").write_text("".join(lines), encoding="utf-8")
    text = (
        f'Dir::Etc::sourcelist "{state}/sources.list"; Dir::Etc::sourceparts "-"; Dir::State::lists "{state}/lists";'
        f' Dir::Cache "{state}"; APT::Sandbox::User "";'
    )
    waiting = state / "apt.conf.new"
    waiting.write_text(text, encoding="utf-8")
    # Repositories of other makers may have no sources or another key: apt warns of them and keeps the rest.
    _run(["apt-get", "update", "--quiet"], state, {"APT_CONFIG": str(waiting)})
    os.replace(waiting, configuration)
    return environment


# -- reading


def files(folder: Path, held_out: bool, packages: Sequence[Package] | None = None) -> list[SourceFile]:
    """The fetched files of the held-out projects, or of all others, sorted by language, project and path."""
    found = []
    for package in manifest() if packages is None else packages:
        top = folder / package.key
        if package.held_out is held_out and top.is_dir():
            found += [
                SourceFile(package.project, package.language, path.relative_to(top).as_posix(), path)
                for path in top.rglob("*")
                if path.suffix in LANGUAGES[package.language] and path.is_file()
            ]
    return sorted(found, key=lambda file: (file.language, file.project, file.path, file.place))


def _endless(items: Sequence[SourceFile], generator: random.Random) -> Iterator[SourceFile]:
    while True:
        yield from generator.sample(items, len(items))


def sample(files: Sequence[SourceFile], seed: int) -> Iterator[SourceFile]:
    """Files without end: every language as often as every other, and within it every project, its files in turn.

    The same files in the same order and the same seed give the same sequence. Empty when there are no files.
    """
    generator = random.Random(seed)
    decks: dict[str, dict[str, list[SourceFile]]] = {}
    for file in files:
        decks.setdefault(file.language, {}).setdefault(file.project, []).append(file)
    turns = {
        language: [_endless(own, random.Random(generator.random())) for own in projects.values()]
        for language, projects in decks.items()
    }
    rounds: dict[str, Iterator[Iterator[SourceFile]]] = {language: iter(()) for language in turns}
    while turns:
        for language in generator.sample(list(turns), len(turns)):
            deck = next(rounds[language], None)
            if deck is None:
                rounds[language] = iter(generator.sample(turns[language], len(turns[language])))
                deck = next(rounds[language])
            yield next(deck)
