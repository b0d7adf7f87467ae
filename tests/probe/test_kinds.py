"""Kinds of probe beyond the plain stream: picture, boundary, counters, gateway, command."""

from __future__ import annotations

import asyncio
import json
import shlex
import struct
import zlib
from typing import Any

import pytest

from qwen_tui.cli import main
from qwen_tui.services.probe import probe
from qwen_tui.services.probe.compare import Route, compare, repeat
from qwen_tui.services.probe.kinds import KINDS, checkerboard_png
from qwen_tui.services.probe.probing import curl_command
from qwen_tui_profiles.errors import UsageError
from support.exporter import Exporter
from support.metrics_server import Handler, Request, document, serve, sse


def models(owner: str = "sglang", context: int = 4096) -> Handler:
    return document(
        json.dumps({"data": [{"id": "m", "owned_by": owner, "max_model_len": context}]}),
        kind="application/json",
    )


def said(text: str, tokens: int = 5) -> Handler:
    body = {
        "choices": [{"index": 0, "delta": {"content": text}}],
        "usage": {"prompt_tokens": 20, "completion_tokens": tokens},
    }
    return sse([(0.01, json.dumps(body)), (0.0, "[DONE]")])


def test_the_test_picture_is_red_on_the_left() -> None:
    data = checkerboard_png(8)
    width, height = struct.unpack(">II", data[16:24])
    start = data.index(b"IDAT") + 4
    size = struct.unpack(">I", data[start - 8 : start - 4])[0]
    rows = zlib.decompress(data[start : start + size])
    assert (width, height, len(rows)) == (8, 8, 8 * (1 + 8 * 3))
    first = rows[1:25]
    assert first[:3] == b"\xd0\x10\x10"
    assert first[-3:] == b"\x10\x10\xd0"


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("Red.", "ok"),
        ("**red**", "ok"),
        ("It is blue", "wrong_answer"),
        ("The picture cannot be rendered.", "wrong_answer"),
    ],
)
async def test_a_picture_has_a_checkable_answer(text: str, outcome: str) -> None:
    routes = {
        "/v1/models": models(),
        "/model_info": document('{"has_image_understanding": true}'),
        "/v1/chat/completions": said(text),
    }
    async with serve(routes) as server:
        result = await probe(server.url, kind="image")
        sent = json.loads(server.seen[-1].body) if server.seen[-1].body else {}
    assert result.outcome == outcome
    if sent:
        url = sent["messages"][0]["content"][0]["image_url"]["url"]
        assert url.startswith("data:image/png;base64,")


async def test_no_picture_is_sent_to_a_server_without_eyes() -> None:
    routes = {"/v1/models": models(), "/model_info": document('{"has_image_understanding": false}')}
    async with serve(routes) as server:
        result = await probe(server.url, kind="image")
    assert result.outcome == "not_applicable"
    assert "/v1/chat/completions" not in server.paths()


def boundary_server(
    limit: int, *, refuse_over: bool = True, takes: int | None = None, dies: bool = False
) -> dict[str, Handler]:
    """SGLang's rule: as many tokens as max_req_input_len and more are refused with 400."""
    state = {"dead": False}

    async def generate(request: Request, writer: asyncio.StreamWriter) -> None:
        n = len(json.loads(request.body)["input_ids"])
        over = n >= (limit if takes is None else takes)
        if state["dead"]:
            answer = document("{}", 503)
        elif over and refuse_over:
            answer = document(
                json.dumps({"error": {"message": f"Input length ({n} tokens) …"}}), 400
            )
        else:
            answer = document(json.dumps({"meta_info": {"prompt_tokens": n}}))
        state["dead"] = state["dead"] or (dies and over)
        await answer(request, writer)

    return {
        "/v1/models": models(),
        "/server_info": document(json.dumps({"max_req_input_len": limit})),
        "/generate": generate,
    }


@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        ({}, "ok"),
        ({"takes": 1000}, "too_small"),
        ({"refuse_over": False}, "not_refused"),
        ({"dies": True}, "unhealthy"),
    ],
)
async def test_boundary(options: dict[str, Any], outcome: str) -> None:
    async with serve(boundary_server(2000, **options)) as server:
        result = await probe(server.url, kind="boundary")
        sizes = [len(json.loads(r.body)["input_ids"]) for r in server.seen if r.path == "/generate"]
    assert result.outcome == outcome
    assert sizes[0] == 2000 - 8
    if outcome == "ok":
        assert sizes == [1992, 2001, 4]
        assert str(result.detail) == (
            "1,992 tokens answered, 2,001 refused with 400, and it still generates."
        )


async def test_boundary_of_an_openai_style_server() -> None:
    async def completions(request: Request, writer: asyncio.StreamWriter) -> None:
        body = json.loads(request.body)
        over = len(body["prompt"]) + body["max_tokens"] > 3000
        await document("{}", 400 if over else 200)(request, writer)

    routes = {"/v1/models": models("vllm", 3000), "/v1/completions": completions}
    async with serve(routes) as server:
        result = await probe(server.url, kind="boundary")
    assert result.outcome == "ok"


