"""What a launch takes outside the card: host memory of HiCache and PLE, disk reads of PLE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qwen_tui_profiles.plan.fields import optional_whole
from qwen_tui_profiles.plan.result import BudgetLine
from qwen_tui_profiles.plan.weights import GIB
from qwen_tui_profiles.text import t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qwen_tui_profiles.plan.budget import Allocation
    from qwen_tui_profiles.plan.model import ModelFacts
    from qwen_tui_profiles.plan.predict_sglang import Computed
    from qwen_tui_profiles.text import Text

__all__ = ["PLE_PAGES_PER_TOKEN", "host_lines", "table_bytes"]

_DEFAULT_RATIO = 2.0
_DECIMAL_GIGABYTE = 1e9
"""HiCache counts ``--hicache-size`` in powers of ten (recorded boot: 2 → 1.97 + 0.04 GB)."""

_PAGE_BYTES = 4096

PLE_PAGES_PER_TOKEN = 16.6
"""4 KiB pages read for one token that misses every cache: 16 rows of 160 bytes, 4 % of which
straddle two pages."""

_FORK = "SGLANG_QWEN4_PLE_NVME_"


def host_lines(computed: Computed, allocated: Allocation) -> tuple[BudgetLine, ...]:
    """Return the lines for host memory and disk; none for a launch that needs neither."""
    return (*_hicache(computed, allocated), *_ple(computed))


def _hicache(computed: Computed, allocated: Allocation) -> tuple[BudgetLine, ...]:
    arguments = computed.arguments
    if not arguments.enable_hierarchical_cache:
        return ()
    title = t("HiCache in host memory")
    if arguments.hicache_size_gb:
        size = arguments.hicache_size_gb * _DECIMAL_GIGABYTE / GIB
        device = allocated.kv + allocated.main
        share = allocated.kv / device if device else 1.0
        tokens = int(arguments.hicache_size_gb * _DECIMAL_GIGABYTE * share // computed.cell.target)
        return (
            BudgetLine(
                "hicache",
                size,
                t(
                    "--hicache-size {size} GB: {tokens} tokens beside the states",
                    size=f"{arguments.hicache_size_gb:g}",
                    tokens=tokens,
                ),
                title,
                "host",
            ),
        )
    ratio = arguments.hicache_ratio or _DEFAULT_RATIO
    return (
        BudgetLine(
            "hicache",
            ratio * (allocated.kv + allocated.main),
            t("{ratio} times the pools on the card", ratio=f"{ratio:g}"),
            title,
            "host",
        ),
    )


def _ple(computed: Computed) -> tuple[BudgetLine, ...]:
    if not computed.facts.sparse_indexer:
        return ()
    stored = computed.request.stored
    table = stored.table_bytes if stored is not None and stored.table_bytes else None
    size = table if table is not None else table_bytes(computed.facts)
    env = computed.request.env
    disk = _disk_line(size)
    if any(name.startswith(_FORK) for name in env):
        cache, basis = _fork_cache(env)
        return (
            BudgetLine("ple_cache", cache, basis, t("PLE cache in host memory"), "host"),
            disk,
        )
    if computed.arguments.ple_offload_backend == "file":
        return (
            BudgetLine(
                "ple_cache",
                None,
                t(
                    "the page cache of the system: whatever memory is free, {size} GiB at most",
                    size="?" if size is None else f"{size / GIB:.1f}",
                ),
                t("PLE table in the page cache"),
                "host",
            ),
            disk,
        )
    return (
        BudgetLine(
            "ple_table",
            None if size is None else size / GIB,
            t("the whole table, pinned (the default for bfloat16 models on CUDA)"),
            t("PLE table in host memory"),
            "host",
        ),
    )


def _disk_line(size: float | None) -> BudgetLine:
    return BudgetLine(
        "ple_reads",
        None if size is None else size / GIB,
        t(
            "{pages} reads of 4 KiB a token that misses: 100,000 IOPS allow about 6,000 tok/s",
            pages=f"{PLE_PAGES_PER_TOKEN:g}",
        ),
        t("PLE table on disk"),
        "disk",
    )


def _fork_cache(env: Mapping[str, str]) -> tuple[float | None, Text]:
    budget = _number(env, "CACHE_BYTES")
    if budget is not None and budget >= 0:
        return budget / GIB, t("{variable}CACHE_BYTES", variable=_FORK)
    pages = _number(env, "CACHE_PAGES")
    if pages is not None:
        return (
            pages * _PAGE_BYTES / GIB,
            t("{pages} pages of 4 KiB, payload alone", pages=pages),
        )
    return None, t("no budget is given")


def _number(env: Mapping[str, str], name: str) -> int | None:
    text = env.get(_FORK + name, "")
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(text) < 20 else None


def table_bytes(facts: ModelFacts) -> float | None:
    """Return the bytes of the n-gram table in FP8; None where the fields are missing.

    Rows are the sum of the first primes from the vocabulary base on, one per head and n-gram
    order; here their count times the base, which is right to a millionth.
    """
    text = facts.text
    base = optional_whole(text, "ngram_vocab_size_base")
    order = optional_whole(text, "ngram_size")
    heads = optional_whole(text, "heads_per_ngram")
    if base is None or order is None or heads is None:
        return None
    count = (order - 1) * heads
    width = (optional_whole(text, "ple_embed_dim") or facts.hidden) // count
    return float(count * base * width)
