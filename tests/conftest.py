"""Fixtures that all test folders share: a home of its own, and the real model where it can be had offline."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

from assistant import locations

# How long an example takes says nothing about it being right, and a busy machine takes its time.
settings.register_profile("tokenleap", deadline=None)
settings.load_profile("tokenleap")

REAL_MODEL = "qwen2.5-coder-0.5b"


@dataclass(frozen=True)
class OwnHome:
    """A home that only this test uses: data, cache and settings below `path`, sockets in `runtime`."""

    path: Path
    runtime: Path
    models: Path  # the models folder that was in force before the test
    kernels: Path  # the folder of compiled operators that was in force before the test

    def link_models(self) -> None:
        """Makes the real models and compiled operators visible in this home, without copying them."""
        _link(self.path / "data" / "models", self.models)
        self.link_kernels()

    def link_kernels(self) -> None:
        """Makes the compiled operators visible in this home: compiling them anew takes seconds."""
        _link(self.path / "cache" / "kernels", self.kernels)

    def settings(self, text: str) -> Path:
        """Writes the user's settings file."""
        file = self.path / "config" / "settings.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file


def _link(own: Path, real: Path) -> None:
    own.parent.mkdir(parents=True, exist_ok=True)
    real.mkdir(parents=True, exist_ok=True)
    own.symlink_to(real, target_is_directory=True)


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnHome]:
    """TOKENLEAP_HOME and XDG_RUNTIME_DIR of this test alone; a host started in them is stopped afterwards."""
    models, kernels = locations.models_folder(), locations.cache_folder() / "kernels"
    for variable in list(os.environ):
        if variable.startswith("TOKENLEAP_"):
            monkeypatch.delenv(variable)
    # Not below tmp_path: a socket's whole path must stay under 104 bytes.
    runtime = Path(tempfile.mkdtemp(prefix="tokenleap-"))
    home = OwnHome(tmp_path / "home", runtime, models, kernels)
    monkeypatch.setenv("TOKENLEAP_HOME", str(home.path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    try:
        yield home
    finally:
        if any(file.is_socket() for file in runtime.rglob("*")):
            environment = os.environ | {"TOKENLEAP_HOME": str(home.path), "XDG_RUNTIME_DIR": str(runtime)}
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    [sys.executable, "-m", "assistant.cli.main", "host", "stop"],
                    env=environment,
                    capture_output=True,
                    timeout=30,
                    check=False,
                )
        shutil.rmtree(runtime, ignore_errors=True)


@pytest.fixture(scope="session")
def real_model() -> Path:
    """Folder of the default model in int8; converted once from the installed wheels, never downloaded."""
    return _real_model("int8")


@pytest.fixture(scope="session")
def real_model_in() -> Callable[[str], Path]:
    """The same for another precision: `real_model_in("fp32")`."""
    return _real_model


def _real_model(precision: str) -> Path:
    from assistant.errors import ModelMissingError
    from assistant.models import catalog, store

    try:
        return store.ensure(catalog.find(REAL_MODEL), precision)
    except ModelMissingError as error:
        pytest.skip(f"needs the real model: {error}")
