"""Several files read as one give the bytes of their concatenation, wherever the cuts are."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.errors import ModelCorruptError
from assistant.models.parts import Parts


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=5), st.data())
def test_any_range_of_any_parts(pieces: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(pieces)
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, len(whole)))
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / str(n) for n in range(len(pieces))]
        for path, piece in zip(paths, pieces, strict=True):
            path.write_bytes(piece)
        with Parts(paths) as parts:
            assert parts.size == len(whole)
            assert parts.read(start, stop - start) == whole[start:stop]
            assert parts.sha256() == hashlib.sha256(whole).hexdigest()


def test_reading_past_the_end_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    with Parts([path]) as parts, pytest.raises(ModelCorruptError, match="6 bytes are needed, 5 are there"):
        parts.read(3, 3)


def test_a_file_cut_short_after_opening_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    with Parts([path]) as parts:
        path.write_bytes(b"12")
        with pytest.raises(ModelCorruptError, match="ends too early"):
            parts.read(0, 5)
