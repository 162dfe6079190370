"""textDocument/completion, for clients that cannot show ghost text: one entry of the list, explicit and last.

LSP 3.17, "Completion Request". The list is incomplete always, so the client asks again with the next key.
"""

from __future__ import annotations

import logging

from lsprotocol import types

from lsp.convert import list_entry
from lsp.features.asking import Question, question, refused, suggestions
from lsp.features.inline import position_of
from lsp.features.lifecycle import LIST, ways
from lsp.requests import AUTOMATIC
from lsp.rpc import Params
from lsp.session import Session

log = logging.getLogger(__name__)


async def completion(session: Session, params: Params) -> types.CompletionList | None:
    uri, line, unit = position_of(params)
    try:
        if LIST not in ways(session):
            return None
        # Clients send the same trigger for a key and for a request by hand, so all are taken as a key.
        asked = question(session, uri, line, unit, AUTOMATIC)
        if not isinstance(asked, Question):
            refused(session, uri, asked, AUTOMATIC)
            return types.CompletionList(True, [])
        given = await suggestions(session, asked)
        if given is None:
            return None
        entries = [list_entry(one.text, one.place, one.number) for one in given[:1]]
        return types.CompletionList(True, [entry for entry in entries if entry is not None])
    except Exception:
        log.exception("a request for a completion failed")
        return None
