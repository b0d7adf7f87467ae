"""Checks of how the disk is read: O_DIRECT, alignment, io_uring, and measured rates."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from qwen_tui_diagnostics.check import (
    Check,
    failed,
    fix,
    not_applicable,
    ok,
    skipped,
    warned,
)
from qwen_tui_diagnostics.checks.folders import WEIGHT_ROLES, role_entry, worst_of
from qwen_tui_diagnostics.checks.needs import needs_of
from qwen_tui_diagnostics.checks.tables import PLE_FULL_RATE_TOKENS, PLE_READS_PER_TOKEN
from qwen_tui_diagnostics.checks.units import gb
from qwen_tui_diagnostics.result import SkipReason, Status, Verdict
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Target
    from qwen_tui_diagnostics.facts import Facts
    from qwen_tui_profiles.text import Text

__all__ = ["READ_CHECKS"]

PAGE_BYTES = 4096
BYPASS_SHARE, BUFFERED_SHARE = 0.05, 0.9
MEMORY_PASS_US = 5.0
"""A page in less is memory; no drive answers so fast."""
READS_GOOD, READS_LOW = 150_000, 30_000
SEQUENTIAL_GOOD, SEQUENTIAL_LOW = 1.5e9, 0.3e9
_MODEL_BYTES_27B = 18.6e9
_CONSEQUENCE = t("PLE streaming cannot start there, or reads through the page cache")
_MOVE = fix(
    t("move the model to a local ext4 or xfs file system"),
    docs="https://github.com/FlashML-org/FreeToken/issues/282",
)


def streams(target: Target) -> bool:
    """Tell whether the launch reads the disk with io_uring and O_DIRECT while it serves."""
    return target.ple == "nvme"


def _only_streaming(target: Target) -> Text | None:
    return None if streams(target) else t("only PLE streaming from NVMe needs it")


def _bad(target: Target, shown: Text, *detail: Text, expected: Text) -> Verdict:
    """Return FAIL for a launch that streams, WARN for any other."""
    status = Status.FAIL if streams(target) else Status.WARN
    return Verdict(status, shown, expected, detail, _CONSEQUENCE, _MOVE)


def _odirect(facts: Facts, target: Target) -> Verdict:
    def judge(entry: Facts) -> Verdict:
        path = entry.text("path")
        if entry.has("shard") and entry.integer("shard.open_errno"):
            error = entry.integer("shard.open_errno")
            return _bad(
                target,
                t("{path} ({kind}): O_DIRECT is refused ({reason})", path=path,
                  kind=entry.text("mount.filesystem"), reason=os.strerror(error)),
                expected=t("direct reads"),
            )  # fmt: skip
        kind = entry.text("mount.filesystem")
        if kind.startswith("fuse"):
            return _bad(
                target,
                t("{path} ({kind}): a FUSE file system hides the page cache below it", path=path,
                  kind=kind),
                expected=t("a bypass that can be proved"),
            )  # fmt: skip
        return _bypass(entry, target)

    return worst_of(facts, judge, WEIGHT_ROLES)


def _bypass(entry: Facts, target: Target) -> Verdict:
    path, kind = entry.text("path"), entry.text("mount.filesystem")
    error = entry.integer("direct.open_errno")
    if not error:
        error = entry.integer("direct.read_errno")
    if error:
        return _bad(
            target,
            t("{path} ({kind}): O_DIRECT is refused ({reason})", path=path, kind=kind,
              reason=os.strerror(error)),
            expected=t("direct reads"),
        )  # fmt: skip
    resident, reads = entry.integer("direct.resident"), entry.integer("direct.reads")
    again_us = entry.at("direct").numbers("pass_us")[-1]
    evidence = t("{reads} direct reads left {resident} pages in the page cache; {us} us a page",
                 reads=reads, resident=resident, us=round(again_us, 1))  # fmt: skip
    if resident >= BUFFERED_SHARE * reads:
        return Verdict(
            Status.WARN,
            t("{path} ({kind}): O_DIRECT is accepted and reads through the page cache", path=path,
              kind=kind),
            t("no page in the cache"),
            (evidence,),
            _CONSEQUENCE,
            _MOVE,
        )  # fmt: skip
    if resident > BYPASS_SHARE * reads or again_us < MEMORY_PASS_US:
        return skipped(
            SkipReason.UNSUPPORTED, t("{path} ({kind}): cannot tell: {evidence}", path=path,
                                      kind=kind, evidence=evidence),
        )  # fmt: skip
    shown = t("{path} ({kind}): O_DIRECT bypasses the page cache", path=path, kind=kind)
    if any(option.startswith("compress") for option in entry.texts("mount.options")):
        note = t("the mount compresses: a file that does compress is read through the page cache")
        return ok(shown, evidence, note)
    return ok(shown, evidence)


def _align(facts: Facts, target: Target) -> Verdict:
    entry = role_entry(facts, "ple", "model")
    if entry is None:
        return not_applicable(t("the launch names no model folder"))
    path = entry.text("path")
    where = "shard" if entry.has("shard.alignment") else "direct"
    alignment = entry.at(f"{where}.alignment")
    if alignment.flag("known"):
        offset = alignment.integer("offset_bytes")
        if alignment.has("read_offset_bytes") and alignment.integer("read_offset_bytes"):
            offset = alignment.integer("read_offset_bytes")
        source = "statx"
    else:
        offset = entry.integer("device.bottom.logical_block_bytes")
        source = "device"
    if offset == 0:
        return failed(
            t("{path}: direct I/O is not supported on this file", path=path),
            expected=t("an alignment that divides 4,096"),
            consequence=_CONSEQUENCE,
            remedy=_MOVE,
        )
    shown = t("{path}: offsets aligned to {offset} bytes ({source})", path=path, offset=offset,
              source=source)  # fmt: skip
    if PAGE_BYTES % offset:
        return failed(
            shown,
            expected=t("an alignment that divides 4,096"),
            consequence=t("page reads are refused: invalid argument"),
            remedy=_MOVE,
        )
    return ok(shown)


def _io_uring(facts: Facts, target: Target) -> Verdict:
    error, depth = facts.integer("rings.errno"), facts.integer("rings.depth")
    if error == 0:
        return ok(t("a ring of depth {depth} can be made", depth=depth))
    expected = t("a ring of depth {depth}", depth=depth)
    consequence = t("PLE streaming cannot start")
    shown = t("io_uring is refused: {reason}", reason=os.strerror(error))
    if error == errno.ENOMEM:
        return failed(
            shown,
            expected=expected,
            consequence=consequence,
            remedy=fix(t("raise the limit of locked memory (sys.memlock)"), "ulimit -l unlimited"),
        )
    if error == errno.ENOSYS:
        return failed(
            shown,
            expected=expected,
            consequence=consequence,
            remedy=fix(t("use a kernel of 5.6 or newer; gVisor has no io_uring")),
        )
    sysctl = facts.integer("rings.sysctl") if facts.has("rings.sysctl") else 0
    if sysctl:
        return failed(
            shown,
            t("kernel.io_uring_disabled is {value}", value=sysctl),
            expected=expected,
            consequence=consequence,
            remedy=fix(
                t("allow it on this machine"),
                "sudo sysctl kernel.io_uring_disabled=0",
                privileged=True,
            ),
        )
    filtered = facts.integer("system.seccomp") == 2
    return failed(
        shown,
        *((t("a seccomp filter is active"),) if filtered else ()),
        expected=expected,
        consequence=consequence,
        remedy=fix(
            t("allow the three calls in the container's seccomp profile; Docker Desktop refuses "
              "them even then"),
            "docker run --security-opt seccomp=unconfined …",
            docs="https://github.com/moby/moby/issues/47532",
        ),
    )  # fmt: skip


def _sequential(facts: Facts, target: Target) -> Verdict:
    sample = facts.at("bench.samples.sequential")
    rate = max(sample.number("bytes_per_s"), _by_fio(facts, "sequential", "bytes_per_s"))
    needs = needs_of(target, facts)
    size = float(needs.disk_bytes) if needs is not None and needs.family == "flash" else (
        float(facts.integer("model.shard_bytes"))
        if facts.has("model.shard_bytes") and facts.integer("model.shard_bytes")
        else _MODEL_BYTES_27B
    )  # fmt: skip
    seconds = size / rate
    shown = t("{rate}/s in order: {size} in {seconds} s", rate=gb(rate), size=gb(size),
              seconds=f"{seconds:,.0f}" if seconds >= 10 else f"{seconds:.1f}")  # fmt: skip
    detail = [*_how(sample, facts), *_compared(facts, "sequential")]
    remedy = fix(t("move the model to a faster drive"))
    if rate < SEQUENTIAL_LOW:
        return warned(
            shown, *detail, expected=t("0.3 GB/s at the very least"),
            consequence=t("every start waits minutes for the disk"), remedy=remedy,
        )  # fmt: skip
    if rate < SEQUENTIAL_GOOD:
        return warned(
            shown, *detail, expected=t("1.5 GB/s or more"),
            consequence=t("loading waits for the disk"), remedy=remedy,
        )  # fmt: skip
    return ok(shown, *detail)


def _random(facts: Facts, target: Target) -> Verdict:
    depth = facts.integer("bench.depth")
    name = f"random_{depth}"
    sample = facts.at(f"bench.samples.{name}")
    reads = max(sample.number("reads_per_s"), _by_fio(facts, name, "reads_per_s"))
    tokens = reads / PLE_READS_PER_TOKEN
    single = facts.at("bench.samples.random_1")
    shown = t("{reads} reads/s of 4 KiB at depth {depth}", reads=f"{reads:,.0f}", depth=depth)
    detail = [
        *_how(sample, facts),
        t("depth 1: {us} us a read; depth 32: {reads} reads/s",
          us=round(1e6 / single.number("reads_per_s")),
          reads=f"{facts.at('bench.samples.random_32').number('reads_per_s'):,.0f}"),
        *_compared(facts, name),
    ]  # fmt: skip
    if not streams(target):
        return ok(shown, *detail)
    limit = t("cold prefill is limited to about {tokens} tokens/s by this disk",
              tokens=f"{tokens:,.0f}")  # fmt: skip
    detail.append(limit)
    best = min(PLE_FULL_RATE_TOKENS, READS_GOOD / PLE_READS_PER_TOKEN)
    expected = t("{wanted} reads/s ({tokens} tokens/s)", wanted=f"{READS_GOOD:,}",
                 tokens=f"{best:,.0f}")  # fmt: skip
    remedy = fix(
        t("use an NVMe drive with its own memory"),
        docs="https://github.com/0xBakeer/deepseek-v41-flash-spark/issues/2",
    )
    unsure = sample.flag("lower_bound") or sample.flag("probe_bound")
    if reads >= READS_GOOD:
        return ok(shown, *detail)
    if reads < READS_LOW and not unsure:
        return failed(shown, *detail, expected=expected, consequence=limit, remedy=remedy)
    return warned(shown, *detail, expected=expected, consequence=limit, remedy=remedy)


def _by_fio(facts: Facts, name: str, value: str) -> float:
    """Return fio's figure, 0 without one: what either has read, the disk can do."""
    place = f"bench.fio.{name}.{value}"
    return facts.number(place) if facts.has(place) else 0.0


