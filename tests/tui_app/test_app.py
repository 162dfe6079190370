"""What all screens share: ways between them, palette, keys, colours, the first run, and text that is never markup."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from textual.color import Color

from assistant.errors import DownloadError
from assistant.service.protocol import Block, Committed, Token
from tests.tui_app.conftest import Stage, play
from tests.tui_app.service import BLOCKS, CATALOG, events
from tui import actions, themes
from tui.app import EVERY_ACTION
from tui.screens.first_run import FirstRun
from tui.widgets.text import Words

PLACES = ("dashboard", "try", "configuration", "log")
TYPED = "ZLEXCOUNT z [b + c](x)[/] [/b] [@click=app.quit]x"


@pytest.mark.parametrize("place", PLACES)
def test_every_screen_is_reached_by_its_key_its_tab_and_the_palette(stage: Stage, place: str) -> None:
    async def scene() -> None:
        async with stage.show((120, 40)) as pilot:
            for other in (place, "dashboard" if place != "dashboard" else "log", place):
                await pilot.press(stage.app.places[other].key)
                await stage.until(pilot, lambda other=other: stage.app.screen.place == other)
            title = stage.app.places[place].title
            commands = {command.title for command in stage.app.get_system_commands(stage.app.screen)}
            assert {title, "Help", "Quit"} <= commands

    play(scene)


@pytest.mark.parametrize("place", PLACES)
def test_every_palette_entry_of_a_screen_runs(stage: Stage, place: str) -> None:
    """None raises; what they do is the other tests' matter."""

    async def scene() -> None:
        async with stage.show((120, 40), place) as pilot:
            names = [command.title for command in stage.app.get_system_commands(stage.app.screen)]
            assert len(names) == len(set(names)) > 5
            for name in names:
                if name in ("Quit", "Picture"):
                    continue
                commands = {each.title: each for each in stage.app.get_system_commands(stage.app.screen)}
                commands[name].callback()
                await pilot.pause()
                stage.app.action_go(place)
                await pilot.pause()
            assert stage.app._exception is None

    play(scene)


def test_keys_are_bound_anew_by_id(stage: Stage) -> None:
    stage.home.settings('keys = "app.log=f7, dashboard.warming=x"\n')

    async def scene() -> None:
        async with stage.show() as pilot:
            await pilot.press("f7")
            await stage.until(pilot, lambda: stage.app.screen.place == "log")
            assert "F7 Log and doctor" in stage.text()

    play(scene)


def test_no_two_actions_of_one_place_share_a_key_and_conflicts_are_named() -> None:
    assert actions.keymap("", EVERY_ACTION) == ({}, [])
    _, problems = actions.keymap("dashboard.warming=ctrl+q, app.quitt=x, nonsense", EVERY_ACTION)
    assert "ctrl+q is bound to both dashboard.warming and app.quit" in " ".join(problems) or any(
        "ctrl+q is bound to both" in problem for problem in problems
    )
    assert any("did you mean app.quit?" in problem for problem in problems)
    assert any("write it as id=key" in problem for problem in problems)


def test_colours_follow_the_setting_and_the_key(stage: Stage) -> None:
    stage.home.settings('theme = "light"\n')

    async def scene() -> None:
        async with stage.show() as pilot:
            assert stage.app.theme == "tokenleap-light"
            await pilot.press("f9")
            await stage.until(pilot, lambda: stage.app.theme == "tokenleap-contrast")

    play(scene)


def test_auto_follows_what_the_terminal_says_of_its_background() -> None:
    assert themes.chosen("auto", {"COLORFGBG": "0;15"}) == "tokenleap-light"
    assert themes.chosen("auto", {"COLORFGBG": "15;0"}) == themes.chosen("auto", {}) == "tokenleap-dark"


