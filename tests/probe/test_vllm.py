"""Probes of a server that answers as a real vLLM 0.32.0 did (bodies and stream recorded)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from qwen_tui.services.probe import probe
from support.metrics_server import Handler, Request, document, serve, sse

if TYPE_CHECKING:
    import asyncio

DATA = Path(__file__).with_name("data")
CONTEXT = 1024
"""--max-model-len of the recorded server."""


def recorded(name: str) -> str:
    return (DATA / f"vllm-0.32.0-{name}").read_text(encoding="utf-8")


def models(context: int = CONTEXT) -> Handler:
    entry = {"id": "/models/tiny-gpt2", "owned_by": "vllm", "max_model_len": context}
    return document(json.dumps({"object": "list", "data": [entry]}), kind="application/json")


async def test_figures_of_a_stream() -> None:
    events = [
        (0.02, line.removeprefix("data: ")) for line in recorded("stream.sse").splitlines() if line
    ]
    routes: dict[str, Handler] = {
        "/v1/models": models(),
        "/v1/chat/completions": sse(events),
    }
    async with serve(routes) as server:
        shown = await probe(server.url)
    assert shown.outcome == "ok"
    assert (shown.prompt_tokens, shown.tokens, shown.cached_tokens) == (14, 3, 0)
    assert shown.accept_length is None, "vLLM does not tell it of one request"
    # The first chunk carries the role and no token; the first token is the second.
    assert shown.ttft_ms is not None
    assert shown.ttft_ms >= 40


async def test_boundary_on_its_own_refusal() -> None:
    async def completions(request: Request, writer: asyncio.StreamWriter) -> None:
        body = json.loads(request.body)
        refused = len(body["prompt"]) + body["max_tokens"] > CONTEXT
        answer = document(recorded("too-long.json"), 400) if refused else document("{}")
        await answer(request, writer)

    async with serve({"/v1/models": models(), "/v1/completions": completions}) as server:
        shown = await probe(server.url, kind="boundary")
    assert shown.outcome == "ok"
    assert str(shown.detail).startswith("1,016 tokens answered, 1,025 refused with 400")


async def test_a_tool_call_on_a_server_without_tools() -> None:
    routes = {
        "/v1/models": models(),
        "/v1/chat/completions": document(recorded("no-tools.json"), 400),
    }
    async with serve(routes) as server:
        shown = await probe(server.url, kind="tool")
    assert shown.outcome == "refused"
    assert "--enable-auto-tool-choice" in str(shown.error)


@pytest.mark.parametrize(
    ("context", "fewest", "most"),
    # Characters: with a token each, the worst that a tokeniser can do, they still fit.
    [(1024, 700, 1024 - 64), (8192, 5000, 8192 - 64), (32_768, 15_000, 30_000)],
)
async def test_a_long_prompt_fits_the_context(context: int, fewest: int, most: int) -> None:
    asked: list[str] = []

    async def chat(request: Request, writer: asyncio.StreamWriter) -> None:
        asked.append(json.loads(request.body)["messages"][0]["content"])
        await document(recorded("too-long.json"), 400)(request, writer)

    async with serve({"/v1/models": models(context), "/v1/chat/completions": chat}) as server:
        await probe(server.url, kind="long")
    assert fewest < len(asked[0]) <= most
