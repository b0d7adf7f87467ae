"""Kernel, C library, container, WSL, processors, locale, clock and terminal."""

from __future__ import annotations

import locale
import os
import platform
import re
import sys
import time
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.probes.files import first_line, read_text, try_text
from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["collect"]

CAP_IPC_LOCK = 14
"""Bit of ``CapEff`` (linux/capability.h)."""
_CONTAINER_WORDS = re.compile(r"docker|kubepods|containerd|libpod|lxc|buildkit")
_MAIN_INITS = {"systemd", "init", "launchd", "runit", "openrc-init", "s6-svscan"}


def collect(context: Context, found: Gathered) -> None:
    """Gather ``system.*``."""
    kernel = platform.uname()
    found.put("system.kernel.name", kernel.system)
    found.put("system.kernel.release", kernel.release)
    found.put("system.kernel.machine", kernel.machine)
    found.put("system.python", list(sys.version_info[:3]))
    found.put("system.year", time.gmtime().tm_year)
    found.put("system.uid", os.getuid())
    _libc(found)
    _virtual(context, found)
    _status(context, found)
    _processors(context, found)
    found.put("system.encoding", locale.getencoding())
    for name, value in context.terminal.items():
        found.put(f"system.terminal.{name}", value)
    if not context.terminal:
        found.lack("system.terminal", SkipReason.NOT_APPLICABLE, t("not started from a terminal"))


def _libc(found: Gathered) -> None:
    with found.attempt("system.glibc"):
        name = os.confstr("CS_GNU_LIBC_VERSION")
        kind, _, version = (name or "").partition(" ")
        if kind == "glibc":
            found.put("system.glibc", [int(part) for part in version.split(".")[:2]])
        else:
            found.lack("system.glibc", SkipReason.UNSUPPORTED, t("not glibc (musl?)"))


def _virtual(context: Context, found: Gathered) -> None:
    with found.attempt("system.wsl"):
        version = read_text(context.path("proc/version")).lower()
        found.put("system.wsl", "microsoft" in version or context.path("dev/dxg").exists())
    strong: list[str] = []
    weak: list[str] = []
    if context.path("run/.containerenv").exists():
        strong.append("/run/.containerenv")
    if context.env.get("container"):
        strong.append("variable container")
    cgroup = try_text(context.path("proc/self/cgroup"))
    if cgroup and _CONTAINER_WORDS.search(cgroup):
        strong.append("control group")
    if context.path(".dockerenv").exists():
        weak.append("/.dockerenv")
    mounts = try_text(context.path("proc/self/mountinfo"))
    if mounts is not None and re.search(r" / / \S+ .*- overlay ", mounts):
        weak.append("overlay root")
    init = try_text(context.path("proc/1/comm"))
    if init is not None and init.strip() not in _MAIN_INITS:
        weak.append(f"process 1 is {init.strip()[:15]}")
    if cgroup is None and mounts is None:
        found.lack("system.container", SkipReason.NOT_PERMITTED, t("/proc cannot be read"))
        return
    # /.dockerenv alone is no proof: it also exists in machine images made from containers, and
    # those have an unusual first process too. An overlay root has to be among the signs.
    found.put("system.container", bool(strong) or (len(weak) > 1 and "overlay root" in weak))
    found.put("system.container_signs", strong + weak)


def _status(context: Context, found: Gathered) -> None:
    with found.attempt("system.ipc_lock", "system.seccomp"):
        fields = dict(
            line.split(":", 1)
            for line in read_text(context.path("proc/self/status")).splitlines()
            if ":" in line
        )
        found.put("system.ipc_lock", bool(int(fields["CapEff"], 16) >> CAP_IPC_LOCK & 1))
        found.put("system.seccomp", int(fields["Seccomp"]))


def _processors(context: Context, found: Gathered) -> None:
    with found.attempt("system.cpus"):
        found.put("system.cpus", len(os.sched_getaffinity(0)))
    quota = try_text(context.path("sys/fs/cgroup/cpu.max"))
    if quota is not None:
        limit, _, period = quota.strip().partition(" ")
        if limit.isdecimal() and period.isdecimal() and int(period):
            found.put("system.cpu_quota", int(limit) / int(period))
    base = context.path("sys/devices/system/cpu/cpu0/cpufreq")
    for name in ("scaling_governor", "scaling_driver", "energy_performance_preference"):
        with found.attempt(f"system.{name}"):
            found.put(f"system.{name}", first_line(base / name))
