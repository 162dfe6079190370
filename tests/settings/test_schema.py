"""Every setting is declared once, completely, and its values have one door."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.settings import values
from assistant.settings.schema import SPECS, Settings, Spec, json_schema
from tests.settings.strategies import good_value

SPEC_LIST = list(SPECS.values())
by_name = pytest.mark.parametrize("spec", SPEC_LIST, ids=lambda spec: spec.name)


@by_name
def test_each_setting_has_words_and_an_allowed_default(spec: Spec) -> None:
    assert spec.title and spec.help and spec.section
    assert "\n" not in spec.help and not spec.help.endswith(".")
    assert type(spec.default) is spec.kind
    assert values.parse(spec, spec.default) == spec.default


def test_settings_without_arguments_are_the_defaults_and_frozen() -> None:
    settings = Settings()
    assert {name: getattr(settings, name) for name in SPECS} == {s.name: s.default for s in SPEC_LIST}
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.model = "other"  # type: ignore[misc]


@given(st.data())
def test_a_good_value_passes_the_door_unchanged_and_also_as_text(data: st.DataObject) -> None:
    spec = data.draw(st.sampled_from(SPEC_LIST))
    value = data.draw(good_value(spec))
    for raw in (value, str(value)):
        parsed = values.parse(spec, raw)
        assert parsed == value and type(parsed) is spec.kind


@given(st.sampled_from(SPEC_LIST), st.one_of(st.integers(), st.floats(), st.text(), st.booleans()))
def test_whatever_comes_in_what_goes_out_is_allowed(spec: Spec, raw: object) -> None:
    try:
        value = values.parse(spec, raw)
    except ValueError as error:
        assert str(error) == spec.allowed
        return
    assert type(value) is spec.kind
    if spec.choices:
        assert value in spec.choices
    if isinstance(value, (int, float)):
        assert math.isfinite(value)
        assert spec.minimum is None or value >= spec.minimum
        assert spec.maximum is None or value <= spec.maximum


@by_name
@pytest.mark.parametrize("raw", [[], {}, ["int8"], {"a": 1}, object(), b"int8"])
def test_lists_tables_and_strangers_are_refused(spec: Spec, raw: object) -> None:
    with pytest.raises(ValueError):
        values.parse(spec, raw)


@by_name
@pytest.mark.parametrize("raw", [None, "", "  ", "null", "undefined", "None"])
def test_what_programs_write_for_nothing_is_unset(spec: Spec, raw: object) -> None:
    assert values.is_unset(spec, raw)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("qwen2.5-coder-0.5b", "qwen2.5-coder-0.5b"),
        ("Qwen/Qwen2.5-Coder-3B", "Qwen/Qwen2.5-Coder-3B"),
        ("./мой/модель.gguf", "{folder}/мой/модель.gguf"),
        ("../m.gguf", "{parent}/m.gguf"),
        ("m.GGUF", "{folder}/m.GGUF"),
        ("sub/model", "{folder}/sub/model"),
        ("~/m.gguf", "{home}/m.gguf"),
        ("/a b/m", "/a b/m"),
    ],
)
def test_a_model_path_stays_where_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    (tmp_path / "here" / "sub" / "model").mkdir(parents=True)
    folder = tmp_path / "here"
    wanted = expected.format(folder=folder, parent=tmp_path, home=tmp_path / "user")
    assert values.parse(SPECS["model"], text, folder) == wanted
    assert values.absolute_model(wanted, Path("/")) == wanted, "once absolute, the folder no longer matters"


def test_the_json_schema_names_what_an_editor_may_set() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == {spec.name for spec in SPEC_LIST if not spec.users_only}
    for name, entry in schema["properties"].items():
        assert entry["default"] == SPECS[name].default
        assert entry.get("enum", list(SPECS[name].choices)) == list(SPECS[name].choices)


def test_a_range_is_told_to_its_last_digit() -> None:
    assert SPECS["seed"].allowed == "a whole number from 0 to 9223372036854775807"
    assert SPECS["prefix_cache_mb"].allowed == "a whole number from 0 to 1048576"
    assert SPECS["top_p"].allowed == "a number from 0.01 to 1"
