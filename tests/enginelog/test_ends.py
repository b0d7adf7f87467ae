"""Boots in one log, how they end, and what they say while they serve."""

from __future__ import annotations

import pytest

from enginelog.reading import load, read, read_text
from enginelog.sglang_lines import ARGS, READY, SUMMARY, at
from qwen_tui_diagnostics.enginelog import LogReader


def test_a_restart_loop_is_read_boot_by_boot() -> None:
    one, two = load("h200/b27-notenough.log"), load("h200/cg27-lazy-5-1-6.log")
    reader = LogReader()
    reader.feed(one + two + one)
    reader.finish()
    assert reader.boots == 3
    first, second, third = reader.reports()
    assert [r.boot for r in (first, second, third)] == [1, 2, 3]
    assert first.fatal is not None
    assert first.fatal.kind == "mamba_pool_too_small"
    assert (second.ready, second.fatal) == (True, None)
    assert second.facts["kv_tokens"] == 840736
    assert second.facts == read(two).facts
    assert third.fatal is not None
    assert third.facts["kv_tokens"] is None
    assert second.first_line == one.count(b"\n") + 1
    assert reader.report(2).facts["kv_tokens"] == 840736


def test_a_boot_without_launcher_line_begins_at_its_arguments() -> None:
    boot = at(ARGS.format(asked=4)) + at(SUMMARY.format(running=2)) + READY
    reader = LogReader()
    reader.feed((boot * 3).encode())
    assert reader.boots == 3
    assert reader.report().ready


def test_refused_starts_are_boots_too() -> None:
    reader = LogReader()
    reader.feed(load("h200/tiny-ctx-too-long.log") * 3)
    assert reader.boots == 3
    assert all(r.fatal and r.fatal.kind == "context_too_long" for r in reader.reports())


def test_many_boots_are_counted_and_the_wanted_one_is_kept() -> None:
    reader = LogReader(boot=2)
    reader.feed(load("h200/b27-notenough.log"))
    reader.feed(load("h200/tiny-hicache.log"))
    for _ in range(80):
        reader.feed(at(ARGS.format(asked=4)).encode())
    assert reader.boots == 82
    assert len(reader.reports()) <= 66
    assert reader.report(2).facts["kv_tokens"] == 1599522
    with pytest.raises(KeyError):
        reader.report(1)


def test_a_later_death_does_not_undo_readiness() -> None:
    text = (
        at(ARGS.format(asked=4))
        + at(SUMMARY.format(running=4))
        + READY
        + at("Scheduler hit an exception: Traceback (most recent call last):", 60)
        + '  File "x.py", line 1, in event_loop_overlap\n'
        + "AssertionError: Can not alloc mamba cache\n\n"
        + at("SIGQUIT received. signum=None, frame=None. It usually means one child failed.", 61)
    )
    report = read_text(text)
    assert report.ready
    assert report.fatal is not None
    assert report.fatal.kind == "mamba_slots_exhausted"
    assert (report.phase, report.facts["phase_at_failure"]) == ("serving", "serving")


def test_term_to_the_group_is_a_stop() -> None:
    text = (
        at(ARGS.format(asked=4))
        + READY
        + at("Subprocess scheduler_0 (pid=28231) crashed with exit code -15. Triggering SIGQUIT "
             "for cleanup...", 60)
        + at("SIGQUIT received. signum=None, frame=None. It usually means one child failed.", 60)
    )  # fmt: skip
    report = read_text(text)
    assert (report.phase, report.fatal, report.ready) == ("stopping", None, True)


@pytest.mark.parametrize(
    ("code", "kind"), [("-9", "killed"), ("-11", "scheduler_crash"), ("1", "scheduler_crash")]
)
def test_exit_codes(code: str, kind: str) -> None:
    text = READY + at(f"Subprocess scheduler_0 (pid=2) crashed with exit code {code}. Triggering "
                      "SIGQUIT for cleanup...", 60)  # fmt: skip
    fatal = read_text(text).fatal
    assert fatal is not None
    assert fatal.kind == kind


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Rank 0 scheduler died during initialization (exit code: -9). If exit code is -9 "
         "(SIGKILL), a common cause is the OS OOM killer.", "killed"),
        ("ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): "
         "address already in use", "port_in_use"),
        ("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
         "watchdog_timeout"),
        ("Initialization failed. warmup error: Traceback (most recent call last):",
         "engine_start_failed"),
    ],
)  # fmt: skip
def test_deaths_in_one_line(line: str, kind: str) -> None:
    fatal = read_text(at(ARGS.format(asked=4)) + at(line, 9)).fatal
    assert fatal is not None
    assert fatal.kind == kind


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("launch_server.py: error: unrecognized arguments: --bogus 1", "bad_argument"),
        ("sglang serve: error: ambiguous option: --cuda-graph-max-bs could match "
         "--cuda-graph-max-bs-decode, --cuda-graph-max-bs-prefill", "bad_argument"),
        ("sglang serve: error: argument --kv-cache-dtype: invalid choice: 'fp9' (choose from "
        "'auto')",
         "bad_argument"),
        ("Killed", "killed"),
        ("bash: line 1: 4242 Killed                  python3 -m sglang.launch_server", "killed"),
        ("sglang-1 exited with code 137", "killed"),
    ],
)  # fmt: skip
def test_deaths_outside_the_logger(line: str, kind: str) -> None:
    fatal = read_text(line + "\n").fatal
    assert fatal is not None
    assert fatal.kind == kind


