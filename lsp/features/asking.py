"""From a position in a document to suggestions for it, whichever way the editor asked.

`question` is made before anything is waited for, so it holds the document as it was when the request was sent;
`suggestions` compares before it answers. Every answer and every empty one is counted, with its reason.
"""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass, replace

from assistant.languages import language_of
from assistant.service.window import Window
from lsp import positions, uris
from lsp.convert import Place, own_text
from lsp.documents import Document
from lsp.given import Given
from lsp.ledger import Record
from lsp.requests import AUTOMATIC, Answer, Ask
from lsp.session import Session

log = logging.getLogger(__name__)

SUPERSEDED, CHANGED = "superseded", "changed"
_LINE_END = re.compile(r"\r\n?|\n")


@dataclass(frozen=True)
class Selected:
    """An entry chosen in the completion list: what it would put over a range of columns on one line."""

    text: str
    line: int
    start: int
    end: int


@dataclass(frozen=True)
class Question:
    """What is asked, where the answer goes, and when the editor asked."""

    ask: Ask
    place: Place
    document: Document
    came: float


def question(
    session: Session,
    uri: str,
    line: int,
    unit: int,
    trigger: str,
    version: int | None = None,
    selected: Selected | None = None,
) -> Question | str:
    """The question at a position, or the code of the reason why there will be no answer."""
    came = time.monotonic()
    document = session.documents.get(uri)
    if document is None:
        return "closed"
    if version is not None and version != document.version:
        return CHANGED
    path = uris.path_of(uri)
    language = document.language or language_of(path or uris.name_of(uri))
    settings = session.configuration.of(uri)
    session.warn()
    if not session.is_on(uri, language, settings):
        return "off"
    around = Window.of(settings.prefix_tokens, settings.suffix_tokens)
    shot = document.snapshot(line, unit, around)
    place = Place.of(shot, document)
    prefix, suffix = shot.prefix, shot.suffix
    if selected is not None:
        start, end = (document.snapshot(selected.line, at, around) for at in (selected.start, selected.end))
        if not (start.line == end.line == shot.line and start.unit <= shot.unit <= end.unit):
            return "selected"
        prefix, suffix = start.prefix + _LINE_END.sub("\n", selected.text), end.suffix
        place = replace(place, selected=selected.text, selected_units=(start.unit, end.unit))
    ask = Ask(
        document=uris.canonical(uri),
        revision=shot.revision,
        position=(shot.line, shot.unit, selected.text if selected else ""),
        prefix=around.last(session.notebooks.prefix_of(uri, around) + prefix),
        suffix=suffix,
        line_before=shot.line_before,
        path=path,
        language=language,
        trigger=trigger,
        settings=settings,
    )
    return Question(ask, place, document, came)


async def suggestions(session: Session, asked: Question) -> list[Given] | None:
    """The answer's texts as numbered suggestions, none of them empty; None when the question is out of date."""
    ask = asked.ask
    _look_at_the_last(session, ask)
    answer = await session.desk.ask(ask)
    if answer.reason != SUPERSEDED and _moved_on(session, asked):
        answer = Answer(reason=CHANGED, result=answer.result, debounce_ms=answer.debounce_ms)
    record = _count(session, asked, answer)
    if answer.result is not None:
        session.on_answer(answer.result.warning)
    if answer.reason is not None:
        session.note_reason(ask.document, answer.reason)
        return None if answer.reason in (SUPERSEDED, CHANGED) else []
    session.reasons.pop(ask.document, None)
    given = session.book.add(
        ask.document, asked.document.uri, ask.revision, asked.place, answer.texts, record
    )
    if given and not session.shows:  # this client does not tell, so what it got counts as shown
        given[0].shown = True
        session.ledger.shown(record)
    return given


def refused(session: Session, uri: str, reason: str, trigger: str) -> None:
    """A question that was never asked."""
    session.note_reason(uris.canonical(uri), reason)
    session.ledger.nothing(reason, trigger=trigger)


def _moved_on(session: Session, asked: Question) -> bool:
    """The document is not what it was when the editor asked. A file that is not open is read anew each time."""
    document = asked.document
    if document.uri not in session.documents:
        return document.version != 0 or document.revision != 0
    now = session.documents.get(document.uri)
    return now is not document or document.revision != asked.ask.revision


def _count(session: Session, asked: Question, answer: Answer) -> Record:
    told = {
        "trigger": asked.ask.trigger,
        "language": asked.ask.language,
        "debounce_ms": answer.debounce_ms,
        "answer_ms": (time.monotonic() - asked.came) * 1000,
    }
    if answer.result is not None and answer.reason not in (SUPERSEDED, CHANGED):
        return session.ledger.answered(answer.result, **told)
    return session.ledger.nothing(answer.reason or "end", **told)


def _look_at_the_last(session: Session, ask: Ask) -> None:
    """The suggestion that stood in the document is dismissed unless what was typed since goes along with it."""
    last = session.book.latest(ask.document)
    if last is None or last.ended or not last.shown:
        return
    place, text = last.place, own_text(last.text, last.place.line_end).partition("\n")[0].rstrip("\r")
    start = positions.to_character(ask.line_before, place.unit, place.encoding)
    untouched = ask.position[0] == place.line and ask.line_before[:start].endswith(place.line_before)
    if not (untouched and text.startswith(ask.line_before[start:])):
        last.ended = True
        if ask.trigger == AUTOMATIC and last.accepted == 0:
            session.ledger.dismissed(last.record)
