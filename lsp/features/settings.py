"""workspace/configuration and didChangeConfiguration: the editor's part of the settings."""

from __future__ import annotations

from lsprotocol import types

from lsp.configuration import SECTION
from lsp.rpc import Params
from lsp.session import Session


async def pull(session: Session) -> None:
    """Asks the editor for its section, where it can be asked, and applies what is in force then."""
    if session.can("workspace", "configuration"):
        params = types.ConfigurationParams([types.ConfigurationItem(section=SECTION)])
        found = await session.request(types.WORKSPACE_CONFIGURATION, params)
        if isinstance(found, list) and found:
            session.configuration.take(found[0])
    session.apply_settings()


def changed(session: Session, params: Params) -> None:
    """The editor's settings changed; a client that can be asked for them need not have sent them."""
    from lsp.features.lifecycle import settle_ways

    async def follow() -> None:
        await pull(session)
        await settle_ways(session)

    pushed = params.get("settings") if isinstance(params, dict) else None
    if pushed and not session.can("workspace", "configuration"):
        session.configuration.take(pushed)
    session.spawn(follow())
