"""A tiny model on the disk, in a home of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from assistant.models import catalog
from assistant.models.catalog import Entry
from tests.conftest import OwnHome
from tests.models import tiny


@pytest.fixture
def tiny_path(tmp_path: Path) -> Path:
    """A sound tiny GGUF file with its own output matrix."""
    path = tmp_path / "tiny.gguf"
    tiny.write(path, kinds={"ffn_down.weight": tiny.Kind.Q6_K, "embd.weight": tiny.Kind.Q5_0})
    return path


@pytest.fixture
def tiny_entry(own_home: OwnHome, tiny_path: Path) -> Entry:
    """The entry of `tiny_path`; nothing is converted yet, and what will be lies in this test's home."""
    return catalog.find(tiny_path)
