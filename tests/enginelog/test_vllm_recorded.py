"""Logs of a real vLLM 0.32.0 on a CPU: boots, ends, refusals; figures worked out by hand."""

from __future__ import annotations

import pytest

from enginelog.reading import adjusted, load, read, read_text

SERVED = "vllm/cpu-0.32.0-sigterm.log"
SPECULATING = "vllm/cpu-0.32.0-ngram-core-killed.log"

REFUSALS = (
    # file, class, words of the summary, line of the cause
    ("context", "context_too_long", "longer than the model's own", 54),
    ("no-folder", "missing_weights", "There is no model folder /nope/model on this machine.", 52),
    ("offline", "missing_weights", "not in the local Hub cache", 62),
    ("option", "bad_argument", "an argument that this version does not take", 5),
    ("port", "port_in_use", "Another process listens on the port.", 38),
)


def test_a_boot_that_was_stopped() -> None:
    report = read(load(SERVED))
    assert report.engine_version == "0.32.0"
    assert report.fatal is None
    assert (report.ready, report.phase) == (True, "stopping")
    # Started with --max-model-len 1024 --max-num-seqs 4 and one GiB of KV, in 4,096 blocks of 128.
    assert report.facts["context_len_requested"] == report.facts["context_usable"] == 1024
    assert report.facts["max_running_requests_asked"] == 4
    assert report.facts["max_running_requests_effective"] == 4
    assert report.facts["available_kv_gib"] == 1.0
    assert report.facts["kv_tokens"] == 4096 * 128
    assert report.facts["max_concurrency"] == 4096 * 128 / 1024
    assert report.facts["init_engine_seconds"] == 27.04
    assert report.clamps == ()
    assert adjusted(report) == {"VLLM_USE_V2_MODEL_RUNNER": (None, "V1")}
    assert report.unread_lines == 0


def test_time_of_a_boot_is_that_of_its_clocks() -> None:
    """22:06:59 arguments, :07:20 group and weights, :21 compiles, :46 pool, :48 warm-up, :49 up."""
    spans = {span.phase: span.seconds for span in read(load(SERVED)).timeline}
    assert spans["args"] == 21
    assert spans["load_weights"] == 1
    assert spans["kv_pool"] == 2
    assert spans["warmup"] == 1
    assert spans["ready"] is None
    assert spans["serving"] is None


def test_a_core_that_was_killed() -> None:
    report = read(load(SPECULATING))
    assert report.fatal is not None
    assert report.fatal.kind == "scheduler_crash"
    assert "ended without an exception of its own" in str(report.fatal.summary)
    assert "engine core exited unexpectedly" in report.fatal.evidence[0].text
    assert report.facts["phase_at_failure"] == "serving"
    # --num-gpu-blocks-override 20, blocks of 128 tokens; ngram drafts 3.
    assert report.facts["kv_tokens"] == 20 * 128
    assert report.facts["max_concurrency"] == 20 * 128 / 1024
    assert report.facts["num_speculative_tokens"] == 3
    assert adjusted(report)["num_gpu_blocks"] == (4096, 20)
    assert adjusted(report)["--async-scheduling"] == (True, False)
    assert report.unread_lines == 0


@pytest.mark.parametrize(("name", "kind", "words", "line"), REFUSALS)
def test_a_start_that_failed(name: str, kind: str, words: str, line: int) -> None:
    report = read(load(f"vllm/cpu-0.32.0-{name}.log"))
    assert report.fatal is not None
    assert (report.fatal.kind, report.ready) == (kind, False)
    assert words in str(report.fatal.summary)
    assert report.fatal.evidence[0].line == line
    assert report.facts["phase_at_failure"] == "args"


def test_an_exception_of_the_core_outranks_that_it_is_gone() -> None:
    log = """\
(EngineCore pid=7) ERROR 11-29 22:17:12 [core.py:1] EngineCore encountered a fatal error.
(EngineCore pid=7) ERROR 11-29 22:17:12 [core.py:1] Traceback (most recent call last):
(EngineCore pid=7) ERROR 11-29 22:17:12 [core.py:1]   File "/opt/vllm/v1/core.py", line 1, in run
(EngineCore pid=7) ERROR 11-29 22:17:12 [core.py:1] ValueError: a shape that does not fit
(APIServer pid=5) WARNING 11-29 22:17:12 [core_client.py:817] [shutdown] MPClient: engine core \
exited unexpectedly; starting cleanup
(APIServer pid=5) ERROR 11-29 22:17:12 [async_llm.py:906] AsyncLLM output_handler failed.
"""
    fatal = read_text(log).fatal
    assert fatal is not None
    assert "a shape that does not fit" in fatal.evidence[0].text


def test_compilation_names_a_part_of_the_model() -> None:
    log = """\
(EngineCore pid=7) INFO 11-29 22:07:20 [gpu_model_runner.py:1] Starting to load model /m...
(EngineCore pid=7) INFO 11-29 22:07:45 [monitor.py:48] [backbone] torch.compile took 24.13 s in \
total
(EngineCore pid=7) INFO 11-29 22:07:46 [cpu_worker.py:260] Auto set (2.5/23.21) GiB for KV cache \
on node 0, with 3.5 GiB requested memory for the worker.
"""
    facts = read_text(log).facts
    assert facts["compile_seconds"] == 24.13
    assert facts["available_kv_gib"] == 2.5
