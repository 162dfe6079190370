-- Ghost text drawn by this plugin, for a Neovim whose language client has none (0.11).
--
-- One suggestion at a time, in the buffer that is being typed in. While what is typed goes along with it, it stays and
-- shrinks before the screen is drawn anew; an answer replaces it only where it says more of the same. The newest
-- request wins, an older one is cancelled. Putting text in is an undo step of its own.

local text = require('tokenleap.text')

local M = { debounce_ms = 15 }

local api = vim.api
local INLINE = 'textDocument/inlineCompletion'
local BY_HAND, AUTOMATIC = 1, 2
local LOOK_AGAIN_MS = { 500, 1000, 2000 } -- after a first line is shown: the rest of its block is made meanwhile

local marks = api.nvim_create_namespace('tokenleap')
local timer = assert(vim.uv.new_timer())
local list, index, bufnr = {}, 1, nil -- what is suggested, which of it, and where
local asking = { count = 0 } -- the request under way: count tells an answer that is out of date
local seen -- buffer, tick, row and column that were looked at last

local function client_of(buffer)
  return vim.lsp.get_clients({ name = 'tokenleap', bufnr = buffer })[1]
end

local function cursor()
  local place = api.nvim_win_get_cursor(0)
  return place[1] - 1, place[2]
end

local function wanted()
  local mode = api.nvim_get_mode().mode
  return (mode:sub(1, 1) == 'i' or mode:sub(1, 1) == 'R') and vim.fn.pumvisible() == 0 and vim.fn.reg_executing() == ''
end

local function erase()
  if bufnr and api.nvim_buf_is_valid(bufnr) then
    api.nvim_buf_clear_namespace(bufnr, marks, 0, -1)
  end
end

local function forget()
  erase()
  list, index, bufnr = {}, 1, nil
end

local function cancel_request(id, client_id)
  local client = id and vim.lsp.get_client_by_id(client_id)
  if client and not client:is_stopped() then
    client:cancel_request(id)
  end
end

local function cancel()
  timer:stop()
  asking.count = asking.count + 1
  cancel_request(asking.id, asking.client)
  asking.id = nil
end

--- The suggestion at the cursor and what is left of it.
local function current()
  local suggestion = list[index]
  if not suggestion or bufnr ~= api.nvim_get_current_buf() then
    return nil
  end
  local row, col = cursor()
  return suggestion, text.left(suggestion, bufnr, row, col), row, col
end

local function mark(row, col, options)
  options.hl_mode = 'combine'
  api.nvim_buf_set_extmark(bufnr, marks, row, col, options)
end

