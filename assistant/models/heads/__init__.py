"""Trained draft heads, one file a model, named after it. A head of the user's own, in the data folder, comes first."""

from __future__ import annotations

from pathlib import Path

from assistant import locations


def own(model: str) -> Path:
    """Where a head trained on this machine for `model` lies."""
    return locations.data_folder() / "heads" / f"{model}.safetensors"


def find(model: str) -> Path | None:
    """The head file to use for a model of the catalog, None when there is none."""
    shipped = Path(__file__).parent / f"{model}.safetensors"
    return next((path for path in (own(model), shipped) if path.is_file()), None)
