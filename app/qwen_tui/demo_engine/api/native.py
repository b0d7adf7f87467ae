"""SGLang's own endpoints: generation, health, state, metrics, administration."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from qwen_tui.demo_engine import ENGINE_VERSION
from qwen_tui.demo_engine.api.common import BadRequest, collect, engine_of, event, read_object
from qwen_tui.demo_engine.engine import TooLong
from qwen_tui.demo_engine.log import emit
from qwen_tui.demo_engine.replies import plan_text
from qwen_tui.demo_engine.request import Request
from qwen_tui.demo_engine.scheduler import QueueFull
from qwen_tui.demo_engine.settings import ARCHITECTURE
from qwen_tui.demo_engine.tokens import token_ids

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request as HttpRequest

    from qwen_tui.demo_engine.engine import Engine

__all__ = [
    "abort_request",
    "deprecated",
    "flush_cache",
    "freeze_gc",
    "generate",
    "health",
    "loads",
    "metrics",
    "model_info",
    "ready",
    "server_info",
]

_HEALTH_TIMEOUT_S = 20.0
"""``SGLANG_HEALTH_CHECK_TIMEOUT``."""


async def ready(http: HttpRequest) -> Response:
    """Say whether requests are taken; costs nothing."""
    engine = engine_of(http)
    return Response(status_code=200 if engine.ready and not engine.draining else 503)


async def health(http: HttpRequest) -> Response:
    """Say whether a token can be generated; costs one generation and at least a second."""
    engine = engine_of(http)
    if engine.draining:
        emit("Health check request received during shutdown. Returning 503.")
        return Response(status_code=503)
    if not engine.ready:
        return Response(status_code=503)
    probe = Request(
        prompt=[0],
        reply=plan_text("", endless=False, seed=engine.demo.seed),
        max_new=1,
        stream=False,
        counted=False,
    )
    task = asyncio.create_task(_drain(engine, probe))
    began = time.monotonic()
    await asyncio.sleep(engine.demo.health_seconds)
    while time.monotonic() - began < _HEALTH_TIMEOUT_S:
        if task.done() or _alive(engine, began):
            task.cancel()
            return Response(status_code=200)
        await asyncio.sleep(0.05)
    task.cancel()
    stamp = time.strftime("%H:%M:%S")
    emit(
        "Health check failed. Server couldn't get a response from detokenizer for last "
        f"{_HEALTH_TIMEOUT_S:.0f} seconds. tic start time: {stamp}. last_heartbeat time: {stamp}"
    )
    return Response(status_code=503)


async def model_info(http: HttpRequest) -> Response:
    """Answer ``/model_info``."""
    s = engine_of(http).settings
    return JSONResponse(
        {
            "model_path": s.model_path,
            "tokenizer_path": s.server_args["tokenizer_path"],
            "is_generation": True,
            "preferred_sampling_params": s.server_args["preferred_sampling_params"],
            "weight_version": "default",
            # It counts the tower's memory and sees nothing: who asks about a picture is told so.
            "has_image_understanding": False,
            "has_audio_understanding": False,
            "model_type": "qwen3_5",
            "architectures": [ARCHITECTURE],
            "served_model_name": s.served_name,
            "load_format": s.server_args["load_format"],
            "reasoning_parser": s.reasoning_parser,
            "tool_call_parser": s.tool_parser,
            "disaggregation_mode": "null",
            "simulated": True,
        }
    )


async def server_info(http: HttpRequest) -> Response:
    """Answer ``/server_info``: resolved arguments, what was asked, and the scheduler's state."""
    return JSONResponse(_server_info(engine_of(http)))


async def loads(http: HttpRequest) -> Response:
    """Answer ``/v1/loads``, the cheapest live figures."""
    engine = engine_of(http)
    include = http.query_params.get("include")
    wanted = {part.strip() for part in include.split(",")} if include else {"all"}
    known = {"core", "memory", "spec", "lora", "disagg", "queues", "all"}
    if not wanted <= known:
        text = f"Invalid include sections: {wanted - known}. Valid options: {sorted(known)}"
        return JSONResponse({"detail": text}, status_code=400)
    return JSONResponse(
        {
            "timestamp": datetime.now(UTC).isoformat(),
            "version": ENGINE_VERSION,
            "accelerator": "Simulated RTX 5090",
            "num_accelerators": 1,
            "loads": [_load(engine, wanted)],
        }
    )


