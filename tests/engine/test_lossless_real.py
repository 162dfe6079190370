"""On the real int8 model: whatever is drafted, reused, cancelled or sampled, the ids are those of plain decoding."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assistant.engine import device
from assistant.engine.draft import Draft, DraftState, make_drafter
from assistant.engine.generate import Generation, generate
from assistant.engine.prefix import PrefixStore
from assistant.engine.qwen2 import Qwen2
from assistant.engine.sampling import Sampling
from assistant.models import store
from assistant.prompt.tokenizer import Tokenizer

BUDGET = 256 << 20
NEW = 24
TEXT = '''def area(width, height):
    """The area of a rectangle."""
    return width * height


def volume(width, height, depth):
    """The volume of a box."""
    return'''


@pytest.fixture(scope="module")
def model(real_model: Path) -> Qwen2:
    return device.load(store.open_model(real_model))[0]


@pytest.fixture(scope="module")
def prompts(real_model: Path) -> list[list[int]]:
    tokenizer = Tokenizer(store.open_model(real_model).tokenizer_path)
    return [tokenizer.encode(TEXT), tokenizer.encode(TEXT * 6)]


class Oracle:
    """Drafts a tree around what plain decoding gave: right up to a point, wrong beside it."""

    name, taps, draft_length = "oracle", (), 8

    def __init__(self, prompt: int, right: Sequence[int], wrong_at: int, branch: bool) -> None:
        self._prompt, self._right, self._wrong_at, self._branch = prompt, right, wrong_at, branch

    def begin(self, prompt: Sequence[int]) -> None:
        pass

    def propose(self, state: DraftState, limit: int) -> Draft:
        at = len(state.ids) - self._prompt
        ids = list(self._right[at : at + limit])
        if self._wrong_at < len(ids):
            ids[self._wrong_at] = (ids[self._wrong_at] + 1) % 1000
        parents = list(range(-1, len(ids) - 1))
        if self._branch and 1 < len(ids) < limit:
            ids, parents = [(ids[0] + 7) % 1000, *ids], [-1, -1, *range(1, len(ids))]
        return Draft(tuple(ids), tuple(parents))

    def observe(self, draft: Draft, accepted: Sequence[int]) -> None:
        pass


def run(model: Qwen2, prompt: list[int], keep: PrefixStore | None = None, **options: object) -> Generation:
    keep = keep or PrefixStore(model, BUDGET)
    return generate(model, prompt, store=keep, max_new_tokens=NEW, end_ids={151_643, 151_645}, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.8, seed=7)], ids=["greedy", "sampled"])
def test_lookup_at_every_draft_length(model: Qwen2, prompts: list[list[int]], sampling: Sampling) -> None:
    for prompt in prompts:
        plain = run(model, prompt, sampling=sampling)
        for length in range(1, 9):
            drafted = run(model, prompt, sampling=sampling, drafter=make_drafter("lookup"), draft_length=length)
            assert (drafted.ids, drafted.finish) == (plain.ids, plain.finish)


@settings(max_examples=15)
@given(
    wrong_at=st.integers(0, 8),
    branch=st.booleans(),
    length=st.integers(1, 8),
    seed=st.integers(0, 3),
    hot=st.booleans(),
)
def test_any_draft_chain_or_tree(
    model: Qwen2, prompts: list[list[int]], wrong_at: int, branch: bool, length: int, seed: int, hot: bool
) -> None:
    prompt, sampling = prompts[0], Sampling(temperature=0.8 if hot else 0.0, seed=seed)
    plain = run(model, prompt, sampling=sampling)
    oracle = Oracle(len(prompt), plain.ids, wrong_at, branch)
    drafted = run(model, prompt, sampling=sampling, drafter=oracle, draft_length=length)
    assert (drafted.ids, drafted.finish) == (plain.ids, plain.finish)
    assert drafted.stats.passes <= plain.stats.passes


@settings(max_examples=15)
@given(data=st.data())
def test_cancels_and_reuse(model: Qwen2, prompts: list[list[int]], data: st.DataObject) -> None:
    keep = PrefixStore(model, BUDGET)
    for _ in range(data.draw(st.integers(1, 4), "requests")):
        prompt = data.draw(st.sampled_from(prompts), "prompt")
        cut = data.draw(st.integers(1, len(prompt)), "typed so far")
        calls = itertools.count()
        cancel_at = data.draw(st.integers(0, 12), "cancel at")
        run(model, prompt[:cut], keep, drafter=make_drafter("lookup"), cancelled=lambda: next(calls) >= cancel_at)  # noqa: B023
    prompt = data.draw(st.sampled_from(prompts), "prompt")
    again = run(model, prompt, keep, drafter=make_drafter("lookup"))
    assert again.ids == run(model, prompt).ids
