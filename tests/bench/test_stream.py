"""The memory yardstick reads every byte it claims, with any number of threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from assistant.bench import stream
from assistant.errors import UnsupportedError


@pytest.fixture(scope="module")
def small() -> stream.Stream:
    try:
        return stream.Stream(size=1 << 20)
    except UnsupportedError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_all_bytes_are_read_by_any_number_of_threads(small: stream.Stream, threads: int) -> None:
    assert small.gb_s(threads) > 0  # `seconds` compares the sum of all bytes


def test_too_many_threads_are_refused(small: stream.Stream) -> None:
    with pytest.raises(UnsupportedError):
        small.seconds(1000)


def test_the_last_cache_is_the_largest_one(tmp_path: Path) -> None:
    for number, size in enumerate(("32K", "2048K", "32M")):
        (tmp_path / f"index{number}").mkdir()
        (tmp_path / f"index{number}" / "size").write_text(size + "\n")
    assert stream.last_cache_bytes(tmp_path) == 32 << 20
    assert stream.last_cache_bytes(tmp_path / "none") == 0


def test_no_compiler_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(UnsupportedError, match="C compiler"):
        stream.Stream(size=1 << 20)