async def metrics(http: HttpRequest) -> Response:
    """Answer ``/metrics`` (only with ``--enable-metrics``)."""
    engine = engine_of(http)
    if not engine.settings.metrics:
        return JSONResponse({"detail": "Not Found"}, status_code=404)
    return PlainTextResponse(
        engine.observer.render(), media_type="text/plain; version=0.0.4; charset=utf-8"
    )


async def flush_cache(http: HttpRequest) -> Response:
    """Empty the prefix cache; 400 while anything runs (``?timeout=`` waits)."""
    engine = engine_of(http)
    try:
        limit = float(http.query_params.get("timeout", "0"))
    except ValueError:
        return JSONResponse({"detail": "timeout must be a number"}, status_code=422)
    until = time.monotonic() + limit
    done = engine.flush()
    while not done and time.monotonic() < until:
        await asyncio.sleep(0.05)
        done = engine.flush()
    if done:
        emit("Cache flushed successfully!")
        text = "Cache flushed.\nPlease check backend logs for more details. (When there are "
        return PlainTextResponse(
            text + "running or waiting requests, the operation will not be performed.)\n"
        )
    scheduler = engine.scheduler
    emit(
        "Cache not flushed because there are pending requests. "
        f"#queue-req: {len(scheduler.waiting)}, #running-req: {len(scheduler.running)}"
    )
    return PlainTextResponse("Flush cache failed.\n", status_code=400)


async def abort_request(http: HttpRequest) -> Response:
    """Cancel a request by id, or all."""
    try:
        body = await read_object(http)
    except BadRequest as error:
        return JSONResponse({"detail": str(error)}, status_code=422)
    if body.get("abort_all"):
        engine_of(http).abort(None)
    elif isinstance(body.get("rid"), str) and body["rid"]:
        engine_of(http).abort(body["rid"])
    return Response(status_code=200)


async def freeze_gc(http: HttpRequest) -> Response:
    """Accept what the warm-up asks last."""
    del http
    return PlainTextResponse("Garbage collection frozen.\n")


async def deprecated(http: HttpRequest) -> Response:
    """Answer ``/get_model_info`` and ``/get_server_info``, with SGLang's notice in the log."""
    new = http.url.path.replace("/get_", "/")
    emit(
        f"Endpoint '{http.url.path}' is deprecated and will be removed in a future version. "
        f"Please use '{new}' instead."
    )
    return await (model_info(http) if new == "/model_info" else server_info(http))


async def generate(http: HttpRequest) -> Response:
    """Answer ``/generate``: text, token ids and ``meta_info`` with what was measured."""
    engine = engine_of(http)
    try:
        body = await read_object(http)
        request = _generate_request(engine, body)
    except TooLong as error:
        if body.get("stream"):
            return Response(_stream_error(str(error)), media_type="text/event-stream")
        return JSONResponse({"error": {"message": str(error)}}, status_code=400)
    except BadRequest as error:
        return JSONResponse({"error": {"message": str(error)}}, status_code=400)
    if request.stream:
        return StreamingResponse(_generate_stream(engine, request), media_type="text/event-stream")
    try:
        _, finish = await collect(http, engine, request)
    except QueueFull:
        message = {"error": {"message": "The request queue is full."}}
        return JSONResponse(message, status_code=503)
    if finish["type"] == "abort":
        message = {"error": {"message": str(finish["message"])}}
        return JSONResponse(message, status_code=finish["status_code"])
    return JSONResponse(_generated(engine, request, finish))


def _generate_request(engine: Engine, body: dict[str, Any]) -> Request:
    params = body.get("sampling_params") or {}
    text, ids = body.get("text"), body.get("input_ids")
    if isinstance(text, str):
        tokens = token_ids(text) or [0]
    elif isinstance(ids, list) and ids and all(isinstance(i, int) for i in ids):
        tokens, text = list(ids), ""
    else:
        message = "Either text, input_ids or input_embeds should be provided."
        raise BadRequest(message)
    asked = params.get("max_new_tokens", 128) if isinstance(params, dict) else 128
    if isinstance(asked, bool) or not isinstance(asked, int) or asked < 0:
        message = f"max_new_tokens must be at least 0, got {asked}."
        raise BadRequest(message)
    request = Request(
        prompt=tokens,
        reply=plan_text(
            text,
            endless=isinstance(params, dict) and bool(params.get("ignore_eos")),
            seed=engine.demo.seed,
        ),
        max_new=engine.limit_output(len(tokens), asked),
        stream=bool(body.get("stream")),
    )
    if isinstance(body.get("rid"), str):
        request.rid = body["rid"]
    return request


async def _drain(engine: Engine, request: Request) -> dict[str, Any]:
    finish: dict[str, Any] = {}
    async with aclosing(engine.generate(request)) as chunks:
        async for chunk in chunks:
            finish = chunk.finish or finish
    return finish


