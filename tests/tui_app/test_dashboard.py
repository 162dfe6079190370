"""The dashboard: what the host does is seen, whoever asked; without a host it works as well."""

from __future__ import annotations

from dataclasses import replace

from assistant.service.protocol import Finished, Started
from tests.tui_app.conftest import Stage, play
from tests.tui_app.service import AT, STATUS, events


def test_requests_of_other_clients_appear_with_their_figures(stage: Stage) -> None:
    async def scene() -> None:
        async with stage.show() as pilot:
            await stage.seen(pilot, "● idle")
            stage.service.happen(*events())
            await stage.seen(pilot, "cart.py")
            text = stage.text()
            assert "50 tokens/s" in text and "2.00 tokens per pass" in text and "scope" in text
            assert "1 ████████████████ 100% of 2" in text  # both drafts' first token stood
            assert "qwen2.5-coder-0.5b int8" in text and "612 MB" in text and "2 clients" in text

    play(scene)


def test_a_running_request_is_work_until_it_ends(stage: Stage) -> None:
    async def scene() -> None:
        async with stage.show() as pilot:
            started, *middle, finished = events()
            stage.service.happen(started, *middle)
            await stage.seen(pilot, "▶ working")
            assert "running" in stage.text()
            stage.service.happen(finished)
            await stage.seen(pilot, "● idle")

    play(scene)


def test_without_a_host_it_opens_and_sees_one_come_and_go(stage: Stage) -> None:
    async def scene() -> None:
        stage.service.up = False
        async with stage.show() as pilot:
            await stage.seen(pilot, "no engine host")
            assert True not in stage.service.connected  # looking starts none
            stage.service.told = events(job=3)
            stage.service.up = True
            await stage.seen(pilot, "cart.py")
            stage.service.happen(Started(1, 4, AT, stage.app.request(""), True))
            await stage.seen(pilot, "▶ working")
            stage.service.go_away()
            await stage.seen(pilot, "no engine host")
            assert stage.app.live.running is None

    play(scene)


def test_a_host_seen_again_counts_no_request_twice(stage: Stage) -> None:
    async def scene() -> None:
        stage.service.told = events()
        async with stage.show() as pilot:
            await stage.seen(pilot, "cart.py")
            stage.service.go_away()
            await stage.until(pilot, lambda: stage.app.status is None)
            stage.service.up = True
            await stage.until(pilot, lambda: stage.app.status is not None)
            assert len(stage.app.live.latest()) == 1

    play(scene)


def test_a_failure_is_one_line_until_the_next_success(stage: Stage) -> None:
    async def scene() -> None:
        async with stage.show((120, 40)) as pilot:
            started = events(job=1)[0]
            stage.service.happen(started, Finished(1, 1, None, "out-of-memory", "not enough memory: close something"))
            await stage.seen(pilot, "✗ error: not enough memory: close something")
            stage.service.happen(*events(job=2))
            await stage.seen(pilot, "● idle")

    play(scene)


def test_the_detail_shows_where_time_went_and_tokens_came_from(stage: Stage) -> None:
    async def scene() -> None:
        stage.service.told = events()
        async with stage.show() as pilot:
            await stage.seen(pilot, "cart.py")
            await pilot.press("enter")
            await stage.seen(pilot, "drafted by the heads")
            text = stage.text()
            assert "prefill      40.0 ms" in text and "return total[b]" in text
            assert "4 of 8 drafted stood" in text
            await pilot.press("escape")
            await stage.until(pilot, lambda: "drafted by the heads" not in stage.text())

    play(scene)


def test_loading_shows_its_step(stage: Stage) -> None:
    async def scene() -> None:
        stage.service.status_now = replace(STATUS, state="loading")
        async with stage.show() as pilot:
            await stage.seen(pilot, "◌ loading")

    play(scene)


def test_warming_is_hidden_until_asked_for(stage: Stage) -> None:
    async def scene() -> None:
        request = replace(stage_request(), trigger="warm")
        stage.service.told = [Started(1, 1, AT, request, True)]
        async with stage.show() as pilot:
            await stage.until(pilot, lambda: stage.app.live.latest())
            assert "warm.py" not in stage.text()
            await pilot.press("w")
            await stage.seen(pilot, "warm.py")

    def stage_request():  # type: ignore[no-untyped-def]
        started = events(path="warm.py")[0]
        assert isinstance(started, Started)
        return started.request

    play(scene)


def test_help_names_the_keys_and_quitting_ends_it(stage: Stage) -> None:
    async def scene() -> None:
        async with stage.show() as pilot:
            await pilot.press("f1")
            await stage.seen(pilot, "show or hide warming")
            await pilot.press("f1")
            await pilot.press("ctrl+q")
            await stage.until(pilot, lambda: not stage.app.is_running)

    play(scene)
