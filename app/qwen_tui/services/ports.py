"""Is this port free? Asked by binding it, because the engine only finds out after a whole boot."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qwen_tui_profiles.errors import LaunchError
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_profiles.text import Text

__all__ = ["PortHolder", "PortUse", "accepts", "check_port", "require_free_port"]


@dataclass(frozen=True, slots=True)
class PortHolder:
    """Who listens on a port, as far as this user may know."""

    pid: int
    name: str
    """Name of the process: for showing, never for deciding."""


@dataclass(frozen=True, slots=True)
class PortUse:
    """Result of a bind test."""

    free: bool
    error: int | None = None
    """``errno`` of the failed bind."""
    holder: PortHolder | None = None
    """``None`` when free or when the system does not tell."""


def check_port(host: str, port: int) -> PortUse:
    """Bind ``host:port`` as the engine would (``SO_REUSEADDR``) and let go of it again.

    A port in TIME_WAIT counts as free, since it does not stop the engine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            # Without listen() two sockets with SO_REUSEADDR could both bind.
            probe.listen(1)
    except socket.gaierror:
        return PortUse(free=False, error=errno.EADDRNOTAVAIL)
    except OSError as error:
        holder = find_holder(port) if error.errno == errno.EADDRINUSE else None
        return PortUse(free=False, error=error.errno, holder=holder)
    return PortUse(free=True)


def find_holder(port: int) -> PortHolder | None:
    """Return who listens on ``port`` on this machine, if the system tells us."""
    import psutil

    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return None
    for connection in connections:
        # psutil types laddr as a tuple that is empty for unbound sockets.
        address = connection.laddr
        if (
            address
            and address.port == port
            and connection.status == psutil.CONN_LISTEN
            and connection.pid is not None
        ):
            try:
                name = psutil.Process(connection.pid).name()
            except psutil.Error:
                name = "?"
            return PortHolder(connection.pid, clean(name))
    return None


def require_free_port(host: str, port: int) -> None:
    """Refuse a launch onto an address that cannot be bound.

    Raises:
        LaunchError: names the address, who holds it where that is known, and what to do.
    """
    use = check_port(host, port)
    if use.free:
        return
    message, remedy = _explain(host, port, use)
    raise LaunchError(message, remedy)


def accepts(host: str, port: int, timeout_s: float = 0.25) -> bool:
    """Tell whether something accepts connections there."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s):
            return True
    except OSError:
        return False


def _explain(host: str, port: int, use: PortUse) -> tuple[Text, Text]:
    if use.error == errno.EADDRINUSE:
        remedy = t("Stop what listens there, or give the profile another port.")
        if use.holder is None:
            return (
                t(
                    "Port {port} on {host} is taken (by a process that the system does not name); "
                    "a free port was expected.",
                    port=port,
                    host=host,
                ),
                remedy,
            )
        return (
            t(
                "Port {port} on {host} is taken by {name} (pid {pid}); a free port was expected.",
                port=port,
                host=host,
                name=use.holder.name,
                pid=use.holder.pid,
            ),
            remedy,
        )
    if use.error == errno.EACCES:
        return (
            t("Port {port} may not be opened by this user.", port=port),
            t("Give the profile a port above 1023."),
        )
    if use.error == errno.EADDRNOTAVAIL:
        return (
            t("{host} is not an address of this machine.", host=clean(host)),
            t("Give the profile the host 127.0.0.1."),
        )
    return (
        t(
            "Port {port} on {host} cannot be bound (errno {code}).",
            port=port,
            host=host,
            code=use.error,
        ),
        t("Give the profile another host or port."),
    )
