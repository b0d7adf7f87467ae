"""Qwen3.8-Flash-Next on vLLM: the DGX image of seed 003 and the released classes."""

from __future__ import annotations

from functools import partial

from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.profile import EngineKind
from qwen_tui_profiles.rules.rule import Rule
from qwen_tui_profiles.text import t

__all__ = ["RULES"]

_flash = partial(Rule, engine=EngineKind.VLLM, models=("flash_next",), checked="0.33.0")
_MMAP = "env('VLLM_PLE_MMAP') in ('1', 'true', 'True')"

RULES: tuple[Rule, ...] = (
    _flash(
        id="vllm-ple-offload-hangs",
        severity=Severity.ERROR,
        title=t("VLLM_PLE_CPU_OFFLOAD=1 hangs in this image"),
        what=t(
            "It registers an offload layer and spins a core without disk traffic: the worker that "
            "it waits for is not launched. Only VLLM_PLE_MMAP works there."
        ),
        remedy=t("Remove VLLM_PLE_CPU_OFFLOAD and set VLLM_PLE_MMAP=1."),
        when=(f"env('VLLM_PLE_CPU_OFFLOAD') in ('1', 'true', 'True') and ({_MMAP} or flash_image)"),
        source="seed 003, known issues",
        shows=("VLLM_PLE_CPU_OFFLOAD", "VLLM_PLE_MMAP"),
    ),
    _flash(
        id="vllm-ple-offload-unknown",
        severity=Severity.WARN,
        title=t("VLLM_PLE_CPU_OFFLOAD is read by 0.30.0 only"),
        what=t("Other releases print `Unknown vLLM environment variable` and go on."),
        remedy=t("Use --engram-config '{{\"cpu_offload\": true}}' (0.30.0 on, the default)."),
        when=f"env('VLLM_PLE_CPU_OFFLOAD') is not None and not {_MMAP} and not flash_image"
        " and not release('0.30')",
        source="environment source 0.29.0-0.33.0",
        shows=("VLLM_PLE_CPU_OFFLOAD",),
    ),
    _flash(
        id="vllm-ple-mmap-upstream",
        severity=Severity.ERROR,
        title=t("No vLLM release reads VLLM_PLE_MMAP"),
        what=t(
            "Only the image built from blazux/qwen3.8-Flash-DGX serves the table from disk. A "
            "release keeps it in pinned host memory (about 51 GB)."
        ),
        remedy=t("Launch that image, or give the host the memory."),
        when=f"version_stated and not fork and not flash_image and {_MMAP}",
        source="seed 003, install; environment source 0.29.0-0.33.0",
        shows=("VLLM_PLE_MMAP",),
    ),
    _flash(
        id="vllm-full-graphs",
        severity=Severity.ERROR,
        title=t("The n-gram gather must stay outside CUDA graphs: capture PIECEWISE"),
        what=t(
            "The image declares the gather as a splitting op; a FULL capture mode (the default "
            "FULL_AND_PIECEWISE too) would put it inside."
        ),
        remedy=t("Add -cc.cudagraph_mode=PIECEWISE and the image's splitting ops."),
        when=(
            f"({_MMAP} or flash_image) and not has('--enforce-eager')"
            " and graph_mode not in ('PIECEWISE', 'NONE')"
        ),
        source="seed 003, known issues",
        shows=("--compilation-config", "VLLM_PLE_MMAP"),
    ),
    _flash(
        id="vllm-prefix-cache-image",
        severity=Severity.INFO,
        title=t("Prefix caching is right only in images built from 8347e7c on"),
        what=t(
            "Older images restore a zero state at block borders. The fix is of 2026-08-29; the "
            "serve script prints the commit that the image was built from."
        ),
        remedy=t("Check the commit, or add --no-enable-prefix-caching."),
        when=f"({_MMAP} or flash_image) and prefix_caching is not False",
        source="seed 003, prefix caching",
        shows=("--enable-prefix-caching",),
    ),
    _flash(
        id="vllm-mtp-above-three",
        severity=Severity.WARN,
        title=t("{draft_count} draft tokens are more than this mixture of experts can use"),
        what=t(
            "Verifying k tokens touches the union of their experts; above 3 it gets slower, and "
            "under load speculation stops paying."
        ),
        remedy=t("Set num_speculative_tokens to 2 or 3."),
        when="draft_count > 3",
        source="seed 003, why it behaves this way",
        shows=("--speculative-config", "--spec-tokens"),
    ),
    _flash(
        id="vllm-sequences-low",
        severity=Severity.WARN,
        title=t("{sequences} sequences make callers queue"),
        what=t(
            "Eight callers with 2K prompts waited 150.8 s for a first token at 2, and 2.4 s at 64; "
            "with one caller the two are the same."
        ),
        remedy=t("Set --max-num-seqs 16."),
        when="sequences <= 2",
        source="seed 003, how many at once",
        shows=("--max-num-seqs",),
    ),
    _flash(
        id="vllm-sequences-high",
        severity=Severity.INFO,
        title=t("Above 16 sequences the first token comes late"),
        what=t(
            "Under 2.7 s up to 16 at once, 16 s at 32, 70 s at 64, for 35 percent more throughput. "
            "Good for batch work only."
        ),
        remedy=t("Set --max-num-seqs 16 unless nobody waits for a first token."),
        when="sequences > 16",
        source="seed 003, how many at once",
        shows=("--max-num-seqs",),
    ),
    _flash(
        id="vllm-flash-memory-low",
        severity=Severity.INFO,
        title=t("A memory share of {utilization} leaves little KV on a 128 GB box"),
        what=t("0.78 left 10.82 GiB, 0.85 gave 18.13 GiB (641,601 tokens at 262,144)."),
        remedy=t("Set --gpu-memory-utilization 0.85."),
        when=f"utilization < 0.80 and ({_MMAP} or flash_image)",
        source="seed 003, settings",
        shows=("--gpu-memory-utilization",),
    ),
    _flash(
        id="vllm-flash-memory-high",
        severity=Severity.WARN,
        title=t("A memory share of {utilization} starves the page cache on a unified-memory box"),
        what=t(
            "The table is read through the page cache. 0.85 drifted into swap after a day, 0.875 "
            "was killed during a 300K prefill."
        ),
        remedy=t("Stay at 0.85 or below."),
        when=f"utilization > 0.85 and ({_MMAP} or flash_image)",
        source="blazux/qwen3.8-Flash-DGX scripts/serve.sh; seed 003, settings",
        shows=("--gpu-memory-utilization",),
    ),
    _flash(
        id="vllm-flash-compile",
        severity=Severity.WARN,
        title=t("Full compilation fails on SM121 with this model"),
        what=t("An Inductor assertion on int64 indexing; the recipe keeps it off."),
        remedy=t("Remove the compilation level."),
        when=f"compile_level in ('3', 'VLLM_COMPILE') and ({_MMAP} or flash_image)",
        source="seed 003, known issues",
        cards=(121,),
        shows=("--optimization-level", "--compilation-config"),
    ),
    _flash(
        id="vllm-flash-fp8-cache",
        severity=Severity.ERROR,
        title=t("Flash-Next keeps its KV in bfloat16 in this release"),
        what=t("fp8 came with 0.31; 0.29.0 refuses it."),
        remedy=t("Set --kv-cache-dtype auto, or use 0.31 or newer."),
        when="val('--kv-cache-dtype') in ('fp8', 'fp8_e4m3', 'fp8_e5m2') and not needs_fork",
        source="model source 0.29.0, 0.31.0",
        since="0.29",
        until="0.29",
        shows=("--kv-cache-dtype",),
    ),
    _flash(
        id="vllm-flash-pipeline",
        severity=Severity.ERROR,
        title=t("Flash-Next does not run pipeline-parallel"),
        what=t("The class needs one pipeline stage."),
        remedy=t("Use --tensor-parallel-size instead."),
        when="num('--pipeline-parallel-size') > 1",
        source="model source 0.29.0-0.33.0",
        since="0.29",
        shows=("--pipeline-parallel-size",),
    ),
    _flash(
        id="vllm-flash-method",
        severity=Severity.ERROR,
        title=t("Flash-Next drafts with mtp or n-grams only, not with {method}"),
        what=t("The engine refuses other methods for this class."),
        remedy=t('Use {{"method": "mtp", "num_speculative_tokens": 2}}.'),
        when="method is not None and method not in ('mtp', 'ngram', 'ngram_gpu', 'qwen4_exp_mtp')",
        source="model source 0.29.0-0.33.0",
        since="0.29",
        shows=("--speculative-config", "--spec-method"),
    ),
    _flash(
        id="vllm-flash-slow-start",
        severity=Severity.INFO,
        title=t("The first start reads about 83 GiB and takes 12 to 15 minutes"),
        what=t("The engine may give up on its core after VLLM_ENGINE_READY_TIMEOUT_S (600 s)."),
        remedy=t("Set VLLM_ENGINE_READY_TIMEOUT_S=1800 for the first start."),
        when="env('VLLM_ENGINE_READY_TIMEOUT_S') is None and entry != 'flags'",
        source="seed 003, install; time-out source 0.17.1-0.33.0 (inferred)",
        since="0.17",
        shows=(),
    ),
    _flash(
        id="vllm-thinking-default",
        severity=Severity.INFO,
        title=t("Thinking is on unless each request turns it off"),
        what=t(
            "86 percent of generated tokens were reasoning; the same prompt took 55.1 s with it "
            "and 15.0 s without."
        ),
        remedy=t(
            "Let clients send chat_template_kwargs with enable_thinking false, or set "
            "--default-chat-template-kwargs."
        ),
        when="not has('--default-chat-template-kwargs') and entry != 'flags'",
        source="seed 003, turn thinking off",
        since="0.14",
        shows=(),
    ),
)
