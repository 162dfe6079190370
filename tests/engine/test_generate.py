"""The decoding loop: drafts change neither text nor callback calls, and the cache is sound afterwards."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assistant.engine.draft import Draft, DraftState
from assistant.engine.generate import PREFILL_ROWS, Generation, generate
from assistant.engine.prefix import PrefixStore
from assistant.engine.sampling import Sampling
from assistant.errors import UsageError
from tests.engine.scripted import RandomDrafter, ScriptedBackbone

LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 16]
PROMPT = [1, 2, 3, 4]


class ExactDrafter:
    """Drafts the true text, or never a right token."""

    name = "exact"
    draft_length = 4

    def __init__(self, text: Sequence[int], *, wrong: bool = False, taps: tuple[int, ...] = ()) -> None:
        self.text, self.wrong, self.taps = list(text), wrong, taps
        self.observed: list[list[int]] = []

    def begin(self, prompt: Sequence[int]) -> None:
        self.start = len(prompt)

    def propose(self, state: DraftState, limit: int) -> Draft:
        done = len(state.ids) - self.start
        return Draft(tuple((token + self.wrong) % 12 for token in self.text[done : done + limit]))

    def observe(self, draft: Draft, accepted: Sequence[int]) -> None:
        self.observed.append(list(accepted))


@dataclass
class Rules:
    """A stop callback and a constraint that go by the whole history and note how they were called."""

    stop_every: int | None = None
    constrained: bool = False
    calls: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)

    def stop(self, new: Sequence[int]) -> bool:
        self.calls.append(("stop", tuple(new)))
        return self.stop_every is not None and random.Random(str(new)).randrange(self.stop_every) == 0

    def constraint(self, new: Sequence[int]) -> Collection[int] | None:
        self.calls.append(("constraint", tuple(new)))
        noise = random.Random(f"c{new}")
        return None if noise.random() < 0.5 else noise.sample(range(12), noise.randint(1, 12))

    def options(self) -> dict[str, Any]:
        return {
            "stop": self.stop if self.stop_every is not None else None,
            "constraint": self.constraint if self.constrained else None,
        }


def run(
    backbone: ScriptedBackbone,
    prompt: Sequence[int] = PROMPT,
    *,
    store: PrefixStore | None = None,
    **options: Any,
) -> Generation:
    store = PrefixStore(backbone, 1 << 20) if store is None else store
    options = {"max_new_tokens": 20, "end_ids": ()} | options
    try:
        return generate(backbone, prompt, store=store, **options)
    finally:
        assert_sound(store)


def assert_sound(store: PrefixStore) -> None:
    for entry in store._entries:
        assert entry.cache.slots == list(entry.ids)  # type: ignore[attr-defined]
        assert entry.cache.length == len(entry.ids) > 0


RULES = st.builds(Rules, st.sampled_from([None, 3, 10]), st.booleans())
SAMPLINGS = st.builds(
    Sampling,
    st.sampled_from([0.0, 0.8, 2.0]),
    top_k=st.sampled_from([0, 3]),
    top_p=st.sampled_from([0.9, 1.0]),
    seed=st.integers(0, 99),
)


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    prompt=st.lists(st.integers(0, 11), min_size=1, max_size=9),
    memory=st.sampled_from([None, 2, 5]),
    length=st.sampled_from(LENGTHS),
    tree=st.booleans(),
    wild=st.booleans(),
    helped=st.booleans(),
    rules=RULES,
    sampling=SAMPLINGS,
    limit=st.integers(1, 30),
    ends=st.sets(st.integers(0, 11), max_size=2),
    context=st.integers(9, 60),
    seed=st.integers(0, 10**6),
)
def test_drafting_changes_nothing_but_the_passes(
    prompt: list[int],
    memory: int | None,
    length: int,
    tree: bool,
    wild: bool,
    helped: bool,
    rules: Rules,
    sampling: Sampling,
    limit: int,
    ends: set[int],
    context: int,
    seed: int,
) -> None:
    backbone = ScriptedBackbone(memory=memory, context=context)
    common: dict[str, Any] = {"sampling": sampling, "max_new_tokens": limit, "end_ids": ends}
    plain = run(backbone, prompt, **common, **rules.options())
    calls, rules.calls = rules.calls, []
    drafter = RandomDrafter(seed, tree=tree, wild=wild, oracle=plain.ids if helped else ())
    blocks: list[int] = []
    drafted = run(
        backbone,
        prompt,
        **common,
        **rules.options(),
        drafter=drafter,
        draft_length=length,
        on_tokens=blocks.extend,
    )
    assert drafted.ids == plain.ids == blocks
    assert drafted.finish == plain.finish
    assert drafted.logprob_sum == plain.logprob_sum
    assert rules.calls == calls, "callbacks see the same calls in every mode"
    for stats in (plain.stats, drafted.stats):
        assert stats.prompt_tokens == len(prompt)
        assert stats.new_tokens == len(plain.ids)
        # What a pass commits: its accepted tokens and a bonus, which only a pass ended at an accepted token
        # lacks.
        lacking = stats.accepted + stats.passes - (stats.new_tokens - stats.first_tokens)
        assert lacking in ((0, 1) if stats.accepted else (0,))
        assert sum(stats.accepted_by_position) == stats.accepted <= stats.drafted
        assert all(a <= t for a, t in zip(stats.accepted_by_position, stats.tried_by_position, strict=True))
    assert plain.stats.passes == max(0, len(plain.ids) - 1) and plain.stats.drafted == 0
    assert drafted.stats.passes <= plain.stats.passes


@pytest.mark.parametrize("length", LENGTHS)
def test_all_drafts_right_means_full_blocks(length: int) -> None:
    backbone = ScriptedBackbone()
    plain = run(backbone, max_new_tokens=40)
    drafter = ExactDrafter(plain.ids)
    result = run(backbone, max_new_tokens=40, drafter=drafter, draft_length=length)
    assert result.ids == plain.ids
    assert result.stats.passes == -(-39 // (length + 1))
    assert result.stats.tokens_per_pass == pytest.approx(39 / result.stats.passes)
    assert result.stats.accepted == result.stats.drafted, (
        "the bonus is not among them and nothing was drafted past the end"
    )
    assert result.stats.summary()["accepted_by_position"] == [1.0] * min(length, 39)
    assert all(accepted == list(range(length)) for accepted in drafter.observed)


@pytest.mark.parametrize("length", LENGTHS)
def test_all_drafts_wrong_means_one_token_a_pass(length: int) -> None:
    backbone = ScriptedBackbone()
    plain = run(backbone)
    result = run(backbone, drafter=ExactDrafter(plain.ids, wrong=True), draft_length=length)
    assert result.ids == plain.ids
    assert result.stats.passes == plain.stats.passes
    assert result.stats.accepted == 0
    assert result.stats.tried_by_position == [18]  # the last of 19 passes had no room for a draft
    assert result.stats.tokens_per_pass == 1


@pytest.mark.parametrize("place", range(1, 12))
@pytest.mark.parametrize("kind", ["end", "stop", "limit"])
def test_an_end_at_any_place_of_a_block_is_the_last_token(place: int, kind: str) -> None:
    # With four drafted tokens, blocks end at places 0, 5, 10: an end falls inside, at the last draft, and on
    # the bonus.
    backbone = ScriptedBackbone(vocabulary=97)
    text = run(backbone).ids
    assert text.index(text[place]) == place, "the script repeats a token; choose another prompt"
    options: dict[str, Any] = {
        "end": {"end_ids": [text[place]]},
        "stop": {"stop": lambda new: new[-1] == text[place]},
        "limit": {"max_new_tokens": place + 1},
    }[kind]
    store = PrefixStore(backbone, 1 << 20)
    drafter = ExactDrafter(text)
    drafter.propose = (
        lambda state, limit: Draft(  # type: ignore[method-assign]
            tuple(text[len(state.ids) - 4 :][: min(4, limit)])
        )
    )
    result = run(backbone, store=store, drafter=drafter, **options)
    assert result.ids == text[: place + 1]
    assert result.finish == {"end": "stop", "stop": "scope", "limit": "length"}[kind]
    assert result.stats.passes == -(-place // 5)
    inside = place % 5 != 0
    assert result.stats.accepted == place - place // 5 - (kind == "limit" and inside), (
        "drafts past the end do not count"
    )
    assert store.held == [(*PROMPT, *text[:place])], (
        "nothing past the end stays, the last token is not cached"
    )


def test_what_ends_first_names_the_finish() -> None:
    backbone = ScriptedBackbone(vocabulary=97)
    text = run(backbone).ids
    assert run(backbone, end_ids=[text[3]], max_new_tokens=4, stop=lambda new: len(new) == 4).finish == "stop"
    assert run(backbone, max_new_tokens=4, stop=lambda new: len(new) == 4).finish == "scope"
    assert run(backbone, end_ids=[text[0]]).ids == text[:1]


def test_the_end_of_the_context_is_a_length_finish() -> None:
    backbone = ScriptedBackbone(context=15)
    for drafter in (None, RandomDrafter(1), RandomDrafter(2, tree=True)):
        result = run(backbone, max_new_tokens=1000, drafter=drafter, draft_length=8)
        assert result.finish == "length" and len(result.ids) == 11
    full = run(backbone, [1] * 15)
    assert full.finish == "length" and full.ids == [] and full.stats.summary()["tokens_per_pass"] == 0
    with pytest.raises(UsageError, match="context"):
        run(backbone, [1] * 16)


def test_no_new_tokens_warms_the_store() -> None:
    backbone = ScriptedBackbone()
    store = PrefixStore(backbone, 1 << 20)
    result = run(backbone, store=store, max_new_tokens=0)
    assert (result.ids, result.finish, result.stats.passes) == ([], "length", 0)
    assert store.held == [tuple(PROMPT)]


@pytest.mark.parametrize(
    ("prompt", "options"),
    [([], {}), ([12], {}), ([-1], {}), (PROMPT, {"max_new_tokens": -1}), (PROMPT, {"draft_length": -1})],
)
def test_wrong_use_is_refused(prompt: list[int], options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        run(ScriptedBackbone(), prompt, **options)


def test_the_prompt_is_read_in_chunks_and_scored_once() -> None:
    backbone = ScriptedBackbone()
    scored: list[int] = []
    logits = backbone.logits
    backbone.logits = lambda hidden: (scored.append(len(hidden)), logits(hidden))[1]  # type: ignore[method-assign,func-returns-value]
    prompt = [i % 12 for i in range(2 * PREFILL_ROWS + 7)]
    run(backbone, prompt, max_new_tokens=2)
    assert backbone.calls == [PREFILL_ROWS, PREFILL_ROWS, 7, 1]
    assert scored == [1, 1]


def test_a_second_request_computes_only_what_is_new() -> None:
    backbone = ScriptedBackbone()
    store = PrefixStore(backbone, 1 << 20)
    first = run(backbone, store=store, drafter=RandomDrafter(3), max_new_tokens=9)
    again = run(backbone, store=store, max_new_tokens=9)
    assert again.ids == first.ids and again.stats.reused_tokens == len(PROMPT) - 1
    longer = [*PROMPT, *first.ids, 5]
    more = run(backbone, longer, store=store)
    assert more.stats.reused_tokens == len(PROMPT) + 8, "all but the last emitted token was cached"
    assert more.ids == run(backbone, longer).ids


class Cancel:
    """True at the n-th reading and ever after."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1, seed=3)])
