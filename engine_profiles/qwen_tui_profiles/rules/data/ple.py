"""Flash-Next's per-layer embedding (PLE) table on SGLang: the SM120 fork and upstream's offload."""

from __future__ import annotations

from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.rules.rule import Rule
from qwen_tui_profiles.text import t

__all__ = ["RULES"]

_P = "SGLANG_QWEN4_PLE_NVME_"
_MODE, _BYTES = f"{_P}CACHE_MODE", f"{_P}CACHE_BYTES"
_PAGES, _BACKEND, _PATH = f"{_P}CACHE_PAGES", f"{_P}BACKEND", f"{_P}PATH"
_ROW = f"env('{_MODE}') == 'row'"
_SEED = "seed 002, optional row cache"

RULES: tuple[Rule, ...] = (
    Rule(
        id="ple-row-cache-backend",
        severity=Severity.ERROR,
        title=t("The PLE row cache works with io_uring only"),
        what=t("CACHE_MODE=row needs SGLANG_QWEN4_PLE_NVME_BACKEND=io_uring."),
        remedy=t("Set SGLANG_QWEN4_PLE_NVME_BACKEND=io_uring, or CACHE_MODE=page."),
        when=f"{_ROW} and env('{_BACKEND}') != 'io_uring'",
        source=_SEED,
        shows=(_MODE, _BACKEND),
    ),
    Rule(
        id="ple-row-cache-bytes",
        severity=Severity.ERROR,
        title=t("The PLE row cache needs a byte budget of its own"),
        what=t(
            "CACHE_BYTES must be set and not negative (0 keeps nothing); its default of -1 means "
            "the page limit, which the row cache does not have."
        ),
        remedy=t("Set SGLANG_QWEN4_PLE_NVME_CACHE_BYTES=536870912 (512 MiB)."),
        when=f"{_ROW} and (env('{_BYTES}') is None or env_num('{_BYTES}') < 0)",
        source=_SEED,
        shows=(_MODE, _BYTES),
    ),
    Rule(
        id="ple-row-cache-pages",
        severity=Severity.ERROR,
        title=t("The PLE row cache must not have a page budget as well"),
        what=t("The page cache behind it is disabled; a page count contradicts the mode."),
        remedy=t("Set SGLANG_QWEN4_PLE_NVME_CACHE_PAGES=0."),
        when=f"{_ROW} and env('{_PAGES}') is not None and env_num('{_PAGES}') != 0",
        source=_SEED,
        shows=(_MODE, _PAGES),
    ),
    Rule(
        id="ple-cache-bytes-invalid",
        severity=Severity.ERROR,
        title=t("The PLE byte budget is not a whole number"),
        what=t("An invalid value fails at start instead of falling back to the page limit."),
        remedy=t("Write the number of bytes, without a suffix."),
        when=f"not whole_number('{_BYTES}')",
        source=_SEED,
        shows=(_BYTES,),
    ),
    Rule(
        id="ple-mmap-unbounded",
        severity=Severity.ERROR,
        title=t("mmap cannot bound the PLE cache"),
        what=t("With BACKEND=mmap the kernel's page cache holds what it likes."),
        remedy=t("Use SGLANG_QWEN4_PLE_NVME_BACKEND=io_uring, or remove the budget."),
        when=(
            f"env('{_BACKEND}') == 'mmap' and env('{_MODE}') != 'row'"
            f" and (env_num('{_BYTES}') >= 0 or env_num('{_PAGES}') > 0)"
        ),
        source=_SEED,
        shows=(_BACKEND, _BYTES, _PAGES),
    ),
    Rule(
        id="ple-one-gpu",
        severity=Severity.ERROR,
        title=t("PLE from NVMe runs on one GPU, not with tensor parallelism {tp}"),
        what=t("The fork's reader supports TP 1 only."),
        remedy=t("Set --tp-size 1."),
        when=f"env('{_PATH}') is not None and tp > 1",
        source="seed 002, introduction",
        shows=("--tp-size", _PATH),
    ),
    Rule(
        id="ple-variables-upstream",
        severity=Severity.ERROR,
        title=t("No SGLang release reads SGLANG_QWEN4_PLE_NVME_ variables"),
        what=t(
            "Only the fork yhfgyyf/sglang-qwen38-flash-next-sm120 does. Upstream ignores them and "
            "puts the 47.7 GiB table into pinned host memory, or onto the card."
        ),
        remedy=t(
            "Launch with the fork's build, or use upstream's --ple-offload-embedding "
            "--ple-offload-backend pinned."
        ),
        when=f"version_stated and not fork and env('{_PATH}') is not None",
        source="seed 002; environment of the released packages up to 0.5.23",
        shows=(_PATH, _BACKEND),
    ),
    Rule(
        id="ple-needs-the-fork",
        severity=Severity.WARN,
        title=t("These variables need the SM120 fork's build"),
        what=t(
            "SGLANG_QWEN4_PLE_NVME_ variables exist in no release; only "
            "yhfgyyf/sglang-qwen38-flash-next-sm120 reads them."
        ),
        remedy=t("Make sure that this Python has the fork, built from source at 2b56a39e70."),
        when=f"not version_stated and not fork and env('{_PATH}') is not None",
        source="seed 002",
        shows=(_PATH, _BACKEND),
    ),
    Rule(
        id="ple-fork-wheel-old",
        severity=Severity.WARN,
        title=t("The fork's wheel v0.1.0 predates its optimizations"),
        what=t(
            "The GDN, PLE and QSA commits (7df4aea02b, b2f0b02763, 2b56a39e70) came after it; the "
            "published 13,000 to 14,200 tok/s prefill need a source build."
        ),
        remedy=t("Install the fork from source: python -m pip install -e ./python."),
        when=f"env('{_PATH}') is not None",
        source="seed 002, installation",
        since="0.1.0",
        until="0.1.0",
        shows=(_PATH,),
    ),
    Rule(
        id="ple-fork-card",
        severity=Severity.WARN,
        title=t("The fork was made for and tried on SM120 only"),
        what=t("Its sparse-decode and FP4 paths are for the RTX PRO 6000 (96 GB)."),
        remedy=t("Use upstream SGLang 0.5.20 or newer on this card."),
        when=f"env('{_PATH}') is not None and card != 120 and card > 0",
        source="seed 002, introduction",
        shows=(_PATH,),
    ),
    Rule(
        id="ple-file-backend",
        severity=Severity.WARN,
        title=t("The file backend of the PLE table needs unified memory (GB10)"),
        what=t(
            "The GPU must read host pages directly; a discrete card refuses. Put the folder on "
            "local NVMe: the sparse file grows to 47.7 GiB."
        ),
        remedy=t("On a discrete card use --ple-offload-backend pinned (47.7 GiB of host memory)."),
        when="val('--ple-offload-backend') == 'file' and not discrete and not unified",
        source="flag help and offload source 0.5.20-0.5.23",
        since="0.5.20",
        shows=("--ple-offload-backend", "--ple-offload-dir"),
    ),
    Rule(
        id="ple-file-discrete",
        severity=Severity.ERROR,
        title=t("The file backend of the PLE table does not work on a discrete card"),
        what=t("It needs cudaDevAttrPageableMemoryAccessUsesHostPageTables, as a GB10 has it."),
        remedy=t("Use --ple-offload-backend pinned (47.7 GiB of host memory)."),
        when="val('--ple-offload-backend') == 'file' and discrete",
        source="flag help and offload source 0.5.20-0.5.23",
        since="0.5.20",
        shows=("--ple-offload-backend",),
    ),
    Rule(
        id="ple-file-without-offload",
        severity=Severity.ERROR,
        title=t("--ple-offload-backend file needs the table to be offloaded"),
        what=t("`--ple-offload-backend file requires --ple-offload-embedding` stops the engine."),
        remedy=t("Remove --no-ple-offload-embedding."),
        when="val('--ple-offload-backend') == 'file' and taken_back('--ple-offload-embedding')",
        source="argument resolution source 0.5.20-0.5.23",
        since="0.5.20",
        shows=("--ple-offload-backend", "--ple-offload-embedding"),
    ),
    Rule(
        id="ple-offload-twice",
        severity=Severity.ERROR,
        title=t("PLE offload does not go with generic CPU offload"),
        what=t("`--ple-offload-embedding cannot be combined with --cpu-offload-gb`."),
        remedy=t("Remove --cpu-offload-gb and --offload-group-size."),
        when=(
            "has('--ple-offload-embedding')"
            " and (num('--cpu-offload-gb') > 0 or num('--offload-group-size') > 0)"
        ),
        source="argument resolution source 0.5.20-0.5.23",
        since="0.5.20",
        shows=("--ple-offload-embedding", "--cpu-offload-gb", "--offload-group-size"),
    ),
)