def _compared(facts: Facts, name: str) -> list[Text]:
    """Say what fio found on the same file."""
    theirs = _by_fio(facts, name, "reads_per_s")
    if not theirs:
        place = f"bench.fio.{name}"
        why = facts.why_absent(place)
        if why.reason is SkipReason.DISABLED or not str(why.detail):
            return []
        return [t("not compared with fio: {why}", why=why.detail)]
    ours = facts.number(f"bench.samples.{name}.reads_per_s")
    return [
        t("fio on the same file: {theirs} reads/s; this probe {ours}, {share} of it",
          theirs=f"{theirs:,.0f}", ours=f"{ours:,.0f}", share=f"{ours / theirs:.2f}"),
    ]  # fmt: skip


def _how(sample: Facts, facts: Facts) -> list[Text]:
    """Say how a figure was measured, so that nobody mistakes a bound for a value."""
    lines = [
        t("{method}, {seconds} s, {cpu} us of processor a read, from a {source} file",
          method=sample.text("method"), seconds=sample.number("seconds"),
          cpu=round(sample.number("cpu_us_per_read"), 1), source=facts.text("bench.source")),
    ]  # fmt: skip
    if sample.flag("lower_bound"):
        lines.append(t("a lower bound: threads cannot keep this depth full"))
    if sample.flag("probe_bound"):
        lines.append(t("a lower bound: limited by the probe"))
    return lines