def test_a_cancel_anywhere_leaves_a_state_to_go_on_from(tree: bool, sampling: Sampling) -> None:
    backbone = ScriptedBackbone()
    prompt = [i % 12 for i in range(2 * PREFILL_ROWS + 3)]
    fresh = run(backbone, prompt, sampling=sampling)
    for at in range(40):
        store = PrefixStore(backbone, 1 << 20)
        streamed: list[int] = []
        drafter = RandomDrafter(at, tree=tree, oracle=fresh.ids)
        calls = len(backbone.calls)
        cut = run(
            backbone,
            prompt,
            store=store,
            sampling=sampling,
            drafter=drafter,
            cancelled=Cancel(at),
            on_tokens=streamed.extend,
        )
        if cut.finish != "cancelled":
            assert cut.ids == fresh.ids and at > 3
            break
        assert len(backbone.calls) - calls == at, "no chunk or pass after the cancel"
        assert cut.ids == streamed == fresh.ids[: len(cut.ids)]
        again = run(
            backbone, prompt, store=store, sampling=sampling, drafter=RandomDrafter(at + 1, tree=tree)
        )
        assert again.ids == fresh.ids
        assert again.stats.reused_tokens == min(at * PREFILL_ROWS, len(prompt) - 1), (
            "what was computed is kept"
        )
    else:
        pytest.fail("never ran to its end")


