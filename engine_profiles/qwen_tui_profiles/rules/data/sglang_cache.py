"""Caches on the host, page sizes, prefill chunks."""

from __future__ import annotations

from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.rules.rule import Rule
from qwen_tui_profiles.text import t

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (
    Rule(
        id="hicache-no-hybrid",
        severity=Severity.ERROR,
        title=t("The hierarchical cache does not know hybrid models in this release"),
        what=t("It crashes: `'HybridLinearKVPool' object has no attribute 'layer_num'`."),
        remedy=t("Remove --enable-hierarchical-cache."),
        when="has('--enable-hierarchical-cache') and hybrid",
        source="seed 000, measured and rejected; cache source 0.5.9, 0.5.10",
        until="0.5.9",
        shows=("--enable-hierarchical-cache",),
    ),
    Rule(
        id="hicache-hybrid",
        severity=Severity.WARN,
        title=t("The hierarchical cache on a hybrid model is a known source of trouble"),
        what=t(
            "It boots (recorded with 0.5.17), but: a prefix restored from host memory gave wrong, "
            "fluent answers 20 times out of 20 (#39830, 0.5.20 development); on 0.5.19 the host "
            "tier was never read back (#33713); pending write-throughs lock state slots until "
            "`Can not alloc mamba cache` ends the server (#34676, seed 004 §8); --hicache-size is "
            "allocated twice, for KV and for states (#29034); seed 000 saw it crash."
        ),
        remedy=t("Remove --enable-hierarchical-cache until #39830 is closed."),
        when="has('--enable-hierarchical-cache') and hybrid and radix",
        source="sgl-project/sglang #39830, #33713, #34676, #29034; seed 000; seed 004 §8",
        since="0.5.10",
        shows=("--enable-hierarchical-cache", "--hicache-size", "--hicache-write-policy"),
    ),
    Rule(
        id="hicache-without-radix",
        severity=Severity.ERROR,
        title=t("The hierarchical cache needs the radix cache"),
        what=t("`enable-hierarchical-cache and disable-radix-cache are mutually exclusive`."),
        remedy=t("Remove one of the two."),
        when="has('--enable-hierarchical-cache') and not radix",
        source="argument resolution source 0.5.6-0.5.23",
        shows=("--enable-hierarchical-cache", "--disable-radix-cache"),
    ),
    Rule(
        id="radix-off",
        severity=Severity.WARN,
        title=t("Without the radix cache every turn computes the whole prompt again"),
        what=t("A stable 50K prefix took 0.43 s to the first token when cached, 5.54 s when not."),
        remedy=t("Remove --disable-radix-cache unless you benchmark uncached prefill."),
        when="not radix and not has('--enable-hierarchical-cache')",
        source="seed 000, prompt field order",
        shows=("--disable-radix-cache",),
    ),
    Rule(
        id="page-qsa",
        severity=Severity.WARN,
        title=t("The page size of {page} becomes 64"),
        what=t("Flash-Next's compressed sparse attention sets 64 whatever is asked."),
        remedy=t("Set --page-size 64, or leave it out."),
        when="page is not None and page != 64",
        source="argument resolution source 0.5.20-0.5.23 (QSA)",
        since="0.5.20",
        models=("flash_next",),
        shows=("--page-size",),
    ),
    Rule(
        id="page-trtllm",
        severity=Severity.WARN,
        title=t("The page size of {page} becomes 64 with trtllm_mha"),
        what=t("That backend knows pages of 16, 32 and 64 tokens (128 in newer releases)."),
        remedy=t("Set --page-size 64."),
        when=(
            "val('--attention-backend') == 'trtllm_mha' and page is not None"
            " and page not in (16, 32, 64, 128)"
        ),
        source="argument resolution source 0.5.6-0.5.23",
        shows=("--page-size", "--attention-backend"),
    ),
    Rule(
        id="page-fa4",
        severity=Severity.WARN,
        title=t("The page size of {page} becomes 128 with fa4"),
        what=t("That backend knows pages of 128 tokens only."),
        remedy=t("Set --page-size 128."),
        when="val('--attention-backend') == 'fa4' and page is not None and page != 128",
        source="argument resolution source 0.5.6-0.5.23",
        shows=("--page-size", "--attention-backend"),
    ),
    Rule(
        id="chunk-page",
        severity=Severity.ERROR,
        title=t("Prefill chunks of {chunk} are no multiple of page size {page}"),
        what=t("`chunked_prefill_size must be divisible by page_size` stops the engine."),
        remedy=t("Choose a multiple of {page}."),
        when="chunk > 0 and page > 1 and chunk % page != 0",
        source="argument resolution source 0.5.6-0.5.23",
        shows=("--chunked-prefill-size", "--page-size"),
    ),
    Rule(
        id="unified-memory-flash",
        severity=Severity.ERROR,
        title=t("Flash-Next does not support --enable-unified-memory"),
        what=t("`Qwen4-Exp does not support --enable-unified-memory yet` stops the engine."),
        remedy=t("Remove the flag."),
        when="has('--enable-unified-memory')",
        source="argument resolution source 0.5.20-0.5.23",
        since="0.5.20",
        models=("flash_next",),
        shows=("--enable-unified-memory",),
    ),
    Rule(
        id="config-with-equals",
        severity=Severity.WARN,
        title=t("--config=FILE is read by nobody"),
        what=t("The file is merged only when --config and the file are two separate words."),
        remedy=t("Write --config FILE.yaml with a blank."),
        when="config_glued",
        source="argument merging source 0.5.6-0.5.23",
        shows=("--config",),
    ),
    Rule(
        id="hicache-backend-switched",
        severity=Severity.INFO,
        title=t("The page_first_direct layout switches the host cache to the direct backend"),
        what=t("The kernel backend cannot read that layout; the engine warns and goes on."),
        remedy=t("Set --hicache-io-backend direct, or another layout."),
        when=(
            "has('--enable-hierarchical-cache') and val('--hicache-io-backend') == 'kernel'"
            " and val('--hicache-mem-layout') == 'page_first_direct'"
        ),
        source="argument resolution source 0.5.6-0.5.23",
        shows=("--hicache-io-backend", "--hicache-mem-layout"),
    ),
    Rule(
        id="hicache-layout-switched",
        severity=Severity.INFO,
        title=t("The direct backend switches the host cache to the page_first_direct layout"),
        what=t("It cannot read page_first; the engine warns and goes on."),
        remedy=t("Set --hicache-mem-layout page_first_direct."),
        when=(
            "has('--enable-hierarchical-cache') and val('--hicache-io-backend') == 'direct'"
            " and val('--hicache-mem-layout') == 'page_first'"
        ),
        source="argument resolution source 0.5.6-0.5.23",
        shows=("--hicache-io-backend", "--hicache-mem-layout"),
    ),
)
