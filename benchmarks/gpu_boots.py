"""Predict, boot, compare: pool sizes of real SGLang boots against the plan made before each.

On a GPU machine::

    python benchmarks/gpu_boots.py --interpreter python3 --model models/hybrid-27b-cg \
        --out benchmarks/results/h200-0.5.17.json

Every boot is planned first, from the flags, the model's config.json and the GPU's free memory as
NVML gives it before anything runs; then SGLang starts with ``--load-format dummy`` and its log says
what it got. A third column replans with the free memory that the engine prints at ``Load weight
begin``. Results are appended boot by boot, so that a run can be continued (``--only``).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qwen_tui_diagnostics.enginelog import LogReader
from qwen_tui_profiles.errors import QwenTuiError
from qwen_tui_profiles.plan.headers import has_weights, read_stored_sizes
from qwen_tui_profiles.plan.model import read_config
from qwen_tui_profiles.plan.predict import PlanRequest, predict

_GIB = 1 << 30
_COMMON = [
    "--load-format",
    "dummy",
    "--attention-backend",
    "triton",
    "--linear-attn-backend",
    "triton",
    "--grammar-backend",
    "none",
    "--cuda-graph-backend-prefill",
    "disabled",
    "--cuda-graph-max-bs-decode",
    "4",
    "--enable-metrics",
]
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "SGLANG_SKIP_SGL_KERNEL_VERSION_CHECK": "1",
    "FLASHINFER_DISABLE_VERSION_CHECK": "1",
    "PYTHONUNBUFFERED": "1",
}
_NEXTN = (
    "--speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1 "
    "--speculative-num-draft-tokens 4"
)
_EAGLE6 = (
    "--speculative-algorithm EAGLE --speculative-num-steps 5 --speculative-eagle-topk 1 "
    "--speculative-num-draft-tokens 6"
)
_FP8 = "--kv-cache-dtype fp8_e4m3"


@dataclass(frozen=True)
class Boot:
    """One launch, and which terms of the arithmetic it exercises."""

    name: str
    args: str
    terms: str
    dies: bool = False
    """The plan must say that this one refuses to start."""


BOOTS = (
    Boot(
        "lazy-5-1-6-page32",
        f"{_EAGLE6} {_FP8} --mamba-radix-cache-strategy extra_buffer_lazy --mem-fraction-static "
        "0.60 --max-running-requests 4 --max-mamba-cache-size 9 --page-size 32 "
        "--context-length 131072",
        "lazy strategy, clamp 4 to 2, fp32 state, page rounding",
    ),
    Boot(
        "no-drafts-bf16-kv",
        "--mem-fraction-static 0.55 --max-running-requests 6 --max-mamba-cache-size 24 "
        "--mamba-ssm-dtype bfloat16",
        "no draft model, bf16 KV cache, clamp 6 to 4",
    ),
    Boot(
        "draft-path",
        f"{_NEXTN} {_FP8} --speculative-draft-model-path MODEL --mem-fraction-static 0.58 "
        "--max-running-requests 3 --max-mamba-cache-size 20 --mamba-ssm-dtype bfloat16",
        "draft path: every token charged five times",
    ),
    Boot(
        "automatic-slots",
        f"{_NEXTN} {_FP8} --mem-fraction-static 0.66 --mamba-full-memory-ratio 0.4",
        "slots and requests solved from the ratio, 48 requests by default",
    ),
    Boot(
        "radix-off",
        f"{_FP8} --disable-radix-cache --mem-fraction-static 0.52 --max-running-requests 5",
        "no prefix cache: one slot a request",
    ),
    Boot(
        "max-total-tokens",
        f"{_NEXTN} {_FP8} --mem-fraction-static 0.60 --max-total-tokens 100001 --page-size 64 "
        "--max-running-requests 2 --max-mamba-cache-size 12",
        "user limit below the pool, page rounding, declared context larger than the pool",
    ),
    Boot(
        "automatic-fraction",
        f"{_NEXTN} {_FP8} --max-running-requests 2 --max-mamba-cache-size 16 "
        "--mamba-ssm-dtype bfloat16",
        "mem-fraction-static and chunk size chosen by the engine, multimodal factor",
    ),
    Boot(
        "features-on-cpu",
        f"{_NEXTN} {_FP8} --mm-feature-transport cpu --mem-fraction-static 0.60 "
        "--max-running-requests 2 --max-mamba-cache-size 16 --mamba-ssm-dtype bfloat16",
        "no pool for image features on the card",
    ),
    Boot(
        "tight-pool",
        f"{_EAGLE6} {_FP8} --mem-fraction-static 0.445 --max-running-requests 1 "
        "--max-mamba-cache-size 8 --mamba-ssm-dtype bfloat16 --page-size 32",
        "small pool: fixed terms weigh most",
    ),
    Boot(
        "too-small",
        f"{_NEXTN} {_FP8} --mem-fraction-static 0.40 --max-running-requests 2",
        "no room for state: refuses to start",
        dies=True,
    ),
)

_LOAD_BEGIN = re.compile(r"Load weight begin\. avail mem=([0-9.]+) GB")
_KV_LINE = re.compile(r"#tokens: (\d+)")
_SLOTS = re.compile(r"max_mamba_cache_size: (\d+)")
_SUMMARY = re.compile(r"max_total_num_tokens=(\d+),.*?max_running_requests=(\d+)")
_CONTEXT_LINE = re.compile(r"context_len=(\d+)")
_FRACTION = re.compile(r"mem_fraction_static=([0-9.]+)")


def free_bytes(index: int) -> tuple[int, int]:
    """Free and total bytes of a GPU, from NVML, else from nvidia-smi with a time limit."""
    try:
        import pynvml

        pynvml.nvmlInit()
        try:
            info = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(index))
            return int(info.free), int(info.total)
        finally:
            pynvml.nvmlShutdown()
    except ImportError:
        out = subprocess.run(
            [
                "nvidia-smi",
                "--query-gpu=memory.free,memory.total",
                "--format=csv,noheader,nounits",
                "-i",
                str(index),
            ],
            capture_output=True,
            text=True,
            timeout=90,
            check=True,
        ).stdout
        free, total = out.strip().split(",")
        return int(free) << 20, int(total) << 20


def plan_of(
    boot: Boot,
    model: Path,
    version: str,
    *,
    live_gib: float | None,
    printed_gib: float | None,
    total_gib: float,
) -> dict[str, Any]:
    """Predict one boot; the errors of the planner are part of the result."""
    args = [*_COMMON, *(str(model) if w == "MODEL" else w for w in boot.args.split())]
    stored = read_stored_sizes(model) if has_weights(model) else None
    try:
        plan = predict(
            PlanRequest(
                args,
                read_config(model),
                engine_version=version,
                stored=stored,
                live_free_gib=live_gib,
                free_gib=printed_gib,
                total_gib=total_gib,
            )
        )
    except QwenTuiError as error:
        return {"error": str(error.message)}
    document = plan.as_json()
    keys = (
        "fits",
        "kv_tokens",
        "max_running_requests",
        "mamba",
        "weights_gib",
        "draft_gib",
        "context",
        "mem_fraction_static",
        "failure",
    )
    return {key: document[key] for key in keys}


class Server:
    """One engine process in a session of its own; always ended."""

    def __init__(self, argv: list[str], env: dict[str, str], log: Path) -> None:
        self._log = log
        with log.open("wb") as stream:
            self._process = subprocess.Popen(
                argv,
                stdout=stream,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=env,
                start_new_session=True,
            )

    def wait(self, until: str, limit_s: float) -> tuple[str, float]:
        """Wait for the summary line or readiness; return how it ended and how long it took."""
        started = time.monotonic()
        while time.monotonic() - started < limit_s:
            text = self._log.read_bytes().decode("utf-8", "replace")
            if self._reached(text, until):
                return "reached", time.monotonic() - started
            if self._process.poll() is not None:
                return f"exited {self._process.returncode}", time.monotonic() - started
            time.sleep(0.5)
        return "time limit", time.monotonic() - started

    @staticmethod
    def _reached(text: str, until: str) -> bool:
        if until == "ready":
            return "The server is fired up and ready to roll!" in text
        return _SUMMARY.search(text) is not None

    def stop(self) -> None:
        """TERM to the main process alone, then KILL to its group."""
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=25)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=30)


def measured(log: Path, argv: list[str]) -> dict[str, Any]:
    """Read what the engine got; the summary line has the last word on pools and requests."""
    data = log.read_bytes()
    reader = LogReader(argv)
    reader.feed(data)
    reader.finish()
    report = reader.report()
    text = data.decode("utf-8", "replace")
    summary = _SUMMARY.search(text)
    pools = _KV_LINE.findall(text)
    slots = _SLOTS.search(text)
    begin = _LOAD_BEGIN.search(text)
    fraction = _FRACTION.search(text)
    return {
        "kv_tokens": int(summary[1]) if summary else (int(pools[0]) if pools else None),
        "max_running_requests": int(summary[2]) if summary else None,
        "mamba_slots": int(slots[1]) if slots else None,
        "free_before_load_gib": float(begin[1]) if begin else None,
        "mem_fraction_static": float(fraction[1]) if fraction else None,
        "facts": dict(report.facts),
        "clamps": [clamp.as_json() for clamp in report.clamps],
        "fatal": None if report.fatal is None else report.fatal.as_json(),
    }


def error_pct(predicted: dict[str, Any], got: dict[str, Any]) -> float | None:
    """Error of the predicted pool in percent of the measured one."""
    value = predicted.get("kv_tokens", {}).get("value")
    real = got["kv_tokens"]
    if value is None or not real:
        return None
    return round((float(value) / float(real) - 1) * 100, 4)


def run_boot(boot: Boot, options: argparse.Namespace, results: dict[str, Any]) -> None:
    """Plan, boot, read, compare; the row is added to ``results``."""
    model = Path(options.model).resolve()
    free, total = free_bytes(options.gpu)
    live_gib, total_gib = free / _GIB, total / _GIB
    before = plan_of(
        boot, model, options.version, live_gib=live_gib, printed_gib=None, total_gib=total_gib
    )
    words = [str(model) if w == "MODEL" else w for w in boot.args.split()]
    argv = [
        options.interpreter,
        "-m",
        "sglang.launch_server",
        "--model-path",
        str(model),
        "--host",
        "127.0.0.1",
        "--port",
        str(free_port()),
        *_COMMON,
        *words,
    ]
    log = Path(options.logs) / f"{boot.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    note(f"{boot.name}: predicted {summary_of(before)}; free {live_gib:.2f} GiB; booting")
    server = Server(argv, {**os.environ, **_ENVIRONMENT}, log)
    try:
        end, seconds = server.wait(options.until, options.limit)
    finally:
        server.stop()
    got = measured(log, argv)
    printed = got["free_before_load_gib"]
    after = (
        None
        if printed is None
        else plan_of(
            boot, model, options.version, live_gib=None, printed_gib=printed, total_gib=total_gib
        )
    )
    row = {
        "name": boot.name,
        "terms": boot.terms,
        "args": words,
        "free_before_launch_gib": round(live_gib, 3),
        "total_gib": round(total_gib, 3),
        "predicted": before,
        "predicted_from_printed_free": after,
        "measured": got,
        "error_pct": error_pct(before, got),
        "error_from_printed_pct": None if after is None else error_pct(after, got),
        "requests_right": before.get("max_running_requests", {}).get("predicted")
        == got["max_running_requests"],
        "refusal_right": (before.get("fits") is False) == (got["fatal"] is not None),
        "ended": end,
        "seconds": round(seconds, 1),
    }
    results["boots"] = [r for r in results["boots"] if r["name"] != boot.name] + [row]
    note(
        f"{boot.name}: measured {got['kv_tokens']} tokens, {got['max_running_requests']} requests; "
        f"error {row['error_pct']} % before, {row['error_from_printed_pct']} % from printed "
        f"({end}, {seconds:.0f} s)"
    )
    wait_for_memory(options.gpu, free)


def summary_of(plan: dict[str, Any]) -> str:
    if "error" in plan:
        return f"error: {plan['error']}"
    if plan["failure"] is not None:
        return f"refusal: {plan['failure']['summary']}"
    tokens = plan["kv_tokens"]
    return (
        f"{tokens['value']} tokens ({tokens['low']} to {tokens['high']}), "
        f"{plan['max_running_requests']['predicted']} requests"
    )


def wait_for_memory(gpu: int, free: int, limit_s: float = 60) -> None:
    """Wait until the card has its memory back, so that the next prediction starts clean."""
    started = time.monotonic()
    while time.monotonic() - started < limit_s:
        if free_bytes(gpu)[0] >= free - (256 << 20):
            return
        time.sleep(1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--interpreter", default=sys.executable, help="Python that has sglang")
    parser.add_argument("--model", required=True, help="folder with config.json (and tokenizer)")
    parser.add_argument("--version", default="0.5.17", help="SGLang release (default 0.5.17)")
    parser.add_argument("--out", required=True, help="JSON file; continued if it exists")
    parser.add_argument("--logs", default="boot-logs", help="folder for the engine logs")
    parser.add_argument("--only", nargs="*", default=None, metavar="NAME", help="these boots")
    parser.add_argument("--until", choices=("summary", "ready"), default="summary")
    parser.add_argument("--limit", type=float, default=240, help="seconds per boot")
    parser.add_argument("--budget", type=float, default=560, help="seconds for the whole run")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="list the boots and leave")
    options = parser.parse_args()
    if options.list:
        for boot in BOOTS:
            print(f"{boot.name:<20} {boot.terms}")
        return 0
    out = Path(options.out)
    results: dict[str, Any] = (
        json.loads(out.read_text(encoding="utf-8")) if out.is_file() else {"boots": []}
    )
    results |= {
        "schema": "qwen-tui.gpu-boots/1",
        "engine_version": options.version,
        "model": Path(options.model).name,
        "common_args": list(_COMMON),
    }
    started = time.monotonic()
    done = {row["name"] for row in results["boots"]}
    wanted = [
        boot
        for boot in BOOTS
        if (boot.name in options.only if options.only else boot.name not in done)
    ]
    for boot in wanted:
        left = options.budget - (time.monotonic() - started)
        if left < 45:
            note(f"out of time before {boot.name}; run again to continue")
            break
        options.limit = min(options.limit, left - 30)
        run_boot(boot, options, results)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(results, indent=1), encoding="utf-8")
    errors = [abs(r["error_pct"]) for r in results["boots"] if r["error_pct"] is not None]
    if errors:
        note(f"{len(results['boots'])} boots, largest error {max(errors):.3f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