@pytest.mark.parametrize(("theme", "least"), [("dark", 4.5), ("light", 4.5), ("contrast", 7.0)])
def test_every_colour_of_words_can_be_read(theme: str, least: float) -> None:
    made = themes.THEMES[theme]
    variables = made.to_color_system().generate()
    names = ("primary", "secondary", "accent", "success", "warning", "error", "foreground")
    for ground in ("background", "surface", "panel"):
        for name in names:
            colour, below = Color.parse(variables[name]), Color.parse(variables[ground])
            high, low = sorted((_light(colour), _light(below)), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= least, (name, ground)


def _light(colour: Color) -> float:
    """WCAG's relative luminance."""
    parts = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def test_no_color_leaves_no_colour(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def scene() -> None:
        async with stage.show():
            segments = [
                segment.style
                for strip in stage.app.screen._compositor.render_strips()
                for segment in strip.apply_filter(stage.app._filters[-1], stage.app.screen.background_colors[1])
                if segment.style is not None
            ]
            assert stage.app.no_color and segments
            for style in segments:
                for colour in (style.color, style.bgcolor):
                    assert colour is None or colour.triplet is None or len(set(colour.triplet)) == 1

    play(scene)


def test_report_93_no_prefix_of_any_text_is_taken_for_markup(stage: Stage) -> None:
    """Codeplain-ai/codeplain PR#316, tobocop2/lilbee PR#458, PrimeIntellect-ai/verifiers PR#284."""

    async def scene() -> None:
        async with stage.show((120, 40)) as pilot:
            words = Words(id="typed")
            await stage.app.screen.mount(words)
            for length in range(len(TYPED) + 1):
                words.say(TYPED[:length])
                await pilot.pause()
                assert str(words.render()) == TYPED[:length]
            stage.service.happen(*events(path=TYPED.replace("/", "")))
            await stage.until(pilot, lambda: stage.app.live.latest())
            assert stage.app._exception is None

    play(scene)


def test_report_93_streamed_into_the_race(stage: Stage) -> None:
    async def scene() -> None:
        stage.service.pieces = tuple(TYPED)
        stage.service.answer = replace(stage.service.answer, completion=TYPED)  # type: ignore[type-var]
        async with stage.show((120, 40), "try") as pilot:
            await pilot.press("ctrl+r")
            await stage.seen(pilot, "the same text")
            assert TYPED in stage.text()

    play(scene)


def test_report_95_tokens_of_half_characters_leave_no_mark(stage: Stage) -> None:
    """antonellof/ferrox#124, exo-explore/exo PR#1691, timtoole02/Camelid PR#288."""

    async def scene() -> None:
        started, *_, finished = events()
        block = Block(1.0, 2, (Token("", "mtp"), Token("👋", "mtp"), Token("好", "model")))
        stage.service.told = [started, Committed(1, 1, block), replace(finished, blocks=(*BLOCKS, block))]
        async with stage.show((120, 40)) as pilot:
            await stage.seen(pilot, "cart.py")
            await pilot.press("enter")
            await stage.seen(pilot, "👋")
            assert "\ufffd" not in stage.text()

    play(scene)


def no_model(stage: Stage) -> None:
    stage.service.up = False
    stage.errands.answers["catalog"] = [{**row, "ready": []} for row in CATALOG]


def test_the_first_run_brings_a_model_with_progress_and_ends_in_try(stage: Stage) -> None:
    async def scene() -> None:
        no_model(stage)
        stage.errands.steps["pull"] = [("downloading", 123, 491)]
        stage.errands.holds["pull"] = threading.Event()
        async with stage.show() as pilot:
            await stage.until(pilot, lambda: isinstance(stage.app.screen, FirstRun))
            await stage.seen(pilot, "None is here yet")
            await pilot.press("enter")
            await stage.seen(pilot, "25%")
            assert stage.app.state().kind == "downloading"
            assert ("pull", ("qwen2.5-coder-0.5b", "--precision", "int8")) in stage.errands.run
            stage.errands.answers["catalog"] = CATALOG
            stage.errands.holds["pull"].set()
            await stage.until(pilot, lambda: getattr(stage.app.screen, "place", "") == "try")

    play(scene)


def test_a_download_that_fails_is_one_line_and_can_be_tried_again(stage: Stage) -> None:
    async def scene() -> None:
        no_model(stage)
        stage.errands.answers["pull"] = DownloadError("the server does not have it (404)")
        async with stage.show() as pilot:
            await stage.until(pilot, lambda: isinstance(stage.app.screen, FirstRun))
            await pilot.press("enter")
            await stage.seen(pilot, "the server does not have it (404)")
            await pilot.press("enter")
            await stage.until(pilot, lambda: [name for name, _ in stage.errands.run].count("pull") == 2)
            await pilot.press("escape")
            await stage.seen(pilot, "○ no model")

    play(scene)


def test_resizing_over_and_over_harms_nothing(stage: Stage) -> None:
    async def scene() -> None:
        stage.service.told = events()
        async with stage.show() as pilot:
            for place in PLACES:
                stage.app.action_go(place)
                for size in ((20, 5), (200, 60), (1, 1), (80, 24)):
                    await pilot.resize_terminal(*size)
            assert stage.app._exception is None
            await stage.seen(pilot, "✗ model")

    play(scene)
