"""What an editor's request carries of a file gives the prompt that the whole file would give."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.prompt import budget
from assistant.prompt.tokenizer import Tokenizer
from assistant.service import window
from assistant.service.protocol import PREFIX_WINDOW, SUFFIX_WINDOW, CompletionRequest
from assistant.service.window import Window
from tests.prompt.conftest import write_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return Tokenizer(write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"))


LINES = [f"{'    ' * (number % 4)}value_{number} = send(payload, {number * 7919})\n" for number in range(12_000)]
TEXT = "".join(LINES)
LARGEST = budget.choose(1e9, budget.FRESH_MILLISECONDS)


def test_the_largest_budget_that_is_chosen_has_room():
    usual, of_largest = Window(), Window.of(LARGEST.prefix_tokens, LARGEST.suffix_tokens)
    assert usual == of_largest
    assert usual.before > budget._CHARACTERS_PER_TOKEN * LARGEST.prefix_tokens
    assert usual.after > budget._CHARACTERS_PER_TOKEN * LARGEST.suffix_tokens
    assert usual.before + window.STEP + usual.after < 100_000


@pytest.mark.parametrize("tokens", [256, 384, 1024, 1536, 2048, 4096, 6144])
def test_a_prompt_of_the_window_is_that_of_the_file(tokenizer, tokens):
    around = Window.of(tokens, 256)
    # Below the window's size, around its first steps and well behind, within a line and at its beginning.
    for end in (30_000, around.before + 7, around.before + window.STEP + 1, 5 * window.STEP + 11, 400_003):
        end = min(end, len(TEXT))
        prefix, suffix = TEXT[:end], TEXT[end:]
        kept = around.last(prefix)
        whole, part = (budget.cut_prefix(tokenizer, text, tokens) for text in (prefix, kept))
        assert part.encoded.ids == whole.encoded.ids
        assert part.start + len(prefix) - len(kept) == whole.start
        behind = [budget.cut_suffix(tokenizer, text, 256) for text in (suffix, suffix[: around.after])]
        assert behind[0].encoded.ids == behind[1].encoded.ids


@given(st.integers(0, 3 * PREFIX_WINDOW), st.integers(0, 131_072), st.integers(0, 131_072))
def test_the_window_keeps_what_is_next_to_the_cursor_and_moves_in_steps(length, prefix_tokens, suffix_tokens):
    around = Window.of(prefix_tokens, suffix_tokens)
    prefix = ("0123456789" * (length // 10 + 1))[:length]
    kept = around.last(prefix)
    assert prefix.endswith(kept)
    assert min(length, around.before) <= len(kept) < around.before + window.STEP
    assert (length - len(kept)) % window.STEP == 0
    assert around.last(kept) == kept
    request = CompletionRequest(kept, "x" * around.after)
    assert request.windowed() == request and around.after <= SUFFIX_WINDOW