async def test_boundary_of_a_server_that_does_not_say() -> None:
    async with serve({"/v1/models": document('{"data":[{"id":"m"}]}')}) as server:
        result = await probe(server.url, kind="boundary")
    assert result.outcome == "not_applicable"


def counting_server(*, others: int = 0) -> dict[str, Handler]:
    """An SGLang that tells speculation in its counters only (before per-request details)."""
    out = Exporter({"model_name": "m"})
    for name in (
        "num_requests",
        "generation_tokens",
        "spec_verify_calls",
        "cached_tokens",
        "prompt_tokens",
    ):
        out.set(f"sglang:{name}_total", 100)
    stream = said("hello", tokens=41)

    async def chat(request: Request, writer: asyncio.StreamWriter) -> None:
        await stream(request, writer)
        out.add("sglang:num_requests_total", 1 + others)
        out.add("sglang:generation_tokens_total", 41 + 500 * others)
        out.add("sglang:spec_verify_calls_total", 16 + 100 * others)
        out.add("sglang:cached_tokens_total", 12)

    async def metrics(request: Request, writer: asyncio.StreamWriter) -> None:
        await document(out.text())(request, writer)

    return {"/v1/models": models(), "/metrics": metrics, "/v1/chat/completions": chat}


async def test_counters_tell_the_speculation_of_a_request_that_was_alone() -> None:
    async with serve(counting_server()) as server:
        result = await probe(server.url)
    assert result.accept_length == pytest.approx((41 - 1) / 16)
    assert result.cached_tokens == 12


async def test_with_other_traffic_the_counters_are_not_used() -> None:
    async with serve(counting_server(others=1)) as server:
        result = await probe(server.url)
    assert result.accept_length is None
    assert result.cached_tokens is None


def paced(first_s: float) -> Handler:
    def event(n: int) -> str:
        return json.dumps(
            {
                "choices": [{"index": 0, "delta": {"content": "x"}}],
                "usage": {"prompt_tokens": 20, "completion_tokens": n},
            }
        )

    return sse([(first_s, event(1)), (0.05, event(6)), (0.0, "[DONE]")])


async def test_what_a_gateway_costs() -> None:
    direct = {"/v1/models": models(), "/v1/chat/completions": paced(0.03)}
    gateway = {"/v1/models": models("litellm"), "/v1/chat/completions": paced(0.13)}
    async with serve(direct) as one, serve(gateway) as two:
        found = await compare(Route(one.url), Route(two.url, "sk-x"), kind="prose", runs=2)
        sent = json.loads([r.body for r in two.seen if r.method == "POST"][-1])
        chats = one.paths().count("/v1/chat/completions")
    assert (len(found.direct), len(found.gateway)) == (2, 2)
    assert chats == 3, "one pair is discarded"
    # Scripted: 0.1 s later through the gateway; on a busy machine it may be some more or less.
    assert found.ttft_added_ms is not None
    assert 50 < found.ttft_added_ms < 300
    assert found.decode_ratio is not None
    assert 0.3 < found.decode_ratio < 3
    # A gateway gets no request fields that only SGLang knows.
    assert "return_spec_tokens_details" not in sent


async def test_the_gateways_own_queue_time_is_read() -> None:
    """LiteLLM redirects /metrics to /metrics/; its queue is where a busy proxy loses time."""
    out = Exporter()
    name, bounds = "litellm_request_queue_time_seconds", [0.5, 1.0, 2.5]
    out.observe(name, 0.1, bounds, n=5)
    out.set("litellm_in_flight_requests", 0)
    stream = paced(0.0)

    async def chat(request: Request, writer: asyncio.StreamWriter) -> None:
        out.observe(name, 2.0, bounds)
        await stream(request, writer)

    async def metrics(request: Request, writer: asyncio.StreamWriter) -> None:
        await document(out.text())(request, writer)

    async def moved(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /metrics/\r\nContent-Length: 0\r\n\r\n"
        )

    direct = {"/v1/models": models(), "/v1/chat/completions": paced(0.0)}
    gateway = {
        "/v1/models": models("litellm"),
        "/v1/chat/completions": chat,
        "/metrics": moved,
        "/metrics/": metrics,
    }
    async with serve(direct) as one, serve(gateway) as two:
        found = await compare(Route(one.url), Route(two.url), kind="prose", runs=2)
    assert found.queue_time is not None
    assert found.queue_time.n == 3
    assert found.queue_time.mean_ms == pytest.approx(2000)


