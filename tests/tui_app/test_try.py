"""Try: ghost text over lines, taken whole, by line or word; a race of two; errors are one line and typing goes on."""

from __future__ import annotations

import threading
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from assistant.errors import ModelMissingError
from tests.tui_app.conftest import Stage, play
from tests.tui_app.service import RESULT
from tui.widgets.ghost import GhostEditor

BLOCK = replace(RESULT, completion="if amount > self.balance:\n            raise ValueError\n        return amount")


def test_a_suggestion_is_seen_over_its_lines_and_is_no_part_of_the_text(stage: Stage) -> None:
    async def scene() -> None:
        stage.service.answer = BLOCK
        async with stage.show(place="try") as pilot:
            await pilot.press("ctrl+t")
            await stage.seen(pilot, "raise ValueError\n")
            editor = stage.app.screen.query_one(GhostEditor)
            assert "if amount > self" not in editor.text
            (asked,) = stage.service.asked[:1]
            assert asked.prefix == editor.text and asked.trigger == "invoked"

    play(scene)


def test_it_is_taken_by_word_by_line_and_whole(stage: Stage) -> None:
    async def scene() -> None:
        stage.service.answer = BLOCK
        async with stage.show(place="try") as pilot:
            editor = stage.app.screen.query_one(GhostEditor)
            before = editor.text
            await pilot.press("ctrl+t")
            await stage.until(pilot, lambda: editor.ghost)
            await pilot.press("ctrl+right")
            assert editor.text == before + "if"
            await pilot.press("ctrl+e")
            assert editor.text == before + "if amount > self.balance:\n"
            await pilot.press("tab")
            assert editor.text == before + BLOCK.completion
            assert editor.ghost == ""

    play(scene)


def test_typing_along_shortens_it_and_anything_else_ends_it(stage: Stage) -> None:
    async def scene() -> None:
        async with stage.show(place="try") as pilot:
            editor = stage.app.screen.query_one(GhostEditor)
            await pilot.press("ctrl+t")
            await stage.until(pilot, lambda: editor.ghost == "return total")
            await pilot.press("r", "e")
            await stage.until(pilot, lambda: editor.ghost == "turn total")
            stage.service.hold = threading.Event()  # what follows has no answer yet
            await pilot.press("x")
            await stage.until(pilot, lambda: editor.ghost == "")
            stage.service.hold.set()

    play(scene)


def test_escape_puts_it_away_and_cancels(stage: Stage) -> None:
    async def scene() -> None:
        stage.service.hold = threading.Event()
        async with stage.show(place="try") as pilot:
            await pilot.press("ctrl+t")
            await stage.until(pilot, lambda: stage.service.asked)
            await pilot.press("escape")
            await stage.until(pilot, lambda: stage.service.cancelled)
            stage.service.hold.set()
            assert stage.app.screen.query_one(GhostEditor).ghost == ""

    play(scene)


def test_the_race_runs_both_on_the_same_prompt_and_says_the_ratio(stage: Stage) -> None:
    async def scene() -> None:
        async with stage.show((120, 40), "try") as pilot:
            await pilot.press("ctrl+r")
            await stage.seen(pilot, "auto decodes 1.00 times as fast; the same text")
            plain, auto = stage.service.asked
            assert (plain.decode, auto.decode) == ("plain", "auto")
            assert replace(plain, decode="auto") == auto

    play(scene)


def test_report_97_a_missing_model_is_plain_words_and_the_text_stays_for_the_next_try(stage: Stage) -> None:
    """darrenburns/elia#100: a wrong model path, then corrected in the settings without a restart."""

    async def scene() -> None:
        stage.service.answer = ModelMissingError("there is no model at /models/x.gguf: give the path of a .gguf file")
        async with stage.show(place="try") as pilot:
            editor = stage.app.screen.query_one(GhostEditor)
            await pilot.press("x", "ctrl+t")
            await stage.seen(pilot, "there is no model at /models/x.gguf")
            text = editor.text
            assert stage.app.change({"model": "qwen2.5-coder-1.5b"})
            stage.service.answer = RESULT
            await pilot.press("ctrl+t")
            await stage.until(pilot, lambda: editor.ghost == "return total")
            assert editor.text == text and stage.service.asked[-1].model == "qwen2.5-coder-1.5b"

    play(scene)


@given(st.text(alphabet="ab ._(\n", max_size=30))
def test_words_and_lines_of_a_suggestion_are_its_beginning_and_reach_its_end(ghost: str) -> None:
    editor = GhostEditor()
    for part_of in (editor.first_word, editor.first_line):
        left, steps = ghost, 0
        while left and steps <= len(ghost):
            editor.set_reactive(GhostEditor.ghost, left)
            part = part_of()
            assert part and left.startswith(part)
            left, steps = left[len(part) :], steps + 1
        assert not left
