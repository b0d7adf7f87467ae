"""Checks of the server's address and of what stands between it and its clients."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import Check, always, failed, fix, ok, warned
from qwen_tui_diagnostics.checks.variables import variable
from qwen_tui_diagnostics.context import has_flag
from qwen_tui_profiles.text import listing, t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Verdict
    from qwen_tui_profiles.text import Text

__all__ = ["CHECKS", "is_ours"]

_ANYWHERE = frozenset({"0.0.0.0", "::"})
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
_NCCL_PORTS = 8000
NCCL_CROWDED = 1000


def _port(facts: Facts, target: Target) -> Verdict:
    address = f"{facts.text('port.host')}:{facts.integer('port.port')}"
    error = facts.integer("port.bind_errno")
    if error == 0:
        return ok(t("{address} is free", address=address))
    if error == errno.EADDRINUSE and is_ours(facts, target):
        return ok(t("{address} is held by our own server", address=address))
    shown = t("{address}: {reason}", address=address, reason=os.strerror(error))
    remedy = fix(t("choose another address in the profile, or pass --port"))
    if error == errno.EADDRINUSE:
        holder = _holders(facts)
        if holder is not None:
            shown = t("{address} is taken by {holder}", address=address, holder=holder)
        if facts.has("port.next_free"):
            free = facts.integer("port.next_free")
            remedy = fix(
                t("stop what listens there, or use port {port}, which is free", port=free),
                f"qwen-tui doctor --port {free}",
                port=free,
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


def is_ours(facts: Facts, target: Target) -> bool:
    """Tell whether it is our own server that holds the port."""
    rows = facts.rows("port.owners") if facts.has("port.owners") else ()
    if rows and all(row.has("pid") and row.integer("pid") in target.own_pids for row in rows):
        return True
    # A container's port is held by its runtime, which is nobody's child.
    return target.own_port is not None and target.own_port == facts.integer("port.port")


def _holders(facts: Facts) -> Text | None:
    if not facts.has("port.owners"):
        return None
    owners = [
        f"{row.text('name')} ({row.integer('pid')})"
        if row.has("pid")
        else t("another user's program")
        for row in facts.rows("port.owners")
    ]
    return listing(owners) if owners else None


def _range(facts: Facts, target: Target) -> Verdict:
    low, high = facts.integers("port.local_range")[:2]
    port = facts.integer("port.port")
    if low <= port <= high:
        return warned(
            t("port {port} is in the range of outgoing connections ({low} to {high})", port=port,
              low=low, high=high),
            expected=t("a port outside of it, such as 30000"),
            consequence=t("an outgoing connection may take it while the model loads"),
            remedy=fix(t("choose a port below {low}", low=low)),
        )  # fmt: skip
    return ok(t("port {port} is outside of {low} to {high}", port=port, low=low, high=high))


def _aux_ports(facts: Facts, target: Target) -> Verdict:
    taken = facts.integer("port.nccl_taken")
    if taken > NCCL_CROWDED:
        return warned(
            t("{taken} of the ports 22000 to 29999 are taken", taken=taken),
            expected=t("room for the engine's own port"),
            consequence=t("SGLang picks one of them at random and may hit a taken one"),
            remedy=fix(t("see who listens there"), "ss -ltn"),
        )
    return ok(t("{taken} of the {all} ports 22000 to 29999 are taken", taken=taken,
                all=_NCCL_PORTS))  # fmt: skip


def _loopback_proxy(facts: Facts, target: Target) -> Verdict:
    values = {name: variable(facts, name) or "" for name in _PROXIES}
    proxies = [name for name in _PROXIES if values[name]]
    if not proxies:
        return ok(t("no HTTP proxy is set"))
    malformed = [name for name in proxies if _malformed(values[name])]
    if malformed:
        return failed(
            t("{name} is not an address", name=malformed[0]),
            expected=t("http://host:port"),
            consequence=t("the engine's own warm-up request fails and the start with it"),
            remedy=fix(
                t("correct or unset it"),
                f"unset {malformed[0]}",
                docs="https://github.com/sgl-project/sglang/issues/28503",
            ),
        )
    except_for: set[str] = set()
    for name in ("no_proxy", "NO_PROXY"):
        except_for |= {item.strip() for item in (variable(facts, name) or "").split(",")} - {""}
    wanted = {"127.0.0.1", "localhost"}
    if target.host == "0.0.0.0":
        # The warm-up request goes to the address that was given.
        wanted.add("0.0.0.0")
    missing = set() if "*" in except_for else wanted - except_for
    if missing:
        value = ",".join(sorted(except_for | wanted))
        return failed(
            t("{name} is set, and NO_PROXY lacks {hosts}", name=proxies[0],
              hosts=", ".join(sorted(missing))),
            expected=t("loopback without proxy"),
            consequence=t("the warm-up request goes to the proxy: 403, the server is killed"),
            remedy=fix(
                t("except loopback from the proxy"),
                f"export NO_PROXY={value} no_proxy={value}",
                env={"NO_PROXY": value, "no_proxy": value},
                docs="https://github.com/sgl-project/sglang/issues/9155",
            ),
        )  # fmt: skip
    return ok(t("{name} is set, loopback is excepted", name=proxies[0]))


def _malformed(value: str) -> bool:
    scheme, separator, rest = value.partition("://")
    if not separator:
        return not value.strip() or " " in value
    return scheme not in {"http", "https", "socks5", "socks5h", "socks4"} or not rest or " " in rest


def _exposure(facts: Facts, target: Target) -> Verdict:
    host = facts.text("port.host")
    if host not in _ANYWHERE or has_flag(target.argv, "--api-key"):
        return ok(t("{host}", host=host))
    return warned(
        t("{host}: everybody on the network may use the server", host=host),
        expected=t("127.0.0.1, or an API key"),
        consequence=t("your GPU and your prompts are open to the network"),
        remedy=fix(t("bind to 127.0.0.1, or set --api-key in the profile")),
    )


def _serves(target: Target) -> Text | None:
    return t("no profile is judged") if target.profile is None else None


CHECKS: tuple[Check, ...] = (
    Check(
        "net.port", t("server's port"), _port, ("port",),
        t("SGLang opens its port after loading: a taken port costs the whole boot"),
        required=always,
    ),
    Check(
        "net.port_range", t("port outside of the outgoing range"), _range, ("port",),
        t("an outgoing connection may take the port during the minutes of loading"),
    ),
    Check(
        "net.aux_ports", t("the engine's own ports"), _aux_ports, ("port",),
        t("the engine needs a port of its own for its processes"),
    ),
    Check(
        "net.loopback_proxy", t("loopback goes past the proxy"), _loopback_proxy, ("env",),
        t("the engine warms up through HTTP to itself; a proxy answers 403 and the start fails"),
        required=always,
        evidence=("https://github.com/sgl-project/sglang/issues/9155",
                  "https://github.com/sgl-project/sglang/issues/9814"),
    ),
    Check(
        "net.exposure", t("who can reach the server"), _exposure, ("port",),
        t("0.0.0.0 without a key is open to the network"),
        wanted=_serves,
    ),
)  # fmt: skip
