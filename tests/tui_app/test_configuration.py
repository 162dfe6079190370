"""The form: each setting of the schema once, from file to form and back; changes at once, checked, and undone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from textual.widgets import Input, OptionList

from assistant import locations
from assistant.errors import SettingsError
from assistant.settings import files
from assistant.settings.load import load
from assistant.settings.save import save
from assistant.settings.schema import SPECS, Spec, Value
from tests.conftest import OwnHome
from tests.tui_app.conftest import Screens, Stage, play
from tests.tui_app.service import events
from tui import form
from tui.screens.configuration import ConfigurationScreen, line_of


def values(spec: Spec) -> st.SearchStrategy[Value]:
    if spec.choices:
        return st.sampled_from(spec.choices)
    if spec.kind is bool:
        return st.booleans()
    if spec.kind is str:
        return st.sampled_from(["python, go", "qwen2.5-coder-1.5b", "app.quit=ctrl+x"])
    low, high = spec.minimum or 0, spec.maximum or 0
    return st.integers(int(low), int(high)) if spec.kind is int else st.floats(low, high)


def test_each_setting_of_the_schema_appears_once_and_is_found_by_its_name(own_home: OwnHome) -> None:
    loaded = load(strict=False)
    assert [row.spec.name for row in form.rows(loaded)] == list(SPECS)
    for name in SPECS:
        assert name in [row.spec.name for row in form.rows(loaded, name)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(data=st.data())
def test_a_value_goes_from_form_to_file_to_form(own_home: OwnHome, data: st.DataObject) -> None:
    spec = data.draw(st.sampled_from(list(SPECS.values())))
    value = data.draw(values(spec))
    typed = form.shown(value)
    assert form.problem(spec.name, typed) == ""
    save({spec.name: typed})
    row = next(row for row in form.rows(load(strict=False)) if row.spec is spec)
    assert row.value == value and form.shown(row.value) == typed


async def open_setting(stage: Stage, pilot: Screens, name: str) -> None:
    screen = stage.app.screen
    assert isinstance(screen, ConfigurationScreen)
    listed = screen.query_one("#settings", OptionList)
    listed.highlighted = listed.get_option_index(name)
    await pilot.pause()
    await pilot.press("enter")


def written() -> dict[str, object]:
    return dict(files.read(locations.settings_file())[0])


def test_a_change_is_checked_in_place_saved_and_taken_back(stage: Stage) -> None:
    async def scene() -> None:
        async with stage.show(place="configuration") as pilot:
            await open_setting(stage, pilot, "max_tokens")
            stage.app.screen.query_one("#value", Input).value = "99999"
            await stage.seen(pilot, "max_tokens cannot be '99999'")
            await pilot.press("enter")
            assert written() == {}
            stage.app.screen.query_one("#value", Input).value = "64"
            await pilot.press("enter")
            await stage.until(pilot, lambda: written() == {"max_tokens": 64})
            assert stage.app.loaded.settings.max_tokens == 64
            await pilot.press("ctrl+z")
            await stage.until(pilot, lambda: written() == {})

    play(scene)


def test_a_precision_loads_the_running_host_anew_and_a_draft_length_does_not(stage: Stage) -> None:
    async def scene() -> None:
        async with stage.show(place="configuration") as pilot:
            await open_setting(stage, pilot, "draft")
            stage.app.screen.query_one("#value", Input).value = "2"
            await pilot.press("enter")
            await stage.until(pilot, lambda: written() == {"draft": 2})
            assert not stage.service.asked
            await open_setting(stage, pilot, "precision")
            await pilot.press("down", "enter")
            await stage.until(pilot, lambda: stage.service.asked)
            (asked,) = stage.service.asked
            assert (asked.trigger, asked.precision, asked.draft) == ("warm", "fp32", 2)

    play(scene)


def test_what_an_editor_and_the_environment_set_is_said(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENLEAP_SEED", "5")

    async def scene() -> None:
        stage.service.told = events(draft=4)
        async with stage.show((120, 40), "configuration") as pilot:
            await stage.until(pilot, lambda: stage.app.live.latest())
            await open_setting(stage, pilot, "draft")
            await stage.seen(pilot, "an editor or a project sets 4 there")
            await pilot.press("escape")
            await open_setting(stage, pilot, "seed")
            await stage.seen(pilot, "TOKENLEAP_SEED sets it")

    play(scene)


def test_a_broken_file_is_shown_with_its_line_and_never_overwritten(stage: Stage) -> None:
    file: Path = stage.home.settings('draft = 2\nmodel = "unended\n')
    before = file.read_bytes()

    async def scene() -> None:
        async with stage.show((120, 40), "configuration") as pilot:
            await stage.seen(pilot, "is not valid TOML")
            assert "line 2" in " ".join(stage.text().split())
            await open_setting(stage, pilot, "draft")
            stage.app.screen.query_one("#value", Input).value = "3"
            await pilot.press("enter")
            await stage.told(pilot, "correct it first")
            assert file.read_bytes() == before

    play(scene)


def test_profiles_keep_and_bring_back_values(own_home: OwnHome) -> None:
    save({"draft": 4, "decode": "mtp"})
    form.save_profile("throughput")
    save({"draft": 2, "decode": None, "seed": 7})
    save(form.of_profile("throughput"))
    assert written() == {"draft": 4, "decode": "mtp"}
    assert form.profiles() == ["throughput"]
    with pytest.raises(SettingsError, match="name"):
        form.profile_file("../elsewhere")


def test_measuring_recommends_and_puts_in_force(stage: Stage) -> None:
    async def scene() -> None:
        async with stage.show((120, 40), "configuration") as pilot:
            await pilot.press("m")
            await stage.seen(pilot, "Recommended:")
            await pilot.press("enter")
            await stage.until(pilot, lambda: "draft" in written())
            assert written()["decode"] == "auto"

    play(scene)


def test_searching_leaves_what_has_the_words(stage: Stage) -> None:
    async def scene() -> None:
        async with stage.show(place="configuration") as pilot:
            await pilot.press("slash", *"idle")
            await stage.until(pilot, lambda: len(stage.app.screen.query_one("#settings", OptionList).options) == 1)
            assert "Idle minutes" in stage.text()

    play(scene)


def test_a_row_names_what_is_not_the_default(own_home: OwnHome) -> None:
    own_home.settings("draft = 3\n")
    line = next(line_of(row) for row in form.rows(load(strict=False)) if row.spec.name == "draft")
    assert "3 (default 0)" in line and "user" in line
