"""Training heads: what a row learns from, a run that stops, resumes, dies and diverges; the closed-form begin."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from assistant.training import evaluate, examples, fit, losses, ridge, shards
from assistant.training.fit import Recipe, Record
from tests.training import made


class Clock:
    """Stands in for `time`: a second passes before each step; stops a run after `steps` steps."""

    def __init__(self, steps: int) -> None:
        self.now, self._left = 0.0, steps

    def monotonic(self) -> float:
        return self.now

    def stop(self) -> bool:
        self.now += 1
        self._left -= 1
        return self._left < 0


SIZE = made.CONFIG.vocabulary_size
Trained = Callable[..., tuple[fit.Record, dict[str, Tensor], list[Tensor]]]


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trained:
    """train(name, steps, recipe) -> record, weights and the sequences used of a run in the folder `name`."""

    def run(
        name: str, steps: int, recipe: Recipe, report: Callable[[str], None] = lambda text: None
    ) -> tuple[Record, dict[str, Tensor], list[Tensor]]:
        clock, head, data = Clock(steps), made.head(), made.data(tmp_path)
        used: list[Tensor] = []
        stream = data.stream

        def watched(seed: int, skip: int) -> object:
            for reading, embeddings in stream(seed, skip):
                used.append(reading.ids)
                yield reading, embeddings

        monkeypatch.setattr(data, "stream", watched)
        monkeypatch.setattr(fit, "time", clock)
        record = fit.train(head, data, made.PLACES, recipe, tmp_path / name / "checkpoint.pt", report, clock.stop)
        return record, head.state_dict(), used

    return run


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Threads would wait for each other longer than such small matrices take."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


RECIPE = Recipe(minutes=12 / 60, warm_up=3, save_every=5)


def test_a_run_stopped_anywhere_goes_on_as_if_it_had_not(train: Trained) -> None:
    whole, weights, used = train("whole", 100, RECIPE)
    assert whole.steps == 12 and len(used) == 24
    parts = [train("parts", steps, RECIPE) for steps in (1, 4, 2, 100)]
    record, resumed, _ = parts[-1]
    assert [ids.tolist() for part in parts for ids in part[2]] == [ids.tolist() for ids in used]
    assert all(torch.equal(resumed[name], weights[name]) for name in weights)
    counts = (record.steps, record.seconds, record.tokens)
    assert counts == (whole.steps, whole.seconds, whole.tokens)
    # one record: the rows of the parts behind one another, each at its step, the last as of the whole run
    steps = [row["step"] for row in record.rows]
    assert steps == sorted(steps) and {0, 1, 5, 7, 12} <= set(steps)
    last, expected = record.rows[-1], whole.rows[-1]
    assert {k: v for k, v in last.items() if k != "loss"} == {k: v for k, v in expected.items() if k != "loss"}
    # nothing is left to do
    again, same, none = train("parts", 100, RECIPE)
    assert str(again) == str(record) and not none  # as text: the first row's loss is not a number
    assert all(torch.equal(same[name], weights[name]) for name in weights)


def test_training_lowers_the_loss_and_raises_acceptance(train: Trained) -> None:
    record, _, _ = train("learning", 1000, Recipe(minutes=1, rate=3e-3, rate_projections=3e-3, warm_up=3, save_every=5))
    first, last = record.rows[0], record.rows[-1]
    assert last["tokens_per_pass"] > first["tokens_per_pass"]
    positions = [last[f"position_{k}"] for k in range(1, 5)]
    total = 1 + sum(math.prod(positions[:k]) for k in range(1, 5))
    assert last["tokens_per_pass"] == pytest.approx(total)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e6])
def test_a_diverged_loss_goes_back_and_halves_the_rate(
    train: Trained, monkeypatch: pytest.MonkeyPatch, bad: float
) -> None:
    loss, calls, rates = losses.cross_entropy, 0, []
    step = torch.optim.AdamW.step

    def spoiled(scores: Tensor, found: examples.Step) -> Tensor:
        nonlocal calls
        calls += 1
        return loss(scores, found) * (bad if calls in (13, 17) else 1.0)

    def watched(self: torch.optim.AdamW) -> None:
        rates.append(self.param_groups[0]["lr"])
        step(self)

    monkeypatch.setattr(losses, "cross_entropy", spoiled)
    monkeypatch.setattr(torch.optim.AdamW, "step", watched)
    told: list[str] = []
    # one position alone and a rate that hardly falls: two calls are a step
    recipe = Recipe(minutes=100, warm_up=1, save_every=1e9, draft=1)
    record, weights, used = train("diverged", 12, recipe, told.append)
    assert record.rolled_back == 2 and record.slower == 0.25 and record.steps == 10 and len(used) == 24
    assert rates[5] / rates[6] == pytest.approx(2, rel=0.01) and rates[6] / rates[7] == pytest.approx(2, rel=0.01)
    assert sum("back to the last checkpoint" in text for text in told) == 2
    assert all(bool(torch.isfinite(value).all()) for value in weights.values())
    # what was used for a step that did not count is not used again
    _, _, more = train("diverged", 1, recipe)
    _, _, straight = train("straight", 13, recipe)
    assert [ids.tolist() for ids in [*used, *more]] == [ids.tolist() for ids in straight]


def test_a_loss_that_never_is_a_number_ends_the_run_with_sound_weights(
    train: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, begun, _ = train("lost", 0, RECIPE)
    monkeypatch.setattr(losses, "cross_entropy", lambda scores, step: scores.sum(-1) * math.nan)
    record, weights, _ = train("lost", 100, RECIPE)
    assert record.steps == 0 and record.rolled_back > 1
    assert all(torch.equal(weights[name], begun[name]) for name in begun)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork to kill a run at a chosen moment")
def test_a_kill_at_any_moment_of_writing_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    script = Path(__file__).with_name("kill_fit.py")
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == 6
    for run in told:
        # the writing numbered `at` was to hold step at - 1; it counts once it is renamed
        kept = run["at"] - 1 if run["moment"] == "done" else run["at"] - 2
        expected = {"signal": signal.SIGKILL, "kept": kept, "again": 0, "steps": max(kept, 0) + 2, "strays": []}
        assert run == {"at": run["at"], "moment": run["moment"]} | expected


def test_a_checkpoint_that_the_disk_does_not_take_leaves_the_old_one(
    train: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train("full", 2, RECIPE)
    before = (tmp_path / "full" / "checkpoint.pt").read_bytes()

    def full(state: object, file: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="No space left"):
        train("full", 2, RECIPE)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["checkpoint.pt"]
    assert (tmp_path / "full" / "checkpoint.pt").read_bytes() == before


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), length=st.integers(2, 24), count=st.integers(1, 6), begin=st.integers(0, 12))
def test_a_step_keeps_the_rows_whose_text_went_as_the_backbone_chose(
    seed: int, length: int, count: int, begin: int
) -> None:
    reading = made.reading(seed, length)
    found = examples.steps(reading, made.PLACES, count, begin)
    ids, choices = reading.ids.tolist(), reading.choices.tolist()
    rows = range(max(examples.SKIP, begin - 1), length - 1)
    wanted = [
        [t for t in rows if t + k < length and all(ids[t + j] == choices[t + j - 1] for j in range(2, k + 1))]
        for k in range(1, count + 1)
    ]
    assert [step.at.tolist() for step in found] == [kept for kept in wanted if kept]
    before = torch.tensor(list(rows))
    for k, step in enumerate(found, start=1):
        assert torch.equal(before[step.keep], step.at)
        assert torch.equal(step.targets, reading.choices[step.at + k])
        before = step.at


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), size=st.floats(1e-5, 1e6), large=st.booleans())
def test_packed_states_come_back(seed: int, size: float, large: bool) -> None:
    states = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(seed)) * size
    if large:
        states[:, 0, 3] *= 50  # Qwen2's first states are like this
    rows, sizes = shards.packed(states)
    assert rows.dtype == torch.float16 and bool(torch.isfinite(rows).all())
    unit = rows.float()
    assert torch.allclose(unit.pow(2).mean(-1).sqrt(), torch.ones(()), atol=2e-3)
    error = (unit * sizes[..., None] - states).abs()
    assert bool((error <= states.abs() * 2**-11 + sizes[..., None] * 2**-24).all())


def test_a_shard_gives_back_its_sequences(tmp_path: Path) -> None:
    written = [made.reading(n, 12 + n) for n in range(3)]
    shards.write(tmp_path / "shard-00000.safetensors", written)
    for before, after in zip(written, shards.read(tmp_path / "shard-00000.safetensors"), strict=True):
        assert (after.start, after.about) == (before.start, before.about)
        for name in ("ids", "choices", "top_ids", "top_scores", "states", "sizes"):
            assert torch.equal(getattr(after, name), getattr(before, name)), name


def test_the_closed_form_finds_a_linear_rule_and_bears_data_without_a_second_step() -> None:
    draw = torch.Generator().manual_seed(3)
    matrix, x = torch.randn(7, 20, generator=draw), torch.randn(400, 20, generator=draw)
    regression = ridge.Regression(20, 7)
    for part in x.split(50):
        regression.add(part, part @ matrix.T)
    assert torch.allclose(regression.solve(), matrix, atol=0.02)
    head, never = made.head(), made.reading(5)
    strange = never.__class__(**vars(never) | {"choices": (never.ids + 1) % SIZE})
    ridge.begin(head, [(strange, made.EMBEDDING[strange.ids])], made.PLACES)
    assert bool(head.first.abs().sum() > 0) and bool(torch.isfinite(head.later).all())
    short = made.reading(6, 3)
    ridge.begin(head, [(short, made.EMBEDDING[short.ids])], made.PLACES)
    assert bool(torch.isfinite(head.first).all())


def test_acceptance_counts_what_decoding_would() -> None:
    """Against a plain count, with a head whose drafts are a table."""
    head, readings = made.head(), [made.reading(n) for n in range(20, 24)]
    ridge.begin(head, [(reading, made.EMBEDDING[reading.ids]) for reading in readings], made.PLACES)
    found = evaluate.acceptance(head, [(r, made.EMBEDDING[r.ids]) for r in readings], made.PLACES, 3)
    tried, right = [0, 0, 0], [0, 0, 0]
    for reading in readings:
        steps = examples.steps(reading, made.PLACES, 3, reading.start)
        drafts = [
            dict(zip(step.at.tolist(), scores.argmax(-1).tolist(), strict=True))
            for step, (_, _, scores) in zip(
                steps, examples.run(head, reading, made.EMBEDDING[reading.ids], steps), strict=True
            )
        ]
        for at in range(reading.start - 1, len(reading.ids) - 1):
            for k in range(3):
                if k >= len(drafts) or at not in drafts[k]:
                    break  # the text left the backbone's choices
                tried[k] += 1
                if drafts[k][at] != int(reading.choices[at + k + 1]):
                    break
                right[k] += 1
    assert (found.tried, found.right) == (tried, right) and 0 < right[2] < tried[0]


def test_the_draft_vocabulary_is_the_most_chosen_and_always_holds_the_ends() -> None:
    readings = [(made.reading(n), made.EMBEDDING[made.reading(n).ids]) for n in range(3)]
    found = fit.vocabulary(readings, 12, [SIZE - 1, 3], SIZE).tolist()
    assert found == sorted(set(found)) and len(found) == 12 and {3, SIZE - 1} <= set(found)
    counts = torch.zeros(SIZE)
    for reading, _ in readings:
        counts += torch.bincount(reading.choices, minlength=SIZE) + 0.25 * torch.bincount(reading.ids, minlength=SIZE)
    left = [float(counts[token]) for token in range(SIZE) if token not in found]
    assert max(left) <= min(float(counts[token]) for token in found if token not in (3, SIZE - 1))
    assert fit.vocabulary(readings, 500, [SIZE - 1], SIZE).tolist() == list(range(SIZE))
