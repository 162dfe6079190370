-- Tokenleap in Neovim: starts the language server, maps the keys, and says how it is.
--
-- `setup` is all that a configuration needs. Neovim 0.11 gets its ghost text from `tokenleap.ghost`, 0.12 and later
-- from its own client through `tokenleap.builtin`.

local M = {}

local api = vim.api

---@class tokenleap.Options
---@field cmd? string[] how the language server is started
---@field settings? table settings of Tokenleap by name, as in `tokenleap config show`
---@field filetypes? string[] where to suggest; nil is everywhere
---@field builtin? boolean false draws with this plugin in Neovim 0.12 too
---@field keys? table<string, string|false> accept, accept_line, accept_word, next, previous, dismiss; false maps none
local DEFAULTS = {
  cmd = { 'tokenleap', 'lsp' },
  settings = {},
  keys = {
    accept = '<Tab>',
    accept_line = '<M-l>',
    accept_word = '<M-w>',
    next = '<M-]>',
    previous = '<M-[>',
    dismiss = '<M-e>',
  },
}

local LEVELS = { vim.log.levels.ERROR, vim.log.levels.WARN, vim.log.levels.INFO, vim.log.levels.DEBUG }

local drawn -- the module that draws
local state = {} -- the last didChangeStatus

local function client_here()
  return vim.lsp.get_clients({ name = 'tokenleap', bufnr = 0 })[1] or vim.lsp.get_clients({ name = 'tokenleap' })[1]
end

local function execute(command, arguments, answered)
  local client = client_here()
  if not client then
    vim.notify('Tokenleap does not run in this buffer: see :checkhealth vim.lsp', vim.log.levels.WARN)
    return
  end
  client:request('workspace/executeCommand', { command = command, arguments = arguments or {} }, function(err, result)
    if err then
      vim.notify('Tokenleap: ' .. err.message, vim.log.levels.ERROR)
    elseif answered then
      answered(result)
    end
  end)
end

-- What a mapping did before, when nothing is suggested: Neovim maps <Tab> to jump in a snippet, for instance.
local function before_of(key)
  local old = vim.fn.maparg(key, 'i', false, true)
  if old.expr == 1 and old.callback then
    return old.callback
  end
  return function()
    return key
  end
end

local function map(key, description, part)
  if not key then
    return
  end
  local before = before_of(key)
  vim.keymap.set('i', key, function()
    return drawn.keys(part) or before()
  end, { expr = true, desc = description })
end

local function map_keys(keys)
  map(keys.accept, 'Accept the suggestion', 'all')
  map(keys.accept_line, "Accept the suggestion's next line", 'line')
  map(keys.accept_word, "Accept the suggestion's next word", 'word')
  for name, action in pairs({
    next = { M.next, 'Next suggestion' },
    previous = { M.previous, 'Previous suggestion' },
    dismiss = { M.dismiss, 'Dismiss the suggestion' },
  }) do
    if keys[name] then
      vim.keymap.set('i', keys[name], action[1], { desc = action[2] })
    end
  end
end

local function put(part)
  local keys = drawn.keys(part)
  if keys then
    api.nvim_feedkeys(vim.keycode(keys), 'in', false)
  end
  return keys ~= nil
end

--- Each of the three: true when something was suggested.
function M.accept()
  return put('all')
end

function M.accept_line()
  return put('line')
end

function M.accept_word()
  return put('word')
end

function M.next()
  drawn.cycle(1)
end

function M.previous()
  drawn.cycle(-1)
end

function M.dismiss()
  drawn.dismiss()
end

--- Asks by hand: several suggestions at once.
function M.suggest()
  drawn.suggest()
end

--- For a status line: empty where Tokenleap does not run, else its state in a word or two.
function M.status()
  if not client_here() then
    return ''
  end
  local words = { Error = 'failed', Warning = 'waiting', Inactive = 'off' }
  local said = state.busy and (state.message or 'busy') or words[state.kind]
  return said and 'tokenleap: ' .. said or 'tokenleap'
end

local function switch(on)
  return function(scope)
    local asked = { scope = scope or 'workspace', uri = vim.uri_from_bufnr(0) }
    if not on then
      drawn.dismiss()
    end
    execute(on and 'tokenleap.enable' or 'tokenleap.disable', { asked })
  end
end

local COMMANDS = {
  enable = switch(true),
  disable = switch(false),
  suggest = M.suggest,
  status = function()
    execute('tokenleap.status')
  end,
  why = function()
    execute('tokenleap.why', { vim.uri_from_bufnr(0) })
  end,
  clear = function()
    execute('tokenleap.clearCaches')
  end,
  statistics = function()
    execute('tokenleap.statistics', {}, function(figures)
      vim.notify(vim.inspect(figures))
    end)
  end,
}

local function command(call)
  local name, scope = call.fargs[1], call.fargs[2]
  if COMMANDS[name] then
    COMMANDS[name](scope)
  else
    vim.notify('Tokenleap has ' .. table.concat(vim.fn.sort(vim.tbl_keys(COMMANDS)), ', '), vim.log.levels.ERROR)
  end
end

local function words_for(lead, line)
  local words = line:match('^%s*%S+%s+[ed]%a*able%s') and { 'workspace', 'language', 'file' } or vim.tbl_keys(COMMANDS)
  return vim.tbl_filter(function(word)
    return vim.startswith(word, lead)
  end, vim.fn.sort(words))
end

local function follow_focus(group)
  api.nvim_create_autocmd({ 'BufEnter', 'FocusGained' }, {
    group = group,
    callback = function(event)
      local client = vim.lsp.get_clients({ name = 'tokenleap', bufnr = event.buf })[1]
      if client then
        client:notify('textDocument/didFocus', { textDocument = { uri = vim.uri_from_bufnr(event.buf) } })
      end
    end,
  })
end

---@param options? tokenleap.Options
function M.setup(options)
  options = vim.tbl_deep_extend('force', DEFAULTS, options or {})
  drawn = require(vim.lsp.inline_completion and options.builtin ~= false and 'tokenleap.builtin' or 'tokenleap.ghost')
  api.nvim_set_hl(0, 'TokenleapGhost', { link = 'Comment', default = true })
  local group = api.nvim_create_augroup('tokenleap', {})
  drawn.enable(group)
  follow_focus(group)
  map_keys(options.keys)
  api.nvim_create_user_command('Tokenleap', command, { nargs = '+', complete = words_for, desc = 'Code completion' })
  local capabilities = vim.lsp.protocol.make_client_capabilities()
  capabilities.textDocument.inlineCompletion = capabilities.textDocument.inlineCompletion or {}
  vim.lsp.config('tokenleap', {
    cmd = options.cmd,
    filetypes = options.filetypes,
    root_markers = { '.tokenleap.toml', '.git' },
    capabilities = capabilities,
    settings = { tokenleap = next(options.settings) and options.settings or vim.empty_dict() },
    -- One server for all folders: it finds each file's project on its own.
    reuse_client = function(client)
      return client.name == 'tokenleap' and not client:is_stopped()
    end,
    handlers = {
      didChangeStatus = function(_, new)
        state = new
        vim.cmd.redrawstatus()
        api.nvim_exec_autocmds('User', { pattern = 'TokenleapStatus', modeline = false, data = new })
      end,
      -- Neovim's own way may stop at a prompt in the middle of typing.
      ['window/showMessage'] = function(_, said)
        vim.notify(said.message, LEVELS[said.type] or vim.log.levels.INFO)
      end,
    },
    on_exit = function()
      state = {}
    end,
  })
  vim.lsp.enable('tokenleap')
end

return M
