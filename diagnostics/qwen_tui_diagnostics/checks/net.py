"""Checks of the server's address."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import Check, always, failed, fix, ok
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Verdict

__all__ = ["CHECKS"]


def _port(facts: Facts, target: Target) -> Verdict:
    address = f"{facts.text('port.host')}:{facts.integer('port.port')}"
    error = facts.integer("port.bind_errno")
    if error == 0:
        return ok(t("{address} is free", address=address))
    holder = ""
    if facts.has("port.owners"):
        rows = facts.rows("port.owners")
        named = [
            f"{row.text('name')} ({row.integer('pid')})" if row.has("pid") else "somebody else"
            for row in rows
        ]
        holder = ", ".join(named)
    shown = t("{address}: {reason}", address=address, reason=os.strerror(error))
    if error == errno.EADDRINUSE and holder:
        shown = t("{address} is taken by {holder}", address=address, holder=holder)
    remedy = fix(t("choose another address in the profile, or pass --port"))
    if error == errno.EADDRINUSE and facts.has("port.next_free"):
        free = facts.integer("port.next_free")
        remedy = fix(
            t("stop what listens there, or use port {port}, which is free", port=free),
            f"qwen-tui doctor --port {free}",
            auto=True,
        )
    elif error == errno.EACCES:
        remedy = fix(t("ports below 1024 need root: choose a higher one"))
    elif error == errno.EADDRNOTAVAIL:
        remedy = fix(t("this machine does not have that address: use 127.0.0.1"))
    return failed(
        shown,
        expected=t("the address can be bound"),
        consequence=t("the engine binds only after the whole model is loaded, then stops"),
        remedy=remedy,
    )


CHECKS: tuple[Check, ...] = (
    Check(
        "net.port",
        t("server's port"),
        _port,
        ("port",),
        t("SGLang opens its port after loading: a taken port costs the whole boot"),
        required=always,
    ),
)
