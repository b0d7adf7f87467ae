"""Which server a command talks to: the one named by ``--url``, else the one that we run."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui.services.keys import API_KEY_VARIABLE, attached_key
from qwen_tui_profiles.errors import UsageError
from qwen_tui_profiles.text import t, tr

if TYPE_CHECKING:
    import argparse

    from qwen_tui_profiles.findings import Clamp

__all__ = [
    "ServerTarget",
    "add_target_arguments",
    "read_key",
    "resolve_target",
    "resolve_targets",
]


@dataclass(frozen=True, slots=True)
class ServerTarget:
    """A server's address and how to be let in."""

    url: str
    api_key: str | None = None
    pid: int | None = None
    """Main PID when the server is ours."""
    clamps: tuple[Clamp, ...] = ()
    """What the engine changed of what was asked, when the server is ours."""
    requests_a_replica: int | None = None
    """How many run at once in each, as the log of its boot says, when the server is ours."""


def add_target_arguments(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Declare ``--url`` (more than one with ``several``) and ``--api-key-env``."""
    parser.add_argument(
        "--url",
        metavar="URL",
        action="append" if several else "store",
        help=tr(t("the server's address; may be given several times"))
        if several
        else tr(t("the server's address (default: the one we run)")),
    )
    parser.add_argument(
        "--api-key-env",
        metavar="NAME",
        help=tr(
            t(
                "environment variable that holds the API key (default: {name}); "
                "a key on the command line would show in ps",
                name=API_KEY_VARIABLE,
            )
        ),
    )


def resolve_target(args: argparse.Namespace) -> ServerTarget:
    """Return the server to talk to.

    Raises:
        UsageError: the named variable is not set, or no server is known.
    """
    return resolve_targets(args)[0]


def resolve_targets(args: argparse.Namespace) -> list[ServerTarget]:
    """Return the servers to talk to, at least one.

    An address that the settings name a key for is sent that one, unless a variable is given.

    Raises:
        UsageError: the named variable is not set, an address is none, or no server is known.
    """
    from qwen_tui.services.keys import fleet_key
    from qwen_tui.services.paths import Paths
    from qwen_tui.services.settings import load_settings

    key = read_key(args.api_key_env)
    if args.url:
        urls = args.url if isinstance(args.url, list) else [args.url]
        if args.api_key_env is not None:
            return [ServerTarget(url, key) for url in urls]
        variables = load_settings(Paths.default()).fleet_keys
        return [ServerTarget(url, fleet_key(url, variables)) for url in urls]
    from qwen_tui.services.state import ENDED
    from qwen_tui.services.supervisor import ServerSupervisor

    supervisor = ServerSupervisor(Paths.default())
    snapshot = asyncio.run(supervisor.snapshot())
    if snapshot.url is not None and snapshot.state in ENDED:
        # Its port may belong to somebody else by now, who must not get our key or our requests.
        raise UsageError(
            t("Our server at {url} does not run any more.", url=snapshot.url),
            t("Give --url http://HOST:PORT, or start one with `qwen-tui up`."),
        )
    if snapshot.url is None:
        raise UsageError(
            t("No server of ours is known, and no address was given."),
            t("Give --url http://HOST:PORT, or start one with `qwen-tui up`."),
        )
    report = snapshot.report
    return [
        ServerTarget(
            snapshot.url,
            key or supervisor.api_key(),
            snapshot.pid,
            () if report is None else report.clamps,
            None if report is None else report.requests_a_replica,
        )
    ]


def read_key(name: str | None) -> str | None:
    """Return the API key from the variable ``name`` (default: :data:`API_KEY_VARIABLE`).

    Raises:
        UsageError: a variable was named and is not set.
    """
    if name is None:
        return attached_key()
    value = os.environ.get(name)
    if not value:
        raise UsageError(
            t("The environment variable {name} is not set.", name=name),
            t("Set it to the API key, or leave --api-key-env out."),
        )
    return value
