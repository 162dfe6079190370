"""What the editors' folders hold agrees with the program: settings, commands, and the VS Code extension's own tests."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assistant.settings.schema import SPECS, Settings
from lsp.commands import COMMANDS
from lsp.editors import settings

VSCODE = settings.PACKAGE.parent
EDITORS = VSCODE.parent


def manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(settings.PACKAGE.read_text(encoding="utf-8"))
    return found


def test_the_manifest_holds_the_settings_of_the_schema():
    text = settings.PACKAGE.read_text(encoding="utf-8")
    assert settings.rendered(text) == text, "run python -m lsp.editors.settings"


def test_settings_are_made_anew_and_the_extensions_own_are_kept():
    changed = manifest()
    properties = changed["contributes"]["configuration"]["properties"]
    properties["tokenleap.gone"] = {"type": "boolean"}
    del properties["tokenleap.max_tokens"]
    properties["tokenleap.server.command"]["default"] = ["elsewhere"]
    made = json.loads(settings.rendered(json.dumps(changed)))["contributes"]["configuration"]["properties"]
    assert set(made) == set(manifest()["contributes"]["configuration"]["properties"])
    assert made["tokenleap.server.command"]["default"] == ["elsewhere"]


def test_each_setting_has_the_programs_default_and_bounds_an_editor_can_hold():
    properties = manifest()["contributes"]["configuration"]["properties"]
    defaults = Settings()
    for name, spec in SPECS.items():
        if spec.users_only:
            assert f"tokenleap.{name}" not in properties
            continue
        entry = properties[f"tokenleap.{name}"]
        assert entry["default"] == getattr(defaults, name)
        assert abs(entry.get("maximum", 0)) <= 2**53
        assert entry.get("enum", list(spec.choices)) == list(spec.choices)


@pytest.mark.parametrize("file", ["vscode/src/extension.ts", "vscode/package.json", "neovim/lua/tokenleap/init.lua"])
def test_commands_that_editors_send_are_the_servers(file):
    own = {"tokenleap.menu", "tokenleap.showStatistics", "tokenleap.restartServer", "tokenleap.state"}
    text = (EDITORS / file).read_text(encoding="utf-8")
    named = set(re.findall(r"['\"`](tokenleap\.[a-zA-Z]+)['\"`]", text))
    modules = {f"tokenleap.{path.stem}" for path in (EDITORS / "neovim/lua/tokenleap").glob("*.lua")}
    found = {name for name in named if name.partition(".")[2] not in SPECS} - own - modules
    assert found and found <= set(COMMANDS)


def test_the_lock_file_names_no_registry():
    text = (VSCODE / "package-lock.json").read_text(encoding="utf-8")
    assert json.loads(text)["lockfileVersion"] == 3
    # Of addresses there are only those of people who ask for money; none says where a package is fetched.
    assert not re.search(r'"resolved"|registry', text)


def test_the_extension_passes_its_own_tests(tmp_path):
    npm = shutil.which("npm")
    if npm is None or not (VSCODE / "node_modules").is_dir():
        pytest.skip("needs node and `npm ci` in lsp/editors/vscode")
    built = tmp_path / "vscode"
    shutil.copytree(VSCODE, built, ignore=shutil.ignore_patterns("node_modules", "out"))
    Path(built / "node_modules").symlink_to(VSCODE / "node_modules", target_is_directory=True)
    for step in ("compile", "test"):
        done = subprocess.run(
            [npm, "run", step], cwd=built, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"pass [1-9]", done.stdout)