@pytest.mark.parametrize(
    ("phase_line", "phase", "word"),
    [
        ("Load weight begin. avail mem=23.00 GB", "load_weights", "does not help"),
        ("Memory pool end. avail mem=0.49 GB", "kv_pool", "lower --mem-fraction-static"),
        ("Capture target decode CUDA graph begin. avail mem=0.1 GB", "graph_capture",
         "lower --mem-fraction-static"),
        ("The server is fired up and ready to roll!", "serving", "lower --mem-fraction-static"),
    ],
)  # fmt: skip
def test_out_of_memory_has_two_directions(phase_line: str, phase: str, word: str) -> None:
    text = (
        at(ARGS.format(asked=4))
        + at(phase_line, 5)
        + at("Scheduler hit an exception: Traceback (most recent call last):", 6)
        + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a "
        "total "
        "capacity of 23.56 GiB of which 512.00 MiB is free.\n"
    )
    report = read_text(text)
    assert report.fatal is not None
    assert report.fatal.kind == "cuda_oom"
    assert word in str(report.fatal.remedy)
    assert report.facts["phase_at_failure"] == phase
    assert report.facts["oom_wanted_mib"] == 2048.0
    assert report.facts["oom_free_mib"] == 512.0


def test_capture_failure_keeps_its_root() -> None:
    text = (
        at("Capture cuda graph begin. This can take up to several minutes. avail mem=1.00 GB")
        + at("Scheduler hit an exception: Traceback (most recent call last):", 1)
        + '  File "x.py", line 1, in capture\n'
        + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 384.00 MiB. x\n\n"
        + "During handling of the above exception, another exception occurred:\n\n"
        + "Traceback (most recent call last):\n"
        + '  File "x.py", line 2, in run\n'
        + "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 384.00 "
        "MiB.\n"
        + at("Received sigquit from a child process. It usually means the child failed.", 2)
    )
    report = read_text(text)
    assert report.fatal is not None
    assert (report.fatal.kind, report.fatal.evidence[0].line) == ("cuda_oom", 4)


def test_exception_without_a_class_of_its_own() -> None:
    text = (
        at(ARGS.format(asked=4))
        + at("Scheduler hit an exception: Traceback (most recent call last):", 1)
        + '  File "x.py", line 1, in f\nZeroDivisionError: division by zero\n'
        + at("Received sigquit from a child process. It usually means the child failed.", 2)
    )
    fatal = read_text(text).fatal
    assert fatal is not None
    assert fatal.kind == "scheduler_crash"
    assert "ZeroDivisionError" in fatal.evidence[0].text


def test_caught_exceptions_are_no_death() -> None:
    text = (
        at(ARGS.format(asked=4))
        + "Traceback (most recent call last):\n"
        + '  File "x.py", line 1, in f\n'
        + "ModuleNotFoundError: No module named 'torchcodec'\n"
        + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. x\n"
        + at(SUMMARY.format(running=4), 5)
        + READY
    )
    report = read_text(text)
    assert (report.ready, report.fatal) == (True, None)


def test_service_that_began_before_the_log() -> None:
    served = '[2026-11-29 14:00:00] INFO:     10.0.0.1:9 - "POST /generate HTTP/1.1" 200 OK\n'
    assert not read_text(served).ready  # one answer may be the warm-up
    report = read_text(served * 2)
    assert (report.ready, report.phase, report.engine) == (True, "serving", "sglang")


def test_server_up_is_not_ready() -> None:
    text = at(SUMMARY.format(running=4)) + at("INFO:     Application startup complete.", 1)
    text += at("INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)", 1)
    text += at('INFO:     127.0.0.1:34224 - "GET /model_info HTTP/1.1" 200 OK', 2)
    text += at("Prefill batch, #new-seq: 1, #new-token: 16, #cached-token: 0, token usage: 0.00, "
               "#running-req: 0, #queue-req: 0, ", 3)  # fmt: skip
    report = read_text(text)
    assert (report.ready, report.phase) == (False, "warmup")


def test_pinned_accept_length_is_said() -> None:
    decode = ("Decode batch, #running-req: 1, #full token: 960, full token usage: 0.00, mamba num: "
              "3, mamba usage: 0.38, accept len: {n}, accept rate: 0.00, cuda graph: True, gen "
              "throughput (token/s): 43.5, #queue-req: 0")  # fmt: skip
    pinned = read_text("".join(at(decode.format(n="1.00"), i) for i in range(6)))
    assert [f.rule for f in pinned.findings] == ["log.accept_pinned"]
    moving = read_text("".join(at(decode.format(n=f"1.0{i % 2}"), i) for i in range(6)))
    assert moving.findings == ()
    few = read_text("".join(at(decode.format(n="1.00"), i) for i in range(4)))
    assert few.findings == ()


def test_old_runtime_lines() -> None:
    text = at("Decode batch. #running-req: 1, #token: 2102, token usage: 0.51, cuda graph: True, "
              "gen throughput (token/s): 93.51, #queue-req: 0", rank=" TP0")  # fmt: skip
    text += at("Decode batch, #running-req: 1, #token: 2142, token usage: 0.52, accept len: 2.40, "
               "accept rate: 0.50, cuda graph: True, gen throughput (token/s): 94.50, #queue-req: "
               "3, ", 1, rank=" TP0")  # fmt: skip
    facts = read_text(text).facts
    assert facts["gen_tps_last"] == 94.5
    assert facts["kv_usage_last"] == 0.52
    assert facts["waiting_last"] == 3
    assert facts["accept_len_last"] == 2.4


def test_output_of_a_benchmark_client_says_so() -> None:
    text = (
        "Namespace(backend='sglang', host='127.0.0.1')\n"
        "Starting initial single prompt test run...\n"
        "============ Serving Benchmark Result ============\n"
        "Output token throughput (tok/s):         142.20\n"
        "Mean TTFT (ms):                          431.10\n"
    )
    report = read_text(text)
    assert (report.engine, report.subject, report.ready) == (None, "client", False)
    assert report.coverage is None
