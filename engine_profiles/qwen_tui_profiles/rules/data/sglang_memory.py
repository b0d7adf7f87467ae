"""Memory: the KV pool, the fraction, what the draft costs, declared limits."""

from __future__ import annotations

from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.rules.rule import Rule
from qwen_tui_profiles.text import t

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (
    Rule(
        id="draft-path-fivefold",
        severity=Severity.ERROR,
        title=t("The draft path makes every token of KV cost five times as much"),
        what=t(
            "SGLang 0.5.14 to 0.5.17 count the one-layer MTP draft of a vision-wrapped Qwen3.5/3.8 "
            "as 64 layers and budget 163,840 bytes a token instead of 32,768 (fp8). The memory is "
            "never used: seed 004 got 14,161 tokens with 4.17 GB free; a recorded boot got 179,636 "
            "instead of 898,183."
        ),
        remedy=t(
            "Remove --speculative-draft-model-path: the MTP head loads from the model's own "
            "folder. Or use SGLang 0.5.18 or newer."
        ),
        when="wrapped and mtp and has('--speculative-draft-model-path')",
        source="seed 004 §5; recorded boots on an H200, 0.5.17; kv budget source 0.5.14-0.5.17",
        since="0.5.14",
        until="0.5.17",
        models=("qwen3_5", "qwen3_5_moe"),
        shows=("--speculative-draft-model-path",),
    ),
    Rule(
        id="no-mtp-no-workspace",
        severity=Severity.ERROR,
        title=t("Without MTP a fraction of {fraction} leaves no workspace"),
        what=t(
            "The server boots and answers /v1/models, and the first request dies with "
            "`Triton Error [CUDA]: out of memory`. With MTP the same fraction works only because "
            "the draft's 4.7 GiB of embedding and head come back after the pool is sized."
        ),
        remedy=t("Set --mem-fraction-static 0.90 (272,800 tokens on the seed's card)."),
        when="hybrid and not speculative and fraction >= 0.95 and not big_card",
        source="seed 000, with and without MTP",
        shows=("--mem-fraction-static",),
    ),
    Rule(
        id="no-mtp-head-room",
        severity=Severity.WARN,
        title=t("Without MTP a fraction of {fraction} is above the 0.90 that was found safe"),
        what=t(
            "Nothing is freed after the pool is sized, so graphs, activations and kernels have "
            "only what the fraction leaves. 0.97 died at the first request; 0.92 ran on another "
            "card with 17.7 GB of weights."
        ),
        remedy=t("Set --mem-fraction-static 0.90, or try the longest prompt before relying on it."),
        when="hybrid and not speculative and 0.90 < fraction < 0.95 and not big_card",
        source="seed 000, with and without MTP; seed 004 §9",
        shows=("--mem-fraction-static",),
    ),
    Rule(
        id="fraction-impossible",
        severity=Severity.ERROR,
        title=t("A memory fraction of {fraction} is not possible"),
        what=t("The fraction is a share of GPU memory; it must lie between 0 and 1."),
        remedy=t("Write 0.92 for 92 percent."),
        when="fraction <= 0 or fraction >= 1",
        source="the flag's meaning",
        shows=("--mem-fraction-static",),
    ),
    Rule(
        id="count-impossible",
        severity=Severity.ERROR,
        title=t("A count below 1 cannot be served"),
        what=t(
            "The engine takes the number and fails after the load: no request, no token or no slot "
            "can be had of it."
        ),
        remedy=t("Write a positive number, or take the flag away for the engine's own choice."),
        when=(
            "num('--max-running-requests') < 1 or num('--max-mamba-cache-size') < 1 or "
            "num('--max-total-tokens') < 1 or num('--page-size') < 1 or num('--tp-size') < 1 or "
            "num('--context-length') < 0"
        ),
        source="resolve_max_num_reqs, _handle_max_mamba_cache and the pool sizes of 0.5.17-0.5.23",
        shows=(
            "--max-running-requests",
            "--max-mamba-cache-size",
            "--max-total-tokens",
            "--page-size",
            "--tp-size",
            "--context-length",
        ),
    ),
    Rule(
        id="tight-fraction",
        severity=Severity.INFO,
        title=t("At a fraction of {fraction} there is no room for one more feature"),
        what=t(
            "Three out-of-memory failures came from adding a feature at 0.97. The draft's own KV "
            "layer (2,048 bytes a token at fp8) is not budgeted either and comes out of the rest."
        ),
        remedy=t(
            "Go to 0.93 before trying a new flag, and compare with a baseline at 0.93: the "
            "fraction alone costs 30 percent at 63K."
        ),
        when="fraction >= 0.97 and fraction < 1 and speculative",
        source="seed 000, measurement protocol; sgl-project/sglang PR #35566",
        shows=("--mem-fraction-static",),
    ),
    Rule(
        id="outside-static-pool",
        severity=Severity.WARN,
        title=t("A feature that allocates outside the pool, at a fraction of {fraction}"),
        what=t(
            "Each tokenizer worker took about 890 MB of GPU memory in seed 000, and N-gram "
            "drafting allocates beside the static pool; both ended out of memory at 0.97."
        ),
        remedy=t("Leave it out, or go down to --mem-fraction-static 0.93 and measure."),
        when="fraction >= 0.95 and num('--tokenizer-worker-num') > 1",
        source="seed 000, measured and rejected",
        shows=("--tokenizer-worker-num", "--mem-fraction-static"),
    ),
    Rule(
        id="tokenizer-workers",
        severity=Severity.WARN,
        title=t("Each tokenizer worker takes about 890 MB of GPU memory"),
        what=t("Four workers ended out of memory on a 32 GB card."),
        remedy=t("Remove --tokenizer-worker-num: one worker is enough for a server of one's own."),
        when=("num('--tokenizer-worker-num') > 1 and not big_card and not fraction >= 0.95"),
        source="seed 000, measured and rejected",
        shows=("--tokenizer-worker-num",),
    ),
    Rule(
        id="draft-after-pools",
        severity=Severity.WARN,
        title=t("This release loads the draft after the pools, out of what is left"),
        what=t(
            "Up to 0.5.13 the draft's weights (5.5 GiB for the 27B) are not counted when the KV "
            "pool is sized; a fraction of {fraction} may leave less than they need."
        ),
        remedy=t("Set --mem-fraction-static 0.75 on a 32 GB card, or use 0.5.14 or newer."),
        when="mtp and hybrid and fraction > 0.80 and billions > 20 and not tp > 1 and not big_card",
        source="boot order of the released packages, 0.5.13 and 0.5.14",
        since="0.5.9",
        until="0.5.13",
        shows=("--mem-fraction-static", "--speculative-algorithm"),
    ),
    Rule(
        id="draft-freed-late",
        severity=Severity.INFO,
        title=t("4.7 GiB of the draft are counted while the pool is sized and freed afterwards"),
        what=t(
            "The MTP head builds its own embedding and output head (2 x 248,320 x 5,120 x 2 bytes "
            "for the 27B) and drops them for the target's. The pool does not get them back."
        ),
        remedy=t(
            "Nothing to set: the memory serves graphs and activations. It is why 0.97 works with "
            "MTP and not without."
        ),
        when="mtp and kind == 'qwen3_5' and billions > 20",
        source="seed 004 §5; sgl-project/sglang #36452, PR #37155 (open)",
        since="0.5.14",
        shows=("--speculative-algorithm",),
    ),
    Rule(
        id="context-above-model",
        severity=Severity.ERROR,
        title=t("A context of {context} is more than the model's {declared_context}"),
        what=t("The engine refuses before it loads anything (exit code 1)."),
        remedy=t(
            "Set --context-length {declared_context} or less. Longer needs rope scaling in the "
            "model's configuration, or SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 at your risk."
        ),
        when=(
            "context > declared_context and not has('--json-model-override-args')"
            " and not env('SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN') in ('1', 'true', 'True')"
        ),
        source="recorded boot tiny-ctx-too-long, 0.5.17",
        shows=("--context-length",),
    ),
    Rule(
        id="context-above-max-total",
        severity=Severity.WARN,
        title=t("The declared context of {context} exceeds --max-total-tokens {max_total}"),
        what=t(
            "--context-length reserves nothing. One request can be at most {max_total} tokens, "
            "input and output together; longer ones are refused with HTTP 400."
        ),
        remedy=t("Tell clients the smaller number, or raise --max-total-tokens."),
        when="context > max_total",
        source="seed 000, second trap; recorded boot tiny-maxtotal, 0.5.17",
        shows=("--context-length", "--max-total-tokens"),
    ),
    Rule(
        id="context-above-pool",
        severity=Severity.WARN,
        title=t("The declared context of {context} does not fit the pool of {kv_tokens} tokens"),
        what=t(
            "--context-length reserves nothing. A client that believes it sends a request that "
            "fails at run time; seed 000 declared 159,776 and had 134,016."
        ),
        remedy=t("Tell clients {context_usable}, or make the pool larger."),
        when="context > kv_tokens",
        source="seed 000, second trap",
        shows=("--context-length",),
    ),
    Rule(
        id="max-total-ignored",
        severity=Severity.WARN,
        title=t("--max-total-tokens {max_total} is more than the pool's {kv_tokens}: ignored"),
        what=t(
            "The flag only lowers the pool. The engine says `larger than the profiled value` and "
            "goes on; seed 004 asked 262,144 and got 55,228."
        ),
        remedy=t("Remove the flag, or make room: fewer slots, a higher fraction, no MTP."),
        when="max_total > kv_tokens",
        source="seed 004 §7",
        shows=("--max-total-tokens",),
    ),
    Rule(
        id="requests-default-48",
        severity=Severity.INFO,
        title=t("Without --max-running-requests speculation sets it to 48"),
        what=t(
            "The state pool and the graphs are sized for what you ask. A recorded boot that asked "
            "nothing chose 41 slots for 13 requests."
        ),
        remedy=t("Set --max-running-requests to what you need: each costs KV tokens."),
        when="speculative and hybrid and requests is None",
        source="argument resolution 0.5.6-0.5.23; recorded boot b27-nextn-auto, 0.5.17",
        since="0.5.6",
        shows=("--speculative-algorithm",),
    ),
    Rule(
        id="requests-default-48-charged",
        severity=Severity.ERROR,
        title=t("Without --max-running-requests this release reserves states for 48 requests"),
        what=t(
            "0.5.9 to 0.5.12 charge the rollback states of 48 requests before the pool is clamped: "
            "about 28 GiB for the 27B with four draft tokens and fp32 states."
        ),
        remedy=t("Set --max-running-requests 1 (or 2, 4), or use 0.5.13 or newer."),
        when=(
            "speculative and hybrid and requests is None and billions > 20 and not tp > 1"
            " and not big_card"
        ),
        source="state budget source 0.5.9-0.5.12 (R x D x slot, R = 48)",
        since="0.5.9",
        until="0.5.12",
        models=("qwen3_5",),
        shows=("--speculative-algorithm",),
    ),
    Rule(
        id="cuda-graph-off",
        severity=Severity.WARN,
        title=t("Turning CUDA graphs off slows decoding and wins no KV tokens"),
        what=t("The pool is sized before graphs are captured; seed 004 tried it and gained none."),
        remedy=t("Remove the flag unless graph capture itself fails."),
        when="has('--disable-cuda-graph') and hybrid",
        source="seed 004 §7",
        shows=("--disable-cuda-graph",),
    ),
    Rule(
        id="kv-four-bit",
        severity=Severity.WARN,
        title=t("A four-bit KV cache was four times slower on SM120"),
        what=t(
            "Measured on an RTX 5090. TurboQuant and PolarQuant need plain grouped-query "
            "attention, not a hybrid model."
        ),
        remedy=t("Use --kv-cache-dtype fp8_e4m3."),
        when="val('--kv-cache-dtype') in ('fp4_e2m1', 'nvfp4', 'fp4_mx_block16', 'mxfp4')",
        source="seed 000, header and measured and rejected",
        cards=(120, 121),
        shows=("--kv-cache-dtype",),
    ),
)
