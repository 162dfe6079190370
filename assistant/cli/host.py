"""`tokenleap host`: what the engine host does, ending it, starting it anew.

`status` exits with 1 when no host runs. `stop` also ends a host that does not listen any more; both speak
only of the host of this build and data folder.
"""

from __future__ import annotations

import argparse

from assistant.cli import failures, output
from assistant.cli.flags import Parser
from assistant.errors import HostError
from assistant.service import launch
from assistant.service.client import Client
from assistant.service.endpoint import Endpoint, HostLock
from assistant.service.protocol import HostStatus
from assistant.settings.schema import Settings

_PATIENCE = 10.0  # seconds for a host to answer or to leave


def register(subparsers: argparse._SubParsersAction[Parser]) -> None:
    """Adds `host` with `status`, `stop` and `restart`."""
    parser = subparsers.add_parser("host", help="start, stop and inspect the engine host")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands", required=True, dest="action")
    status = commands.add_parser("status", help="say whether the host runs, with what model and memory")
    status.add_argument("--json", action="store_true", help="print one JSON object")
    commands.add_parser("stop", help="end the host; the next request starts it again")
    commands.add_parser("restart", help="end the host and start it anew, with the settings of now")
    for command in commands.choices.values():
        command.set_defaults(run=run)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Does what `args.action` says. Returns 0, or 1 when there is no host to show."""
    endpoint = Endpoint.here()
    if args.action == "status":
        return _status(endpoint, args.json)
    stopped = _stop(endpoint)
    if args.action == "restart":
        with Client.connect(wait=2 * _PATIENCE, endpoint=endpoint) as client:
            output.note(f"the engine host runs anew (process {client.host_pid})")
    else:
        output.note("the engine host has stopped" if stopped else "no engine host was running")
    return 0


def _status(endpoint: Endpoint, as_json: bool) -> int:
    if HostLock(endpoint.lock).holder() is None:
        if as_json:
            output.json({"running": False})
        else:
            output.result("no engine host is running: the first completion starts it")
        return failures.NOTHING
    with Client.connect(start=False, wait=_PATIENCE, endpoint=endpoint) as client:
        status = client.status()
    if as_json:
        output.json({"running": True, **status.to_json()})
    else:
        output.result("\n".join(_lines(status)))
    return 0


def _lines(status: HostStatus) -> list[str]:
    model = f"{status.model} {status.precision}" if status.model else "none loaded yet"
    engine = f"{status.engine}: {status.engine_reason}" if status.engine else "not chosen yet"
    return [
        f"process   {status.pid}, {status.state}, up {_duration(status.uptime_s)}",
        f"model     {model}",
        f"engine    {engine}",
        f"memory    {_megabytes(status.rss_bytes)}, at most {_megabytes(status.peak_rss_bytes)}",
        f"kept      {_megabytes(status.prefix_store_bytes)} of prefixes, "
        f"{_megabytes(status.answer_cache_bytes)} of answers",
        f"clients   {status.clients}, {status.requests} requests answered, {status.waiting} waiting",
        f"log       {status.log}",
    ]


def _stop(endpoint: Endpoint) -> bool:
    """Ends the host, by force if it does not listen; False when there was none."""
    if HostLock(endpoint.lock).holder() is None:
        return False
    try:
        with Client.connect(start=False, wait=_PATIENCE, endpoint=endpoint) as client:
            client.stop()
    except HostError:
        launch.kill(endpoint)
    return True


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
    )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
