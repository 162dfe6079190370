"""Who may import whom: the contracts hold, a breach is noticed, and light commands stay light."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("assistant", "lsp", "tui", "cuda_ops")
HEAVY = ("torch", "transformers", "tokenizers", "numpy", "gguf", "bitsandbytes", "safetensors")

if not (ROOT / "pyproject.toml").is_file():
    pytest.skip("the contracts lie in a checkout, and this is none", allow_module_level=True)


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs the contracts on the packages below `folder`, and on no other copy of them."""
    # Started in Python, because an installed `lint-imports` script may belong to another interpreter.
    code = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    return subprocess.run(
        [sys.executable, "-c", code, "--no-cache"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages to break."""
    pytest.importorskip("importlinter", reason="import-linter is not installed: pip install '.[test]'")
    folder = tmp_path_factory.mktemp("tree")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def test_the_contracts_hold(tree: Path) -> None:
    done = lint(tree)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("assistant/engine/stats.py", "import textual", "textual in tui"),
        ("assistant/post/__init__.py", "import torch", "text never sees tensors"),
        ("lsp/__init__.py", "import assistant.engine", "lsp and tui reach only the service's client"),
        ("assistant/models/catalog.py", "def f():\n    import assistant.service.protocol", "layers"),
        ("assistant/service/client.py", "import numpy", "light clients never reach torch"),
        ("cuda_ops/compile.py", "import assistant.errors", "the operators stand alone"),
    ],
)
def test_a_broken_contract_is_noticed(tree: Path, file: str, line: str, contract: str) -> None:
    path = tree / file
    sound = path.read_text(encoding="utf-8")
    try:
        path.write_text(f"{sound}\n{line}\n", encoding="utf-8")
        done = lint(tree)
    finally:
        path.write_text(sound, encoding="utf-8")
    assert done.returncode != 0
    broken = [text for text in done.stdout.splitlines() if "BROKEN" in text]
    assert any(contract in text for text in broken), done.stdout


def imported(code: str) -> set[str]:
    """Top-level modules in memory after `code`, in a process of its own."""
    say = "sys.stderr.write(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    whole = f"import json, sys\n{code}\n{say}"
    done = subprocess.run(
        [sys.executable, "-c", whole],
        cwd=ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


LIGHT = {
    "help": "from assistant.cli.main import main\nassert main(['--help']) == 0",
    "complete --help": "from assistant.cli.main import main\nassert main(['complete', '--help']) == 0",
    "models --help": "from assistant.cli.main import main\nassert main(['models', '--help']) == 0",
    "bench --help": "from assistant.cli.main import main\nassert main(['bench', '--help']) == 0",
    "host --help": "from assistant.cli.main import main\nassert main(['host', '--help']) == 0",
    "config show": "from assistant.cli.main import main\nassert main(['config', 'show']) == 0",
    "lsp": "import lsp",
    "tui": "import tui",
    "tui's screens": "import tui.app\nfor place in tui.app.PLACES:\n    place.there and __import__(place.module)",
    "errands": "import assistant.service.errands",
    "client": "import assistant.service.client",
    "protocol": "import assistant.service.protocol",
    "settings": "import assistant.settings.load, assistant.settings.save",
}


@pytest.mark.parametrize("what", LIGHT)
def test_light_things_import_nothing_heavy(what: str) -> None:
    assert not imported(LIGHT[what]) & set(HEAVY)


def test_importing_a_package_runs_nothing_else() -> None:
    found = imported("import assistant, lsp, tui, cuda_ops")
    assert not found & {*HEAVY, "subprocess", "socket", "threading"} - imported("pass")