_BENCH = ("bench", "model")


def _reads_weights(target: Target) -> Text | None:
    return t("no weights are read from disk") if target.simulated else None


READ_CHECKS: tuple[Check, ...] = (
    Check(
        "disk.odirect", t("direct reads bypass the page cache"), _odirect, ("disk",),
        t("some file systems accept O_DIRECT and read through the page cache all the same"),
        required=streams, explained_by=("disk.path",),
        evidence=("https://github.com/FlashML-org/FreeToken/issues/282",),
    ),
    Check(
        "disk.align", t("page reads are aligned"), _align, ("disk",),
        t("a device with larger sectors refuses 4 KiB reads"),
        required=streams, wanted=_only_streaming, explained_by=("disk.odirect",),
    ),
    Check(
        "disk.io_uring", t("io_uring"), _io_uring, ("rings", "system"),
        t("containers and hardened kernels refuse io_uring; classic AIO does not help the fork"),
        required=streams, wanted=_only_streaming, explained_by=("sys.memlock",),
        evidence=("https://github.com/moby/moby/issues/47532",
                  "https://github.com/docker/for-mac/issues/7707"),
    ),
    Check(
        "disk.seq", t("reading in order"), _sequential, _BENCH,
        t("loading time is the model's size over this rate, until the loader is the limit"),
        wanted=_reads_weights, explained_by=("disk.odirect",),
        evidence=("https://github.com/JustVugg/colibri/issues/1594",),
    ),
    Check(
        "disk.randread", t("random pages"), _random, _BENCH,
        t("a token that misses the caches reads 16.6 pages of the n-gram table"),
        wanted=_reads_weights, explained_by=("disk.odirect", "disk.io_uring"),
        evidence=("https://github.com/0xBakeer/deepseek-v41-flash-spark/issues/2",),
    ),
)  # fmt: skip
