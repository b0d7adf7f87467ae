"""Samples from public reports read as their index says (figures as printed, readings by hand)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from enginelog.reading import adjusted, clamps, load, read, read_text


@dataclass(frozen=True)
class Reading:
    file: str
    engine: str
    ready: bool
    phase: str | None
    facts: dict[str, Any]
    fatal: str | None = None
    adjusted: dict[str, tuple[Any, Any]] = field(default_factory=dict)


READINGS = (
    Reading(
        "sglang-0.4-qwen2-7b-docker-clock.log", "sglang", ready=True, phase="ready",
        facts={
            "context_len": 131072, "kv_tokens": 105531, "max_running_requests_effective": 2049,
            "context_len_requested": None, "max_running_requests_asked": None,
            "mem_usage_gb": 14.39, "available_gpu_mem_gb": None, "context_usable": 105525,
            "tp_size": 1, "mem_fraction_static": 0.88, "chunked_prefill_size": 2048,
            "model": "/models/DeepSeek-R1-Distill-Qwen-7B", "mamba_slots": None,
        },
        adjusted={"--context-length": (None, 105525)},
    ),
    Reading(
        "sglang-qwen3next-tp4-radix-off.log", "sglang", ready=False, phase="state_pool",
        facts={"mem_usage_gb": 37.41, "mamba_slots": None, "kv_tokens": None},
        adjusted={"--disable-radix-cache": (False, True)},
    ),
    Reading(
        "sglang-qwen35moe-tp2-offload.log", "sglang", ready=False, phase="graph_capture",
        facts={
            "kv_tokens": 580364, "mamba_slots": 82, "max_running_requests_effective": 1,
            "context_len": 8192, "available_gpu_mem_gb": 3.63, "mem_usage_gb": 3.76,
            "kv_dtype": "torch.bfloat16", "kv_gb": 8.3, "context_usable": 8186,
            "draft_mem_usage_gb": None,
        },
    ),
    Reading(
        "sglang-0.5.12-tp2-workspace-oom.log", "sglang", ready=False, phase="graph_capture",
        facts={"oom_wanted_mib": 384.0, "oom_free_mib": 338.75,
               "phase_at_failure": "graph_capture"},
        fatal="cuda_oom",
    ),
    Reading(
        "sglang-0.5.12-ampere-fp8-kernel.log", "sglang", ready=False, phase=None,
        facts={"phase_at_failure": None, "kv_tokens": None},
        fatal="kernel_unsupported",
    ),
    Reading(
        "sglang-qwen35moe-tp8-crash-before-ready.log", "sglang", ready=False, phase="warmup",
        facts={
            "kv_tokens": 4235604, "max_running_requests_effective": 16, "context_len": 262144,
            "available_gpu_mem_gb": 13.91, "phase_at_failure": "warmup",
        },
        fatal="scheduler_crash",
    ),
    Reading(
        "sglang-glm5next-tp4-sm120-kernel.log", "sglang", ready=False, phase="kv_pool",
        facts={"draft_mem_usage_gb": 2.39, "mem_usage_gb": None, "mm_reserve_gib": 0.1},
        fatal="kernel_unsupported",
    ),
    Reading(
        "sglang-0.5.17-qwen38-int4-nextn.log", "sglang", ready=False, phase="kv_pool",
        facts={
            "mem_usage_gb": 17.67, "draft_mem_usage_gb": 5.53, "kv_tokens": 14161,
            "mamba_ssm_gb": 0.98, "mamba_intermediate_ssm_gb": 1.12, "mamba_slots": None,
            "available_gpu_mem_gb": None, "pool_end_avail_gb": 4.17,
        },
    ),
    Reading(
        "sglang-qwen38-nextn-late-free.log", "sglang", ready=False, phase="graph_capture",
        facts={"kv_tokens": 13303, "context_len": 8192, "available_gpu_mem_gb": 1.82},
    ),
    Reading(
        "sglang-qwen38-runtime-300k.log", "sglang", ready=True, phase="serving",
        facts={"accept_len_last": 3.23, "gen_tps_last": 101.05, "kv_tokens": None,
               "context_len": None, "mamba_usage_last": 0.06},
    ),
    Reading(
        "sglang-tp2-mamba-pingpong-crash.log", "sglang", ready=True, phase="serving",
        facts={"phase_at_failure": "serving", "mamba_usage_max": 0.89, "accept_len_last": None},
        fatal="mamba_slots_exhausted",
    ),
    Reading(
        "vllm-qwen38-tp2-2x5090.log", "vllm", ready=False, phase="kv_pool",
        facts={
            "context_len": 204800, "context_len_requested": 204800, "kv_tokens": 374847,
            "max_concurrency": 1.83, "available_kv_gib": 16.01, "context_usable": 204800,
            "model": "/models/qwen3.8-27b-autoround-int4", "tp_size": None,
        },
    ),
    Reading(
        "vllm-qwen38-kv-too-small.log", "vllm", ready=False, phase="kv_pool",
        facts={
            "context_len_requested": 65536, "context_that_fits": 15984, "kv_needed_gib": 4.76,
            "available_kv_gib": 1.56, "kv_tokens": None, "phase_at_failure": "kv_pool",
            "context_usable": None,
        },
        fatal="context_exceeds_kv",
    ),
    Reading(
        "vllm-qwen-mtp-runtime.log", "vllm", ready=True, phase="serving",
        facts={
            "accept_len_last": 2.77, "prefix_hit_last": 0.0, "gen_tps_last": 1024.8,
            "waiting_last": 6, "running_last": 9, "kv_usage_last": 0.977,
        },
    ),
)  # fmt: skip


@pytest.mark.parametrize("expected", READINGS, ids=lambda r: r.file)
def test_reads_as_its_index_says(expected: Reading) -> None:
    report = read(load(f"field/{expected.file}"))
    assert report.engine == expected.engine
    assert report.engine_version is None
    assert report.ready is expected.ready
    assert report.phase == expected.phase
    assert {k: report.facts.get(k) for k in expected.facts} == expected.facts
    assert clamps(report) == []
    assert (report.fatal.kind if report.fatal else None) == expected.fatal
    seen = adjusted(report)
    assert {k: seen.get(k) for k in expected.adjusted} == expected.adjusted
    assert report.coverage == 1.0


def _gallery() -> list[str]:
    return load("field/gallery-single-lines.log").decode().splitlines()


# line → fatal class, facts, clamps, adjustments (each line is from a report of its own)
GALLERY: tuple[tuple[int, str | None, dict[str, Any], list[Any], dict[str, Any]], ...] = (
    (1, None, {"max_running_requests_asked": None, "mamba_slots": 47,
               "mamba_slots_per_request": 5}, [("--max-running-requests", None, 9)], {}),
    (2, None, {"mamba_slots": 64}, [("--max-running-requests", None, 12)], {}),
    (3, None, {"mamba_slots": 6, "mamba_slots_per_request": 5},
     [("--max-running-requests", None, 1)], {}),
    (4, None, {"mamba_slots": 10}, [("--max-running-requests", None, 2)], {}),
    (5, None, {"kv_tokens": 914573, "kv_dtype": "torch.float8_e4m3fn"}, [], {}),
    (6, None, {"draft_mem_usage_gb": 2.57, "mem_usage_gb": None}, [], {}),
    (7, None, {"attention_block_size": 528}, [], {"attention_block_size": (None, 528)}),
    (8, None, {"available_kv_gib": 5.95}, [], {}),
    (9, None, {"kv_tokens": 129472}, [], {}),
    (10, None, {"max_concurrency": 1.97, "context_len": 262144}, [], {}),
    (11, None, {}, [], {"cudagraph_mode": ("FULL_AND_PIECEWISE", "PIECEWISE")}),
    (12, None, {}, [], {}),
    (13, "mamba_pool_too_small",
     {"max_num_seqs": 1024, "max_running_requests_asked": None, "mamba_slots": 939}, [], {}),
    (14, "kv_pool_no_memory", {"mem_fraction_static": 0.94, "mem_fraction_static_minimum": 0.942},
     [], {}),
    (15, "kv_pool_no_memory", {"mem_fraction_static": None}, [], {}),
    (16, "mamba_slots_exhausted", {}, [], {}),
    (17, "bad_argument", {}, [], {}),
    (18, "bad_argument", {}, [], {}),
    (19, "bad_argument", {}, [], {}),
    (20, "missing_weights", {}, [], {}),
    (21, "missing_weights", {}, [], {}),
    (22, "missing_weights", {}, [], {}),
)  # fmt: skip


@pytest.mark.parametrize("row", GALLERY, ids=lambda r: f"line-{r[0]}")
@pytest.mark.parametrize("end", ["\n", ""])
def test_gallery_line_by_line(
    row: tuple[int, str | None, dict[str, Any], list[Any], dict[str, Any]], end: str
) -> None:
    number, fatal, facts, clamped, adjustments = row
    report = read_text(_gallery()[number - 1] + end)
    assert (report.fatal.kind if report.fatal else None) == fatal
    assert {k: report.facts.get(k) for k in facts} == facts
    assert clamps(report) == clamped
    assert adjusted(report) == adjustments
    assert not report.ready


def test_hybrid_pool_of_vllm_is_not_called_smaller_than_the_context() -> None:
    """129,472 tokens and 1.97 × 262,144 disagree; the concurrency is right (lines 8 to 10)."""
    report = read_text("\n".join(_gallery()[7:10]) + "\n")
    assert report.facts["max_concurrency"] == 1.97
    assert report.facts["kv_tokens"] == 129472
    assert report.facts["context_usable"] == 262144
    assert report.clamps == ()
    mixed = read(load("field/gallery-single-lines.log"))  # lines of both engines
    assert "--context-length" not in {c.arg for c in mixed.clamps}


def test_weights_fill_the_share_is_answered_upwards() -> None:
    for number in (14, 15):
        fatal = read_text(_gallery()[number - 1] + "\n").fatal
        assert fatal is not None
        assert "aise --mem-fraction-static" in str(fatal.remedy)


def test_oom_beside_the_pool_is_answered_downwards() -> None:
    fatal = read(load("field/sglang-0.5.12-tp2-workspace-oom.log")).fatal
    assert fatal is not None
    assert "lower --mem-fraction-static" in str(fatal.remedy)
    assert "OutOfMemoryError" in fatal.evidence[0].text


def test_idle_memory_beside_a_small_pool_is_said() -> None:
    report = read(load("field/sglang-0.5.17-qwen38-int4-nextn.log"))
    assert [f.rule for f in report.findings] == ["log.idle_memory"]
    assert report.findings[0].title.fields == {"gib": 4.17, "tokens": "14,161"}


def test_late_memory_is_said() -> None:
    report = read(load("field/sglang-qwen38-nextn-late-free.log"))
    assert [f.rule for f in report.findings] == ["log.late_freed"]
    assert {b.part: b.gib for b in report.budget}["late_freed"] == 1.83  # 2.12 − 0.29


def test_false_low_speed_after_idle_is_not_shown() -> None:
    """15.82 and 7.71 tok/s are the first decode lines after a prefill on an idle server."""
    lines = load("field/sglang-qwen38-runtime-300k.log").decode().splitlines(keepends=True)
    cut = next(i for i, line in enumerate(lines) if "15.82" in line)
    report = read_text("".join(lines[: cut + 1]))
    assert report.facts["gen_tps_last"] == 132.92
    assert report.facts["accept_len_last"] == 3.02
