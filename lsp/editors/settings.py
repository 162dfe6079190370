"""Writes the settings of the VS Code extension from the one schema: `python -m lsp.editors.settings`.

What an editor may set stands in `contributes.configuration` of vscode/package.json under our section; the entries
that are the extension's own are kept. A test compares the file with what this makes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from assistant.settings.schema import json_schema

PACKAGE = Path(__file__).parent / "vscode" / "package.json"
_SECTION = "tokenleap."
_OWN = ("tokenleap.server.", "tokenleap.trace.")  # of the extension itself
_NOT_EXACT = 2**53  # an editor's numbers end here


def rendered(text: str) -> str:
    """The text of a package.json with the settings as the schema has them."""
    package: dict[str, Any] = json.loads(text)
    configuration = package["contributes"]["configuration"]
    own = {name: entry for name, entry in configuration["properties"].items() if name.startswith(_OWN)}
    ours = {_SECTION + name: _entry(order, entry) for order, (name, entry) in enumerate(_settings().items())}
    configuration["properties"] = ours | own
    return json.dumps(package, indent=2, ensure_ascii=False) + "\n"


def _settings() -> dict[str, dict[str, Any]]:
    properties: dict[str, dict[str, Any]] = json_schema()["properties"]
    return properties


def _entry(order: int, schema: dict[str, Any]) -> dict[str, Any]:
    """One setting in the words of VS Code: it makes the title from the name, and an unset one is left to our files."""
    entry = {name: value for name, value in schema.items() if name != "title"}
    if entry.get("maximum", 0) >= _NOT_EXACT:
        del entry["maximum"]
    entry["description"] = f"{schema['title']}: {schema['description']}."
    return entry | {"scope": "resource", "order": order}


def main() -> None:
    PACKAGE.write_text(rendered(PACKAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
