"""Speculative decoding: what is forced, refused, ignored, or was measured and rejected."""

from __future__ import annotations

from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.rules.rule import Rule
from qwen_tui_profiles.text import t

__all__ = ["RULES"]

_REJECTED = "seed 000, measured and rejected"

RULES: tuple[Rule, ...] = (
    Rule(
        id="mixed-chunk-ignored",
        severity=Severity.WARN,
        title=t("--enable-mixed-chunk is ignored with speculation"),
        what=t("The engine sets it to False; server_args shows enable_mixed_chunk=False."),
        remedy=t("Remove the flag."),
        when="has('--enable-mixed-chunk') and speculative",
        source="seed 000, measured and rejected; argument resolution source 0.5.6-0.5.23",
        shows=("--enable-mixed-chunk", "--speculative-algorithm"),
    ),
    Rule(
        id="draft-tokens-forced",
        severity=Severity.WARN,
        title=t("{drafts_asked} draft tokens asked, {drafts} used: a chain verifies steps + 1"),
        what=t("With --speculative-eagle-topk 1 the engine replaces the number and says so."),
        remedy=t("Set --speculative-num-draft-tokens {drafts}, or another number of steps."),
        when=(
            "mtp and topk == 1 and steps is not None and drafts_asked is not None"
            " and drafts_asked != steps + 1"
        ),
        source="argument resolution source, every release",
        shows=("--speculative-num-steps", "--speculative-num-draft-tokens"),
    ),
    Rule(
        id="draft-parameters-partial",
        severity=Severity.ERROR,
        title=t("Draft parameters without --speculative-num-steps stop the engine"),
        what=t("A bare assertion: topk and draft tokens may be given only with the steps."),
        remedy=t("Give all three (5/1/6 or 3/1/4), or none."),
        when="mtp and steps is None and (topk is not None or drafts_asked is not None)",
        source="argument resolution source, every release",
        shows=("--speculative-eagle-topk", "--speculative-num-draft-tokens"),
    ),
    Rule(
        id="deep-draft-chain",
        severity=Severity.WARN,
        title=t("A chain of {steps} drafts is past the best length"),
        what=t(
            "Accept length rises from 3.39 to 3.73 while throughput falls by 25 percent from 7/1/8 "
            "to 11/1/12; 5/1/6 was best for tool calls, 3/1/4 is the better all-rounder for prose."
        ),
        remedy=t("Use --speculative-num-steps 5 (6 draft tokens), or 3 (4)."),
        when="mtp and hybrid and steps >= 7",
        source="seed 000, header and rejected table; seed 004 §11",
        shows=("--speculative-num-steps", "--speculative-num-draft-tokens"),
    ),
    Rule(
        id="adaptive-drafts",
        severity=Severity.WARN,
        title=t("--speculative-adaptive lost 21 percent at 63K and doubled the variance"),
        what=t("Measured on the 27B with the native MTP head."),
        remedy=t("Remove the flag."),
        when="has('--speculative-adaptive') and hybrid",
        source=_REJECTED,
        since="0.5.11",
        shows=("--speculative-adaptive",),
    ),
    Rule(
        id="spec-attention-decode",
        severity=Severity.INFO,
        title=t("--speculative-attention-mode decode brought no gain"),
        what=t("Nominally worse at long context."),
        remedy=t("Remove the flag (prefill is the default)."),
        when="val('--speculative-attention-mode') == 'decode' and hybrid",
        source=_REJECTED,
        shows=("--speculative-attention-mode",),
    ),
    Rule(
        id="ngram-out-of-memory",
        severity=Severity.ERROR,
        title=t("N-gram drafting allocates outside the pool; at {fraction} it ran out of memory"),
        what=t("Three attempts on a 32 GB card, three failures."),
        remedy=t("Use the model's MTP head: --speculative-algorithm NEXTN."),
        when="algorithm == 'NGRAM' and hybrid and fraction >= 0.95 and not big_card",
        source=_REJECTED,
        shows=("--speculative-algorithm", "--mem-fraction-static"),
    ),
    Rule(
        id="ngram-weak",
        severity=Severity.WARN,
        title=t("N-gram drafting is far behind the model's own MTP head"),
        what=t(
            "Its accept rate was 0.06 to 0.23, the trained head's 0.51 to 0.94; it also allocates "
            "outside the static pool."
        ),
        remedy=t("Use --speculative-algorithm NEXTN with a checkpoint that has its MTP weights."),
        when="algorithm == 'NGRAM' and hybrid and not fraction >= 0.95",
        source="seed 004 §4; seed 000, measured and rejected",
        shows=("--speculative-algorithm",),
    ),
    Rule(
        id="foreign-drafter",
        severity=Severity.INFO,
        title=t("{algorithm} lost to the native MTP head where it was measured"),
        what=t("DSpark, DFlash and Weaver were all slower on the 27B in seed 000."),
        remedy=t("Measure against --speculative-algorithm NEXTN on your own prompts."),
        when="algorithm in ('DFLASH', 'DSPARK', 'WEAVER', 'STANDALONE', 'EAGLE3') and hybrid",
        source=_REJECTED,
        shows=("--speculative-algorithm",),
    ),
    Rule(
        id="draft-quantization-inert",
        severity=Severity.WARN,
        title=t("The MTP head of a ModelOpt NVFP4 checkpoint stays unquantized"),
        what=t("SGLang forces quant_config=None for it; mtp.fc is a plain linear layer."),
        remedy=t("Remove --speculative-draft-model-quantization."),
        when=("has('--speculative-draft-model-quantization') and mtp and quant == 'nvfp4'"),
        source="seed 000, measured and rejected; loader source 0.5.9-0.5.23",
        since="0.5.9",
        shows=("--speculative-draft-model-quantization",),
    ),
    Rule(
        id="draft-window-inert",
        severity=Severity.WARN,
        title=t("--speculative-draft-window-size has no effect with {algorithm}"),
        what=t("Only DFLASH and the Llama EAGLE-3 drafter read it."),
        remedy=t("Remove the flag."),
        when="mtp and has('--speculative-draft-window-size')",
        source="argument resolution source 0.5.12-0.5.20",
        since="0.5.12",
        until="0.5.20",
        shows=("--speculative-draft-window-size", "--speculative-algorithm"),
    ),
    Rule(
        id="gguf-has-no-mtp",
        severity=Severity.ERROR,
        title=t("A GGUF file has no MTP head to draft with"),
        what=t("The converter drops it (31 tensors in the original, none in the GGUF)."),
        remedy=t("Serve the safetensors checkpoint, or leave speculation out."),
        when="quant == 'gguf' and mtp and hybrid",
        source="seed 003, why it behaves this way",
        shows=("--model-path", "--speculative-algorithm"),
    ),
    Rule(
        id="spec-v2-off",
        severity=Severity.INFO,
        title=t("Speculation switches the overlap schedule off in this release"),
        what=t("From 0.5.11 on both go together by default."),
        remedy=t("Set SGLANG_ENABLE_SPEC_V2=1, or use a newer release."),
        when=("mtp and overlap and env('SGLANG_ENABLE_SPEC_V2') not in ('1', 'true', 'True')"),
        source="argument resolution source 0.5.7-0.5.10",
        since="0.5.7",
        until="0.5.10",
        shows=("--speculative-algorithm",),
    ),
)
