"""What becomes of a suggestion, as far as the client tells: shown, accepted in parts, accepted, and whether it stays.

didShowCompletion {item} and didPartiallyAcceptCompletion {item, acceptedLength} are GitHub Copilot's names;
acceptedLength counts UTF-16 units from the beginning of the item's text. Acceptance is the item's command.
"""

from __future__ import annotations

import asyncio

from assistant.service.history import KEPT_SECONDS
from lsp import convert, positions
from lsp.given import Given
from lsp.rpc import Params, dig
from lsp.session import Session

_AROUND = 4096  # characters before the place in which accepted text may have moved


def shown(session: Session, params: Params) -> None:
    """didShowCompletion."""
    session.shows = True
    given = _given(session, params)
    if given is not None:
        given.shown = True
        session.ledger.shown(given.record)


def partly_accepted(session: Session, params: Params) -> None:
    """didPartiallyAcceptCompletion."""
    given, length = _given(session, params), dig(params, "acceptedLength")
    if given is None or not isinstance(length, int):
        return
    repeated = convert.repeated_text(given.place)
    text = repeated + convert.own_text(given.text, given.place.line_end)
    count = positions.to_character(text, length, "utf-16") - len(repeated)
    take_part(session, given, count)


def take_part(session: Session, given: Given, characters: int) -> None:
    """So many characters of the suggestion are in the document now."""
    given.shown = True
    given.accepted = max(given.accepted, min(characters, len(given.text)))
    if given.accepted == len(given.text):
        accept(session, given)
    elif given.accepted > 0:
        session.ledger.partly(given.record, given.accepted)


def accept(session: Session, given: Given) -> None:
    """All of it was accepted."""
    given.accepted, given.shown, given.ended = len(given.text), True, True
    session.ledger.accepted(given.record)
    asyncio.get_running_loop().call_later(KEPT_SECONDS, _look_again, session, given)


def _look_again(session: Session, given: Given) -> None:
    """How much of what was accepted still stands near its place."""
    document = session.documents.get(given.uri) if given.uri in session.documents else None
    if document is not None:
        around = document.snapshot(given.place.line, 0)
        text = around.prefix[-_AROUND:] + around.suffix[: _AROUND + 2 * len(given.text)]
        session.ledger.kept(given.record, standing(given.text, text))


def standing(accepted: str, text: str) -> int:
    """How many characters of the accepted lines are in `text`."""
    if accepted in text:
        return len(accepted)
    return sum(len(line) for line in accepted.splitlines() if line.strip() and line.strip() in text)


def _given(session: Session, params: Params) -> Given | None:
    arguments = dig(params, "item", "command", "arguments")
    return session.book.get(arguments[0]) if isinstance(arguments, list) and arguments else None
