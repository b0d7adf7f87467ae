"""Checks of host memory, swap, shared memory and process limits."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import (
    Check,
    always,
    failed,
    fix,
    ok,
    required_with_gpu,
    warned,
    with_gpu,
)
from qwen_tui_diagnostics.checks.needs import needs_of
from qwen_tui_diagnostics.checks.units import GIB, MIB, gib
from qwen_tui_diagnostics.context import flag_value, has_flag
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_diagnostics.result import Remedy, Verdict
    from qwen_tui_profiles.text import Text

__all__ = ["LIMIT_CHECKS"]

DEMO_RAM_BYTES = 512 * MIB
SMALL_MACHINE_BYTES = 32 * GIB
SHM_ONE_BYTES, SHM_MANY_BYTES = GIB, 8 * GIB
MEMLOCK_LOW_BYTES = 8 * MIB
NOFILE_WANTED = 65_535
CORES_WANTED = 4
UNLIMITED = -1


def _available(facts: Facts) -> tuple[int, int, bool]:
    """Return available and total bytes of this process, and whether a control group limits it."""
    available = facts.integer("memory.available_bytes")
    total = facts.integer("memory.total_bytes")
    if not facts.flag("memory.limited"):
        return available, total, False
    limit = facts.integer("memory.limit_bytes")
    if limit >= total:
        return available, total, False
    used = facts.integer("memory.limit_used_bytes") if facts.has("memory.limit_used_bytes") else 0
    return max(0, min(available, limit - used)), limit, True


def _ram(facts: Facts, target: Target) -> Verdict:
    available, total, limited = _available(facts)
    host_total = facts.integer("memory.total_bytes")
    shown = (
        t("{available} available; limited to {limit} of {total}", available=gib(available),
          limit=gib(total), total=gib(host_total))
        if limited
        else t("{available} of {total} available", available=gib(available), total=gib(total))
    )  # fmt: skip
    consequence = t("loading the weights can end in an OOM kill (exit code 137)")
    remedy = fix(
        t("close other programs, raise the container's limit, or add memory or swap"), "free -h"
    )
    if not target.needs_gpu:
        if available >= DEMO_RAM_BYTES:
            return ok(shown)
        consequence = t("the simulated engine cannot start")
        need = t("{need}", need=gib(DEMO_RAM_BYTES))
        return failed(shown, expected=need, consequence=consequence, remedy=remedy)
    needs = needs_of(target, facts)
    if needs is None:
        return ok(shown)
    cache = _host_cache_bytes(target)
    wanted, floor = needs.ram_bytes + cache, needs.ram_floor_bytes + cache
    expected = (
        t("{need}, of which {cache} for the host cache", need=gib(wanted), cache=gib(cache))
        if cache
        else t("{need} for this profile", need=gib(wanted))
    )
    if available < floor:
        return failed(
            shown,
            expected=t("{floor} at least", floor=gib(floor)),
            consequence=consequence,
            remedy=remedy,
        )
    # Comfort is a matter of the machine, not of what happens to be cached at this moment.
    if available >= 0.85 * wanted and total >= 0.97 * wanted:
        return ok(shown, expected=expected)
    return warned(shown, expected=expected, consequence=consequence, remedy=remedy)


def _host_cache_bytes(target: Target) -> int:
    """Return what ``--hicache-size`` (GB a rank) pins in host memory."""
    if not has_flag(target.argv, "--enable-hierarchical-cache"):
        return 0
    text = flag_value(target.argv, "--hicache-size")
    try:
        size = float(text) if text else 0.0
    except ValueError:
        size = 0.0
    return int(size * 10**9) * target.gpus


def _swap(facts: Facts, target: Target) -> Verdict:
    total = facts.integer("memory.swap_total_bytes")
    ram = facts.integer("memory.total_bytes")
    unified = _unified(facts)
    compressed = facts.has("memory.zram") and facts.flag("memory.zram")
    shown = t("{total} swap{kind}", total=gib(total), kind=" (zram)" if compressed else "")
    if unified and total:
        return warned(
            shown,
            expected=t("none on a unified-memory machine"),
            consequence=t("an overrun swaps the desktop to death instead of failing one process"),
            remedy=fix(t("turn it off while the engine runs"), "sudo swapoff -a", privileged=True),
        )
    if not total and ram < SMALL_MACHINE_BYTES and not unified:
        return warned(
            t("no swap, {ram} of memory", ram=gib(ram)),
            expected=t("some swap below 32 GiB of memory"),
            consequence=t("the peak while loading ends in an OOM kill"),
            remedy=fix(
                t("add a swap file"),
                "sudo fallocate -l 16G /swapfile && sudo chmod 600 /swapfile",
                "sudo mkswap /swapfile && sudo swapon /swapfile",
                privileged=True,
            ),
        )
    return ok(shown)


def _unified(facts: Facts) -> bool:
    """Tell whether the GPU shares the host's memory; without a working GPU it does not."""
    if facts.integer("gpu.nvml_code") != 0 and not facts.has("gpu.devices"):
        return False
    return any(device.flag("unified") for device in facts.rows("gpu.devices"))


