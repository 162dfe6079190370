-- Suggestions in a buffer's terms, without a screen: whether one goes on from the cursor, and its pieces.
--
-- A suggestion covers the text from its start to the cursor, which it repeats, and perhaps closing characters behind
-- the cursor that the editor put there. Rows and columns are counted from 0, columns in bytes; \n ends a line.

local M = {}

--- An inline item of the answer for a buffer as it was asked about; nil when its range is not in the buffer.
---@param cursor integer[] row and column of the cursor when the answer was asked for
function M.suggestion(item, bufnr, encoding, cursor)
  local row, col = cursor[1], cursor[2]
  local line = vim.api.nvim_buf_get_lines(bufnr, row, row + 1, false)[1]
  local text = type(item.insertText) == 'table' and item.insertText.value or item.insertText
  if not line or type(text) ~= 'string' then
    return nil
  end
  local first, last = col, col
  if item.range then
    if item.range.start.line ~= row or item.range['end'].line ~= row then
      return nil
    end
    first = vim.str_byteindex(line, encoding, item.range.start.character, false)
    last = vim.str_byteindex(line, encoding, item.range['end'].character, false)
  end
  return {
    item = item,
    line_end = text:find('\r\n', 1, true) and 2 or 1, -- units of a line end in the item's own text
    text = (text:gsub('\r\n?', '\n')),
    row = row,
    col = first,
    least = col - first, -- bytes that stood before the cursor already
    tail = line:sub(last + 1),
    shown = false,
  }
end

--- What is left of a suggestion at the cursor, or nil when the buffer says something else by now.
---@return { rest: string, covered: string, typed: integer }?
function M.left(suggestion, bufnr, row, col)
  if row < suggestion.row or (row == suggestion.row and col < suggestion.col) then
    return nil
  end
  local ok, lines = pcall(vim.api.nvim_buf_get_text, bufnr, suggestion.row, suggestion.col, row, col, {})
  local typed = ok and table.concat(lines, '\n') or nil
  if not typed or #typed < suggestion.least or suggestion.text:sub(1, #typed) ~= typed then
    return nil
  end
  local after = vim.api.nvim_buf_get_lines(bufnr, row, row + 1, false)[1]:sub(col + 1)
  local rest = suggestion.text:sub(#typed + 1)
  local covered = after:sub(1, math.max(#after - #suggestion.tail, 0))
  if rest == '' or covered .. suggestion.tail ~= after or not M.around(rest, covered) then
    return nil
  end
  return { rest = rest, covered = covered, typed = #typed }
end

--- The pieces of `text` around the characters of `covered`, which are closing ones and taken from its end: with
--- `b)` behind the cursor of `a(|)`, {"b", ""}. Nil when they are not in it.
---@return string[]?
function M.around(text, covered)
  local pieces, last = {}, #text
  for index = #covered, 1, -1 do
    local closer = covered:sub(index, index)
    if not closer:find('[%)%]}"\'`]') then
      return nil
    end
    local at = last
    while at > 0 and text:sub(at, at) ~= closer do
      at = at - 1
    end
    if at == 0 then
      return nil
    end
    table.insert(pieces, 1, text:sub(at + 1, last))
    last = at - 1
  end
  table.insert(pieces, 1, text:sub(1, last))
  return pieces
end

--- The first word with the blanks before it.
function M.word(text)
  return text:match('^%s*[%w_\128-\255]+') or text:match('^%s*[^%w_%s\128-\255]+') or text
end

--- The first line that holds anything, with the line ends before it.
function M.line(text)
  return text:match('^\n*[^\n]*')
end

--- The length of the first `bytes` bytes of a suggestion as the protocol counts accepted text: in UTF-16.
function M.accepted_length(suggestion, bytes)
  local text = suggestion.text:sub(1, bytes)
  local _, ends = text:gsub('\n', '')
  return vim.str_utfindex(text, 'utf-16') + ends * (suggestion.line_end - 1)
end

--- A line with blanks for tabs, beginning at a screen column.
function M.expanded(text, column)
  return (text:gsub('([^\t]*)\t', function(before)
    column = column + vim.fn.strdisplaywidth(before, column)
    local width = vim.fn.strdisplaywidth('\t', column)
    column = column + width
    return before .. (' '):rep(width)
  end))
end

return M
