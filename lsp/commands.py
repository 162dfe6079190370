"""workspace/executeCommand: what an editor can have done by name. COMMANDS is the list that the client is told.

A command never fails loudly: one that has nothing to do gives null. LSP 3.17, "Execute a command".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from lsprotocol import types

from assistant.errors import TokenleapError
from assistant.service import reasons
from assistant.settings.save import save
from lsp import convert, positions, uris
from lsp.configuration import words
from lsp.convert import ACCEPT, Place
from lsp.features import fate
from lsp.given import Book, Given
from lsp.rpc import Params, need
from lsp.session import Session

_SCOPES = ("workspace", "language", "file")


async def execute(session: Session, params: Params) -> Any:
    """The command's result, null for an unknown one."""
    arguments = params.get("arguments")
    command = COMMANDS.get(need(params, "command"))
    return await command(session, arguments if isinstance(arguments, list) else []) if command else None


async def _accept(session: Session, arguments: list[Any]) -> Any:
    """[number]: the client has put the suggestion in."""
    given = session.book.get(arguments[0]) if arguments else None
    if given is not None and not given.ended:
        fate.accept(session, given)


async def _accept_word(session: Session, arguments: list[Any]) -> Any:
    """[number]: put in the next word. The text put in and what is left, or null when the text has changed."""
    return await _put_in(session, arguments, convert.next_word)


async def _accept_line(session: Session, arguments: list[Any]) -> Any:
    """[number]: put in the next line."""
    return await _put_in(session, arguments, convert.next_line)


async def _put_in(session: Session, arguments: list[Any], piece_of: Callable[[str], str]) -> Any:
    given = session.book.get(arguments[0]) if arguments else None
    place = _next_place(session, given) if given is not None else None
    if given is None or place is None or given.accepted >= len(given.text):
        return None
    piece = piece_of(given.text[given.accepted :])
    rest = given.text[given.accepted + len(piece) :]
    covered = 0 if rest else convert.duplicated(given.text, place.line_after)
    edit = types.TextEdit(
        place.at(place.unit, place.unit + covered), convert.own_text(piece, place.line_end)
    )
    params = types.ApplyWorkspaceEditParams(
        types.WorkspaceEdit(changes={given.client_uri: [edit]}), label="Accept a part of the suggestion"
    )
    done = await session.request(types.WORKSPACE_APPLY_EDIT, params)
    if not (isinstance(done, dict) and done.get("applied")):
        return None
    fate.take_part(session, given, given.accepted + len(piece))
    return {"text": piece, "rest": rest}


def _next_place(session: Session, given: Given) -> Place | None:
    """Where the rest of a suggestion goes: behind the part that is in the document already. None: it is not there."""
    document = session.documents.get(given.uri) if given.uri in session.documents else None
    if document is None or given.place.selected is not None:
        return None
    first, *more = given.text[: given.accepted].split("\n")
    if more:
        line, before, unit = given.place.line + len(more), more[-1], positions.units(more[-1], document.encoding)
    else:
        line, before = given.place.line, given.place.line_before + first
        unit = given.place.unit + positions.units(first, document.encoding)
    shot = document.snapshot(line, unit)
    there = shot.line_before == before if more else shot.line_before.endswith(before)
    return Place.of(shot, document) if there and (shot.line, shot.unit) == (line, unit) else None


def _cycle(step: int) -> Callable[[Session, list[Any]], Awaitable[Any]]:
    async def cycle(session: Session, arguments: list[Any]) -> Any:
        """[number]: another suggestion for the same place, as an inline item; null when there is no other."""
        given = session.book.get(arguments[0]) if arguments else None
        if given is None or len(given.group) < 2:
            return None
        other = Book.following(given, step)
        return convert.inline_item(other.text, other.place, other.number)

    return cycle


