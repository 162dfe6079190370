-- Ghost text drawn by Neovim's own language client (0.12 and later): the same names as `tokenleap.ghost`.
--
-- Neovim asks, draws, counts the cursor's moves and puts the whole in. For a line or a word the server is asked by its
-- command, which sends the edit back, so that it knows what became of the suggestion.

local M = {}

local COMMANDS = { line = 'tokenleap.acceptLine', word = 'tokenleap.acceptWord' }

local function run(item, command)
  local client = vim.lsp.get_client_by_id(item.client_id)
  if not client or not item.command then
    return
  end
  local window, place = vim.api.nvim_get_current_win(), vim.api.nvim_win_get_cursor(0)
  local params = { command = command, arguments = item.command.arguments }
  client:request('workspace/executeCommand', params, function(_, put_in)
    if put_in and vim.api.nvim_win_is_valid(window) then -- an edit of the server's leaves the cursor before it
      local lines = vim.split(put_in.text, '\n', { plain = true })
      local column = #lines == 1 and place[2] + #put_in.text or #lines[#lines]
      vim.api.nvim_win_set_cursor(window, { place[1] + #lines - 1, column })
    end
  end)
end

--- True when something was suggested and is being put in.
function M.put(part)
  return vim.lsp.inline_completion.get({
    on_accept = COMMANDS[part] and function(item)
      run(item, COMMANDS[part])
    end or nil,
  })
end

--- Keys for a mapping: none but the break of the undo block, as Neovim puts the text in on its own.
function M.keys(part)
  if M.put(part) then
    return '<C-g>u'
  end
end

function M.cycle(step)
  vim.lsp.inline_completion.select({ count = step })
end

--- Neovim asks on its own whenever the text or the cursor moves.
function M.suggest() end

function M.dismiss()
  for _, client in ipairs(vim.lsp.get_clients({ name = 'tokenleap' })) do
    vim.lsp.inline_completion.enable(false, { client_id = client.id })
    vim.lsp.inline_completion.enable(true, { client_id = client.id })
  end
end

function M.visible()
  return false
end

function M.enable(group)
  vim.api.nvim_create_autocmd('LspAttach', {
    group = group,
    callback = function(event)
      local client = vim.lsp.get_client_by_id(event.data.client_id)
      if client and client.name == 'tokenleap' then
        vim.lsp.inline_completion.enable(true, { client_id = client.id })
      end
    end,
  })
end

return M
