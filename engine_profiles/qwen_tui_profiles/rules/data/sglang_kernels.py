"""Kernels and backends by card, and which release knows which model."""

from __future__ import annotations

from qwen_tui_profiles.findings import Severity
from qwen_tui_profiles.rules.rule import Rule
from qwen_tui_profiles.text import t

__all__ = ["RULES"]

_SM120 = (120, 121)

RULES: tuple[Rule, ...] = (
    Rule(
        id="fp4-cudnn",
        severity=Severity.WARN,
        title=t("The cudnn FP4 kernels are 20 to 30 percent slower on SM120"),
        what=t("20 percent slower at short context, 30 percent at 63K, on an RTX 5090."),
        remedy=t("Remove --fp4-gemm-backend: auto takes flashinfer_cutlass there from 0.5.13 on."),
        when="val('--fp4-gemm-backend') == 'flashinfer_cudnn'",
        source="seed 000, measured and rejected",
        cards=_SM120,
        shows=("--fp4-gemm-backend",),
    ),
    Rule(
        id="fp4-auto-is-cudnn",
        severity=Severity.WARN,
        title=t("On SM120 this release chooses the slower cudnn FP4 kernels by itself"),
        what=t("auto became flashinfer_cutlass in 0.5.13; cudnn measured 20 to 30 percent slower."),
        remedy=t("Add --fp4-gemm-backend flashinfer_cutlass, or use 0.5.13 or newer."),
        when=(
            "quant == 'nvfp4' and val('--fp4-gemm-backend') in (None, 'auto')"
            " and card in (120, 121)"
        ),
        source="backend selection source 0.5.10-0.5.13; seed 000",
        since="0.5.10",
        until="0.5.12",
        shows=("--fp4-gemm-backend", "--quantization"),
    ),
    Rule(
        id="fp4-cutedsl",
        severity=Severity.ERROR,
        title=t("The cutedsl FP4 kernels are made for SM100, not for SM120"),
        what=t("Not supported on an RTX 5090 or RTX PRO 6000."),
        remedy=t("Remove --fp4-gemm-backend: auto takes flashinfer_cutlass."),
        when="val('--fp4-gemm-backend') == 'flashinfer_cutedsl'",
        source="seed 000, measured and rejected",
        cards=_SM120,
        shows=("--fp4-gemm-backend",),
    ),
    Rule(
        id="fp4-before-blackwell",
        severity=Severity.ERROR,
        title=t("Native FP4 kernels need a Blackwell card"),
        what=t("`ModelOpt NVFP4 native dense GEMM backends require SM100+` stops the engine."),
        remedy=t("Set --fp4-gemm-backend marlin on SM80 to SM90."),
        when=(
            "quant == 'nvfp4' and card < 100"
            " and val('--fp4-gemm-backend') not in (None, 'auto', 'marlin')"
        ),
        source="quantization source 0.5.13-0.5.23",
        since="0.5.13",
        shows=("--fp4-gemm-backend", "--quantization"),
    ),
    Rule(
        id="triton-attention",
        severity=Severity.WARN,
        title=t("Triton attention is slow at long context on SM120"),
        what=t(
            "11 percent faster at 1K and 63 percent slower at 50K than flashinfer (2.7 times at "
            "long context), on an RTX 5090."
        ),
        remedy=t("Use --attention-backend flashinfer."),
        when=(
            "val('--attention-backend') == 'triton' and kind == 'qwen3_5'"
            " and (context is None or context > 16384)"
        ),
        source="seed 000, header and rejected table",
        cards=_SM120,
        shows=("--attention-backend", "--context-length"),
    ),
    Rule(
        id="attention-blackwell",
        severity=Severity.ERROR,
        title=t("This attention backend is refused for hybrid models on Blackwell"),
        what=t("`Only {{…}} backends are supported on Blackwell GPUs for hybrid GDN models`."),
        remedy=t("Use flashinfer, triton or trtllm_mha on SM120."),
        when=(
            "hybrid and card in (120, 121) and has('--attention-backend')"
            " and val('--attention-backend')"
            " not in ('triton', 'trtllm_mha', 'flashinfer', 'qsa', 'fa4')"
        ),
        source="attention registry source 0.5.10-0.5.23",
        since="0.5.10",
        shows=("--attention-backend",),
    ),
    Rule(
        id="attention-blackwell-fa4",
        severity=Severity.ERROR,
        title=t("fa4 is refused for hybrid models on SM120"),
        what=t("Up to 0.5.14 it was let through; the check is by card now."),
        remedy=t("Use flashinfer, triton or trtllm_mha."),
        when="hybrid and card in (120, 121) and val('--attention-backend') == 'fa4'",
        source="attention registry source 0.5.14, 0.5.17, 0.5.23",
        since="0.5.17",
        shows=("--attention-backend",),
    ),
    Rule(
        id="attention-blackwell-first",
        severity=Severity.ERROR,
        title=t("0.5.9 runs hybrid models on Blackwell with triton or trtllm_mha only"),
        what=t("Any other attention backend is refused by an assertion."),
        remedy=t("Use --attention-backend triton, or a newer release."),
        when=(
            "hybrid and card >= 100 and has('--attention-backend')"
            " and val('--attention-backend') not in ('triton', 'trtllm_mha')"
        ),
        source="attention registry source 0.5.9",
        since="0.5.9",
        until="0.5.9",
        shows=("--attention-backend",),
    ),
    Rule(
        id="linear-flashinfer-state",
        severity=Severity.ERROR,
        title=t("FlashInfer's linear attention on SM100 needs bfloat16 states"),
        what=t("`… on SM100+ requires --mamba-ssm-dtype bfloat16` stops the engine."),
        remedy=t("Add --mamba-ssm-dtype bfloat16, or remove the backend."),
        when=(
            "hybrid and card in (100, 103) and val('--mamba-ssm-dtype') != 'bfloat16'"
            " and (val('--linear-attn-backend') == 'flashinfer'"
            " or val('--linear-attn-decode-backend') == 'flashinfer')"
        ),
        source="argument resolution source 0.5.10-0.5.23",
        since="0.5.10",
        shows=("--linear-attn-backend", "--linear-attn-decode-backend", "--mamba-ssm-dtype"),
    ),
    Rule(
        id="fused-qk-norm-rope",
        severity=Severity.INFO,
        title=t("--enable-fused-qk-norm-rope brought nothing"),
        what=t("No measurable gain on the 27B."),
        remedy=t("Remove the flag."),
        when="has('--enable-fused-qk-norm-rope') and hybrid",
        source="seed 000, measured and rejected",
        shows=("--enable-fused-qk-norm-rope",),
    ),
    Rule(
        id="prefill-graph-eagle",
        severity=Severity.INFO,
        title=t("The prefill graph is switched off for a target with EAGLE drafts"),
        what=t(
            "A correctness guard against corrupt FP4/MoE replays (#28386): prefill runs eagerly "
            "whatever the graph flags say. Do not work around it."
        ),
        remedy=t("Remove the prefill graph flags, or leave them: they do nothing here."),
        when="mtp and val('--cuda-graph-backend-prefill') == 'tc_piecewise'",
        source="seed 002, launch; sgl-project/sglang #28386",
        since="0.5.14",
        until="0.5.21",
        shows=("--cuda-graph-backend-prefill", "--speculative-algorithm"),
    ),
    Rule(
        id="model-too-new-qwen35",
        severity=Severity.ERROR,
        title=t("This release does not know Qwen3.5/3.8 yet"),
        what=t("The class came with 0.5.9; before, the architecture is not supported."),
        remedy=t("Use SGLang 0.5.9 or newer; 0.5.18 or newer avoids the draft path trap too."),
        when="kind in ('qwen3_5', 'qwen3_5_moe')",
        source="model registry of the released packages",
        until="0.5.8",
        shows=("--model-path",),
    ),
    Rule(
        id="model-too-new-flash",
        severity=Severity.ERROR,
        title=t("This release does not know Qwen3.8-Flash-Next yet"),
        what=t("Its class (Qwen4Exp) came with 0.5.20."),
        remedy=t("Use SGLang 0.5.20 or newer, or the SM120 fork."),
        when="not fork and not needs_fork",
        source="model registry of the released packages",
        until="0.5.19",
        models=("flash_next",),
        shows=("--model-path",),
    ),
)
