"""State slots of hybrid (GDN) models: how many, how they are kept, what refuses to start."""

from __future__ import annotations

from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.rules.rule import Rule
from qwen_tui_profiles.text import t

__all__ = ["RULES"]

_SLOTS = ("--max-running-requests", "--max-mamba-cache-size")
_STRATEGY = ("--mamba-radix-cache-strategy", "--mamba-scheduler-strategy")
_REFUSED = t("An assertion stops the engine while it resolves its arguments.")

RULES: tuple[Rule, ...] = (
    Rule(
        id="slots-below-requests",
        severity=Severity.WARN,
        title=t("{requests} requests asked, {served} will run: {slots} slots, {per_request} each"),
        what=t(
            "The engine lowers --max-running-requests to slots / slots per request, without a "
            "clear message before 0.5.17. Seed 000 asked 4 and got 2 with 8 slots. Its rule of "
            "eight slots a request is generous: admission counts {per_request}; what is above "
            "keeps prefixes cached."
        ),
        remedy=t(
            "For {requests} requests set --max-mamba-cache-size {slots_needed} or more (each bf16 "
            "slot of the 27B costs about 2,400 tokens of context, an fp32 one 4,700; "
            "--mamba-ssm-dtype bfloat16 halves it), or ask for {served}."
        ),
        when="hybrid and requests is not None and served >= 1 and served < requests",
        source="seed 000, first trap; seed 004 §6; recorded boot cg27-lazy-5-1-6, 0.5.17",
        since="0.5.7",
        shows=_SLOTS,
    ),
    Rule(
        id="slots-serve-none",
        severity=Severity.ERROR,
        title=t("{slots} state slots serve no request: one needs {per_request}"),
        what=t("The engine stops: `state cache is too small to serve any requests`."),
        remedy=t("Set --max-mamba-cache-size {per_request} at the very least, better twice that."),
        when="hybrid and served == 0",
        source="pool sizing source 0.5.13-0.5.23; recorded boot b27-notenough, 0.5.17",
        since="0.5.13",
        shows=_SLOTS,
    ),
    Rule(
        id="slots-no-margin",
        severity=Severity.WARN,
        title=t("{slots} state slots for {requests} requests leave none to spare"),
        what=t(
            "A chunk boundary can need one slot more than {per_request} a request. When there is "
            "none, `Can not alloc mamba cache` ends the scheduler. Prefixes are cached in spare "
            "slots only, so long prompts are also computed again."
        ),
        remedy=t("Set --max-mamba-cache-size {slots_needed} or more, or one request less."),
        when=(
            "hybrid and radix and per_request > 1 and requests is not None"
            " and served == requests and slots < per_request * requests + 1"
        ),
        source="sgl-project/sglang #37066, PRs #36770 #37943; seed 004 §8",
        since="0.5.7",
        shows=_SLOTS,
    ),
    Rule(
        id="slots-surplus",
        severity=Severity.WARN,
        title=t("{slots} state slots are far more than {requests} requests need"),
        what=t(
            "Every slot is taken from the KV pool: seed 000's context fell to 12,288 tokens with "
            "24 slots, and with 32 the server hung without a word."
        ),
        remedy=t("8 slots a request are plenty; try 8 for one request, 16 for two."),
        when=(
            "hybrid and speculative and slots >= 24 and requests is not None"
            " and slots >= 6 * per_request * requests and not big_card"
        ),
        source="seed 000, measured and rejected",
        since="0.5.7",
        shows=_SLOTS,
    ),
    Rule(
        id="ratio-high",
        severity=Severity.WARN,
        title=t("A state ratio above 0.9 takes context away"),
        what=t(
            "The ratio is sized for many users. Measured with MTP on a 32 GB card: 0.9 gave 94,112 "
            "tokens, 3.0 gave 48,640, and the playground's 8.26 gave 39,072 (58 percent less)."
        ),
        remedy=t("Remove --mamba-full-memory-ratio, or set --max-mamba-cache-size itself."),
        when=(
            "hybrid and speculative and num('--mamba-full-memory-ratio') > 0.9 and slots is None"
            " and not big_card"
        ),
        source="seed 000, third trap",
        shows=("--mamba-full-memory-ratio",),
    ),
    Rule(
        id="ratio-inert",
        severity=Severity.INFO,
        title=t("--mamba-full-memory-ratio does nothing beside --max-mamba-cache-size"),
        what=t("An explicit number of slots is taken as it is; the ratio is not looked at."),
        remedy=t("Keep one of the two."),
        when="has('--mamba-full-memory-ratio') and has('--max-mamba-cache-size')",
        source="pool sizing source 0.5.9-0.5.23",
        since="0.5.9",
        shows=("--mamba-full-memory-ratio", "--max-mamba-cache-size"),
    ),
    Rule(
        id="lazy-with-drafts",
        severity=Severity.ERROR,
        title=t("extra_buffer_lazy does not go with speculation in this release"),
        what=t("`extra_buffer_lazy unsupported with spec`: allowed from 0.5.17 on."),
        remedy=t("Use extra_buffer (5 slots a request), or SGLang 0.5.17 or newer."),
        when="hybrid and radix and strategy_asked == 'extra_buffer_lazy' and speculative",
        source="argument resolution source 0.5.13-0.5.16",
        since="0.5.13",
        until="0.5.16",
        shows=(*_STRATEGY, "--speculative-algorithm"),
    ),
    Rule(
        id="lazy-with-dflash",
        severity=Severity.ERROR,
        title=t("extra_buffer_lazy does not go with DFLASH in 0.5.17"),
        what=t("`extra_buffer_lazy unsupported with DFLASH`: allowed from 0.5.18 on."),
        remedy=t("Use extra_buffer, or SGLang 0.5.18 or newer."),
        when="hybrid and radix and strategy_asked == 'extra_buffer_lazy' and algorithm == 'DFLASH'",
        source="argument resolution source 0.5.17, 0.5.18",
        since="0.5.17",
        until="0.5.17",
        shows=(*_STRATEGY, "--speculative-algorithm"),
    ),
    Rule(
        id="lazy-without-overlap",
        severity=Severity.ERROR,
        title=t("extra_buffer_lazy needs the overlap schedule"),
        what=t("An assertion stops the engine when it builds the state pool, after the weights."),
        remedy=t("Remove --disable-overlap-schedule, or use extra_buffer."),
        when="hybrid and radix and strategy_asked == 'extra_buffer_lazy' and not overlap",
        source="pool source 0.5.13-0.5.23",
        since="0.5.13",
        shows=(*_STRATEGY, "--disable-overlap-schedule"),
    ),
    Rule(
        id="no-buffer-with-drafts",
        severity=Severity.ERROR,
        title=t("Speculation with a radix cache needs extra_buffer in this release"),
        what=t(
            "0.5.10 to 0.5.13 take no_buffer unless told otherwise and then refuse: `Speculative "
            "decoding … is not compatible with radix cache`."
        ),
        remedy=t(
            "Add --mamba-scheduler-strategy extra_buffer (and SGLANG_ENABLE_SPEC_V2=1 up to "
            "0.5.10), or use 0.5.14 or newer."
        ),
        when="hybrid and radix and speculative and strategy == 'no_buffer'",
        source="argument resolution source 0.5.10-0.5.13; QwenLM/Qwen3.8 #108",
        since="0.5.10",
        until="0.5.13",
        shows=(*_STRATEGY, "--speculative-algorithm"),
    ),
    Rule(
        id="no-buffer-drops-radix",
        severity=Severity.WARN,
        title=t("Speculation without extra_buffer switches prefix caching off in this release"),
        what=t("0.5.7 to 0.5.9 disable the radix cache: every turn computes the whole prompt."),
        remedy=t("Add --mamba-scheduler-strategy extra_buffer, or use 0.5.14 or newer."),
        when="hybrid and radix and speculative and strategy == 'no_buffer'",
        source="argument resolution source 0.5.9",
        since="0.5.7",
        until="0.5.9",
        shows=(*_STRATEGY, "--speculative-algorithm"),
    ),
    Rule(
        id="no-buffer-overlap",
        severity=Severity.ERROR,
        title=t("no_buffer needs --disable-overlap-schedule"),
        what=t("`no_buffer do not support overlap schedule` stops the engine."),
        remedy=t("Use --mamba-radix-cache-strategy auto or extra_buffer."),
        when="hybrid and radix and strategy_asked == 'no_buffer' and overlap",
        source="argument resolution source 0.5.14-0.5.23",
        since="0.5.14",
        shows=_STRATEGY,
    ),
    Rule(
        id="no-buffer-overlap-lost",
        severity=Severity.INFO,
        title=t("no_buffer switches the overlap schedule off"),
        what=t("The engine says so in one line and goes on, a little slower."),
        remedy=t("Use --mamba-scheduler-strategy extra_buffer to keep it."),
        when=(
            "hybrid and radix and not speculative and strategy_asked == 'no_buffer'"
            " and not has('--disable-overlap-schedule')"
        ),
        source="argument resolution source 0.5.7-0.5.13",
        since="0.5.7",
        until="0.5.13",
        shows=_STRATEGY,
    ),
    Rule(
        id="no-buffer-page",
        severity=Severity.ERROR,
        title=t("no_buffer works with a page size of 1 only, not {page}"),
        what=_REFUSED,
        remedy=t("Set --page-size 1, or use extra_buffer."),
        when=(
            "hybrid and radix and strategy_asked == 'no_buffer' and page is not None and page != 1"
        ),
        source="argument resolution source 0.5.14-0.5.23",
        since="0.5.14",
        shows=(*_STRATEGY, "--page-size"),
    ),
    Rule(
        id="no-buffer-page-reset",
        severity=Severity.WARN,
        title=t("The page size of {page} becomes 1"),
        what=t("no_buffer, the default of this release, works with pages of one token only."),
        remedy=t("Add --mamba-scheduler-strategy extra_buffer to keep the page size."),
        when=(
            "hybrid and radix and strategy == 'no_buffer' and page is not None and page != 1"
            " and not speculative"
        ),
        source="argument resolution source 0.5.11-0.5.13",
        since="0.5.11",
        until="0.5.13",
        shows=(*_STRATEGY, "--page-size"),
    ),
    Rule(
        id="no-buffer-trtllm",
        severity=Severity.ERROR,
        title=t("no_buffer does not go with the trtllm_mha backend"),
        what=_REFUSED,
        remedy=t("Use extra_buffer, or another attention backend."),
        when=(
            "hybrid and radix and strategy_asked == 'no_buffer'"
            " and val('--attention-backend') == 'trtllm_mha'"
        ),
        source="argument resolution source 0.5.14-0.5.23",
        since="0.5.14",
        shows=(*_STRATEGY, "--attention-backend"),
    ),
    Rule(
        id="auto-becomes-no-buffer",
        severity=Severity.WARN,
        title=t("These flags make the state strategy fall back to no_buffer"),
        what=t(
            "Without the overlap schedule, or with another linear-attention backend than triton, "
            "auto becomes no_buffer and the overlap schedule goes off: users report prefix hits "
            "up to 17.8 times slower."
        ),
        remedy=t("Remove --disable-overlap-schedule and --linear-attn-backend."),
        when=(
            "hybrid and radix and strategy_asked in (None, 'auto') and strategy == 'no_buffer'"
            " and (not overlap or has('--linear-attn-backend'))"
        ),
        source="argument resolution source 0.5.14-0.5.23; sgl-project/sglang #27220, #37834",
        since="0.5.14",
        shows=("--disable-overlap-schedule", "--linear-attn-backend"),
    ),
    Rule(
        id="extra-buffer-backend",
        severity=Severity.ERROR,
        title=t("extra_buffer needs the triton linear-attention backend"),
        what=t("`extra_buffer is not supported for …; use no_buffer` stops the engine."),
        remedy=t("Remove --linear-attn-backend."),
        when=(
            "hybrid and radix and strategy_asked in ('extra_buffer', 'extra_buffer_lazy')"
            " and has('--linear-attn-backend') and val('--linear-attn-backend') != 'triton'"
        ),
        source="argument resolution source 0.5.14-0.5.23",
        since="0.5.14",
        shows=(*_STRATEGY, "--linear-attn-backend"),
    ),
    Rule(
        id="extra-buffer-without-radix",
        severity=Severity.ERROR,
        title=t("extra_buffer does not go with --disable-radix-cache"),
        what=t("`mamba extra_buffer is not compatible with --disable-radix-cache`."),
        remedy=t("Remove one of the two."),
        when=("hybrid and not radix and strategy_asked in ('extra_buffer', 'extra_buffer_lazy')"),
        source="argument resolution source 0.5.10-0.5.13; PR #19169",
        since="0.5.10",
        until="0.5.13",
        shows=(*_STRATEGY, "--disable-radix-cache"),
    ),
    Rule(
        id="track-interval-drafts",
        severity=Severity.ERROR,
        title=t("--mamba-track-interval {track_interval} is below the {drafts} draft tokens"),
        what=_REFUSED,
        remedy=t("Remove --mamba-track-interval (256), or set {drafts} or more."),
        when="hybrid and extra_buffer and speculative and track_interval < drafts",
        source="argument resolution source 0.5.9-0.5.23",
        since="0.5.7",
        shows=("--mamba-track-interval", "--speculative-num-draft-tokens"),
    ),
    Rule(
        id="track-interval-page",
        severity=Severity.ERROR,
        title=t("--mamba-track-interval {track_interval} is no multiple of page size {page}"),
        what=_REFUSED,
        remedy=t("Choose a multiple of the page size, or remove the flag (256)."),
        when=(
            "hybrid and extra_buffer and page > 1 and track_interval > 0"
            " and track_interval % page != 0"
        ),
        source="argument resolution source 0.5.9-0.5.23",
        since="0.5.7",
        shows=("--mamba-track-interval", "--page-size"),
    ),
    Rule(
        id="page-no-divisor-of-track",
        severity=Severity.ERROR,
        title=t("Page size {page} does not divide the default track interval of 256"),
        what=_REFUSED,
        remedy=t("Use a page size of 1, 16, 32, 64 or 128, or set --mamba-track-interval."),
        when="hybrid and extra_buffer and page > 1 and track_interval is None and 256 % page != 0",
        source="argument resolution source 0.5.9-0.5.23",
        since="0.5.7",
        shows=("--page-size",),
    ),
    Rule(
        id="track-interval-64",
        severity=Severity.INFO,
        title=t("--mamba-track-interval 64 changed nothing measurable"),
        what=t("Tried on the 27B with MTP; the default is 256."),
        remedy=t("Remove the flag."),
        when="track_interval == 64 and kind == 'qwen3_5'",
        source="seed 000, measured and rejected",
        shows=("--mamba-track-interval",),
    ),
    Rule(
        id="int8-state-checkpoint",
        severity=Severity.WARN,
        title=t("--enable-int8-mamba-checkpoint cost 20 percent of the KV pool and won nothing"),
        what=t("Measured on a 32 GB card with MTP."),
        remedy=t("Remove the flag."),
        when="has('--enable-int8-mamba-checkpoint') and not has('--enable-hierarchical-cache')",
        source="seed 000, measured and rejected",
        since="0.5.14",
        shows=("--enable-int8-mamba-checkpoint",),
    ),
    Rule(
        id="int8-state-with-hicache",
        severity=Severity.ERROR,
        title=t("int8 state checkpoints do not go with the hierarchical cache"),
        what=t("The engine refuses: the path to host memory cannot read int8 slots."),
        remedy=t("Remove both; neither helped in seed 000."),
        when="has('--enable-int8-mamba-checkpoint') and has('--enable-hierarchical-cache')",
        source="argument resolution source 0.5.14-0.5.23",
        since="0.5.14",
        shows=("--enable-int8-mamba-checkpoint", "--enable-hierarchical-cache"),
    ),
    Rule(
        id="chunk-below-checkpoint",
        severity=Severity.WARN,
        title=t("Prefill chunks of {chunk} are too short for state checkpoints"),
        what=t(
            "Chunks below 64 tokens (or one page) skip the checkpoint that prefix caching needs; "
            "the engine warns and goes on."
        ),
        remedy=t("Set --chunked-prefill-size 2048."),
        when="hybrid and extra_buffer and 0 < chunk and (chunk < 64 or chunk < page)",
        source="argument resolution source 0.5.17-0.5.23",
        since="0.5.17",
        shows=("--chunked-prefill-size", "--page-size"),
    ),
    Rule(
        id="flashinfer-decode-no-buffer",
        severity=Severity.ERROR,
        title=t("FlashInfer's linear decode does not go with no_buffer in this release"),
        what=t("A ValueError stops the engine; no_buffer is the default up to 0.5.13 (#20791)."),
        remedy=t("Add --mamba-scheduler-strategy extra_buffer."),
        when=(
            "hybrid and val('--linear-attn-decode-backend') == 'flashinfer'"
            " and strategy == 'no_buffer'"
        ),
        source="argument resolution source 0.5.10-0.5.13; sgl-project/sglang #20791",
        since="0.5.10",
        until="0.5.13",
        shows=("--linear-attn-decode-backend", *_STRATEGY),
    ),
    Rule(
        id="replayssm-dtype",
        severity=Severity.WARN,
        title=t("Narrow states may drift with --enable-linear-replayssm-spec"),
        what=t(
            "The committed state is rounded again at every commit; only float32 stays exact over "
            "long sequences. The engine warns and goes on."
        ),
        remedy=t("Remove --mamba-ssm-dtype (float32 is chosen then), or check long answers."),
        when=(
            "has('--enable-linear-replayssm-spec')"
            " and val('--mamba-ssm-dtype') not in (None, 'float32')"
        ),
        source="argument resolution source 0.5.17-0.5.23",
        since="0.5.17",
        shows=("--enable-linear-replayssm-spec", "--mamba-ssm-dtype"),
    ),
)