def _switch(on: bool) -> Callable[[Session, list[Any]], Awaitable[Any]]:
    async def switch(session: Session, arguments: list[Any]) -> Any:
        """[{scope: workspace | language | file, uri?, language?, save?}]: until the server ends, or with `save` for
        good: a workspace in its project's file, a language in the user's. `saved` is the file written, or null.
        """
        asked = arguments[0] if arguments and isinstance(arguments[0], dict) else {}
        scope, uri, language = asked.get("scope", "workspace"), asked.get("uri"), asked.get("language")
        document = session.documents.get(uri) if isinstance(uri, str) else None
        if scope == "language" and not isinstance(language, str) and document is not None:
            language = session.language_of(document)
        what = {"workspace": "", "language": language, "file": uris.canonical(uri) if isinstance(uri, str) else None}
        if scope not in _SCOPES or not isinstance(what[scope], str):
            return None
        session.overrides[(scope, str(what[scope]).lower() if scope == "language" else str(what[scope]))] = on
        if on and session.link.state is session.link.state.AWAY:
            session.begin(session.configuration.general)
        session.show_whether_on()
        saved = _save(session, scope, language, on) if asked.get("save") is True else None
        return {"scope": scope, "enabled": on, "saved": saved}

    return switch


def _save(session: Session, scope: str, language: Any, on: bool) -> str | None:
    """Writes what was switched into a settings file; its path, None when there is none for it."""
    try:
        if scope == "workspace" and (file := session.configuration.project_file()) is not None:
            return str(save({"enabled": on}, file))
        if scope == "language":
            off = words(session.configuration.users().languages_off) - {language.lower()}
            return str(save({"languages_off": ", ".join(sorted(off if on else off | {language.lower()}))}))
    except (TokenleapError, OSError) as error:
        session.tell(f"Tokenleap: the setting could not be saved: {error}")
    return None


async def _clear_caches(session: Session, arguments: list[Any]) -> Any:
    """Forgets every answer and what the model has read, for all clients of the engine. Whether there was one."""
    session.desk.forget()
    cleared = await session.link.clear_caches()
    session.tell("Tokenleap: " + ("the caches are cleared" if cleared else "no engine runs, so nothing is kept"))
    return {"cleared": cleared}


async def _why(session: Session, arguments: list[Any]) -> Any:
    """[uri?]: why the last answer in a document, or the last of all, was empty."""
    uri = arguments[0] if arguments else None
    uri = uri.get("uri") if isinstance(uri, dict) else uri
    key = uris.canonical(uri) if isinstance(uri, str) else next(reversed(session.reasons), "")
    code = session.reasons.get(key)
    told = reasons.sentence(code) if code else "the last request was answered with a suggestion, or there was none"
    session.tell(f"Tokenleap: {told}")
    return {"reason": code, "message": told}


async def _statistics(session: Session, arguments: list[Any]) -> Any:
    """The figures that `tokenleap stats --json` gives, of all time."""
    return await session.ledger.summary()


async def _status(session: Session, arguments: list[Any]) -> Any:
    """What the status line says, in full: the state, the model, and with how many others the engine is shared."""
    state, host = session.status, await session.link.status()
    told = state.message or {"Normal": "ready", "Inactive": "off"}.get(state.kind, state.kind)
    if host is not None and host.model is not None:
        told += f"; {host.model} {host.precision}, {host.engine}"
    if host is not None and host.clients > 1:
        told += f"; one engine serves {host.clients} clients"
    session.tell(f"Tokenleap: {told}")
    shared = None if host is None else {"pid": host.pid, "clients": host.clients, "model": host.model}
    return {"kind": state.kind, "message": state.message, "busy": state.busy, "host": shared, "words": told}


COMMANDS: dict[str, Callable[[Session, list[Any]], Awaitable[Any]]] = {
    ACCEPT: _accept,
    "tokenleap.acceptWord": _accept_word,
    "tokenleap.acceptLine": _accept_line,
    "tokenleap.next": _cycle(1),
    "tokenleap.previous": _cycle(-1),
    "tokenleap.enable": _switch(True),
    "tokenleap.disable": _switch(False),
    "tokenleap.clearCaches": _clear_caches,
    "tokenleap.why": _why,
    "tokenleap.statistics": _statistics,
    "tokenleap.status": _status,
}
