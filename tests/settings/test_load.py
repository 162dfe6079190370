"""Sources are joined in order, each value knows its origin, and nothing bad gets through."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from assistant.errors import SettingsError
from assistant.settings import files, load
from assistant.settings.schema import SPECS, Settings
from tests.settings.strategies import bad_value, good_value

SPEC_LIST = list(SPECS.values())
SOURCES = [load.USER, load.PROJECT, load.ENVIRONMENT, load.EDITOR, load.FLAG]


def write_toml(path: Path, given_values: dict[str, object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tomlkit.dumps(given_values), encoding="utf-8")
    return path


def join(folder: Path, sources: dict[str, dict[str, object]], strict: bool = True) -> load.Loaded:
    """Loads with each source's values given in that source's own form."""
    user = write_toml(folder / "user" / "settings.toml", sources.get(load.USER, {}))
    write_toml(folder / "project" / files.PROJECT_FILE, sources.get(load.PROJECT, {}))
    return load.load(
        target=folder / "project" / "deep" / "er" / "file.py",
        editor=sources.get(load.EDITOR),
        flags=sources.get(load.FLAG),
        environment={SPECS[n].variable: str(v) for n, v in sources.get(load.ENVIRONMENT, {}).items()},
        user_file=user,
        strict=strict,
    )


@settings(max_examples=60)
@given(st.data())
def test_the_latest_source_wins_and_is_named(data: st.DataObject) -> None:
    spec = data.draw(st.sampled_from(SPEC_LIST))
    allowed = [s for s in SOURCES if not (spec.users_only and s in (load.PROJECT, load.EDITOR))]
    chosen = data.draw(st.lists(st.sampled_from(allowed), unique=True))
    sources: dict[str, dict[str, object]] = {s: {spec.name: data.draw(good_value(spec))} for s in chosen}
    with tempfile.TemporaryDirectory() as folder:
        loaded = join(Path(folder), sources)
    assert loaded.warnings == ()
    winner = max(chosen, key=SOURCES.index) if chosen else load.DEFAULT
    expected = sources[winner][spec.name] if chosen else spec.default
    assert getattr(loaded.settings, spec.name) == expected
    assert loaded.origins[spec.name].source == winner
    assert all(loaded.origins[other].source == load.DEFAULT for other in SPECS if other != spec.name)


@settings(max_examples=60)
@given(st.data())
def test_a_bad_value_costs_one_warning_and_nothing_else(data: st.DataObject) -> None:
    spec = data.draw(st.sampled_from([s for s in SPEC_LIST if not s.users_only]))
    other = data.draw(st.sampled_from([s for s in SPEC_LIST if s is not spec and not s.users_only]))
    source = data.draw(st.sampled_from([load.USER, load.PROJECT, load.EDITOR]))
    kept = data.draw(good_value(other))
    with tempfile.TemporaryDirectory() as folder:
        loaded = join(Path(folder), {source: {spec.name: data.draw(bad_value(spec)), other.name: kept}})
    assert len(loaded.warnings) == 1
    assert spec.name in loaded.warnings[0] and spec.allowed in loaded.warnings[0]
    if source != load.EDITOR:
        assert ".toml" in loaded.warnings[0]
    assert getattr(loaded.settings, spec.name) == spec.default
    assert getattr(loaded.settings, other.name) == kept


@pytest.mark.parametrize("source", [load.ENVIRONMENT, load.FLAG])
@pytest.mark.parametrize(
    "spec", [s for s in SPEC_LIST if s.kind is not str or s.choices], ids=lambda s: s.name
)
def test_a_bad_flag_or_variable_is_an_error_that_names_it(tmp_path: Path, source: str, spec: object) -> None:
    assert isinstance(spec, type(SPEC_LIST[0]))
    bad: dict[str, dict[str, object]] = {source: {spec.name: "perhaps"}}
    with pytest.raises(SettingsError) as caught:
        join(tmp_path, bad)
    name = spec.flag if source == load.FLAG else spec.variable
    assert str(caught.value).startswith(name) and spec.allowed in str(caught.value)
    assert caught.value.exit_code == 2
    tolerant = join(tmp_path, bad, strict=False)
    assert tolerant.settings == Settings() and len(tolerant.warnings) == 1


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("nothing", ["", "null", "undefined", "None"])
def test_nothing_given_means_the_default(tmp_path: Path, source: str, nothing: str) -> None:
    names = [s.name for s in SPEC_LIST if not (s.users_only and source in (load.PROJECT, load.EDITOR))]
    loaded = join(tmp_path, {source: dict.fromkeys(names, nothing)})
    assert loaded.settings == Settings() and loaded.warnings == ()
    assert {origin.source for origin in loaded.origins.values()} == {load.DEFAULT}


def test_an_editors_null_lets_the_files_value_stand(tmp_path: Path) -> None:
    loaded = join(tmp_path, {load.USER: {"max_tokens": 7}, load.EDITOR: {"max_tokens": None}})
    assert loaded.settings.max_tokens == 7


def test_unknown_keys_are_named_once_with_the_nearest_setting(tmp_path: Path) -> None:
    loaded = join(tmp_path, {load.USER: {"max-token": 5, "zzz": 1}, load.EDITOR: {"modle": "x"}})
    assert len(loaded.warnings) == 3
    assert "'max-token', did you mean max_tokens?" in loaded.warnings[0]
    assert loaded.warnings[1].endswith("unknown setting 'zzz'")
    assert "did you mean model?" in loaded.warnings[2]
    assert loaded.settings == Settings()


def test_a_project_cannot_set_what_belongs_to_the_whole_host(tmp_path: Path) -> None:
    loaded = join(tmp_path, {load.PROJECT: {"idle_minutes": 1}})
    assert loaded.settings == Settings()
    assert len(loaded.warnings) == 1 and "idle_minutes" in loaded.warnings[0]


def test_a_near_miss_in_the_environment_is_named_and_other_variables_are_not(tmp_path: Path) -> None:
    variables = {"TOKENLEAP_PRECISON": "fp32", "TOKENLEAP_HOME": "/x", "TOKENLEAP_DEBUG": "1", "PATH": "/bin"}
    loaded = load.load(target=tmp_path, environment=variables, user_file=tmp_path / "none.toml")
    assert loaded.warnings == (
        "unknown variable TOKENLEAP_PRECISON was ignored, did you mean TOKENLEAP_PRECISION?",
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'precision = "int8"\nmodel = \n', "line 2"),
        (b"a = 1\na = 2\n", "line"),
        (b'model = "\xff"\n', "UTF-8"),
        (b"model = " + b"[" * 5000, "TOML"),
    ],
)
def test_a_broken_file_is_one_warning_with_file_and_line(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_bytes(content)
    loaded = load.load(target=tmp_path, environment={}, user_file=file)
    assert loaded.settings == Settings()
    assert len(loaded.warnings) == 1
    assert str(file) in loaded.warnings[0] and words in loaded.warnings[0] and "\n" not in loaded.warnings[0]
    assert file.read_bytes() == content


def test_a_folder_in_place_of_the_file_is_one_warning(tmp_path: Path) -> None:
    loaded = load.load(target=tmp_path, environment={}, user_file=tmp_path)
    assert loaded.settings == Settings() and len(loaded.warnings) == 1


def test_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_bytes(b"\xef\xbb\xbfmax_tokens = 5\r\n# end\r\n")
    loaded = load.load(target=tmp_path, environment={}, user_file=file)
    assert loaded.settings.max_tokens == 5 and loaded.warnings == ()


def test_the_nearest_project_file_upwards_is_taken(tmp_path: Path) -> None:
    write_toml(tmp_path / files.PROJECT_FILE, {"max_tokens": 1})
    write_toml(tmp_path / "a" / files.PROJECT_FILE, {"max_tokens": 2})
    none = tmp_path / "none.toml"
    for target, expected in [("a/b/new.py", 2), ("a", 2), ("c/x.py", 1), ("a\0b", 1)]:
        loaded = load.load(target=tmp_path / target, environment={}, user_file=none)
        assert loaded.settings.max_tokens == expected


def test_a_relative_model_in_a_project_file_starts_at_the_file(tmp_path: Path) -> None:
    loaded = join(tmp_path, {load.PROJECT: {"model": "./weights/m.gguf"}})
    assert loaded.settings.model == str(tmp_path / "project" / "weights" / "m.gguf")
