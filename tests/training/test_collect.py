"""Collecting: holes that join to their text, the same shards however often it was stopped, and full disks."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from assistant.engine import device
from assistant.engine.qwen2 import Qwen2
from assistant.models import catalog, store
from assistant.prompt.tokenizer import Tokenizer
from assistant.training import collect, shards, smoke
from assistant.training.collect import KINDS, PER_SHARD, TEXT, Hole, Source

resource = pytest.importorskip("resource", reason="needs a system that can limit a file's size")
TAPS = (1, 1, 0)
Model = tuple[Qwen2, Tokenizer]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """The smoke model, fp32: it needs no compiler."""
    folder = tmp_path_factory.mktemp("model")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENLEAP_HOME", str(folder / "home"))
        smoke.write(folder / "smoke")
        stored = store.open_model(store.ensure(catalog.find(folder / "smoke"), "fp32"))
        threads = torch.get_num_threads()
        yield device.load(stored, threads=1)[0], Tokenizer(stored.tokenizer_path)
        torch.set_num_threads(threads)


def sources() -> Iterator[Source]:
    lines = [f"value_{n} = compute({n}, other={n % 7})\n" for n in range(40)]
    for number in itertools.count():
        yield Source(f"project {number % 3}", "python", f"{number}.py", "".join(lines[number % 20 :]))


def run(model: Model, folder: Path, tokens: int, shards_more: int = 10**6) -> int:
    """Collects until there are `tokens`, at most `shards_more` shards."""
    left = itertools.chain(itertools.repeat(False, shards_more), itertools.repeat(True))
    return collect.collect(*model, sources(), folder, seed=5, tokens=tokens, taps=TAPS, stop=lambda: next(left))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_stopped_and_resumed_it_gives_the_shards_of_one_run(model: Model, tmp_path: Path) -> None:
    tokens = 9000
    held = run(model, tmp_path / "whole", tokens)
    names = shards.names(tmp_path / "whole")
    readings = [reading for path in names for reading in shards.read(path)]
    assert len(names) >= 2 and len(readings) == PER_SHARD * len(names)
    assert held == sum(len(reading.ids) for reading in readings) >= tokens
    run(model, tmp_path / "parts", tokens, 1)
    assert len(shards.names(tmp_path / "parts")) == 1
    (tmp_path / "parts" / "left by a kill.tmp").write_bytes(b"half a shard")
    assert shards.names(tmp_path / "parts") and (tmp_path / "parts" / "left by a kill.tmp").exists()  # reading is safe
    assert run(model, tmp_path / "parts", tokens) == held
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert run(model, tmp_path / "parts", tokens) == held
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_a_row_holds_what_the_backbone_says_there(model: Model) -> None:
    backbone, tokenizer = model
    hole = next(collect.holes(sources(), 2))
    ids, start = collect.prompt_and_answer(tokenizer, hole)
    reading = collect.read_through(backbone, ids, start, TAPS, {"kind": hole.kind})
    cache = backbone.new_cache(len(ids))
    out = [backbone.forward([token], cache, taps=TAPS) for token in ids]
    scores = torch.cat([backbone.logits(row["final"]) for row in out])
    assert reading.ids.tolist() == ids and 0 < start < len(ids)
    assert torch.equal(reading.choices, reading.top_ids[:, 0])
    assert (scores.argmax(-1) == reading.choices).float().mean() > 0.99
    assert torch.allclose(scores.gather(1, reading.top_ids), reading.top_scores, atol=1e-3)
    for tap, states, sizes in zip(TAPS, reading.states, reading.sizes, strict=True):
        true = torch.cat([row[tap] for row in out])
        assert torch.allclose(states.float() * sizes[:, None], true, rtol=2e-3, atol=2e-3)
    assert tokenizer.decode(ids[start:]).endswith(hole.middle[-20:]) or len(ids) - start == collect.MIDDLE[hole.kind]


def test_a_disk_that_takes_no_more_leaves_whole_shards_alone(model: Model, tmp_path: Path) -> None:
    run(model, tmp_path / "part", 10**6, 1)
    before = contents(tmp_path / "part")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = len(next(iter(before.values())))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, hard))
    try:
        with pytest.raises(OSError):
            run(model, tmp_path / "part", 10**6, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert contents(tmp_path / "part") == before
    run(model, tmp_path / "part", 10**6, 1)
    run(model, tmp_path / "whole", 10**6, 2)
    assert contents(tmp_path / "part") == contents(tmp_path / "whole")


LINES = st.lists(st.text("ab =()\t \x0c\u2028é", max_size=12), min_size=12, max_size=40)


@given(texts=st.lists(LINES, min_size=1, max_size=12), ends=st.sampled_from(["\n", "\r\n"]), seed=st.integers(0, 99))
def test_holes_are_drawn_alike_and_join_to_the_text(texts: list[list[str]], ends: str, seed: int) -> None:
    files = [Source("p", "python", str(n), ends.join(lines)) for n, lines in enumerate(texts)]
    found = list(collect.holes(files, seed))
    assert found == list(collect.holes(files, seed))
    assert [hole.kind for hole in found] == [KINDS[n % len(KINDS)] for n in range(len(found))]
    for hole in found:
        check(hole)


def test_holes_of_long_files_are_windows_of_them() -> None:
    files = [Source("p", "go", str(n), "".join(f"line {n} {i}\n\n" for i in range(2000))) for n in range(10)]
    found = list(collect.holes(files, 1))
    assert len(found) > 5 and any(len(hole.prefix) >= TEXT for hole in found)
    for hole in found:
        check(hole)


def check(hole: Hole) -> None:
    """Its pieces stand side by side in the file."""
    text = hole.source.text.replace("\r\n", "\n")
    joined = hole.prefix + hole.middle + hole.suffix
    assert hole.middle.strip() and joined in text
    if len(text) <= TEXT:
        assert joined == text
    if hole.kind == "line":
        assert "\n" not in hole.middle
    if hole.kind == "left-to-right":
        assert hole.suffix == ""


def test_a_shard_tells_no_text_and_no_path(model: Model, tmp_path: Path) -> None:
    """What is kept of a text is its project, language and kind: no path, no text."""
    run(model, tmp_path, 10, 1)
    raw = shards.names(tmp_path)[0].read_bytes()
    length = int.from_bytes(raw[:8], "little")
    about = json.loads(json.loads(raw[8 : 8 + length])["__metadata__"]["sequences"])
    assert all(set(each) == {"length", "start", "kind", "language", "project"} for each in about)
    assert b"value_" not in raw
