"""Every recorded boot reads as its README says (figures from the logs and the launch commands)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from enginelog.reading import adjusted, clamps, load, read


@dataclass(frozen=True)
class Reading:
    file: str
    ready: bool
    phase: str
    facts: dict[str, Any]
    clamps: list[tuple[str, Any, Any]] = field(default_factory=list)
    fatal: str | None = None
    findings: tuple[str, ...] = ()


READINGS = (
    Reading(
        "h200/cg27-nodraftpath.log", ready=True, phase="stopping",
        facts={
            "model": "/models/hybrid-27b-cg", "kv_tokens": 898183, "context_len": 32768,
            "context_len_requested": 32768, "max_running_requests_effective": 2,
            "max_running_requests_asked": 2, "mamba_slots": 16, "mem_usage_gb": 50.19,
            "draft_mem_usage_gb": 5.53, "available_gpu_mem_gb": 54.96,
            "kv_dtype": "torch.float8_e4m3fn", "mem_fraction_static": 0.62, "tp_size": 1,
            "chunked_prefill_size": 8192, "mamba_slots_per_request": None,
            "accept_len_last": None, "gen_tps_last": None, "phase_at_failure": None,
            "context_usable": 32762,
        },
        findings=("log.late_freed",),
    ),
    Reading(
        "h200/cg27-draftpath.log", ready=False, phase="warmup",
        facts={
            "kv_tokens": 179636, "max_running_requests_effective": 2, "mamba_slots": 16,
            "available_gpu_mem_gb": 78.31, "context_usable": 32762,
        },
        findings=("log.draft_path_charge", "log.late_freed"),
    ),
    Reading(
        "h200/cg27-lazy-5-1-6.log", ready=True, phase="stopping",
        facts={
            "kv_tokens": 840736, "context_len": 159776, "max_running_requests_asked": 4,
            "max_running_requests_effective": 2, "mamba_slots": 8, "mamba_slots_per_request": 4,
            "accept_len_last": 1.0, "page_size": 32, "chunked_prefill_size": 2048,
            "available_gpu_mem_gb": 55.04, "context_usable": 159770,
            "speculative_num_steps": 5, "speculative_num_draft_tokens": 6,
        },
        clamps=[("--max-running-requests", 4, 2)],
        findings=("log.late_freed", "log.slot_margin", "log.accept_pinned"),
    ),
    # Two GPUs, a replica each; GPU 0 holds the pictures' buffer too, so its pool is the smaller.
    Reading(
        "h200/boot-dp2.log", ready=True, phase="serving",
        facts={
            "dp_size": 2, "dp_replicas": 2, "kv_tokens": 148032, "kv_tokens_all": 148032 + 170304,
            "max_running_requests_asked": 4, "max_running_requests_effective": 2,
            "max_running_requests_all": 4, "mamba_slots": 9, "context_len": 131072,
            "context_usable": 131066, "available_gpu_mem_gb": 79.8, "mem_usage_gb": 50.19,
        },
        clamps=[("--max-running-requests", 4, 2)],
        findings=("log.late_freed",),
    ),
    Reading(
        "h200/b27-nextn-auto.log", ready=False, phase="graph_capture",
        facts={
            "kv_tokens": 540276, "mamba_slots": 41, "mamba_slots_per_request": 3,
            "max_running_requests_asked": None, "context_len_requested": None,
            "phase_at_failure": "graph_capture", "mem_usage_gb": 50.16,
            "draft_mem_usage_gb": 5.53, "available_gpu_mem_gb": None, "context_len": None,
        },
        fatal="module_missing",
        findings=("log.late_freed",),
    ),
    Reading(
        "h200/b27-notenough.log", ready=False, phase="state_pool",
        facts={
            "mem_fraction_static": 0.4, "kv_tokens": None, "mamba_slots": None,
            "phase_at_failure": "state_pool", "max_running_requests_effective": None,
        },
        fatal="mamba_pool_too_small",
    ),
    Reading(
        "h200/tiny-maxtotal.log", ready=True, phase="stopping",
        facts={
            "kv_tokens": 50000, "max_total_tokens": 50000, "context_len": 131072,
            "max_running_requests_asked": 8, "max_running_requests_effective": 4,
            "mamba_slots": 12, "context_usable": 49994, "kv_dtype": "torch.bfloat16",
            "draft_mem_usage_gb": None, "gen_tps_last": 499.17,
        },
        clamps=[("--max-running-requests", 8, 4), ("--context-length", 131072, 49994)],
        findings=("log.slot_margin",),
    ),
    Reading(
        "h200/tiny-hicache.log", ready=True, phase="stopping",
        facts={
            "kv_tokens": 1599522, "mamba_slots": 8, "max_running_requests_effective": 2,
            "context_len": 262144, "context_len_requested": None, "context_usable": 262138,
            "hicache_host_tokens": 240956, "hicache_host_gb": 1.97,
        },
        findings=("log.hicache_small",),
    ),
    Reading(
        "h200/tiny-ctx-too-long.log", ready=False, phase="args",
        facts={
            "context_len_requested": 1000000, "context_len": None, "kv_tokens": None,
            "model": None, "phase_at_failure": "args", "context_len_derived": 262144,
        },
        fatal="context_too_long",
    ),
    Reading(
        "cpu/ready.log", ready=True, phase="stopping",
        facts={
            "model": "/models/gpt2", "kv_tokens": 8192, "context_len": 4096,
            "max_running_requests_effective": 4, "available_gpu_mem_gb": None,
            "available_cpu_mem_gb": 20.34, "chunked_prefill_size": 4096, "mamba_slots": None,
            # Each decode line of this log follows an idle server: none of them is a speed.
            "gen_tps_last": None, "accept_len_last": None, "context_usable": 4090,
        },
    ),
    Reading(
        "cpu/scheduler-exception.log", ready=False, phase="load_weights",
        facts={"model": "/models/tiny", "phase_at_failure": "load_weights", "kv_tokens": None},
        fatal="module_missing",
    ),
)  # fmt: skip


@pytest.mark.parametrize("expected", READINGS, ids=lambda r: r.file)
def test_reads_as_recorded(expected: Reading) -> None:
    report = read(load(expected.file))
    assert report.engine == "sglang"
    assert report.engine_version is None  # no SGLang release prints it
    assert report.ready is expected.ready
    assert report.phase == expected.phase
    assert {k: report.facts.get(k) for k in expected.facts} == expected.facts
    assert clamps(report) == expected.clamps
    assert (report.fatal.kind if report.fatal else None) == expected.fatal
    assert tuple(f.rule for f in report.findings) == expected.findings
    assert report.coverage == 1.0


@pytest.mark.parametrize("expected", READINGS, ids=lambda r: r.file)
@pytest.mark.parametrize("chunk", [1, 4096])
def test_chunks_do_not_matter(expected: Reading, chunk: int) -> None:
    data = load(expected.file)
    if chunk == 1 and len(data) > 30_000:
        chunk = 7
    assert read(data, chunk=chunk).as_json() == read(data).as_json()


def test_default_of_48_is_no_clamp() -> None:
    report = read(load("h200/b27-nextn-auto.log"))
    assert adjusted(report)["--max-running-requests"] == (None, 13)


def test_waterfall_closes_to_a_tenth_of_a_gib() -> None:
    """Free before = parts + what stays free − what came back late, on boots that printed all."""
    for name in ("cg27-nodraftpath", "cg27-draftpath", "cg27-lazy-5-1-6"):
        parts = {b.part: b.gib for b in read(load(f"h200/{name}.log")).budget}
        assert abs(parts.get("other", 0.0)) <= 0.1, name
        assert parts["late_freed"] == pytest.approx(4.736, abs=0.15)  # 2·248,320·5,120·2 B
        assert parts["free_before_load"] == 137.58


def test_draft_path_names_the_idle_memory() -> None:
    report = read(load("h200/cg27-draftpath.log"))
    finding = next(f for f in report.findings if f.rule == "log.draft_path_charge")
    assert finding.title.fields["idle"] == pytest.approx(22, abs=0.5)
    assert "0.5.18" in str(finding.remedy)


def test_timeline_holds_the_stated_seconds() -> None:
    spans = {s.phase: s for s in read(load("h200/cg27-lazy-5-1-6.log")).timeline}
    assert spans["graph_capture"].seconds == pytest.approx(8.53 + 3.83 + 3.45)
    assert spans["load_weights"].seconds == 0.30
    assert spans["load_draft"].seconds == 0.01
    assert spans["serving"].seconds is None
    started = [s.started for s in spans.values() if s.started is not None]
    assert len(started) == len(spans)
    assert started == sorted(started)


def test_cause_stands_before_its_echo() -> None:
    fatal = read(load("h200/b27-nextn-auto.log")).fatal
    assert fatal is not None
    assert [e.line for e in fatal.evidence] == [62, 42]
    assert "deep_gemm" in fatal.evidence[0].text
    assert "deep_gemm" in str(fatal.summary)


def test_argv_tells_what_was_asked() -> None:
    argv = ["/opt/venv/bin/python", "-m", "sglang.launch_server", "--model-path", "/models/x",
            "--max-running-requests", "8", "--context-length=131072", "--max-total-tokens", "60000",
            "--chunked-prefill-size", "4096", "--kv-cache-dtype", "auto"]  # fmt: skip
    report = read(load("h200/tiny-maxtotal.log"), argv)
    assert ("--max-running-requests", 8, 4) in clamps(report)
    assert ("--max-total-tokens", 60000, 50000) in clamps(report)
    assert ("--chunked-prefill-size", 4096, 8192) in clamps(report)
    assert ("--context-length", 131072, 49994) in clamps(report)


def test_argv_without_a_limit_makes_it_an_adjustment() -> None:
    report = read(load("h200/tiny-maxtotal.log"), ["sglang", "serve", "--model-path", "/models/x"])
    assert clamps(report) == []
    assert adjusted(report)["--max-running-requests"][1] == 4
    assert adjusted(report)["--context-length"] == (None, 49994)


def test_argv_as_the_profiles_write_it_shows_only_what_changed() -> None:
    argv = ["/opt/venv/bin/python", "-m", "sglang.launch_server", "--model-path", "~/m", "--port",
            "30000", "--speculative-algorithm", "NEXTN", "--speculative-num-steps", "5",
            "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "6",
            "--max-running-requests", "4", "--max-mamba-cache-size", "8", "--page-size", "32",
            "--mamba-scheduler-strategy", "extra_buffer_lazy", "--context-length", "159776",
            "--kv-cache-dtype", "fp8_e4m3", "--mem-fraction-static", "0.62", "--tp", "1",
            "--chunked-prefill-size", "2048", "--enable-metrics",
            "--cuda-graph-backend-prefill", "disabled", "--api-key",
            "sk-not-to-be-seen"]  # fmt: skip
    report = read(load("h200/cg27-lazy-5-1-6.log"), argv)
    assert clamps(report) == [("--max-running-requests", 4, 2)]
    assert adjusted(report)["--speculative-algorithm"] == ("NEXTN", "EAGLE")
    assert set(adjusted(report)) == {"--speculative-algorithm", "--mm-attention-backend"}
    assert "sk-not-to-be-seen" not in str(report.as_json())
