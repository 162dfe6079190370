"""Drafters by name, and lookup: its drafts stood before, they pay on edits, and their losses have a bound."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assistant.engine.draft import MODES, DraftState, make_drafter
from assistant.engine.lookup import ALLOWANCE, LOSS, PASS_COST, LookupDrafter
from assistant.engine.sampling import GREEDY
from assistant.errors import HeadError, UnsupportedError, UsageError
from tests.engine.scripted import ScriptedCache

TEXT = st.lists(st.integers(0, 4), min_size=1, max_size=120)


def state(ids: Sequence[int]) -> DraftState:
    return DraftState(ids, {}, ScriptedCache(0), GREEDY)


class Replay:
    """Decoding in which the backbone writes `target`: the time it takes, in one-row passes."""

    def __init__(self, prompt: Sequence[int], target: Sequence[int], limit: int = 8) -> None:
        self.time, self.tokens, self.worst = 0.0, 0, 0.0
        drafter = LookupDrafter()
        drafter.begin(prompt)
        full = [*prompt, *target]
        done = len(prompt) + 1  # the prefill yields the first
        while done < len(full):
            room = min(limit, len(full) - done - 1)
            draft = drafter.propose(state(full[:done]), room) if room else None
            accepted, drafted = 0, draft.ids if draft else ()
            assert len(drafted) <= limit
            text = "," + ",".join(map(str, full[:done])) + ","
            assert "," + ",".join(map(str, drafted)) + "," in text or not drafted, "a draft stood before"
            while accepted < len(drafted) and drafted[accepted] == full[done + accepted]:
                accepted += 1
            if draft and drafted:
                drafter.observe(draft, range(accepted))
            done += accepted + 1
            self.time += PASS_COST[len(drafted)]
            self.tokens += accepted + 1
            self.worst = max(self.worst, self.time - self.tokens - LOSS * self.tokens)

    @property
    def speedup(self) -> float:
        return self.tokens / self.time


@settings(deadline=None)
@given(TEXT, TEXT, st.integers(1, 15))
def test_lookup_drafts_what_stood_before_and_its_loss_has_a_bound(
    prompt: list[int], target: list[int], limit: int
) -> None:
    replay = Replay(prompt, target, limit)
    assert replay.worst <= ALLOWANCE + 1e-9


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_the_index_is_the_same_in_whatever_pieces_it_is_built(ids: list[int], cuts: list[int]) -> None:
    whole, pieces = LookupDrafter(), LookupDrafter()
    whole.begin(ids)
    pieces.begin(ids[:0])
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(ids)], strict=True):
        pieces._extend(ids[start:end])
    assert whole._ids == pieces._ids == ids
    assert whole._after == pieces._after
    assert whole._earlier == pieces._earlier
    for size in (2, 3, 4):
        stood = [i for i in range(size, len(ids)) if ids[i - size : i] == ids[-size:]]
        assert whole._last(size) == (stood[-1] if stood else -1)


def test_the_longest_match_wins_and_then_the_latest() -> None:
    drafter = LookupDrafter()
    prompt = [9, 1, 2, 3, 4, 50, 8, 1, 2, 3, 4, 60, 7, 1, 2, 3, 4, 70]
    drafter.begin([*prompt, 8, 1, 2, 3])
    assert drafter.propose(state([*prompt, 8, 1, 2, 3, 4]), 1).ids == (60,)
    drafter.begin([*prompt, 6, 1, 2, 3])
    assert drafter.propose(state([*prompt, 6, 1, 2, 3, 4]), 1).ids == (70,)


def test_equal_requests_draft_alike_whatever_came_between() -> None:
    drafter, fresh = LookupDrafter(), LookupDrafter()
    for ids in ([1, 2, 3] * 5, [3, 3, 1] * 9):
        drafter.begin(ids)
        drafter.observe(drafter.propose(state([*ids, 1]), 8), [])
    for one in (drafter, fresh):
        one.begin([5, 6, 7, 8] * 3)
    after = state([*[5, 6, 7, 8] * 3, 5])
    assert drafter.propose(after, 8) == fresh.propose(after, 8)
    assert fresh.propose(after, 8).ids


def source() -> str:
    return inspect.getsource(argparse.HelpFormatter)


def ids_of(*texts: str) -> list[list[int]]:
    """Texts as ids of word pieces of at most five letters, blanks before words taken in, as tokenizers do."""
    names: dict[str, int] = {}
    pieces = [re.findall(r" ?[A-Za-z]{1,5}|[0-9]| ?[^\sA-Za-z0-9]|\n *|\s", text) for text in texts]
    return [[names.setdefault(piece, len(names)) for piece in text] for text in pieces]


def test_lookup_pays_on_edits() -> None:
    code = source()[:6000]
    edits = {
        "rename": re.sub(r"\baction\b", "argument_rule", code),
        "docstrings": re.sub(
            r"(\n {4}def .*:\n)", r'\1        """Do what the name says, for one option at a time."""\n', code
        ),
        "quotes": code.replace("'", '"'),
    }
    for kind, edited in edits.items():
        prompt, target = ids_of("Edit this:\n" + code, edited)
        assert Replay(prompt, target[:400]).speedup > 2, kind
    block = "    @property\n    def {0}(self) -> int:\n        return self._values['{0}'] or self.default\n\n"
    names = ["width", "height", "depth", "colour", "weight", "label"]
    prompt, target = ids_of(
        code + "".join(block.format(name) for name in names[:2]),
        "".join(block.format(name) for name in names[2:]),
    )
    assert Replay(prompt, target).speedup > 1.5


def test_lookup_costs_little_where_nothing_repeats_and_gains_on_new_code() -> None:
    prompt, code = ids_of(source()[:4000], source()[4000:8000])
    assert Replay(prompt, code).speedup > 1
    scrambled = [token * 7919 % 211 for token in range(400)]
    assert Replay(prompt, scrambled).speedup > 0.97


def test_no_more_is_drafted_than_pays_by_the_cost_told() -> None:
    prompt = list(range(20)) * 3
    for cost, most in (((1.0, 1.01, 1.02, 1.03), 3), ((1.0, 2.5, 4.0), 0)):
        drafter = make_drafter("lookup", cost)
        assert drafter is not None
        drafter.begin(prompt)
        assert len(drafter.propose(state([*prompt, 0]), 8).ids) == most


def test_modes_by_name() -> None:
    assert make_drafter("plain") is None
    for mode in ("lookup", "auto"):
        drafter = make_drafter(mode)
        assert drafter is not None and drafter.name == "lookup" and drafter.draft_length == 8
    with pytest.raises(HeadError, match="no trained draft head"):
        make_drafter("mtp")
    for mode in ("tree", "draft-model"):
        with pytest.raises(UnsupportedError, match=mode):
            make_drafter(mode)
    with pytest.raises(UsageError, match="lookup"):
        make_drafter("fast")
    assert set(MODES) == {"plain", "lookup", "mtp", "tree", "auto", "draft-model"}
