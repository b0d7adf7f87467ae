"""Whether the server's port can be bound, and who holds it if not."""

from __future__ import annotations

import errno
import os
import re
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.probes.files import read_text, try_text
from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.foreign import clean
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from pathlib import Path

    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["bind_error", "collect", "next_free", "owners"]

_LISTEN = "0A"
_SOCKET = re.compile(r"socket:\[(\d+)\]")
NEXT_PORTS = 50
NCCL_PORTS = (22000, 29999)
"""SGLang 0.5.23 picks its NCCL port here."""


def collect(context: Context, found: Gathered) -> None:
    """Gather ``port.*``."""
    host, port = context.target.host, context.target.port
    found.put("port.host", host)
    found.put("port.port", port)
    error = bind_error(host, port)
    found.put("port.bind_errno", error)
    if error:
        found.put("port.bind_error", errno.errorcode.get(error, str(error)))
        held = owners(context.path("proc"), port)
        if held is None:
            found.lack("port.owners", SkipReason.NOT_PERMITTED, t("/proc/net/tcp cannot be read"))
        else:
            found.put("port.owners", held)
        if error == errno.EADDRINUSE:
            found.put_or("port.next_free", next_free(host, port), detail=t("no free port near it"))
    with found.attempt("port.local_range"):
        low, high = read_text(context.path("proc/sys/net/ipv4/ip_local_port_range")).split()
        found.put("port.local_range", [int(low), int(high)])
    listening = _listening(context.path("proc"))
    if listening is None:
        found.lack("port.nccl_taken", SkipReason.NOT_PERMITTED, t("/proc/net/tcp cannot be read"))
    else:
        low_nccl, high_nccl = NCCL_PORTS
        found.put("port.nccl_taken", sum(low_nccl <= p <= high_nccl for p, _ in listening))


def bind_error(host: str, port: int) -> int:
    """Bind exactly what the server will bind, as uvicorn does; 0, or the ``errno`` it would get.

    With ``SO_REUSEADDR``: without it a port in TIME_WAIT looks taken, although the server gets it.
    """
    families = []
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        ):
            families.append((family, kind, protocol, address))
    except socket.gaierror:
        return errno.EADDRNOTAVAIL
    except OverflowError:
        return errno.EINVAL
    for family, kind, protocol, address in families:
        try:
            probe = socket.socket(family, kind, protocol)
        except OSError as error:
            return error.errno or errno.EINVAL
        with probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind(address)
                # Two sockets with SO_REUSEADDR may be bound at once; only one may listen.
                probe.listen(1)
            except OSError as error:
                return error.errno or errno.EINVAL
            except OverflowError:
                return errno.EINVAL
    return 0


def next_free(host: str, port: int) -> int | None:
    """Return the next port that can be bound, or ``None``."""
    for candidate in range(port + 1, min(port + 1 + NEXT_PORTS, 65536)):
        if bind_error(host, candidate) == 0:
            return candidate
    return None


def _listening(proc: Path) -> list[tuple[int, str]] | None:
    """Return ``(port, inode)`` of every listening socket; ``None`` when it cannot be read."""
    found: list[tuple[int, str]] = []
    tables = [try_text(proc / "net" / name) for name in ("tcp", "tcp6")]
    if tables[0] is None:
        return None
    for table in tables:
        for line in (table or "").splitlines()[1:]:
            words = line.split()
            if len(words) > 9 and words[3] == _LISTEN:
                try:
                    found.append((int(words[1].rpartition(":")[2], 16), words[9]))
                except ValueError:
                    continue
    return found


def _sockets_of(folder: Path) -> set[str]:
    """Return the socket inodes that a process holds; empty when we may not look."""
    found: set[str] = set()
    try:
        entries = list(folder.iterdir())
    except OSError:
        return found
    for entry in entries:
        # A descriptor may be closed while we look; it takes the others with it only if we let it.
        with suppress(OSError):
            match = _SOCKET.fullmatch(os.readlink(entry))  # noqa: PTH115
            if match is not None:
                found.add(match[1])
    return found


def owners(proc: Path, port: int) -> list[dict[str, Any]] | None:
    """Return who listens on a port: ``{pid, name}``; pid ``None``: somebody we may not see."""
    listening = _listening(proc)
    if listening is None:
        return None
    inodes = {inode for number, inode in listening if number == port}
    if not inodes:
        return []
    found: list[dict[str, Any]] = []
    for entry in sorted(proc.iterdir(), key=lambda e: (len(e.name), e.name)):
        if not entry.name.isdecimal():
            continue
        held = inodes & _sockets_of(entry / "fd")
        if held:
            inodes -= held
            name = clean((try_text(entry / "comm") or "").strip())
            found.append({"pid": int(entry.name), "name": name})
        if not inodes:
            break
    return found + [{"pid": None, "name": ""} for _ in inodes]
