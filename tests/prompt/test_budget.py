"""What is cut fits the budget, costs the same for any file size and stays put while somebody types."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.prompt import budget
from assistant.prompt.budget import DEFAULT_BUDGET, MeasuredBudget, PromptBudget, cut_prefix, cut_suffix, near_start
from assistant.prompt.tokenizer import Encoded, Tokenizer

LINES = "".join(f"def function_{n}(value):\n    return value + {n}\n\n" for n in range(400))
TEXTS = st.one_of(
    st.text(max_size=300),
    st.integers(0, len(LINES)).map(lambda n: LINES[:n]),
    st.sampled_from(["x" * 3000, "😀" * 500, "你好" * 500, " " * 2000, "\n" * 700, "a\n" + "b" * 4000]),
)


class Counting:
    """A tokenizer that remembers how many characters it was given."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.characters = 0

    def encode_parts(self, text: str) -> Encoded:
        self.characters += len(text)
        return self._tokenizer.encode_parts(text)


@given(text=TEXTS, tokens=st.integers(1, 200))
def test_the_prefix_is_the_end_of_the_text_and_fits(tokenizer: Tokenizer, text: str, tokens: int) -> None:
    part = cut_prefix(tokenizer, text, tokens)
    assert len(part.encoded.ids) <= tokens
    assert text.encode().endswith(tokenizer.spell(part.encoded.ids))
    assert tokenizer.decode(part.encoded.ids) == text[part.start :]
    if len(tokenizer.encode(text)) <= tokens * 7 // 8 and len(text) <= 7 * tokens:
        assert part.start == 0


@given(text=TEXTS, tokens=st.integers(0, 200))
def test_the_suffix_is_the_start_of_the_text_and_fits(tokenizer: Tokenizer, text: str, tokens: int) -> None:
    part = cut_suffix(tokenizer, text, tokens)
    assert len(part.encoded.ids) <= tokens
    assert tokenizer.decode(part.encoded.ids) == text[: part.end]


@given(end=st.integers(2000, len(LINES)), tokens=st.integers(60, 300))
def test_code_is_cut_at_lines_and_most_of_the_budget_is_used(tokenizer: Tokenizer, end: int, tokens: int) -> None:
    before = cut_prefix(tokenizer, LINES[:end], tokens)
    assert before.start == 0 or LINES[before.start - 1] == "\n"
    assert len(before.encoded.ids) >= tokens * 0.4
    after = cut_suffix(tokenizer, LINES[end:], tokens)
    assert after.end == len(LINES) - end or LINES[end + after.end - 1] == "\n"


def test_typing_seldom_moves_the_start(tokenizer: Tokenizer) -> None:
    tokens, begin = 200, 4000
    starts = [cut_prefix(tokenizer, LINES[:end], tokens).start for end in range(begin, begin + 1500)]
    assert starts == sorted(starts)
    typed = len(tokenizer.encode(LINES[begin : begin + 1500]))
    assert len(set(starts)) <= 2 + typed / (tokens / 8)


@pytest.mark.parametrize("text", [LINES * 300, "x = 1; " * 50_000, "y" * 300_000])
def test_the_cost_does_not_grow_with_the_file(tokenizer: Tokenizer, text: str) -> None:
    counting = Counting(tokenizer)
    part = cut_prefix(counting, text, 256)  # type: ignore[arg-type]
    assert part.encoded.ids
    assert counting.characters <= 6 * 8 * 256
    counting.characters = 0
    part = cut_suffix(counting, text, 64)  # type: ignore[arg-type]
    assert part.encoded.ids
    assert counting.characters <= 2 * 8 * 64


def test_a_long_line_behind_a_line_end_is_not_dropped(tokenizer: Tokenizer) -> None:
    part = cut_suffix(tokenizer, "\n" + "value + " * 1000, 64)
    assert len(part.encoded.ids) > 32


@given(speed=st.floats(1, 1e5), milliseconds=st.floats(1, 1e5))
def test_chosen_budgets_are_sane_and_grow_with_speed(speed: float, milliseconds: float) -> None:
    chosen = budget.choose(speed, milliseconds)
    assert 256 <= chosen.prefix_tokens <= 6144
    assert 64 <= chosen.suffix_tokens <= 512
    faster = budget.choose(speed * 1.5, milliseconds)
    assert faster.prefix_tokens >= chosen.prefix_tokens
    assert faster.suffix_tokens >= chosen.suffix_tokens


def test_a_budget_is_within_the_time_it_was_chosen_for() -> None:
    chosen = budget.choose(500, 4000)
    assert 2000 * 0.5 < chosen.prefix_tokens + chosen.suffix_tokens <= 2000


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan"), float("inf")])
def test_a_speed_that_was_not_measured_gives_the_default(speed: float) -> None:
    assert budget.choose(speed, 1000) == budget.DEFAULT_BUDGET


@given(
    prefills=st.lists(st.tuples(st.integers(0, 4000), st.floats(0, 1e5)), max_size=12),
    later=st.lists(st.tuples(st.integers(0, 4000), st.floats(0, 1e5)), max_size=12),
)
def test_an_engine_has_the_default_until_it_is_measured_and_then_one_budget(
    prefills: list[tuple[int, float]], later: list[tuple[int, float]]
) -> None:
    measured = MeasuredBudget()
    telling = [(tokens, ms) for tokens, ms in prefills if tokens >= 128 and ms > 0]
    for tokens, milliseconds in prefills:
        measured.observe(tokens, milliseconds)
    if len(telling) < 2:
        assert measured.current == DEFAULT_BUDGET
        return
    fastest = max(1000 * tokens / ms for tokens, ms in telling[:2])
    assert measured.current == budget.choose(fastest, budget.FRESH_MILLISECONDS)
    chosen = measured.current
    for tokens, milliseconds in later:
        measured.observe(tokens, milliseconds)
    assert measured.current == chosen


def test_a_slow_first_prefill_from_the_disk_does_not_count() -> None:
    measured = MeasuredBudget()
    measured.observe(200, 9000)
    measured.observe(40, 1)
    assert measured.current == DEFAULT_BUDGET
    measured.observe(1000, 2000)
    assert measured.current == budget.choose(500, budget.FRESH_MILLISECONDS) == DEFAULT_BUDGET


@given(text=TEXTS, size=st.integers(1, 500))
def test_the_near_part_is_whole_lines_and_not_too_long(text: str, size: int) -> None:
    start = near_start(text, size)
    last = text.rfind("\n") + 1
    longest = 1 + max(map(len, text.split("\n")))
    assert 0 <= start <= last < start + 2 * size + longest
    assert start == 0 or text[start - 1] == "\n"
    assert start in (0, last) or text[start:].split("\n")[0].strip(" \t")


def test_the_near_part_seldom_moves_and_never_within_a_line() -> None:
    size = 300
    starts = [near_start(LINES[:end], size) for end in range(3000, 6000)]
    assert starts == sorted(starts)
    assert len(set(starts)) <= 2 + 3000 // size
    for end in range(3000, 6000):
        line = LINES.rfind("\n", 0, end) + 1
        assert near_start(LINES[:end], size) == near_start(LINES[:line], size)


def test_a_budget_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="no prompt"):
        PromptBudget(0, 10)
