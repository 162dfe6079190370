"""initialize to exit. LSP 3.17, "Lifecycle Messages"; capabilities are static, or registered where a client asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from lsp import life, positions, uris
from lsp.commands import COMMANDS
from lsp.features import settings as settings_feature
from lsp.rpc import Params, dig
from lsp.session import Session

INLINE, LIST = types.TEXT_DOCUMENT_INLINE_COMPLETION, types.TEXT_DOCUMENT_COMPLETION
_TRIGGERS = [".", "(", "[", "{", ",", "=", ":", " "]
_CAPABILITY = {INLINE: "inlineCompletion", LIST: "completion"}


def initialize(session: Session, params: Params) -> types.InitializeResult:
    """Takes the client's capabilities and options; says what the server can."""
    if not isinstance(params, dict):
        raise JsonRpcInvalidParams("the parameters are no object")
    session.client = dig(params, "capabilities") or {}
    encodings = dig(session.client, "general", "positionEncodings")
    offered = [name for name in encodings if isinstance(name, str)] if isinstance(encodings, list) else []
    encoding = session.documents.encoding = positions.choose(offered)
    session.configuration.initialize(params.get("initializationOptions"), root_of(params))
    session.progress.supported = session.can("window", "workDoneProgress")
    pid = params.get("processId")
    session.watch.follow(pid if isinstance(pid, int) else None)
    session.rpc.initialized = True
    return types.InitializeResult(capabilities(session, encoding), session.rpc.server_info)


def root_of(params: Params) -> Path | None:
    """The first folder of the workspace that is one on this machine."""
    folders = params.get("workspaceFolders")
    found = [dig(folder, "uri") for folder in folders] if isinstance(folders, list) else []
    for uri in (*found, params.get("rootUri")):
        path = uris.path_of(uri) if isinstance(uri, str) else None
        if path is not None:
            return Path(path)
    root = params.get("rootPath")
    return Path(root) if isinstance(root, str) and Path(root).is_absolute() else None


def ways(session: Session) -> set[str]:
    """The methods by which suggestions are given, by the setting `fallback` and what the client can."""
    choice = session.configuration.general.fallback
    if choice == "auto":
        return {INLINE} if session.names("textDocument", "inlineCompletion") else {INLINE, LIST}
    return {INLINE} if choice == "inline" else {LIST}


def capabilities(session: Session, encoding: str) -> types.ServerCapabilities:
    given = {method for method in ways(session) if not _dynamic(session, method)}
    notebooks = types.NotebookDocumentSyncOptions([types.NotebookDocumentFilterWithNotebook("*")])
    return types.ServerCapabilities(
        position_encoding=encoding,
        text_document_sync=types.TextDocumentSyncOptions(
            open_close=True, change=types.TextDocumentSyncKind.Incremental, save=True
        ),
        notebook_document_sync=notebooks if session.can("notebookDocument") else None,
        inline_completion_provider=types.InlineCompletionOptions() if INLINE in given else None,
        completion_provider=types.CompletionOptions(trigger_characters=_TRIGGERS) if LIST in given else None,
        execute_command_provider=types.ExecuteCommandOptions(list(COMMANDS)),
        workspace=types.WorkspaceOptions(types.WorkspaceFoldersServerCapabilities(True, True)),
    )


def initialized(session: Session, params: Params) -> None:
    """The conversation begins: what is registered late, the settings, the engine."""
    session.spawn(_start(session))


async def _start(session: Session) -> None:
    if session.can("workspace", "didChangeConfiguration", "dynamicRegistration"):
        await _register(session, types.WORKSPACE_DID_CHANGE_CONFIGURATION, {"section": "tokenleap"})
    await settings_feature.pull(session)
    await settle_ways(session)


async def settle_ways(session: Session) -> None:
    """Registers and unregisters the ways of suggesting as the settings want them, where the client can do that."""
    wanted = ways(session)
    for method in (INLINE, LIST):
        if not _dynamic(session, method):
            continue
        if method in wanted and method not in session.registered:
            options: dict[str, Any] = {"documentSelector": None}
            await _register(session, method, options | ({"triggerCharacters": _TRIGGERS} if method == LIST else {}))
        elif method not in wanted and method in session.registered:
            session.registered.discard(method)
            gone = types.Unregistration(f"tokenleap/{method}", method)
            await session.request(types.CLIENT_UNREGISTER_CAPABILITY, types.UnregistrationParams([gone]))


async def _register(session: Session, method: str, options: dict[str, Any]) -> None:
    session.registered.add(method)
    registration = types.Registration(f"tokenleap/{method}", method, options)
    await session.request(types.CLIENT_REGISTER_CAPABILITY, types.RegistrationParams([registration]))


def _dynamic(session: Session, method: str) -> bool:
    return session.can("textDocument", _CAPABILITY[method], "dynamicRegistration")


async def shutdown(session: Session, params: Params) -> None:
    await session.rpc.shut_down()


async def leave(session: Session, params: Params) -> None:
    await session.rpc.settle()
    session.finish(life.CLEAN if session.rpc.ended else life.ABRUPT)


def nothing(session: Session, params: Params) -> None:
    """For notifications that the protocol has and that change nothing here."""