async def test_a_gateway_that_is_down_is_not_asked_again_and_again() -> None:
    direct = {"/v1/models": models(), "/v1/chat/completions": paced(0.0)}
    async with serve(direct) as one, serve({}) as two:
        url = two.url
    async with serve(direct) as one:
        found = await compare(Route(one.url), Route(url), kind="prose", runs=3)
    assert [r.outcome for r in found.direct] == ["ok"] * 3
    assert [r.outcome for r in found.gateway] == ["no_answer"]
    assert found.ttft_added_ms is None


async def test_the_command_shows_the_direct_figures_of_a_gateway_that_is_down(
    capsys: pytest.CaptureFixture[str],
) -> None:
    direct = {"/v1/models": models(), "/v1/chat/completions": paced(0.0)}
    async with serve(direct) as server:
        argv = ["probe", "--url", server.url, "--gateway", "http://127.0.0.1:9", "--runs", "1"]
        assert await asyncio.to_thread(main, [*argv, "--json"]) == 1
        shown = json.loads(capsys.readouterr().out)
        assert await asyncio.to_thread(main, argv) == 1
    out, err = capsys.readouterr()
    assert shown["outcome"] == "ok"
    assert shown["gateway"]["runs"][0]["outcome"] == "no_answer"
    assert shown["gateway"]["ttft_added_ms"] is None
    assert "TTFT" in out
    assert "medians" not in out
    assert "Nobody listens" in err


async def test_the_boundary_is_not_compared_through_a_gateway(
    capsys: pytest.CaptureFixture[str],
) -> None:
    argv = ["probe", "--url", "http://127.0.0.1:9", "--gateway", "http://127.0.0.1:9"]
    assert await asyncio.to_thread(main, [*argv, "--kind", "boundary"]) == 2
    assert "Leave --gateway out" in capsys.readouterr().err


async def test_repeated_probes_discard_the_first() -> None:
    routes = {"/v1/models": models(), "/v1/chat/completions": paced(0.0)}
    async with serve(routes) as server:
        results = await repeat(Route(server.url), kind="prose", runs=2)
        once = await repeat(Route(server.url), kind="prose", runs=1)
        chats = server.paths().count("/v1/chat/completions")
    assert (len(results), len(once), chats) == (2, 1, 4)


def test_curl_is_the_same_request_and_holds_no_key() -> None:
    command = curl_command("http://h:1/v1", "code", "it's", key_variable="MY_KEY")
    words = shlex.split(command)
    body = json.loads(words[words.index("-d") + 1])
    assert words[:3] == ["curl", "-N", "http://h:1/v1/chat/completions"]
    assert body["model"] == "it's"
    assert body["stream"] is True
    assert body["messages"] == KINDS["code"].messages()
    assert "Authorization: Bearer ${MY_KEY}" in words
    with pytest.raises(UsageError):
        curl_command("http://h:1", "boundary", "m")


def test_the_long_prompt_is_long_and_never_twice_the_same() -> None:
    one, two = (KINDS["long"].messages()[0]["content"] for _ in range(2))
    assert len(one.split()) > 2500
    assert one != two
    assert one.splitlines()[0] != two.splitlines()[0], "the prefix differs from the first line on"


async def cli(*argv: str) -> int:
    return await asyncio.to_thread(main, list(argv))


async def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    routes = {"/v1/models": models(), "/v1/chat/completions": paced(0.02)}
    async with serve(routes) as server:
        code = await cli("probe", "--url", server.url, "--json")
        shown = json.loads(capsys.readouterr().out)
        text_code = await cli("probe", "--url", server.url)
        text = capsys.readouterr().out
    assert code == text_code == 0
    assert next(iter(shown)) == "schema"
    assert shown["schema"] == "qwen-tui.probe/1"
    assert shown["ttft_ms"] >= 20
    assert shown["tokens"] == 6
    assert shown["accept_length"] is None
    assert "TTFT" in text
    assert "accept length —" in text


async def test_the_command_fails_when_the_probe_does(capsys: pytest.CaptureFixture[str]) -> None:
    async with serve({"/v1/models": models(), "/v1/chat/completions": document("{}", 500)}) as s:
        assert await cli("probe", "--url", s.url) == 1
        assert "refused" in capsys.readouterr().err
    async with serve(
        {"/v1/models": models(), "/model_info": document('{"has_image_understanding": false}')}
    ) as s:
        assert await cli("probe", "--url", s.url, "--kind", "image") == 2


async def test_the_engines_key_is_not_sent_to_the_gateway(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QWEN_TUI_API_KEY", "sk-engine-only")
    direct = {"/v1/models": models(), "/v1/chat/completions": paced(0.0)}
    async with serve(direct) as one, serve(dict(direct)) as two:
        await cli("probe", "--url", one.url, "--gateway", two.url, "--runs", "1", "--json")
        to_gateway = {r.headers.get("authorization") for r in two.seen}
        to_engine = {r.headers.get("authorization") for r in one.seen if "/v1/" in r.path}
    assert to_gateway == {None}
    assert to_engine == {"Bearer sk-engine-only"}
    assert "sk-engine-only" not in capsys.readouterr().out