class Break(Exception):
    pass


def breaking(call: Callable[..., Any], at: int) -> Callable[..., Any]:
    count = -1

    def wrapped(*args: Any) -> Any:
        nonlocal count
        count += 1
        if count == at:
            raise Break
        return call(*args)

    return wrapped


@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize(
    "where", ["begin", "propose", "observe", "stop", "constraint", "on_tokens", "cancelled", "forward"]
)
def test_whatever_breaks_comes_through_and_leaves_a_sound_cache(where: str, tree: bool) -> None:
    backbone = ScriptedBackbone()
    fresh = run(backbone, max_new_tokens=12)
    broken = 0
    for at in range(30):
        store = PrefixStore(backbone, 1 << 20)
        drafter = RandomDrafter(at, tree=tree, oracle=fresh.ids)
        calls: dict[str, Any] = {
            "stop": lambda new: False,
            "constraint": lambda new: None,
            "on_tokens": lambda ids: None,
            "cancelled": lambda: False,
        }
        if where in calls:
            calls[where] = breaking(calls[where], at)
        elif where == "forward":
            backbone.fail_at = len(backbone.calls) + at
        else:
            setattr(drafter, where, breaking(getattr(drafter, where), at))
        try:
            run(backbone, store=store, max_new_tokens=12, drafter=drafter, **calls)
        except (Break, RuntimeError):
            broken += 1
        else:
            break
        finally:
            backbone.fail_at = None
        assert run(backbone, store=store, max_new_tokens=12).ids == fresh.ids
    assert broken >= 1