def _shm(facts: Facts, target: Target) -> Verdict:
    size = facts.integer("memory.shm_total_bytes")
    many = target.gpus_a_replica >= 2
    wanted = SHM_MANY_BYTES if many else SHM_ONE_BYTES
    shown = t("/dev/shm has {size}", size=gib(size))
    if size >= wanted:
        return ok(shown)
    expected = t("{wanted} with {count} GPUs", wanted=gib(wanted), count=target.gpus)
    consequence = t("NCCL: error while creating shared memory segment")
    remedy = fix(
        t("start the container with more, or share the host's"),
        "docker run --shm-size 16g …",
        "docker run --ipc=host …",
        docs="https://github.com/sgl-project/sglang/issues/4259",
    )
    if many and size < SHM_ONE_BYTES:
        return failed(shown, expected=expected, consequence=consequence, remedy=remedy)
    return warned(shown, expected=expected, consequence=consequence, remedy=remedy)


def _memlock(facts: Facts, target: Target) -> Verdict:
    soft = facts.integer("memory.memlock_soft")
    privileged = facts.flag("system.ipc_lock")
    depth, error = facts.integer("rings.depth"), facts.integer("rings.errno")
    limit = t("unlimited") if soft == UNLIMITED or privileged else t("{size}", size=gib(soft))
    shown = t("locked memory: {limit}; a ring of {depth} {outcome}", limit=limit, depth=depth,
              outcome=t("works") if not error
              else t("fails ({reason})", reason=os.strerror(error)))  # fmt: skip
    remedy = fix(
        t("raise the limit: in a container with --ulimit, for a service with LimitMEMLOCK"),
        "docker run --ulimit memlock=-1 …",
        "ulimit -l unlimited",
    )
    if error == errno.ENOMEM:
        return failed(
            shown,
            expected=t("a ring of depth {depth}", depth=depth),
            consequence=t("PLE streaming cannot start: cannot allocate memory"),
            remedy=remedy,
        )
    if soft != UNLIMITED and soft < MEMLOCK_LOW_BYTES and not privileged:
        return warned(
            shown,
            expected=t("8 MiB or more"),
            consequence=t("deeper rings, pinned buffers and RDMA are refused"),
            remedy=remedy,
        )
    return ok(shown)


def _streams(target: Target) -> Text | None:
    if target.ple == "nvme":
        return None
    return t("only PLE streaming from NVMe needs it")


def _nofile(facts: Facts, target: Target) -> Verdict:
    hard = facts.integer("memory.nofile_hard")
    shown = t("{hard} open files", hard="unlimited" if hard == UNLIMITED else f"{hard:,}")
    if hard != UNLIMITED and hard < NOFILE_WANTED:
        return warned(
            shown,
            expected=t("65,535 or more"),
            consequence=t("many clients at once end in 'too many open files'"),
            remedy=_raise_nofile(facts),
        )
    return ok(shown)


def _raise_nofile(facts: Facts) -> Remedy:
    if facts.has("system.container") and facts.flag("system.container"):
        return fix(t("start the container with more"), "docker run --ulimit nofile=1048576 …")
    line = "* hard nofile 1048576"
    return fix(
        t("raise the hard limit, then log in again"),
        f"echo '{line}' | sudo tee /etc/security/limits.d/90-nofile.conf",
        privileged=True,
    )


def _cpu(facts: Facts, target: Target) -> Verdict:
    cores: float = facts.integer("system.cpus")
    if facts.has("system.cpu_quota"):
        cores = min(cores, facts.number("system.cpu_quota"))
    shown = t("{cores} cores", cores=f"{cores:g}")
    if cores < CORES_WANTED:
        return warned(
            shown,
            expected=t("4 or more"),
            consequence=t("decoding with speculation waits for the processor at every step"),
            remedy=fix(t("give the process more cores")),
        )
    governor = facts.text("system.scaling_governor") if facts.has("system.scaling_governor") else ""
    driver = facts.text("system.scaling_driver") if facts.has("system.scaling_driver") else ""
    if governor == "powersave" and "acpi" in driver:
        return warned(
            t("{cores} cores, governor powersave", cores=f"{cores:g}"),
            expected=t("governor schedutil or performance"),
            consequence=t("the cores stay at their lowest clock"),
            remedy=fix(t("change the governor"), "sudo cpupower frequency-set -g performance",
                       privileged=True),
        )  # fmt: skip
    return ok(shown)


LIMIT_CHECKS: tuple[Check, ...] = (
    Check(
        "sys.ram", t("host memory"), _ram, ("memory", "model"),
        t("weights pass through host memory; too little ends in an OOM kill while loading"),
        required=always,
        evidence=("https://github.com/vllm-project/vllm/issues/56824",),
    ),
    Check(
        "sys.swap", t("swap"), _swap, ("memory", "gpu"),
        t("a small machine without swap dies at the load peak; unified memory with it swaps"),
        wanted=with_gpu,
    ),
    Check(
        "sys.shm", t("shared memory"), _shm, ("memory",),
        t("a container has 64 MiB, and several GPUs talk through it"),
        required=required_with_gpu, wanted=with_gpu,
        evidence=("https://github.com/sgl-project/sglang/issues/4259",),
    ),
    Check(
        "sys.memlock", t("locked memory"), _memlock, ("memory", "system", "rings"),
        t("the kernel charges a ring to the user's limit; kernels differ, so it is tried"),
        required=always, wanted=_streams,
    ),
    Check(
        "sys.nofile", t("open files"), _nofile, ("memory",),
        t("every client connection takes a descriptor"), uses=("system",),
        wanted=with_gpu,
    ),
    Check(
        "sys.cpu", t("processors"), _cpu, ("system",),
        t("decoding with speculation is bound by the processor at each step"),
        wanted=with_gpu,
    ),
)  # fmt: skip
