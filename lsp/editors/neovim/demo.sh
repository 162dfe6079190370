#!/bin/sh
# Ghost text of the real model in a real Neovim: types in a tmux of its own and prints the screen, colours included.
#
#   ./demo.sh [FILE [KEYS]]    FILE is copied and not changed; KEYS as tmux names them, one an argument
#
# Needs nvim (0.11 or later), tmux, and tokenleap with a model that was pulled. PLAIN=1 leaves the colours out.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'tmux -S "$folder/tmux" kill-server 2>/dev/null || :; rm -rf "$folder"' EXIT

if [ $# -gt 0 ]; then
  file=$folder/$(basename "$1")
  cp "$1" "$file"
  shift
else
  file=$folder/stack.py
  cat >"$file" <<'TEXT'
class Stack:
    """A stack of numbers."""

    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)

    def pop(self):
        """The last number pushed; IndexError when there is none."""
TEXT
fi
[ $# -gt 0 ] || set -- G o

cat >"$folder/init.lua" <<LUA
vim.opt.runtimepath:prepend('$here')
vim.o.shortmess, vim.o.swapfile, vim.o.termguicolors = vim.o.shortmess .. 'IF', false, false
vim.o.scrolloff = 10 -- room below the cursor
vim.cmd.syntax('off')
vim.api.nvim_set_hl(0, 'TokenleapGhost', { ctermfg = 'DarkGray', italic = true })
require('tokenleap').setup({ cmd = { '${TOKENLEAP:-tokenleap}', 'lsp' } })
vim.o.laststatus, vim.o.statusline = 2, "%t%= %{v:lua.require'tokenleap'.status()} "
LUA

tmux -S "$folder/tmux" -f /dev/null new-session -d -x 90 -y 24 nvim --clean -u "$folder/init.lua" "$file"
screen() { tmux -S "$folder/tmux" capture-pane -p "$@"; }

# The marker of a suggestion is its colour: bright black, as drawn above.
wait_for() {
  tries=0
  until screen -e | grep -q "$1"; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { screen; echo "demo: waited a minute for $2" >&2; exit 1; }
    sleep 0.1
  done
}

wait_for 'tokenleap *$' 'the model'
tmux -S "$folder/tmux" send-keys "$@"
wait_for '\[90m\|\[3;90m\|38;5;8m\|\[3m' 'a suggestion'
sleep 4 # what follows the first line comes a moment later
if [ -n "${PLAIN:-}" ]; then screen; else screen -e; fi