class Watching(RandomDrafter):
    """Checks what the loop shows it."""

    def propose(self, state: DraftState, limit: int) -> Draft:
        assert 1 <= limit <= 4
        assert state.cache.slots == list(state.ids[:-1])  # type: ignore[attr-defined]
        expected = torch.tensor([float(self.backbone.state(state.ids[:-1])), float(len(state.ids) - 1)])
        assert set(state.hidden) == {"final", 3}
        assert torch.equal(state.hidden["final"], expected)
        assert torch.equal(state.hidden[3], expected + 3)
        self.seen = list(state.ids)
        return super().propose(state, limit)

    def observe(self, draft: Draft, accepted: Sequence[int]) -> None:
        assert draft.ids
        parents = draft.parents or tuple(range(-1, len(draft.ids) - 1))
        assert [parents[i] for i in accepted] == [-1, *accepted[:-1]][: len(accepted)]
        super().observe(draft, accepted)
        self.accepted += len(accepted)

    backbone: ScriptedBackbone
    accepted = 0


@pytest.mark.parametrize("tree", [False, True])
def test_a_drafter_sees_the_state_that_chose_the_last_token(tree: bool) -> None:
    backbone = ScriptedBackbone()
    text = run(backbone, max_new_tokens=60).ids
    drafter = Watching(5, tree=tree, oracle=text, taps=(3,), wild=True)
    drafter.backbone = backbone
    result = run(backbone, max_new_tokens=60, drafter=drafter)
    assert result.ids == text
    assert 0 < drafter.accepted <= result.stats.accepted


def test_a_constraint_that_allows_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="allows no id"):
        run(ScriptedBackbone(), constraint=lambda new: [])


def test_candidates_of_one_seed_differ() -> None:
    backbone = ScriptedBackbone()
    texts = {
        tuple(run(backbone, sampling=Sampling(temperature=1, seed=1, candidate=candidate)).ids)
        for candidate in range(4)
    }
    assert len(texts) == 4


def test_noise_goes_by_absolute_position() -> None:
    backbone = ScriptedBackbone()
    sampling = Sampling(temperature=1, seed=8)
    text = run(backbone, sampling=sampling).ids
    for done in range(1, 18):
        rest = run(backbone, [*PROMPT, *text[:done]], sampling=sampling, max_new_tokens=3)
        assert rest.ids == text[done : done + 3]


def test_times_are_told() -> None:
    stats = run(ScriptedBackbone()).stats
    assert 0 < stats.prefill_ms <= stats.first_token_ms
    assert stats.decode_ms > 0 and stats.summary()["tokens_per_second"] == pytest.approx(
        19_000 / stats.decode_ms
    )
    total = run(ScriptedBackbone(), max_new_tokens=5, drafter=ExactDrafter([0] * 9)).stats
    single = total.summary()
    total.add(stats)
    assert total.new_tokens == 25 and total.tokens_per_pass == 23 / total.passes
    assert total.passes == single["passes"] + 19
