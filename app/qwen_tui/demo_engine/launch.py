"""From the command line to a serving engine, and from a signal to its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
import socket
import sys
from typing import TYPE_CHECKING

from qwen_tui.demo_engine import SIMULATED_BANNER
from qwen_tui.demo_engine.arguments import parse_command
from qwen_tui.demo_engine.boot import Clock, load
from qwen_tui.demo_engine.log import emit, emit_raw, uvicorn_line
from qwen_tui.demo_engine.metric_table import GRAPH_PHASES
from qwen_tui.demo_engine.settings import Refused, resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qwen_tui.demo_engine.arguments import ParsedCommand
    from qwen_tui.demo_engine.engine import Engine
    from qwen_tui.demo_engine.memory import Budget
    from qwen_tui.demo_engine.settings import Settings

__all__ = ["main"]

_EFFECTIVE = frozenset(
    {
        "admin_api_key", "api_key", "chunked_prefill_size", "context_length",
        "decode_log_interval", "disable_overlap_schedule", "disable_radix_cache",
        "enable_cache_report", "enable_metrics", "enable_mixed_chunk", "host", "kv_cache_dtype",
        "linear_attn_backend", "mamba_full_memory_ratio", "mamba_radix_cache_strategy",
        "mamba_ssm_dtype", "max_mamba_cache_size", "max_queued_requests", "max_running_requests",
        "max_total_tokens", "mem_fraction_static", "model_path", "page_size", "port",
        "reasoning_parser", "served_model_name", "skip_server_warmup",
        "speculative_algorithm", "speculative_draft_model_path", "speculative_eagle_topk",
        "speculative_num_draft_tokens", "speculative_num_steps", "tokenizer_path",
        "tool_call_parser",
    }
)  # fmt: skip
"""Flags that change what the simulation does; others are named in the log as accepted only."""


def main(argv: Sequence[str]) -> int:
    """Run the simulated engine until it is stopped; return its exit code."""
    command = parse_command(argv)
    emit(SIMULATED_BANNER)
    try:
        settings, lines = resolve(command)
    except Refused as refusal:
        emit_raw(f'Traceback (most recent call last):\n  File "<sglang>", line 1\n{refusal}\n')
        return 1
    for line in lines:
        emit(line)
    _note_unused(command)
    emit(f"server_args={settings.server_args!r}")
    if command.demo.fault == "ignore-term":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    from qwen_tui.demo_engine.lifecycle import Lifecycle

    clock = Clock(command.demo.load_seconds)
    lifecycle = Lifecycle(command.demo)
    try:
        budget = load(settings, command.demo, clock)
        return asyncio.run(_serve(command, settings, budget, clock, lifecycle))
    finally:
        lifecycle.end_child()


def _note_unused(command: ParsedCommand) -> None:
    unused = sorted(set(command.given) - _EFFECTIVE)
    if unused:
        flags = ", ".join("--" + name.replace("_", "-") for name in unused)
        emit(f"SIMULATED ENGINE: accepted, with no effect on the simulation: {flags}")


async def _serve(
    command: ParsedCommand,
    settings: Settings,
    budget: Budget,
    clock: Clock,
    lifecycle: object,
) -> int:
    import uvicorn

    from qwen_tui.demo_engine.api.app import build_app
    from qwen_tui.demo_engine.engine import Engine
    from qwen_tui.demo_engine.lifecycle import Lifecycle

    assert isinstance(lifecycle, Lifecycle)
    engine = Engine(settings, budget, command.demo, on_request=lifecycle.on_request)
    engine.launch_command = shlex.join(
        _without_secrets(["python", "-m", "sglang.launch_server", *command.argv])
    )
    _startup_times(engine, clock)
    pid = os.getpid()
    uvicorn_line(f"Started server process [{pid}]")
    uvicorn_line("Waiting for application startup.")
    uvicorn_line("Application startup complete.")
    listener = _bind(settings)
    if listener is None:
        emit(f"kill_process_tree called: parent_pid={pid}, include_parent=False, pid={pid}")
        return 1
    config = uvicorn.Config(
        build_app(engine), log_config=None, access_log=False, lifespan="off", ws="none"
    )
    server = uvicorn.Server(config)
    # Signals have SGLang's meaning, not uvicorn's.
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
    tasks = [
        asyncio.create_task(engine.scheduler.run()),
        asyncio.create_task(server.serve(sockets=[listener])),
    ]
    while not server.started:  # noqa: ASYNC110 - uvicorn tells it by this attribute alone
        await asyncio.sleep(0.002)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    uvicorn_line(f"Uvicorn running on http://{host}:{settings.port} (Press CTRL+C to quit)")
    lifecycle.attach(engine, server)
    if not settings.skip_warmup:
        await _warm_up(settings)
    engine.ready = True
    emit("The server is fired up and ready to roll!")
    watch = asyncio.create_task(lifecycle.watch())
    code = 0
    done, _ = await asyncio.wait([*tasks, watch], return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    for task in (*tasks[:1], watch):
        task.cancel()
    server.should_exit = True
    await tasks[1]
    return code


def _bind(settings: Settings) -> socket.socket | None:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        emit(
            f"ERROR:    [Errno {error.errno}] error while attempting to bind on address "
            f"({settings.host!r}, {settings.port}): {(error.strerror or '').lower()}"
        )
        return None
    return listener


def _startup_times(engine: Engine, clock: Clock) -> None:
    graphs = {phase: clock.spent.get(phase, 0.0) for phase in GRAPH_PHASES}
    times = {
        "load_weight": clock.spent.get("load_weight", 0.0),
        "kv_cache_allocation": clock.spent.get("kv_cache_allocation", 0.0),
        "scheduler_e2e": clock.elapsed,
        "tokenizer_e2e": clock.elapsed,
    }
    engine.startup = {**times, "cuda_graph": graphs}
    engine.observer.started(times, graphs)
    listed = ", ".join(f"{name}={value:.2f}" for name, value in graphs.items())
    emit(
        f"Engine startup timings (s): load_weight={times['load_weight']:.2f}, "
        f"kv_cache_allocation={times['kv_cache_allocation']:.2f}, "
        f"scheduler_e2e={times['scheduler_e2e']:.2f}, cuda_graph={{{listed}}}, "
        f"tokenizer_e2e={times['tokenizer_e2e']:.2f}"
    )


def _without_secrets(argv: list[str]) -> list[str]:
    from qwen_tui_profiles.foreign import redact_argv

    return list(redact_argv(argv))


async def _warm_up(settings: Settings) -> None:
    """Send the requests that SGLang sends to itself before it calls itself ready."""
    chat = {
        "model": settings.served_name,
        "messages": [{"role": "user", "content": "Describe this in one word."}],
        "max_tokens": 8,
        "temperature": 0,
    }
    for method, path, body in (
        ("GET", "/model_info", None),
        ("POST", "/v1/chat/completions", chat),
        ("POST", "/freeze_gc", None),
    ):
        await _ask_oneself(settings, method, path, body)


async def _ask_oneself(settings: Settings, method: str, path: str, body: object) -> None:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    reader, writer = await asyncio.open_connection(host, settings.port)
    data = b"" if body is None else json.dumps(body).encode()
    key = f"Authorization: Bearer {settings.api_key}\r\n" if settings.api_key else ""
    writer.write(
        f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{key}Content-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode()
        + data
    )
    await reader.read()
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
