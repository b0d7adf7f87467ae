"""The same log, as people's tools hand it over: every form reads like the clean one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from enginelog.reading import DATA, load, read
from qwen_tui_diagnostics.enginelog import LogReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from qwen_tui_diagnostics.enginelog import LogReport

FILES = sorted(
    str(p.relative_to(DATA)) for p in DATA.rglob("*.log") if not p.name.startswith("gallery")
)


def essence(report: LogReport) -> dict[str, Any]:
    """Everything but line numbers, clocks, quoted text and coverage."""
    return {
        "engine": report.engine,
        "ready": report.ready,
        "phase": report.phase,
        "facts": dict(report.facts),
        "clamps": [(c.arg, c.asked, c.got, c.by) for c in report.clamps],
        "adjustments": [(c.arg, c.asked, c.got, c.by) for c in report.adjustments],
        "fatal": report.fatal.kind if report.fatal else None,
        "findings": [f.rule for f in report.findings],
        "budget": [(b.part, b.gib) for b in report.budget],
        "boot": report.boot,
    }


def each_line(form: Callable[[int, str], str]) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        lines = data.decode().split("\n")
        tail = lines.pop()
        out = "".join(form(i, line) + "\n" for i, line in enumerate(lines))
        return (out + (form(len(lines), tail) if tail else "")).encode()

    return change


def _clock(i: int) -> str:
    return f"{i // 3600 % 24:02d}:{i // 60 % 60:02d}:{i % 60:02d}"


def docker_json(data: bytes) -> bytes:
    lines = data.decode().split("\n")
    return "".join(
        json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-11-29T14:00:00.1Z"},
                   separators=(",", ":")) + "\n"
        for line in lines
    ).encode()  # fmt: skip


def neighbour(data: bytes) -> bytes:
    """Docker compose with a second service that is no engine."""
    out = []
    for i, line in enumerate(data.split(b"\n")):
        out.append(b"sglang-1  | " + line)
        if i % 3 == 0:
            out.append(
                b'nginx-1   | 10.0.0.1 - - [29/Nov/2026:14:00:00 +0000] "GET / HTTP/2.0" 200'
            )
    return b"\n".join(out)


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "crlf": lambda d: d.replace(b"\n", b"\r\n"),
    "bom": lambda d: b"\xef\xbb\xbf" + d,
    "utf16": lambda d: d.decode().encode("utf-16"),
    "utf16-be": lambda d: b"\xfe\xff" + d.decode().encode("utf-16-be"),
    "compose": each_line(lambda _, s: "sglang-1  | " + s),
    "compose-colour": each_line(lambda _, s: "\x1b[36msglang-1  | \x1b[0m" + s),
    "compose-clock": each_line(lambda i, s: f"engine-1  | 2026-11-29T{_clock(i)}.123456789Z " + s),
    "docker-clock": each_line(lambda i, s: f"2026-11-29T{_clock(i)}.123456789Z " + s),
    "docker-desktop": each_line(lambda i, s: f"2026-11-29 {_clock(i)}.123 | " + s),
    "local-clock": each_line(lambda i, s: f"2026-11-29 {_clock(i)} " + s),
    "cri": each_line(lambda i, s: f"2026-11-29T{_clock(i)}.123456789Z stderr F " + s),
    "journald": each_line(lambda i, s: f"Nov 29 {_clock(i)} gpu-box sglang[4242]: " + s),
    "journald-iso": each_line(
        lambda i, s: f"2026-11-29T{_clock(i)}+0000 gpu-box sglang[4242]: " + s
    ),
    "syslog-no-pid": each_line(lambda i, s: f"Nov  9 {_clock(i)} gpu-box vllm.service: " + s),
    "kubectl-prefix": each_line(lambda _, s: "[pod/llm-0/engine] " + s),
    "ray": each_line(lambda _, s: "(Engine pid=4242) " + s),
    "ray-ip": each_line(lambda _, s: "\x1b[36m(ServeReplica:llm pid=42, ip=10.0.0.7)\x1b[0m " + s),
    "supervisor": each_line(lambda _, s: "sglang: " + s),
    "mpirun": each_line(lambda _, s: "[1,0]<stderr>:" + s),
    "foreman": each_line(lambda i, s: f"{_clock(i)} web.1 | " + s),
    "docker-json": docker_json,
    "neighbour": neighbour,
    "nul": lambda d: d.replace(b"\n", b"\x00\n"),
    "broken-utf8": lambda d: d.replace(b"\n", b"\n\xff\xfe\xc3(\n", 3),
    "megabytes": lambda d: b"x" * 3_000_000 + b"\n" + d + b"\n" + b"y" * 3_000_000 + b"\n",
    "ansi": each_line(lambda _, s: "\x1b[1;33m" + s + "\x1b[0m"),
    "blank-lines": lambda d: d.replace(b"\n", b"\n\n"),
    "old-progress": lambda d: b"\r  0%|  | 0/4 [00:00<?, ?it/s]\r 50%|# | 2/4 [00:01<00:01]\n" + d,
}  # fmt: skip

# Forms in which the traceback's own lines carry a head that hides the indentation are not made.


@pytest.mark.parametrize("name", FILES)
def test_forms_read_like_the_clean_log(name: str) -> None:
    clean = load(name)
    expected = essence(read(clean))
    for form, change in FORMS.items():
        assert essence(read(change(clean), chunk=65_536)) == expected, form


def test_progress_bar_glued_to_the_next_record() -> None:
    bar = "\r 50%|███   | 2/4 [00:02<00:02,  1.04s/it]\r100%|██████| 4/4 [00:03<00:00,  1.2it/s]"
    text = (
        "[2026-11-29 13:47:08] Capture target verify CUDA graph begin. avail mem=56.52 GB\n"
        + bar
        + "[2026-11-29 13:47:12] Capture target verify CUDA graph end. elapsed=4.27 s, mem "
        "usage=0.16 GB, avail mem=56.35 GB.\n"
    )
    report = read(text.encode())
    assert [(s.phase, s.seconds) for s in report.timeline] == [("graph_capture", 4.27)]
    glued = "Capturing CUDA graphs (decode, FULL): 100%|###| 5/5 [00:01<00:00, 4.1it/s]"
    glued += "(EngineCore pid=7) INFO 08-21 18:43:57 [w.py:5] Available KV cache memory: 2.5 GiB\n"
    assert read(glued.encode()).facts["available_kv_gib"] == 2.5


def test_milliseconds_and_rank_bags_in_the_head() -> None:
    for tag in ("", " TP0", " DP0 TP0", " DP0 PP0 ATTN_CP0 MOE_DP0 TP0 EP0"):
        line = f"[2026-11-29 13:47:08.123{tag}] Load weight begin. avail mem=137.58 GB\n"
        report = read(line.encode())
        assert report.facts["free_before_load_gib"] == 137.58, tag
        assert report.timeline[0].started is not None


def test_rank_0_outranks_the_others_whoever_comes_first() -> None:
    lines = [
        f"[2026-11-29 13:47:08 TP{rank}] Load weight end. type=X, avail mem=9 GB, mem "
        f"usage={use} GB."
        for rank, use in ((3, 1.5), (0, 1.2), (1, 1.9))
    ]
    assert read("\n".join(lines).encode() + b"\n").facts["mem_usage_gb"] == 1.2


def test_broken_characters_are_counted() -> None:
    reader = LogReader()
    reader.feed(b"[2026-11-29 13:47:08] Load weight begin. avail mem=1.5 GB\n\xff\xfe\n")
    assert reader.replaced == 2


def test_level_and_file_after_the_clock() -> None:
    """As some SGLang releases print before their logger is set up."""
    line = (
        "[2025-12-28 10:39:49] WARNING server_args.py:1543: Attention backend not specified. Use "
        "flashinfer backend by default.\n"
    )
    report = read(line.encode())
    assert [(c.arg, c.got) for c in report.adjustments] == [("--attention-backend", "flashinfer")]


@pytest.mark.parametrize("width", [80, 133, 212])
def test_argument_dump_wrapped_by_a_terminal(width: int) -> None:
    for name in ("h200/tiny-maxtotal.log", "cpu/ready.log"):
        lines = []
        for line in load(name).decode().split("\n"):
            if "server_args=" in line:
                lines += [line[i : i + width].rstrip() for i in range(0, len(line), width)]
            else:
                lines.append(line)
        wrapped = read("\n".join(lines).encode())
        clean = read(load(name))
        assert essence(wrapped) == essence(clean)


def test_logging_configurations_of_users() -> None:
    summary = (
        "max_total_num_tokens=840736, chunked_prefill_size=2048, max_prefill_tokens=16384, "
        "max_running_requests=2, context_len=32768, available_gpu_mem=5.04 GB"
    )
    for head in (
        "2026-11-29 14:08:39,123 - sglang.srt.managers.scheduler - INFO - ",
        "INFO:sglang.srt.managers.scheduler:",
        "2026-11-29 14:08:39 INFO - ",
        "",
    ):
        assert read((head + summary + "\n").encode()).facts["kv_tokens"] == 840736, head
    record = json.dumps({"asctime": "2026-11-29", "levelname": "INFO", "message": summary})
    assert read(record.encode()).facts["kv_tokens"] == 840736


def test_two_engines_in_one_compose_log() -> None:
    """Their lines are kept apart; the last that began is the report."""
    serving = load("h200/tiny-maxtotal.log").decode().splitlines()
    booting = load("h200/cg27-lazy-5-1-6.log").decode().splitlines()
    out = [f"small-1  | {line}" for line in serving[:30]]
    rest = serving[30:]
    for i, line in enumerate(booting):
        out.append(f"large-1  | {line}")
        if i % 5 == 0 and rest:
            out.append(f"small-1  | {rest.pop(0)}")
        if i % 7 == 0:
            out.append('proxy-1  | 10.0.0.1 - "GET / HTTP/1.1" 200')
    out += [f"small-1  | {line}" for line in rest]
    reader = LogReader()
    reader.feed("\n".join(out).encode() + b"\n")
    reader.finish()
    small, large = reader.reports()
    assert reader.boots == 2
    for report, name in ((small, "h200/tiny-maxtotal.log"), (large, "h200/cg27-lazy-5-1-6.log")):
        clean = essence(read(load(name)))
        assert essence(report) | {"boot": 1} == clean
    assert reader.report().boot == 2
    assert reader.report().facts["kv_tokens"] == 840736
