"""What others know of a server that its own metrics do not tell."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qwen_tui.services.snapshots import GpuSnapshot
    from qwen_tui_profiles.findings import Clamp

__all__ = ["LiveContext", "is_here"]


@dataclass(frozen=True, slots=True)
class LiveContext:
    """Given to the poller by whoever has it; every part may be empty."""

    gpus: tuple[GpuSnapshot, ...] = ()
    """The newest samples of this machine's GPUs."""
    clamps: tuple[Clamp, ...] = ()
    """Asked → got of this boot: their remedies carry the price of a change."""
    requests_a_replica: int | None = None
    """How many run at once in each, as the log of the boot says: vLLM does not tell it later."""

    def of_server_at(self, host: str) -> LiveContext:
        """Return what is known of a server at ``host``.

        This machine's GPUs say nothing of a server elsewhere, and those on which a server of ours
        has no memory nothing of it.
        """
        if not is_here(host):
            return replace(self, gpus=())
        ours = tuple(gpu for gpu in self.gpus if gpu.memory_ours_bytes)
        return replace(self, gpus=ours or self.gpus)


@cache
def is_here(host: str) -> bool:
    """Tell whether a host is this machine; a name that may lead anywhere is not."""
    if host in {"localhost", socket.gethostname()}:
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    import psutil

    own = {a.address for each in psutil.net_if_addrs().values() for a in each}
    return address.is_loopback or str(address) in own