local function draw(left, row, col)
  erase()
  local lines = vim.split(left.rest, '\n', { plain = true })
  local below = {}
  for number = 2, #lines do
    local line = text.expanded(lines[number], 0)
    below[#below + 1] = { { line == '' and ' ' or line, 'TokenleapGhost' } }
  end
  local before = api.nvim_buf_get_lines(bufnr, row, row + 1, false)[1]:sub(1, col)
  local pieces = text.around(lines[1], left.covered)
  if not pieces then -- what closes stands on a later line of the suggestion: hide it here
    mark(row, col, { virt_text = { { (' '):rep(#left.covered) } }, virt_text_pos = 'overlay' })
    pieces = { lines[1] }
  end
  for number, piece in ipairs(pieces) do
    local options = { virt_lines = number == 1 and #below > 0 and below or nil }
    if piece ~= '' then
      options.virt_text = { { text.expanded(piece, vim.fn.strdisplaywidth(before)), 'TokenleapGhost' } }
      options.virt_text_pos = 'inline'
    end
    if options.virt_text or options.virt_lines then
      mark(row, col + number - 1, options)
    end
  end
end

local function show(suggestion, left, row, col)
  draw(left, row, col)
  local client = client_of(bufnr)
  if client and not suggestion.shown then
    suggestion.shown = true
    client:notify('textDocument/didShowCompletion', { item = suggestion.item })
  end
end

local ask

local function look_again(place)
  local again = (place.again or 0) + 1
  if LOOK_AGAIN_MS[again] then
    timer:start(LOOK_AGAIN_MS[again], 0, vim.schedule_wrap(function()
      ask(AUTOMATIC, nil, again)
    end))
  end
end

local function take(items, place, encoding, by_hand, step)
  local made = {}
  for _, item in ipairs(items) do
    local suggestion = text.suggestion(item, place.bufnr, encoding, place)
    if suggestion and text.left(suggestion, place.bufnr, place[1], place[2]) then
      made[#made + 1] = suggestion
    end
  end
  local _, old = current()
  if #made == 0 then
    if not old then
      forget()
    end
    return
  end
  local rest = text.left(made[1], place.bufnr, place[1], place[2]).rest
  local more = old and #rest > #old.rest and vim.startswith(rest, old.rest)
  if not by_hand and not more then
    look_again(place)
    if old then
      return -- what is shown is being read, and holds
    end
  end
  erase()
  -- When others are asked for, the first one most likely is the one that is shown.
  index = by_hand and step and old and rest == old.rest and step % #made + 1 or 1
  list, bufnr = made, place.bufnr
  local suggestion, left, row, col = current()
  if left then
    show(suggestion, left, row, col)
  end
end

function ask(trigger, step, again)
  local buffer = api.nvim_get_current_buf()
  local client = client_of(buffer)
  if not client or not wanted() then
    return cancel()
  end
  timer:stop()
  asking.count = asking.count + 1
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.context = { triggerKind = trigger }
  local row, col = cursor()
  local place = { row, col, bufnr = buffer, again = again }
  local tick, mine = api.nvim_buf_get_changedtick(buffer), asking.count
  local sent, id = client:request(INLINE, params, function(_, result)
    if mine ~= asking.count then
      return
    end
    asking.id = nil
    local now_row, now_col = cursor()
    local still = buffer == api.nvim_get_current_buf() and tick == api.nvim_buf_get_changedtick(buffer)
    if result and still and wanted() and now_row == row and now_col == col then
      take(result.items or result, place, client.offset_encoding, trigger == BY_HAND, step)
    end
  end, buffer)
  -- Behind the newer one, which the engine most likely goes on for with what it is at.
  cancel_request(asking.id, asking.client)
  asking.id, asking.client = sent and id or nil, client.id
end

--- The text or the cursor moved: what is shown follows at once, the question a moment later.
function M.changed()
  local buffer = api.nvim_get_current_buf()
  if not wanted() then
    cancel()
    forget()
    seen = nil
    return
  end
  local row, col = cursor()
  local now = table.concat({ buffer, api.nvim_buf_get_changedtick(buffer), row, col }, ' ')
  if now == seen then
    return
  end
  seen = now
  local suggestion, left = current()
  if left then
    show(suggestion, left, row, col)
  else
    forget()
  end
  if client_of(buffer) then
    timer:start(M.debounce_ms, 0, vim.schedule_wrap(function()
      ask(AUTOMATIC)
    end))
  end
end

--- Nothing is to be seen and nothing is waited for.
function M.dismiss()
  cancel()
  forget()
end

function M.visible()
  local _, left = current()
  return left ~= nil
end

--- The text that is suggested at the cursor, for tests and for drawing it elsewhere.
function M.suggested()
  local _, left = current()
  return left and left.rest
end

--- Puts the suggestion, its next line or its next word into the text. To be called from a mapping's `keys`.
---@param part 'all'|'line'|'word'
function M.put(part)
  local suggestion, left, row, col = current()
  if not left then
    return
  end
  local piece = part == 'all' and left.rest or text[part](left.rest)
  local whole = piece == left.rest
  local lines = vim.split(piece, '\n', { plain = true })
  erase()
  local buffer, client = bufnr, client_of(bufnr)
  api.nvim_buf_set_text(buffer, row, col, row, whole and col + #left.covered or col, lines)
  local end_col = #lines == 1 and col + #piece or #lines[#lines]
  api.nvim_win_set_cursor(0, { row + #lines, end_col })
  if whole then
    forget()
  end
  if not client then
    return
  end
  if whole then
    client:request('workspace/executeCommand', suggestion.item.command, function() end, buffer)
  else
    local length = text.accepted_length(suggestion, left.typed + #piece)
    client:notify('textDocument/didPartiallyAcceptCompletion', { item = suggestion.item, acceptedLength = length })
  end
end

--- The keys that put a part in as one undo step; nil when nothing is suggested.
function M.keys(part)
  if M.visible() then
    return '<C-g>u<Cmd>lua require("tokenleap.ghost").put("' .. part .. '")<CR><C-g>u'
  end
end

--- Another suggestion for the same place; they are asked for the first time.
function M.cycle(step)
  if #list < 2 or not M.visible() then
    return ask(BY_HAND, step)
  end
  index = (index - 1 + step) % #list + 1
  local suggestion, left, row, col = current()
  if left then
    show(suggestion, left, row, col)
  end
end

--- Asks by hand: several suggestions, and no waiting for a pause.
function M.suggest()
  ask(BY_HAND)
end

function M.enable(group)
  api.nvim_create_autocmd({ 'InsertEnter', 'TextChangedI', 'CursorMovedI', 'CompleteDone' }, {
    group = group,
    callback = M.changed,
  })
  -- The list of completions would stand over it.
  api.nvim_create_autocmd({ 'CompleteChanged', 'InsertLeave', 'BufLeave', 'LspDetach' }, {
    group = group,
    callback = function()
      M.dismiss()
      seen = nil
    end,
  })
end

return M
