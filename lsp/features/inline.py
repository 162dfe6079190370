"""textDocument/inlineCompletion. LSP 3.18, "Inline Completion Request", with the fields `textDocument.version` and
`formattingOptions` that GitHub Copilot's clients send as well.

An answer is a list, empty when there is nothing to suggest and null when the question is out of date; the only
errors are those of a cancelled request and of parameters that are none.
"""

from __future__ import annotations

import logging
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from lsp.convert import inline_item
from lsp.features.asking import Question, Selected, question, refused, suggestions
from lsp.requests import AUTOMATIC, INVOKED
from lsp.rpc import Params, dig, need
from lsp.session import Session

log = logging.getLogger(__name__)


async def inline_completion(session: Session, params: Params) -> types.InlineCompletionList | None:
    uri, line, unit = position_of(params)
    by_hand = dig(params, "context", "triggerKind") == types.InlineCompletionTriggerKind.Invoked
    trigger = INVOKED if by_hand else AUTOMATIC
    version = dig(params, "textDocument", "version")
    try:
        asked = question(
            session, uri, line, unit, trigger, version if isinstance(version, int) else None, _selected(params)
        )
        if not isinstance(asked, Question):
            refused(session, uri, asked, trigger)
            return types.InlineCompletionList([])
        given = await suggestions(session, asked)
        if given is None:
            return None
        return types.InlineCompletionList([inline_item(one.text, one.place, one.number) for one in given])
    except JsonRpcInvalidParams:
        raise
    except Exception:
        log.exception("a request for a suggestion failed")
        return None


def position_of(params: Params) -> tuple[str, int, int]:
    """URI, line and column of a request's parameters; invalid params when they are none."""
    uri = need(params, "textDocument", "uri")
    line, unit = need(params, "position", "line"), need(params, "position", "character")
    if not isinstance(uri, str):
        raise JsonRpcInvalidParams("textDocument.uri is no text")
    return uri, _number(line), _number(unit)


def _selected(params: Params) -> Selected | None:
    info = dig(params, "context", "selectedCompletionInfo")
    if not isinstance(info, dict):
        return None
    start, end = need(info, "range", "start"), need(info, "range", "end")
    text = need(info, "text")
    if isinstance(text, dict):  # a StringValue, a snippet in LSP 3.18
        text = text.get("value")
    if not isinstance(text, str):
        raise JsonRpcInvalidParams("context.selectedCompletionInfo.text is no text")
    line, last = _number(need(start, "line")), _number(need(end, "line"))
    # A range over several lines is made one that ends nowhere near the cursor, which gives no answer.
    reach = _number(need(end, "character")) if line == last else -1
    return Selected(text, line, _number(need(start, "character")), reach)


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise JsonRpcInvalidParams("a position is no number")
    return value