def _text(request: Request) -> str:
    parts = (request.reply.piece(i) for i in range(len(request.output)))
    return "".join(p.text for p in parts if p is not None)


def _generated(engine: Engine, request: Request, finish: dict[str, Any] | None) -> dict[str, Any]:
    meta = request.meta(engine.settings.draft_tokens)
    meta["finish_reason"] = finish
    return {"text": _text(request), "output_ids": list(request.output), "meta_info": meta}


async def _generate_stream(engine: Engine, request: Request) -> AsyncIterator[bytes]:
    async with aclosing(engine.generate(request)) as chunks:
        async for chunk in chunks:
            yield event(_generated(engine, request, chunk.finish))
    yield b"data: [DONE]\n\n"


def _stream_error(message: str) -> bytes:
    body = {
        "message": message,
        "type": "invalid_request_error",
        "code": 400,
        "retryable": False,
    }
    return b"data: " + json.dumps({"error": body}).encode() + b"\n\ndata: [DONE]\n\n"


def _alive(engine: Engine, since: float) -> bool:
    """Whether any request got a token since then (a busy engine needs no token of its own)."""
    return any((r.last_token or 0.0) > since for r in engine.scheduler.running)


def _server_info(engine: Engine) -> dict[str, Any]:
    s, b, o = engine.settings, engine.budget, engine.observer
    state: dict[str, Any] = {
        **s.server_args,
        "max_mamba_cache_size": b.slots,
        "pp_max_micro_batch_size": b.max_running,
        "last_gen_throughput": o.last_gen_throughput,
        "memory_usage": {
            "weight": round(b.weights, 3),
            "kvcache": round(b.kv, 3),
            "startup_available": round(b.available, 2),
            "token_capacity": b.kv_tokens,
            "token_capacity_swa": None,
            "graph": {
                phase: b.graphs.get(phase, 0.0)
                for phase in (
                    "prefill",
                    "decode",
                    "target_verify",
                    "draft_prefill",
                    "draft_decode",
                    "draft_extend",
                )
            },
        },
        "startup_time": engine.startup,
        "effective_max_running_requests_per_dp": b.max_running,
    }
    if o.spec_steps:
        state["avg_spec_accept_length"] = o.spec_tokens / o.spec_steps
    return {
        **s.server_args,
        "launch_command": engine.launch_command,
        "status": "ready",
        "max_total_num_tokens": b.kv_tokens,
        "max_req_input_len": b.max_req_input,
        "kv_events": None,
        "startup_time": engine.startup,
        "internal_states": [state],
        "version": ENGINE_VERSION,
        "frontend": "python",
        "simulated": True,
    }


def _load(engine: Engine, wanted: set[str]) -> dict[str, Any]:
    b, o, pool = engine.budget, engine.observer, engine.scheduler.pool
    waiting, running = engine.scheduler.waiting, engine.scheduler.running
    used = pool.used
    out: dict[str, Any] = {
        "timestamp": time.time(),
        "dp_rank": 0,
        "num_running_reqs": len(running),
        "num_waiting_reqs": len(waiting),
        "num_waiting_uncached_tokens": sum(len(r.prompt) for r in waiting),
        "num_used_tokens": used,
        "num_total_tokens": used + sum(r.length for r in waiting),
        "num_active_tokens": used + sum(r.length for r in waiting),
        "num_prealloc_ready_tokens": 0,
        "max_total_num_tokens": b.kv_tokens,
        "max_running_requests": b.max_running,
        "token_usage": used / pool.capacity,
        "gen_throughput": o.last_gen_throughput,
        "cache_hit_rate": o.cache_hit_rate,
        "utilization": 0.0,
        "total_prefill_uncached_tokens": o.prefill_tokens,
        "total_prefill_busy_us": o.prefill_busy_us,
        "decode_moments": None,
    }
    if wanted & {"all", "memory"}:
        out["memory"] = {
            "weight_gb": round(b.weights, 3),
            "kv_cache_gb": round(b.kv, 3),
            "graph_gb": round(sum(b.graphs.values()), 3),
            "token_capacity": b.kv_tokens,
        }
    if wanted & {"all", "spec"} and o.spec_steps:
        out["speculative"] = {
            "accept_length": o.spec_tokens / o.spec_steps,
            "accept_rate": o.accept_rate,
        }
    if wanted & {"all", "queues"}:
        out["queues"] = {"waiting": len(waiting), "grammar": 0, "paused": 0, "retracted": 0}
    return out
