"""The disk benchmark: 1 MiB in order, then 4 KiB at random at three depths.

``full`` takes longer runs and lets fio do the same, where it is installed.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen_tui_diagnostics.diskio import fio
from qwen_tui_diagnostics.diskio.measure import random_reads, sequential_reads
from qwen_tui_diagnostics.diskio.source import open_source
from qwen_tui_diagnostics.probes import odirect
from qwen_tui_diagnostics.result import SkipReason
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from qwen_tui_diagnostics.context import Context
    from qwen_tui_diagnostics.facts import Gathered

__all__ = ["DEPTHS", "collect"]

DEPTHS = (1, 32)
SECONDS = {"quick": 0.5, "full": 2.0}
SCRATCH_BYTES = {"quick": 256 * 1024 * 1024, "full": 2 * 1024 * 1024 * 1024}
_CACHED_SHARE = 0.05


def folder_of(context: Context) -> Path | None:
    """Return the folder that the launch reads from, or the nearest that exists."""
    target = context.target
    wanted = target.ple_folder or target.model_path or context.cache_folder
    if wanted is None:
        return None
    folder = Path(wanted)
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def collect(context: Context, found: Gathered) -> None:
    """Gather ``bench.*``; nothing is measured where reads would come from the page cache."""
    if context.bench not in SECONDS:
        found.lack("bench", SkipReason.DISABLED, t("--bench off"))
        return
    folder = folder_of(context)
    if folder is None:
        found.lack("bench", SkipReason.NOT_APPLICABLE, t("no folder to read from"))
        return
    proof = odirect.prove(folder, overlay=True)
    resident = proof.get("resident")
    if proof["open_errno"] or resident is None:
        found.lack("bench", SkipReason.UNSUPPORTED, t("direct reads are not possible there"))
        return
    if resident > _CACHED_SHARE * odirect.READS:
        found.lack("bench", SkipReason.UNSUPPORTED, t("reads there come from the page cache"))
        return
    seconds = SECONDS[context.bench]
    with (
        found.attempt("bench"),
        open_source(folder, SCRATCH_BYTES[context.bench]) as source,
    ):
        samples: dict[str, Any] = {
            "sequential": sequential_reads(source.descriptor, source.size_bytes, seconds).as_json()
        }
        for depth in dict.fromkeys((*DEPTHS, context.target.io_depth)):
            sample = random_reads(source.descriptor, source.size_bytes, depth, seconds)
            samples[f"random_{depth}"] = sample.as_json()
        found.put("bench.samples", samples)
        found.put("bench.source", source.kind)
        found.put("bench.source_bytes", source.size_bytes)
        found.put("bench.folder", str(folder))
        found.put("bench.depth", context.target.io_depth)
        if context.bench == "full":
            _second_opinion(context, source.descriptor, seconds, found)
        else:
            found.lack("bench.fio", SkipReason.DISABLED, t("only with --bench full"))


def _second_opinion(context: Context, descriptor: int, seconds: float, found: Gathered) -> None:
    """Gather ``bench.fio.*``: the same loads by fio, where it is installed."""
    program = shutil.which("fio", path=context.env.get("PATH"))
    if program is None:
        found.lack("bench.fio", SkipReason.NO_TOOL, t("fio is not installed"))
        return
    found.put_or("bench.fio.version", fio.version(program), detail=t("fio --version failed"))
    depths = dict.fromkeys((*DEPTHS, context.target.io_depth))
    loads: dict[str, int | None] = {"sequential": None, **{f"random_{d}": d for d in depths}}
    for name, depth in loads.items():
        try:
            result = fio.measure(program, descriptor, depth, seconds, context.env)
        except fio.FioError as error:
            found.lack(f"bench.fio.{name}", SkipReason.UNSUPPORTED, error.reason)
        else:
            found.put(f"bench.fio.{name}", result)
